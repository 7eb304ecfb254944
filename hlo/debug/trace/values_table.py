"""What is in the values of an instruction, as a table for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hlo.debug.trace.leaves import leaves
from hlo.debug.trace.statistics import HEADINGS, statistics_of
from hlo.support.notebook import table
from hlo.values.types import array as shape_of
from hlo.values.types import element_type_of


def values_html(values: Iterable[tuple[str, str, Any]]) -> str:
    """Return a table of statistics, a row an array; values: what each is, its name, and itself."""
    rows = []
    for what, name, value in values:
        for leaf, array in leaves(value):
            shape = shape_of(element_type_of(array.dtype), array.shape).to_string(False)
            label = ".".join([name, *map(str, leaf)])
            rows.append([what, label, shape, *statistics_of(array).cells()])
    return table(["", "value", "shape", *HEADINGS], rows, left=(0, 1, 2))
