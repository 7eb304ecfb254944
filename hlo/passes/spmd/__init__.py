"""Passes that distribute a program over devices."""
