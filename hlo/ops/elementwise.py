"""Elementwise operations: unary, binary, ternary, conversions."""
