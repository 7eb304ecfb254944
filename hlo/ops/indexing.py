"""Indexing by values: gather, scatter, dynamic slices."""
