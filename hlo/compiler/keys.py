"""What programs are known by in the cache: their modules, and the version of this project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import llvmlite
import numpy as np

from hlo.runtime.cache import digest
from hlo.values.types import ArrayShape, TupleShape
from hlo.version import __version__

if TYPE_CHECKING:
    from hlo.ir import Module
    from hlo.values.literal import Literal as LiteralValue


def without_numbers(module: Module) -> bytes:
    """Return what is different for modules that are, without the text of their constants."""
    from hlo.frontends.text import PrintOptions, print_module

    def arrays(literal: LiteralValue) -> Iterator[bytes | memoryview]:
        if isinstance(literal.shape, TupleShape):
            for element in literal.elements:
                yield from arrays(element)
        elif isinstance(literal.shape, ArrayShape):
            is_known = not literal.elided
            yield bytes([is_known])
            if is_known:
                yield np.ascontiguousarray(literal.array).reshape(-1).view(np.uint8).data

    constants = [i.literal for i in module.instructions() if i.opcode == "constant"]
    numbers = digest(part for literal in constants for part in arrays(literal))
    printed = print_module(module, PrintOptions(constant_limit=0))
    return f"{printed}\0{numbers}".encode()


def versions() -> tuple[str, ...]:
    """Return what changes when this project or LLVM does, and code that they made with it."""
    return __version__, llvmlite.__version__, sources()


@cache
def sources() -> str:
    """Return what changes when this project's files do: their names, sizes and times."""
    found, folders = [], [str(Path(__file__).parents[1])]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders += [entry.path] if entry.name != "__pycache__" else []
                else:
                    status = entry.stat()
                    found.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(sorted(found))
