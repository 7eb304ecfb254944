"""Copies of rows of a matrix whose columns are contiguous in memory, or every second one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Index, ModuleBuilder, Val
from hlo.codegen.loops.vectors import (
    Types,
    define,
    lanes_below,
    masked_load,
    masked_store,
    prefetch,
    vector_at,
)
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import vector_type
from hlo.values.types import ElementType


def element_lanes(target: LlvmTarget, types: Types) -> int:
    """Return how many elements the widest of the types allows in a vector."""
    return max(1, target.vector_bits // max(8, *(t.bits for t in types.chain)))


def element_bytes(et: ElementType) -> int:
    return max(8, et.bits) // 8


def copy_rows(module: ModuleBuilder, target: LlvmTarget, types: Types) -> str:
    """Return the function `f(to, from, to_row, from_row, rows, columns)` for contiguous columns."""
    source, result = (scalar.memory_type(t) for t in (types.chain[0], types.chain[-1]))
    lanes, aligns = (
        element_lanes(target, types),
        (element_bytes(types.chain[0]), element_bytes(types.chain[-1])),
    )
    in_vectors = types.has_vectors(module)
    is_masked = in_vectors and target.has_masked_memory
    vector = vector_type(lanes, source)

    def write(b: Builder) -> None:
        if not in_vectors and target.has_vectors:
            b.vector_bits = target.vector_bits
        limit = str(b.minimum("%columns", lanes))
        mask = lanes_below(b, 0, limit, lanes, "i32") if is_masked else None

        def move(row: _Row, at: Index, mask: Val | None = None) -> None:
            frm = b.element_address(row.frm, source, at)
            to = b.element_address(row.to, result, at)
            if mask is None:
                value = types.convert(b, b.load(vector, frm, align=aligns[0]))
                b.store(value, to, align=aligns[1])
            else:
                value = types.convert(b, masked_load(b, vector, frm, mask, aligns[0]))
                masked_store(b, value, to, mask, aligns[1])

        def whole(row: _Row) -> None:
            last: Index = b.sub("%columns", lanes)
            last = b.maximum(last, 0) if is_masked else last
            with b.loop(0, last, lanes, plain=True) as at:
                # Processors guess what is next in a row, not which row is.
                prefetch(b, b.element_address(row.following, source, at))
                move(row, at)
            # The last vector ends where the row ends: what it has twice is the same.
            move(row, last, mask)

        with _each_row(b, types) as row:
            if is_masked:
                whole(row)
            else:
                _in_vectors(b, types, row, (1, 1), lanes if in_vectors else 0, whole)

    return define(module, f"copy.{types}", _ROWS_PARAMETERS, write)


def copy_alternate(
    module: ModuleBuilder, target: LlvmTarget, types: Types, to_step: int, from_step: int
) -> str:
    """Return the same function where every second element of one side is taken."""
    source, result = (scalar.memory_type(t) for t in (types.chain[0], types.chain[-1]))
    lanes, align = element_lanes(target, types), element_bytes(types.chain[-1])

    def load(b: Builder, base: str, at: Index, *, last: bool = False) -> Val:
        if from_step == 1:
            return vector_at(b, vector_type(lanes, source), base, source, at)
        # The last element that is read is the last that is wanted.
        first = b.sub(b.mul(at, 2), 1) if last else b.mul(at, 2)
        wide = vector_at(b, vector_type(2 * lanes, source), base, source, first)
        return b.shuffle_vector(wide, wide, range(int(last), 2 * lanes, 2))

    def store(b: Builder, value: Val, base: str, at: Index) -> None:
        address = b.element_address(base, result, b.mul(at, to_step))
        if to_step == 1:
            b.store(value, address, align=align)
            return
        wide = b.shuffle_vector(value, value, [i // 2 for i in range(2 * lanes)])
        mask = ", ".join(["i1 true, i1 false"] * lanes)
        masked_store(b, wide, address, Val(vector_type(2 * lanes, "i1"), f"<{mask}>"), align)

    def write(b: Builder) -> None:
        def whole(row: _Row) -> None:
            last = b.sub("%columns", lanes)
            with b.loop(0, last, lanes, plain=True) as at:
                if from_step == 1:
                    prefetch(b, b.element_address(row.following, source, at))
                store(b, types.convert(b, load(b, row.frm, at)), row.to, at)
            store(b, types.convert(b, load(b, row.frm, last, last=True)), row.to, last)

        # To read from an odd place takes one element more.
        least = lanes if from_step == 1 else lanes + 1
        with _each_row(b, types) as row:
            _in_vectors(b, types, row, (to_step, from_step), least, whole)

    kind = {(1, 2): "gather", (2, 1): "spread"}[to_step, from_step]
    return define(module, f"copy.{kind}.{types}", _ROWS_PARAMETERS, write)


_ROWS_PARAMETERS = (
    "ptr noalias %buf0, ptr readonly %buf1, i64 %to_row, i64 %from_row, i64 %rows, i64 %columns"
)


@dataclass(frozen=True)
class _Row:
    """The addresses of a row to write, of that to read, and of the next one to read."""

    to: str
    frm: str
    following: str


@contextmanager
def _each_row(b: Builder, types: Types) -> Iterator[_Row]:
    """Run the body for the rows of `_ROWS_PARAMETERS`."""
    source = scalar.memory_type(types.chain[0])
    with b.loop(0, "%rows", plain=True) as r:
        to = types.result_address(b, "%buf0", b.mul(r, "%to_row"))
        frm = b.element_address("%buf1", source, b.mul(r, "%from_row"))
        yield _Row(to, frm, b.element_address(frm, source, "%from_row"))


def _in_vectors(
    b: Builder, types: Types, row: _Row, steps: tuple[int, int], least: int,
    whole: Callable[[_Row], None],
) -> None:  # fmt: skip
    """Copy a row in vectors if it has so many elements, else one by one.

    steps: the distance of elements to write, and of those to read. least: 0 if there are no vectors
    of these types. whole: writes the copy in vectors.
    """

    def in_vectors() -> Sequence[Val]:
        whole(row)
        return ()

    def one_by_one() -> Sequence[Val]:
        with b.loop(0, "%columns", plain=least > 0, rolled=True) as at:
            value = types.load(b, row.frm, b.mul(at, steps[1]))
            types.store(b, value, row.to, b.mul(at, steps[0]))
        return ()

    if least:
        b.choose(b.compare("sge", "%columns", least), in_vectors, one_by_one)
    else:
        one_by_one()
