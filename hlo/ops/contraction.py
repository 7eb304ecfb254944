"""Contractions: dot, ragged-dot, scaled-dot."""
