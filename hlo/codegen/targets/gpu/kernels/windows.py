"""Windows: `reduce-window` with a thread for each window, `select-and-scatter` for each element.

An element of `select-and-scatter` adds the source values of the windows that selected it, in
row-major order. What a window selects is computed by each of its elements where that is little, and
else by a launch of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import Accumulators, element_type
from hlo.codegen.kernels.reduce.select_scatter import ScatterEmitter, nothing
from hlo.codegen.kernels.reduce.window import WindowEmitter, Windows
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.scan import plan_scan
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import S64, ArrayShape

_THREADS = 128
# Windows of up to so many elements are unrolled.
_UNROLLED = 32
# Elements that are looked at for one result before what windows select is worth a launch.
_MOST_LOOKS = 64


def plan_windows(inst: Instruction, roles: Mapping[Instruction, Role], gpu: Gpu) -> Plan | None:
    """Return the launches of a `reduce-window`."""
    if any(0 in s.dims for _, s in inst.shape.leaves() if isinstance(s, ArrayShape)):
        return Plan(())
    return plan_scan(inst, roles, gpu) or Plan((emit_windows,))


def emit_windows(k: Kernel) -> Grid:
    """Emit a thread for each window: its elements in row-major order."""
    w = WindowEmitter(k)
    windows, sliding = w.windows, w.windows.sliding
    window = windows.window
    volume = math.prod(window[d].size for d in sliding)
    with _each(k, w.results[0].dims, w.order) as at:
        if volume <= _UNROLLED and all(map(windows.is_whole, sliding)):
            held = w.inits()
            for offset in itertools.product(*(range(window[d].size) for d in sliding)):
                moved = {
                    d: windows.element_at(k.b, d, at[d], n)
                    for d, n in zip(sliding, offset, strict=True)
                }
                held = w.step(held, at | moved)
            w.store(held, at)
        else:
            acc = Accumulators(k.b, w.combiner.held)
            acc.put(w.inits())
            w.over(sliding, at, lambda place: acc.put(w.step(acc.get(), place)))
            w.store(acc.get(), at)
    return _grid(w.results[0].dims)


@contextmanager
def _each(k: Kernel, dims: Sequence[int], order: Sequence[int]) -> Iterator[dict[int, Index]]:
    """Emit the body for a thread's element of an array; yields its index in each dimension.

    order: the dimensions of more than one element, the slowest-varying first.
    """
    b = k.b
    assert isinstance(k.target, Gpu)
    b.is_careful = True
    number = Block(b, k.target).global_index(_THREADS)
    with b.when(b.compare("slt", number, math.prod(dims))):
        found = split_index(b, number, [dims[d] for d in order]) if order else []
        at: dict[int, Index] = dict.fromkeys(range(len(dims)), 0)
        yield at | dict(zip(order, found, strict=True))


def _grid(dims: Sequence[int]) -> Grid:
    count = math.prod(dims)
    return Grid(count, 1.0, -(-count // _THREADS), _THREADS)


# --- select-and-scatter -------------------------------------------------------------------------


def plan_select_and_scatter(
    inst: Instruction, roles: Mapping[Instruction, Role], _: Gpu
) -> Plan | None:
    """Return the launches of a `select-and-scatter`."""
    shape = inst.array_shape
    if 0 in shape.dims:
        return Plan(())
    windows = Windows.of(inst.operands[0].array_shape, inst.window)
    sliding = [windows.window[d] for d in windows.sliding]
    if any((w.lhs_dilate, w.rhs_dilate) != (1, 1) for w in sliding):
        return None
    if 0 in windows.out:
        return Plan((Scatter(),))
    looks = math.prod(w.size * -(-w.size // w.stride) for w in sliding)
    if looks <= _MOST_LOOKS:
        return Plan((Scatter(),))
    size = math.prod(windows.out) * S64.byte_width
    return Plan((select_elements, Scatter(is_selected=True)), (size,))


def select_elements(k: Kernel) -> Grid:
    """Emit a thread for each window, which stores the position of what it selects, or -1."""
    w = ScatterEmitter(k)
    out = w.windows.out
    order = [d for d in range(len(out)) if out[d] != 1]
    with _each(k, out, order) as window:
        place = _selected(w, window)
        scalar.store(k.b, S64, place, k.scratch[0], _number(w, window))
    return _grid(out)


def _number(w: ScatterEmitter, window: Mapping[int, Index]) -> Index:
    """Return the number of a window, in row-major order."""
    number: Index = 0
    for d, n in enumerate(w.windows.out):
        number = w.b.add(w.b.mul(number, n), window[d])
    return number


def _selected(w: ScatterEmitter, window: Mapping[int, Index]) -> Val:
    """Return the position of the element that a window selects, -1 if it has none."""
    b = w.b
    value, place = Accumulators(b, [element_type(w.operand)]), Accumulators(b, [S64])
    place.put([Val("i64", "-1")])
    value.put([nothing(w)])

    def visit(at: dict[int, Index], _: Index) -> None:
        (kept,), (before,) = value.get(), place.get()
        assert isinstance(before, Val)
        new = w.element(at)
        moves = w.moves(kept, new, b.compare("slt", before.name, 0))
        value.put([scalar.select(b, moves, new, kept)])
        place.put([b.select(moves, Val("i64", str(w.offset(at))), before)])

    w.over_window(window, visit)
    (found,) = place.get()
    assert isinstance(found, Val)
    return found


@dataclass(frozen=True)
class Scatter:
    """Emits a thread for each element of the result. is_selected: a launch before has selected."""

    is_selected: bool = False

    def __call__(self, k: Kernel) -> Grid:
        w = ScatterEmitter(k)
        b, windows = k.b, w.windows
        with _each(k, windows.dims, loop_order(k.shape)) as at:
            acc = Accumulators(b, [w.held])
            acc.put([w.start()])
            own = Val("i64", str(w.offset(at)))
            with ExitStack() as stack:
                window = dict(at)
                for d in windows.sliding:
                    window[d] = stack.enter_context(b.loop(*_windows_with(w, d, at[d]), plain=True))
                if self.is_selected:
                    place = scalar.load(b, S64, k.scratch[0], _number(w, window))
                else:
                    place = _selected(w, window)
                assert isinstance(place, Val)
                with b.when(b.icmp("eq", place, own)):
                    (old,) = acc.get()
                    acc.put([w.scattered(old, window)])
            (value,) = w.combiner.result(b, acc.get(), [k.shape.element_type])
            k.store(value, w.place(at))
        return _grid(windows.dims)


def _windows_with(w: ScatterEmitter, d: int, at: Index) -> tuple[Index, Index]:
    """Return the first window that an index is in, and the one behind the last, of a dimension."""
    b, window = w.b, w.windows.window[d]
    place = b.add(at, window.pad_low)
    first = b.udiv(b.add(b.maximum(b.sub(place, window.size), -1), window.stride), window.stride)
    # Indices before all windows are in none: with negative padding there are some.
    last = b.udiv(b.add(b.maximum(place, -window.stride), window.stride), window.stride)
    return first, b.minimum(last, w.windows.out[d])


PLANNERS = {"reduce-window": plan_windows, "select-and-scatter": plan_select_and_scatter}
