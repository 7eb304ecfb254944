"""Passes over collectives: combining, shrinking, scheduling."""
