"""Reductions over dimensions, rows and windows."""
