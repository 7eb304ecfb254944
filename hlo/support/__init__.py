"""What every part may use: limits of memory and time, checks of arguments, others' arrays."""
