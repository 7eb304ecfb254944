"""Sliding windows: reduce-window, select-and-scatter."""
