"""Native code made callable on numpy arrays. Knows no opcode and no code generation."""
