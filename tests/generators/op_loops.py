"""Makers of loops over arrays, and of copies of tuples: `MAKERS`.

What a loop carries is updated in place where it can be. Its arrays are of whole numbers, so that
any order of evaluation gives the same, and each turn moves them about, in ways that read what
others write.
"""

from __future__ import annotations

from collections.abc import Callable

from hlo.ir import Computation, Instruction
from hlo.ops.attrs import PadDim, SliceDim, WindowDim
from hlo.values.types import S32, Shape, TupleShape, array
from tests.generators.op_builder import Cases
from tests.generators.op_sums import identity

Maker = Callable[[Cases], None]
# Makes an array of the same shape of one, with the counter and another array at hand.
Step = Callable[[Cases, Instruction, Instruction, Instruction], Instruction]


# --- one step of a loop ---------------------------------------------------------------------------


def _mixed(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    return g.emit(g.rng.choice(("add", "subtract", "xor", "maximum", "minimum")), [x, y])


def _reversed(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    return g.emit("reverse", [x], dimensions=g.some_dims(x.array_shape.rank))


def _rotated(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    """Move the first rows behind the others; or put rows of another array there."""
    dims = x.array_shape.dims
    d = g.rng.randrange(len(dims))
    k = g.rng.randint(0, dims[d])
    parts = [
        g.emit("slice", [of], slice=tuple(
            SliceDim(*limits) if e == d else SliceDim(0, n) for e, n in enumerate(dims)))
        for of, limits in ((x, (k, dims[d])), (g.rng.choice((x, y)), (0, k)))
    ]  # fmt: skip
    return g.emit("concatenate", parts, dimensions=(d,))


def _turned(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    shape = x.array_shape
    order = list(range(shape.rank))
    g.rng.shuffle(order)
    turned = g.emit("transpose", [x], dimensions=tuple(order))
    return g.emit("reshape", [turned], shape=array(shape.element_type, shape.dims))


def _updated(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    """Write a part of an array, perhaps of this one, at the place that the counter says."""
    shape = x.array_shape
    sizes = tuple(g.rng.choice((1, n, g.rng.randint(1, max(n, 1)))) for n in shape.dims)
    here = [at if g.chance(0.6) else g.scalar(S32, g.rng.randint(-1, 3)) for _ in sizes]
    there = [at if g.chance(0.3) else g.scalar(S32, g.rng.randint(-1, 3)) for _ in sizes]
    part = g.emit("dynamic-slice", [g.rng.choice((x, y)), *there],
                  shape=array(shape.element_type, sizes), dynamic_slice_sizes=sizes)  # fmt: skip
    if g.chance(0.3):
        part = g.emit("not", [part])
    return g.emit("dynamic-update-slice", [x, part, *here])


def _summed(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    """Add to each element a sum of many."""
    shape, et = x.array_shape, x.array_shape.element_type
    over = g.some_dims(shape.rank)
    name = g.rng.choice(("add", "maximum"))
    # XLA has sums of bytes with the largest of a row saturate.
    g.on_xla &= name == "add" or et.bits > 8
    total = g.emit("reduce", [x, identity(g, name, et)], dimensions=over,
                   to_apply=g.combiner(name, et))  # fmt: skip
    kept = tuple(d for d in range(shape.rank) if d not in over)
    spread = g.emit("broadcast", [total], shape=array(et, shape.dims), dimensions=kept)
    return g.emit("add", [spread, y])


def _smoothed(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    shape, et = x.array_shape, x.array_shape.element_type
    wide = g.some_dims(shape.rank)
    window = tuple(
        WindowDim(size=3, pad_low=1, pad_high=1) if d in wide and n > 1 else WindowDim()
        for d, n in enumerate(shape.dims)
    )
    return g.emit("reduce-window", [x, g.scalar(et, 0)], window=window,
                  to_apply=g.combiner("add", et))  # fmt: skip


def _ordered(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    et = x.array_shape.element_type
    body = g.body("before", [et, et], lambda a, b: g.emit("compare", [a, b], direction="LT"))
    d = g.rng.randrange(x.array_shape.rank)
    return g.emit("sort", [x], dimensions=(d,), is_stable=True, to_apply=body)


def _chosen(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    less = g.emit("compare", [x, y], direction=g.rng.choice(("LT", "GE")))
    return g.emit("select", [less, y, x])


def _rows(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    """Take rows by numbers that depend on the counter, or add them there."""
    shape, et = x.array_shape, x.array_shape.element_type
    n = shape.dims[0]
    places = g.emit("iota", shape=array(S32, (n,)), iota_dimension=0)
    moved = g.emit("add", [places, g.emit("broadcast", [at], shape=places.shape, dimensions=())])
    others = tuple(range(1, shape.rank))
    if g.chance(0.5):
        return g.emit(
            "gather", [x, moved], offset_dims=others, collapsed_slice_dims=(0,),
            start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, *shape.dims[1:]),
        )  # fmt: skip
    return g.emit(
        "scatter", [x, moved, y], update_window_dims=others, inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1, to_apply=g.combiner("add", et),
    )  # fmt: skip


def _shifted(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    """Move elements along a dimension, with zeros behind them."""
    d = g.rng.randrange(x.array_shape.rank)
    by = g.rng.choice((1, -1))
    padding = tuple(
        PadDim(by, -by, 0) if e == d and n else PadDim(0, 0, 0)
        for e, n in enumerate(x.array_shape.dims)
    )
    return g.emit("pad", [x, g.scalar(x.array_shape.element_type, 0)], padding=padding)


def _copied(g: Cases, x: Instruction, at: Instruction, y: Instruction) -> Instruction:
    first, _ = through_tuples(g, x, y)
    return first


_STEPS: tuple[Step, ...] = (
    _mixed, _mixed, _reversed, _rotated, _turned, _updated, _updated, _summed, _smoothed, _ordered,
    _chosen, _rows, _shifted, _copied,
)  # fmt: skip


# --- loops ----------------------------------------------------------------------------------------


def _loop(g: Cases) -> None:
    """Carry a few arrays of one shape through turns that move them, and trade their places."""
    et = g.type(lambda t: t.is_integer and t.bits >= 8)
    dims = g.dims(1, 4, empty=False)
    arrays = [g.value(et, dims) for _ in range(g.rng.choice((1, 2, 2, 3)))]
    turns = g.indices((), 0, 4, S32) if g.chance(0.5) else g.scalar(S32, g.rng.randint(0, 4))
    state = g.emit("tuple", [g.scalar(S32, 0), turns, *arrays])
    if g.chance(0.2):
        state = g.emit("copy", [state])
    condition = _computation(g, "going_on", state.shape, _goes_on)
    body = _computation(g, "turn", state.shape, _turn)
    made = g.emit("while", [state], condition=condition, body=body)
    if g.chance(0.2):
        made = g.emit("copy", [made])
    for n in range(len(arrays)):
        if n == 0 or g.chance(0.6):
            g.result(g.emit("get-tuple-element", [made], index=2 + n))


def _goes_on(g: Cases, state: Instruction) -> Instruction:
    at, turns = (g.emit("get-tuple-element", [state], index=n) for n in range(2))
    return g.emit("compare", [at, turns], direction="LT")


def _turn(g: Cases, state: Instruction) -> Instruction:
    at, turns, *arrays = _elements(g, state)
    pool, shape = list(arrays), arrays[0].array_shape
    for _ in range(g.rng.randint(1, 4)):
        # Parts of a sort or a reduction cost the interpreter a call each.
        steps = [s for s in _STEPS if s is not _ordered or shape.num_elements < 1 << 15]
        pool.append(_branched(g, g.rng.choice(steps), at, g.rng.choice(pool), g.rng.choice(pool)))
    after = [g.rng.choice(pool[len(arrays) :] if g.chance(0.6) else pool) for _ in arrays]
    after = [g.emit("copy", [x], shape=s.shape, fixed=True) if x.shape != s.shape else x
             for x, s in zip(after, arrays, strict=True)]  # fmt: skip
    made = g.emit("tuple", [g.emit("add", [at, g.scalar(S32, 1)]), turns, *after])
    return g.emit("copy", [made]) if g.chance(0.1) else made


def _branched(g: Cases, step: Step, at: Instruction, x: Instruction, y: Instruction) -> Instruction:
    """Do a step, now and then in every other turn only."""
    if not g.chance(0.15):
        return step(g, x, at, y)
    shapes = TupleShape((at.shape, x.shape, y.shape))

    def done(g: Cases, values: Instruction) -> Instruction:
        at, x, y = _elements(g, values)
        made = step(g, x, at, y)
        return g.emit("copy", [made], shape=x.shape, fixed=True)

    def kept(g: Cases, values: Instruction) -> Instruction:
        return g.emit("get-tuple-element", [values], index=1)

    branches = (_computation(g, "done", shapes, done), _computation(g, "kept", shapes, kept))
    values = g.emit("tuple", [at, x, y])
    odd = g.emit("and", [at, g.scalar(S32, 1)])
    return g.emit("conditional", [odd, values, values], branch_computations=branches)


# --- copies of tuples -----------------------------------------------------------------------------


def _copy_tuples(g: Cases) -> None:
    """Copy tuples of arrays and of tuples; use their elements, and results that share them."""
    x = g.value(g.type(lambda _: True), g.dims())
    y = g.value(g.type(lambda _: True), g.dims())
    for made in through_tuples(g, x, y):
        g.result(made)


def through_tuples(g: Cases, x: Instruction, y: Instruction) -> tuple[Instruction, Instruction]:
    """Return two arrays out of copies of a tuple of them, the second one in a tuple in it."""
    inner = g.emit("tuple", [y, x])
    if g.chance(0.3):
        inner = g.emit("copy", [inner])
    whole = g.emit("copy", [g.emit("tuple", [x, inner])])
    if g.chance(0.3):
        whole = g.emit("copy", [whole])
    inner = g.emit("get-tuple-element", [whole], index=1)
    if g.chance(0.3):
        inner = g.emit("copy", [inner])
    first = g.emit("get-tuple-element", [whole], index=0)
    return first, g.emit("get-tuple-element", [inner], index=0)


# --- building -------------------------------------------------------------------------------------


def _elements(g: Cases, whole: Instruction) -> list[Instruction]:
    assert isinstance(whole.shape, TupleShape)
    return [g.emit("get-tuple-element", [whole], index=n) for n in range(len(whole.shape.elements))]


def _computation(
    g: Cases, name: str, shape: Shape, build: Callable[[Cases, Instruction], Instruction]
) -> Computation:
    """Return a computation of one parameter."""
    outer, g.comp = g.comp, Computation(name)
    try:
        g.comp.set_root(build(g, g.emit("parameter", shape=shape, fixed=True, number=0)))
        return g.module.add(g.comp)
    finally:
        g.comp = outer


MAKERS: dict[str, Maker] = {"loop": _loop, "copy-tuples": _copy_tuples}
