"""Dimensions shrink, wherever they occur: to 1, 2, 3, the half."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.resizing import Axes, Axis, resize
from hlo.ir import Module

_SIZES = ("1", "2", "3", "4", "half")


def targets(module: Module) -> list[str]:
    axes = Axes(module).free()
    return [
        f"{axis.number} {size}" for size in _SIZES for axis in axes if _of(axis, size) < axis.size
    ]


def apply(module: Module, targets: Sequence[str]) -> bool:
    wanted: dict[str, str] = {}
    for target in targets:
        number, size = target.split()
        wanted.setdefault(number, size)

    def wanted_size(axis: Axis) -> int:
        size = wanted.get(str(axis.number))
        return axis.size if size is None else _of(axis, size)

    return resize(module, wanted_size)


def _of(axis: Axis, size: str) -> int:
    return axis.size // 2 if size == "half" else int(size)
