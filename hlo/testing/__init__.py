"""Samples with edge values, and comparison of results."""
