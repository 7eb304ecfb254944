"""Collectives of several devices: their descriptions, their definitions, and calls of the table."""
