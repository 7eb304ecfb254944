"""Immutable values and their text: element types, shapes, layouts, literals, shardings."""
