"""Contractions, convolutions, Fourier transforms and linear algebra."""
