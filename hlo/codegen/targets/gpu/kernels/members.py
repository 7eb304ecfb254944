"""Reductions of arrays that lie alike, over the same dimensions, as one reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hlo.codegen.kernels.reduce.lanes import compared_positions, in_order, position_operand
from hlo.codegen.kernels.reduce.reducer import Reducer
from hlo.codegen.llvm import Builder
from hlo.codegen.loops.inline import inline
from hlo.codegen.scalar.operations import Value


class Members:
    """The reductions, which together have the values of all. Those that pick are alone."""

    def __init__(self, b: Builder, reducers: Sequence[Reducer]) -> None:
        self._b, self.reducers = b, reducers
        self.held = [et for w in reducers for et in w.combiner.held]

    @property
    def rounds(self) -> bool:
        """True when some result depends on the order in which elements are combined."""
        return any(w.combiner.rounds for w in self.reducers)

    def of_each(self, values: Sequence[Value]) -> Iterator[tuple[Reducer, list[Value]]]:
        """Yield the reductions with their own of the values of all."""
        first = 0
        for w in self.reducers:
            yield w, list(values[first : first + w.combiner.count])
            first += w.combiner.count

    def inits(self) -> list[Value]:
        return self._of_all(lambda w: w.inits())

    def identity(self) -> list[Value]:
        return self._of_all(lambda w: w.combiner.identity())

    def _of_all(self, start: Callable[[Reducer], list[Value]]) -> list[Value]:
        return [value for w in self.reducers for value in start(w)]

    def follow(self, held: list[Value], new: list[Value]) -> list[Value]:
        """Return what follows one element."""
        return self.follow_all(held, [new])

    def follow_all(self, held: list[Value], new: Sequence[list[Value]]) -> list[Value]:
        """Return what follows elements; those of a sum are added in pairs first."""
        each = [[own for _, own in self.of_each(element)] for element in new]
        return [
            value
            for n, (w, before) in enumerate(self.of_each(held))
            for value in w.apply_all(before, [element[n] for element in each])
        ]

    # --- a reduction that picks -----------------------------------------------------------------

    def follow_by_position(self, held: list[Value], new: list[Value]) -> list[Value]:
        """Return what is picked of two sets of values, whose positions tell which is first."""
        (w,) = self.reducers
        position = position_operand(w.r)
        assert position is not None
        return self.follow_picked(*in_order(w, held, new, position))

    def follow_picked(self, held: list[Value], new: list[Value]) -> list[Value]:
        """Return what is picked of two sets of values, that of the earlier element first."""
        (w,) = self.reducers
        position = position_operand(w.r)
        assert position is not None
        known = compared_positions(w.combiner, position)
        return inline(self._b, w.combiner.computation, [*held, *new], known=known)
