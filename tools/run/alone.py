"""An instruction alone, as files that run again: its module, and its operands as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.ir import Module


def write_alone(module: Module, inputs: Sequence[Any], folder: Path) -> list[str]:
    """Write a module and values of its parameters to a folder; returns the files of both."""
    from hlo.debug.trace.leaves import write_inputs
    from hlo.io.files import make_folder, write_text

    make_folder(str(folder))
    text, archive = str(folder / "instruction.hlo"), str(folder / "inputs.npz")
    write_text(text, str(module))
    write_inputs(archive, module, inputs)
    return [text, archive]


def values_json(name: str, value: Any) -> list[dict[str, Any]]:
    """Return the JSON objects of the arrays in a value: name, dimensions, statistics."""
    from hlo.debug.trace.leaves import leaves
    from hlo.debug.trace.statistics import statistics_of

    return [
        {"name": ".".join([name, *map(str, leaf)]), "dims": list(array.shape),
         "statistics": statistics_of(array).to_json()}
        for leaf, array in leaves(value)
    ]  # fmt: skip


def value_lines(title: str, name: str, value: Any) -> list[str]:
    """Return a line for each array in a value: what is in it."""
    from hlo.debug.trace.leaves import leaves

    return [
        f"{title:<9} {'.'.join([name, *map(str, leaf)])}: {array_text(array)}"
        for leaf, array in leaves(value)
    ]


def array_text(array: Any) -> str:
    """Return what is in an array: its shape, the range of its elements, and what is special."""
    from hlo.debug.trace.statistics import statistics_of
    from hlo.values.types import array as shape_of
    from hlo.values.types import element_type_of

    s = statistics_of(array)
    low, high = ("-" if n is None else f"{n:.6g}" for n in (s.min, s.max))
    text = f"{shape_of(element_type_of(array.dtype), array.shape).to_string(False)}"
    text += f" from {low} to {high}"
    for count, what in (
        (s.nans, "NaN"), (s.infs, "inf"), (s.zeros, "zero"), (s.denormals, "denormal"),
    ):  # fmt: skip
        text += f", {count} {what}" if count else ""
    return f"{text}: {array}" if not array.shape else text
