"""The programs that are timed: each stands for one cost. Written in JAX, exported when needed.

A file for each family; `registry.py` says what a case is. `python bench/export.py FOLDER` writes
them as HLO text with their inputs.
"""

import importlib

from cases.registry import CASES, export

__all__ = ["CASES", "export"]

# In the order in which they are measured.
for _family in ("products", "layers", "convolutions", "loops", "order", "arrays", "linalg"):
    importlib.import_module(f"cases.{_family}")
