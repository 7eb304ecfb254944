"""Reductions, windows, scans, sorts and normalization."""
