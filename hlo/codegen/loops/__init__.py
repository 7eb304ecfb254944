"""Loop nests over elements: addresses, fused values, reducers."""
