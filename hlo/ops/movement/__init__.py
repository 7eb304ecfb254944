"""Data movement: reshapes, slices, padding, gather and scatter, dynamic sizes."""
