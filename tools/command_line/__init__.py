"""What all commands share: exit codes, errors, names of files, flags that several take."""
