"""Asynchronous operations: a start, any number of updates, a done."""
