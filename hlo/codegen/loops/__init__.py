"""Loop nests over elements: addresses, fused values, reductions' functions."""
