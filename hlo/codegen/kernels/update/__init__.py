"""Updates in place, concatenation, scatter."""
