"""Cholesky factors and triangular systems."""
