"""The inner loop of convolutions whose groups have a few features, as a function of no shape.

A vector has the features of the result of one or several whole groups. What they take from the
input are features of the same groups: one after the other of each group, repeated in the lanes of
the group by a shuffle, is multiplied by a vector of the filter. No element of the input is copied
for another tap, and each shuffle serves all taps of a row that see its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.conv.stencil_rows import FILTER_PARAMETERS, Taps
from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.llvm import Builder, ModuleBuilder, Val
from hlo.codegen.loops.vectors import define, lanes_below, masked_store, vector_at
from hlo.llvm import vector_type

# Of each group, features of the input, each of which is code of its own.
_INPUTS = 8
# Places that are computed at once, at the most.
_PLACES = 8


@dataclass(frozen=True)
class Blocks:
    """Features of a group, of the input and of the result, and places that are computed at once."""

    inputs: int
    outputs: int
    places: int

    @staticmethod
    def fit(inputs: int, outputs: int, lanes: int) -> bool:
        """True when vectors of the result have whole groups, and those of the input, too."""
        return 1 < inputs <= min(outputs, _INPUTS) and lanes % outputs == 0

    def spread(self, lanes: int) -> list[int]:
        """Return which feature of a vector of the input each lane takes: the first of its group."""
        return [lane // self.outputs * self.inputs for lane in range(lanes)]


def places_at_once(columns: int, taps: int, registers: int) -> int:
    """Return of how many places in a row of `columns` a window's row of taps is summed at once.

    Each tap of a row has a sum of its own: that is as many chains of additions, which are shorter.
    """
    most = max(1, min(_PLACES, 3 * registers // 4 // taps))
    return -(-columns // -(-columns // most))


def filter_blocks(
    module: ModuleBuilder, arithmetic: Arithmetic, taps: Taps, lanes: int, blocks: Blocks
) -> str:
    """Return the function that filters a panel in vectors of features of several groups.

    Its parameters are those of `filter_groups`; w has a vector for each tap and feature of a
    group's input. There are no fewer columns than places that are computed at once. Up to a vector
    is read beyond the columns of the panel.
    """

    def write(b: Builder) -> None:
        s, align, places = arithmetic.type, arithmetic.bytes, range(blocks.places)
        vector = vector_type(lanes, s)
        taps_of_row = range(taps.columns)
        # By the phase and the column that they see: places and taps.
        seen: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for place in places:
            for i in taps_of_row:
                column = i * taps.jump
                key = column % taps.step, column // taps.step + place
                seen.setdefault(key, []).append((place, i))
        mask = lanes_below(b, 0, "%count", lanes)
        whole = b.compare("sge", "%count", lanes)
        zeros = [Val(vector, "zeroinitializer")] * (blocks.places * taps.columns)

        spread = blocks.spread(lanes)

        def add_input(at: str, factors: str, sums: Sequence[Val]) -> list[Val]:
            """Add what a feature of the input contributes, in a row of taps, to all columns."""
            sums = list(sums)
            columns = _columns(b, s, at, list(seen))
            row = [vector_at(b, vector, factors, s, i) for i in w_taps]
            for key, users in seen.items():
                x = vector_at(b, vector, columns[key], s, 0)
                x = b.shuffle_vector(x, x, spread)
                for place, i in users:
                    n = place * taps.columns + i
                    sums[n] = arithmetic.multiply_add(b, x, row[i], sums[n])
            return sums

        def store(total: Val, address: str) -> None:
            def all_lanes() -> Sequence[Val]:
                b.store(total, address, align=align)
                return ()

            def some_lanes() -> Sequence[Val]:
                masked_store(b, total, address, mask, align)
                return ()

            b.choose(whole, all_lanes, some_lanes)

        w_taps = [b.mul("%w_tap", i * blocks.inputs) for i in taps_of_row]
        w_row = b.mul("%w_tap", taps.columns * blocks.inputs)
        with (
            b.loop(0, "%rows", plain=True) as r,
            b.loop(0, "%columns", blocks.places, plain=True) as q,
        ):
            # The last places are those at the end of the row: what is computed twice is the same.
            first = b.minimum(q, b.sub("%columns", blocks.places))
            at = b.add(b.mul(r, "%x_row"), b.mul(first, "%x_column"))
            starts = [Val("ptr", b.element_address("%x", s, at)), Val("ptr", "%w")]
            with b.carrying(0, taps.rows, [*starts, *zeros], plain=True) as turn:
                row, factors = turn.values[:2]
                with b.carrying(0, blocks.inputs, turn.values, plain=True) as inner:
                    # The next feature is one element further on, and taken by the same lanes.
                    here, factor, *old = inner.values
                    following = b.following(here, s, 1), b.following(factor, s, "%w_tap")
                    inner.values = [*following, *add_input(here.name, factor.name, old)]
                following = b.following(row, s, "%x_tap"), b.following(factors, s, w_row)
                turn.values = [*following, *inner.values[2:]]
            sums = turn.values[2:]
            to = b.add(b.mul(r, "%c_row"), b.mul(first, "%c_column"))
            for place in places:
                total, *others = sums[place * taps.columns : (place + 1) * taps.columns]
                for other in others:
                    total = arithmetic.add(b, total, other)
                address = b.element_address("%c", s, b.add(to, b.mul(place, "%c_column")))
                store(total, address)

    each = f"{blocks.inputs}to{blocks.outputs}.{blocks.places}"
    name = f"filter.blocks.{arithmetic.name}.{taps}.{each}.{lanes}"
    return define(module, name, FILTER_PARAMETERS, write)


def _columns(
    b: Builder, s: str, at: str, keys: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Return the addresses of columns of a panel's phases, each from the one before."""
    found: dict[tuple[int, int], str] = {}
    for phase, column in sorted(keys):
        before = found.get((phase, column - 1))
        if before is not None:
            found[phase, column] = b.element_address(before, s, "%x_column")
        else:
            first = b.add(b.mul("%x_phase", phase), b.mul("%x_column", column))
            found[phase, column] = b.element_address(at, s, first)
    return found
