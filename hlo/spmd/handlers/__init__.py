"""Handlers of operations, a file a family: how each is partitioned."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_handlers() -> None:
    """Import all files of handlers, which register what they have."""
    for found in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{found.name}")
