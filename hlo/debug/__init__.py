"""What finds the instruction that is wrong: traces, divergence, reduction, differences."""
