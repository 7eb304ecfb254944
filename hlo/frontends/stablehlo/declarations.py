"""How each operation is written: how many operands it has, its attributes, and its short form.

The declarations are in `operations.table`, which explains itself. Sources: StableHLO's
specification, the definitions of its dialects, Shardy's and MLIR's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TABLE = Path(__file__).with_name("operations.table")
_COUNTS = re.compile(r"(\S+)(?: \{(\S+)\})? -> (\S+)")


class Attribute(NamedTuple):
    """An attribute of an operation: its kind, and whether it may be absent."""

    kind: str
    is_optional: bool


class Count(NamedTuple):
    """A number of operands, regions or results: the least one, and the greatest or None."""

    least: int
    greatest: int | None

    def __contains__(self, number: object) -> bool:
        return (
            isinstance(number, int)
            and self.least <= number
            and (self.greatest is None or number <= self.greatest)
        )

    def __str__(self) -> str:
        return str(self.least) if self.greatest is not None else f"{self.least} or more"


@dataclass(frozen=True)
class Declaration:
    """How an operation is written.

    short: the elements of its short form; None where it has only the generic one.
    """

    operands: Count
    regions: Count
    results: Count
    attributes: dict[str, Attribute]
    short: tuple[str, ...] | None


# The fields of attributes in angle brackets. Those of the second table have all of them.
STRUCTURES = {
    name: frozenset(fields.split())
    for name, fields in {
        "channel_handle": "handle type",
        "dot": "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions "
        "rhs_contracting_dimensions",
        "dot_algorithm": "lhs_precision_type rhs_precision_type accumulation_type "
        "lhs_component_count rhs_component_count num_primitive_operations "
        "allow_imprecise_accumulation",
        "gather": "offset_dims collapsed_slice_dims operand_batching_dims "
        "start_indices_batching_dims start_index_map index_vector_dim",
        "output_operand_alias": "output_tuple_indices operand_index operand_tuple_indices",
        "ragged_dot": "lhs_batching_dimensions rhs_batching_dimensions "
        "lhs_contracting_dimensions rhs_contracting_dimensions lhs_ragged_dimensions "
        "rhs_group_dimensions",
        "scatter": "update_window_dims inserted_window_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_dims_to_operand_dims index_vector_dim",
    }.items()
}
COMPLETE_STRUCTURES = frozenset({"channel_handle", "dot_algorithm", "output_operand_alias"})


def _count(text: str) -> Count:
    """Read `2`, `1+` or `*`."""
    if text == "*":
        return Count(0, None)
    return Count(int(text[:-1]), None) if text[-1] == "+" else Count(int(text), int(text))


def _attribute(text: str) -> tuple[str, Attribute]:
    name, kind = text.split()
    return name, Attribute(kind.rstrip("?"), kind.endswith("?"))


def _entries() -> list[str]:
    """Return the entries of the table, each on one line."""
    lines = [line for line in _TABLE.read_text().splitlines() if line and line[0] != "#"]
    # A line that begins with a bar or a space belongs to the entry before.
    return re.sub(r"\n(?=[ |])", " ", "\n".join(lines)).splitlines()


@cache
def declarations() -> dict[str, Declaration]:
    """Return the declarations of all operations by name."""
    found: dict[str, Declaration] = {}
    dialect = ""
    for entry in _entries():
        if entry.startswith("dialect "):
            dialect = entry.split()[1]
            continue
        names, counts, attributes, short = (column.strip() for column in entry.split("|"))
        m = _COUNTS.fullmatch(counts)
        assert m, entry
        declared = Declaration(
            _count(m[1]), _count(m[2] or "0"), _count(m[3]),
            dict(_attribute(a) for a in attributes.split(",") if a),
            tuple(short.split()) or None,
        )  # fmt: skip
        found |= {f"{dialect}.{name}": declared for name in names.split()}
    # MHLO is the predecessor of StableHLO: most operations are the same.
    same = {name.replace("stablehlo", "mhlo", 1): declared for name, declared in found.items()}
    # The dialect of a function's own operations need not be said.
    return same | found | {name: found[f"func.{name}"] for name in ("call", "return")}
