"""Reductions: reduce, map, scan."""
