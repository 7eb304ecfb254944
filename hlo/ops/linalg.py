"""Linear algebra and transforms: fft, cholesky, triangular-solve."""
