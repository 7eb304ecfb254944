"""The commands. Each parses its flags, calls `hlo`, prints, and sets the exit code."""
