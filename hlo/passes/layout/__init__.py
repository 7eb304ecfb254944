"""Passes on layouts, memory spaces, copies and schedules."""
