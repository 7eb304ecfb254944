"""Makers of operations that compute one element from many: `MAKERS`.

Sums are of small whole numbers where their type holds these, so that they are exact in any order,
or of ordinary ones and compared less closely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from hlo.ir import Computation, Instruction
from hlo.ops.attrs import ConvDims, WindowDim
from hlo.values.types import ELEMENT_TYPES, PRED, S32, U64, ElementType, Layout, TupleShape, array
from tests.generators.op_builder import Cases

Maker = Callable[[Cases], None]
_F32, _U32 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["u32"]


def _is_number(et: ElementType) -> bool:
    # A sign and a zero are needed.
    return not et.is_pred and et.name != "f8e8m0fnu"


def _summed(g: Cases, et: ElementType) -> tuple[str, float | None]:
    """Return which numbers to sum, and what the result may be off by."""
    if et.is_integer or et.is_pred:
        return "edges", 0.0
    bits = et.bits // 2 if et.is_complex else et.bits
    if bits >= 16 and (g.is_exact or g.chance(0.6)):
        return "whole", 0.0 if bits >= 32 else 0.02
    return "tame", {64: 1e-12, 32: 1e-5, 16: 0.02}.get(bits, 0.5)


def _rounds_each_sum(g: Cases, et: ElementType) -> None:
    """Leave XLA out where it rounds a sum to 8 bits after each addition."""
    g.on_xla &= not (et.is_float and et.bits < 16)


def identity(g: Cases, opcode: str, et: ElementType) -> Instruction:
    """Return what changes nothing: XLA assumes this of what a reduction starts from."""
    if opcode in ("maximum", "minimum"):
        if et.is_float:
            info = ml_dtypes.finfo(et.dtype)
            with np.errstate(all="ignore"):
                worst = np.asarray(-np.inf).astype(et.dtype)
            low, high = float(info.min), float(info.max)
            if np.isinf(worst):
                low, high = -math.inf, math.inf
        elif et.is_pred:
            low, high = 0, 1
        else:
            low = -(1 << (et.bits - 1)) if et.is_signed else 0
            high = (1 << (et.bits - 1)) - 1 if et.is_signed else (1 << et.bits) - 1
        return g.scalar(et, low if opcode == "maximum" else high)
    if opcode == "and":
        ones = np.zeros((), et.dtype) == 0 if et.is_pred else ~np.zeros((), et.dtype)
        return g.constant(np.asarray(ones, et.dtype))
    return g.scalar(et, int(opcode == "multiply"))


def _combiner(g: Cases) -> tuple[str, ElementType, str, float | None]:
    """Return an operation to combine elements by, their type, which numbers, what to allow."""
    et = g.type(_is_number) if not g.chance(0.1) else PRED
    names = ["add", "add", "maximum", "minimum", "multiply"]
    if et.is_complex:
        names = ["add", "multiply"]
    elif et.is_pred:
        names = ["and", "or", "xor", "maximum"]
    elif et.is_integer:
        names += ["and", "or", "xor"]
    name = g.rng.choice(names)
    if name in ("add", "multiply"):
        kind, rtol = _summed(g, et)
        _rounds_each_sum(g, et)
        if name == "multiply" and not et.is_integer:
            kind, rtol = "unit", max(rtol or 0.0, {64: 1e-10, 32: 1e-4}.get(et.bits, 0.5))
        return name, et, kind, rtol
    return name, et, "edges", 0.0


def _reduce(g: Cases) -> None:
    name, et, kind, rtol = _combiner(g)
    dims = g.dims()
    x, over = g.value(et, dims, kind), g.some_dims(len(dims), 0.6)
    made = g.emit("reduce", [x, identity(g, name, et)], dimensions=over,
                  to_apply=g.combiner(name, et))  # fmt: skip
    g.result(made, rtol=rtol)


def _reduce_many(g: Cases) -> None:
    """The largest or smallest element and its place, or sums of several arrays."""
    dims = g.dims(1)
    over = g.some_dims(len(dims), 0.6)
    if g.chance(0.5):
        a, b = g.type(lambda t: t.is_integer), g.pick("f32", "f64")
        body = g.body("both", [a, b, a, b], lambda x, y, u, v: g.emit(
            "tuple", [g.emit("add", [x, u]), g.emit("minimum", [y, v])]))  # fmt: skip
        inits = [identity(g, "add", a), identity(g, "minimum", b)]
        made = g.emit("reduce", [g.value(a, dims), g.value(b, dims), *inits], dimensions=over,
                      to_apply=body)  # fmt: skip
        return g.result(made)
    et = g.type(lambda t: not t.is_pred and not t.is_complex)
    name = g.rng.choice(("GT", "LT"))
    places = g.emit("iota", shape=array(S32, dims), iota_dimension=g.rng.randrange(len(dims)))
    inits = [identity(g, "maximum" if name == "GT" else "minimum", et), g.scalar(S32, 0)]
    x = g.value(et, dims, "tame")
    made = g.emit("reduce", [x, places, *inits], dimensions=over,
                  to_apply=_first_best(g, et, name))  # fmt: skip
    return g.result(made)


def _first_best(g: Cases, et: ElementType, direction: str) -> Computation:
    """Return the combiner of the best element and its place; of equal ones the first place."""

    def build(a: Instruction, i: Instruction, b: Instruction, j: Instruction) -> Instruction:
        better = g.emit("compare", [a, b], direction=direction)
        equal = g.emit("compare", [a, b], direction="EQ")
        before = g.emit("compare", [i, j], direction="LT")
        first = g.emit("or", [better, g.emit("and", [equal, before])])
        return g.emit("tuple", [g.emit("select", [first, *p]) for p in ((a, b), (i, j))])

    return g.body("best", [et, S32, et, S32], build)


# --- windows --------------------------------------------------------------------------------------


def _window(g: Cases, dims: Sequence[int], *, dilated: bool = True) -> tuple[WindowDim, ...]:
    rng, window = g.rng, []
    for n in dims:
        window.append(
            WindowDim(
                size=rng.choice((1, 2, 3, min(max(n, 1), 12))), stride=rng.choice((1, 1, 2, 3)),
                pad_low=rng.choice((0, 0, 1, 2, -1)), pad_high=rng.choice((0, 0, 1, 2, -1)),
                lhs_dilate=rng.choice((1, 1, 1, 2, 3)) if dilated else 1,
                rhs_dilate=rng.choice((1, 1, 1, 2, 3)) if dilated else 1,
            )
        )  # fmt: skip
    return tuple(window)


def _reduce_window(g: Cases) -> None:
    name, et, kind, rtol = _combiner(g)
    dims = g.dims(0, 4)
    x = g.value(et, dims, kind)
    window = _window(g, dims)
    if dims and g.chance(0.25):  # sums of all elements up to each
        d, back = g.rng.randrange(len(dims)), g.chance(0.3)
        n = max(dims[d], 1)
        low, high = (0, n - 1) if back else (n - 1, 0)
        window = tuple(
            WindowDim(size=n, pad_low=low, pad_high=high) if at == d else WindowDim()
            for at in range(len(dims))
        )
    made = g.emit("reduce-window", [x, identity(g, name, et)], window=window,
                  to_apply=g.combiner(name, et))  # fmt: skip
    g.result(made, rtol=rtol)


def _select_and_scatter(g: Cases) -> None:
    et = g.type(lambda t: _is_number(t) and not t.is_complex)
    dims = g.dims(1, 4)
    window = _window(g, dims, dilated=False)
    # XLA looks through large windows in another order, so that other elements are the first.
    g.on_xla &= math.prod(d.size for d in window) < 16
    out = tuple(d.output_size(n) for d, n in zip(window, dims, strict=True))
    kind, rtol = _summed(g, et)
    _rounds_each_sum(g, et)
    x = g.value(et, dims, "tame")
    source = g.value(et, out, kind)
    select = g.body("better", [et, et], lambda a, b: g.emit(
        "compare", [a, b], direction=g.rng.choice(("GE", "GT", "LE"))))  # fmt: skip
    made = g.emit("select-and-scatter", [x, source, g.scalar(et, 0)], window=window,
                  select=select, scatter=g.combiner("add", et))  # fmt: skip
    g.result(made, rtol=rtol)


# --- contractions ---------------------------------------------------------------------------------


def _product_types(g: Cases) -> tuple[ElementType, ElementType]:
    """Return the types of the operands of a contraction and of its result."""
    et = g.type(_is_number)
    if et.is_float and et.bits <= 16 and g.chance(0.4):
        return et, _F32
    if et.is_integer and et.bits <= 8 and g.chance(0.5):
        return et, ELEMENT_TYPES["s32" if et.is_signed else "u32"]
    return et, et


def _dot(g: Cases) -> None:
    et, out = _product_types(g)
    kind, rtol = _summed(g, out if et.is_float and et.bits < 16 else et)
    rng = g.rng
    sizes = g.sizes((1, 2, 3, 5, 8, 16, 17, 33, 65))
    batch = [rng.choice(sizes[:5]) for _ in range(rng.choice((0, 0, 1, 2)))]
    summed = [rng.choice(sizes) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    left, right = ([rng.choice(sizes) for _ in range(rng.choice((0, 1, 1, 2)))] for _ in range(2))
    if math.prod([*batch, *summed, *left, *right]) > g.most_products:
        left, right = left[:1], right[:1]
    for free in (left, right, batch):
        while free and math.prod([*batch, *summed, *left, *right]) > 8 * g.most_products:
            free.pop()
    if g.chance(0.05):
        summed = [0]

    def side(free: list[int]) -> tuple[list[int], list[int], list[int]]:
        """Return dimensions in any order, and where those of the batch and of the sum are."""
        all_dims = [*batch, *summed, *free]
        order = list(range(len(all_dims)))
        rng.shuffle(order)
        where = [order.index(n) for n in range(len(all_dims))]
        return [all_dims[n] for n in order], where[: len(batch)], where[
            len(batch) : len(batch) + len(summed)]  # fmt: skip

    ldims, lbatch, lsum = side(left)
    rdims, rbatch, rsum = side(right)
    x, y = g.value(et, ldims, kind), g.value(et, rdims, kind)
    made = g.emit(
        "dot", [x, y], shape=out, lhs_batch_dims=tuple(lbatch), rhs_batch_dims=tuple(rbatch),
        lhs_contracting_dims=tuple(lsum), rhs_contracting_dims=tuple(rsum),
    )  # fmt: skip
    g.result(made, rtol=rtol)


def _ragged_dot(g: Cases) -> None:
    et = g.pick("f32", "f64", "bf16", "s32")
    kind, rtol = _summed(g, et)
    m, k, n, groups = (g.size(17) for _ in range(4))
    x = g.value(et, (m, k), kind)
    sizes = g.indices((groups,), 0, max(1, m // groups), S32)
    y = g.value(et, (groups, k, n), kind)
    made = g.emit("ragged-dot", [x, y, sizes], shape=et, lhs_contracting_dims=(1,),
                  rhs_contracting_dims=(1,), lhs_ragged_dims=(0,), rhs_group_dims=(0,))  # fmt: skip
    g.result(made, rtol=rtol)


def _scaled_dot(g: Cases) -> None:
    et, scale = g.pick("f8e4m3fn", "f8e5m2", "bf16", "f4e2m1fn"), g.pick("f8e8m0fnu", "bf16")
    m, n, blocks, block = g.size(9), g.size(9), g.size(4), g.rng.choice((1, 2, 8))
    x, y = g.value(et, (m, blocks * block), "tame"), g.value(et, (blocks * block, n), "tame")
    scales = [
        g.emit("convert", [g.emit("abs", [g.value(_F32, s, "tame")])], shape=scale)
        for s in ((m, blocks), (blocks, n))
    ]
    made = g.emit("scaled-dot", [x, y, *scales], shape=_F32, lhs_contracting_dims=(1,),
                  rhs_contracting_dims=(0,))  # fmt: skip
    g.result(made, rtol=1e-4)


def _convolution(g: Cases) -> None:
    et, out = _product_types(g)
    kind, rtol = _summed(g, out if et.is_float and et.bits < 16 else et)
    rng = g.rng
    rank = rng.choice((0, 1, 1, 2, 2, 2, 3))
    sizes = [
        rng.choice(g.sizes((1, 2, 5, 7, 9, 17) if rank < 3 else (1, 3, 5))) for _ in range(rank)
    ]
    window = tuple(
        WindowDim(
            size=rng.choice((1, 2, 3, 5)), stride=rng.choice((1, 1, 2, 3)),
            pad_low=rng.choice((0, 1, 2, -1)), pad_high=rng.choice((0, 1, 2, -1)),
            lhs_dilate=rng.choice((1, 1, 2)), rhs_dilate=rng.choice((1, 1, 2)),
            reversal=g.chance(0.15),
        )
        for _ in range(rank)
    )  # fmt: skip
    groups = rng.choice((1, 1, 1, 2, 3, 8))
    by_batch = groups > 1 and g.chance(0.3)
    inputs, outputs = (rng.choice(g.sizes(small)) for small in ((1, 2, 3, 5, 16), (1, 2, 3, 7, 17)))
    batch = rng.choice((1, 2, 3))
    taps = math.prod(d.size for d in window) * groups * batch
    while taps * inputs * outputs * math.prod(sizes) > 8 * g.most_products:
        inputs, outputs, sizes = -(-inputs // 2), -(-outputs // 2), [-(-n // 2) for n in sizes]
    if by_batch:
        batch, outputs = batch * groups, outputs * groups
        features = inputs
    else:
        features, outputs = inputs * (groups if groups > 1 else 1), outputs * groups

    def labels(first: int, second: int, spatial: list[int]) -> tuple[list[int], int, int, tuple]:
        """Return dimensions in any order, and where each is."""
        order = list(range(rank + 2))
        rng.shuffle(order)
        all_dims = [first, second, *spatial]
        where = [order.index(n) for n in range(rank + 2)]
        return [all_dims[n] for n in order], where[0], where[1], tuple(where[2:])

    ldims, ib, if_, isp = labels(batch, features, sizes)
    rdims, ki, ko, ksp = labels(inputs, outputs, [d.size for d in window])
    _, ob, of, osp = labels(0, 0, [0] * rank)
    made = g.emit(
        "convolution", [g.value(et, ldims, kind), g.value(et, rdims, kind)], shape=out,
        window=window, dim_labels=ConvDims(ib, if_, isp, ki, ko, ksp, ob, of, osp),
        feature_group_count=1 if by_batch else groups,
        batch_group_count=groups if by_batch else 1,
    )  # fmt: skip
    g.result(made, rtol=rtol)


# --- linear algebra -------------------------------------------------------------------------------


def _fft(g: Cases) -> None:
    kind = g.rng.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    real, full = g.rng.choice((("f32", "c64"), ("f64", "c128")))
    et = ELEMENT_TYPES[real if kind == "RFFT" else full]
    rank = g.rng.choice((1, 1, 2, 3))
    sizes = (1, 2, 3, 4, 5, 7, 8, 12, 17, 33, 64) if rank < 3 else (1, 2, 3, 5, 8)
    lengths = [g.rng.choice(g.sizes(sizes)) for _ in range(rank)]
    dims = [g.size(4) if math.prod(lengths) < 10_000 else 1 for _ in range(g.rng.choice((0, 1, 2)))]
    dims += lengths
    if kind == "IRFFT":
        dims[-1] = lengths[-1] // 2 + 1
    x = g.value(et, dims, "tame")
    made = g.emit("fft", [x], fft_type=kind, fft_length=tuple(lengths))
    g.result(made, rtol=1e-4 if real == "f32" else 1e-11)


_LINEAR = {"f32": 1e-4, "f64": 1e-11, "c64": 1e-4, "c128": 1e-11, "f16": 0.05, "bf16": 0.3}


def _cholesky(g: Cases) -> None:
    et = g.pick("f32", "f64", "c64", "c128")
    n, batch = g.size(33), [g.size(3) for _ in range(g.rng.choice((0, 0, 1, 2)))]
    g.on_xla &= n < 100  # it compiles larger ones for a minute
    x = g.numbers(et, (*batch, n, n), "unit").astype(np.complex128)
    spd = x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)
    values = (spd if et.is_complex else spd.real).astype(et.dtype)
    made = g.emit("cholesky", [g.given(values)], lower=g.chance(0.5))
    g.result(_triangle(g, made), rtol=_LINEAR[et.name])


def _triangle(g: Cases, x: Instruction) -> Instruction:
    """Return the lower or upper half only: the other is not defined."""
    shape = x.shape
    rank = shape.rank
    rows, columns = (
        g.emit("iota", shape=array(S32, shape.dims), iota_dimension=d) for d in (rank - 2, rank - 1)
    )
    if not x.attrs["lower"]:
        rows, columns = columns, rows
    kept = g.emit("compare", [rows, columns], direction="GE")
    zeros = g.emit("broadcast", [g.scalar(shape.element_type, 0)], shape=shape, dimensions=())
    return g.emit("select", [kept, x, zeros])


def _triangular_solve(g: Cases) -> None:
    et = g.pick("f32", "f64", "c64", "c128")
    n, m, batch = g.size(33), g.size(17), [g.size(3) for _ in range(g.rng.choice((0, 0, 1, 2)))]
    left = g.chance(0.5)
    a = g.numbers(et, (*batch, n, n), "unit") / max(1, n) + 2 * np.eye(n)
    b = g.value(et, (*batch, *((n, m) if left else (m, n))), "tame")
    made = g.emit(
        "triangular-solve", [g.given(a.astype(et.dtype)), b], left_side=left,
        lower=g.chance(0.5), unit_diagonal=g.chance(0.3),
        transpose_a=g.rng.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    )  # fmt: skip
    g.result(made, rtol=_LINEAR[et.name])


# --- order ----------------------------------------------------------------------------------------


def _sort(g: Cases) -> None:
    """Sort by one key or two; other operands go along."""
    dims = g.dims(1, 4)
    types = [g.type(lambda t: not t.is_complex), *(
        g.type(lambda _: True) for _ in range(g.rng.choice((0, 0, 1, 2))))]  # fmt: skip
    two = len(types) > 1 and not types[1].is_complex and g.chance(0.3)
    directions = [g.rng.choice(("LT", "GT")) for _ in range(2)]

    def build(*p: Instruction) -> Instruction:
        less = _before(g, p[0], p[1], directions[0])
        if not two:
            return less
        equal = g.emit("not", [g.emit("or", [less, _before(g, p[1], p[0], directions[0])])])
        return g.emit("or", [less, g.emit("and", [equal, _before(g, p[2], p[3], directions[1])])])

    body = g.body("before", [t for t in types for _ in range(2)], build)
    xs = [g.value(t, dims) for t in types]
    g.result(
        g.emit("sort", xs, dimensions=(g.rng.randrange(len(dims)),), is_stable=True, to_apply=body)
    )


def _before(g: Cases, a: Instruction, b: Instruction, direction: str) -> Instruction:
    # Floats by total order: no other order of NaN is one.
    total = {"type": "TOTALORDER"} if a.shape.element_type.is_float else {}
    return g.emit("compare", [a, b], direction=direction, **total)


def _topk(g: Cases) -> None:
    dims = g.dims(1, 3)
    x = g.value(g.type(lambda t: not t.is_complex and not t.is_pred), dims)
    g.result(g.emit("topk", [x], k=g.rng.randint(0, dims[-1]), largest=g.chance(0.5)))


def _scan(g: Cases) -> None:
    et = g.type(lambda t: t.is_integer and t.bits >= 8)
    dims = g.dims(1, 3, empty=False)
    d = g.rng.randrange(len(dims))
    part = array(et, [n for at, n in enumerate(dims) if at != d])
    outer, g.comp = g.comp, Computation("step")
    x, c = (g.emit("parameter", shape=part, number=n) for n in range(2))
    mixed = g.emit(g.rng.choice(("add", "xor", "maximum", "subtract")), [x, c])
    g.comp.set_root(g.emit("tuple", [g.emit(g.rng.choice(("add", "or")), [mixed, x]), mixed]))
    step, g.comp = g.module.add(g.comp), outer
    made = g.emit("scan", [g.value(et, dims), g.value(et, part.dims)], dimensions=(d,),
                  num_carries=1, is_reverse=g.chance(0.4), to_apply=step)  # fmt: skip
    g.result(made)


# --- normalization --------------------------------------------------------------------------------


def _batch_norm(g: Cases) -> None:
    et = g.pick("f32", "f64", "bf16", "f16")
    rtol = {"f32": 1e-4, "f64": 1e-11}.get(et.name, 0.1)
    dims = g.dims(1, 4, empty=False)
    at = g.rng.randrange(len(dims))
    x = g.value(et, dims, "tame")

    def features(kind: str = "tame") -> Instruction:
        return g.value(et, dims[at : at + 1], kind)

    def spread() -> Instruction:
        return g.given((0.5 + g.data.random(dims[at : at + 1])).astype(et.dtype))

    which = g.rng.choice(("training", "inference", "grad"))
    operands = {
        "training": lambda: [x, features(), features()],
        "inference": lambda: [x, features(), features(), features(), spread()],
        "grad": lambda: [x, features(), features(), spread(), g.value(et, dims, "tame")],
    }[which]()
    g.result(g.emit(f"batch-norm-{which}", operands, epsilon=0.01, feature_index=at), rtol=rtol)


# --- random numbers -------------------------------------------------------------------------------


def _rng_bits(g: Cases) -> None:
    algorithm = g.rng.choice(("rng_three_fry", "rng_philox", "rng_default"))
    state = g.value(U64, (2 if algorithm != "rng_philox" or g.chance(0.5) else 3,))
    et = g.pick("u8", "u16", "u32", "u64")
    shape = TupleShape((state.shape, array(et, g.dims())))
    g.result(g.emit("rng-bit-generator", [state], shape=shape, algorithm=algorithm))


# --- one participant ------------------------------------------------------------------------------


def _collective(g: Cases) -> None:
    et, dims = g.type(lambda t: not t.is_complex), g.dims(1, 4)
    way = g.rng.randrange(10)
    # XLA's reduce-scatter loses NaN, also with one participant.
    x = g.value(et, dims, "tame" if way == 2 else "edges")
    shape, d = array(et, dims), g.rng.randrange(len(dims))
    groups = "{{0}}"
    reducer = g.combiner("and" if et.is_pred else "maximum", et)
    if way == 0:
        made = g.emit("all-reduce", [x], replica_groups=groups, to_apply=reducer)
    elif way == 1:
        made = g.emit("all-gather", [x], shape=shape, replica_groups=groups, dimensions=(d,))
    elif way == 2:
        made = g.emit("reduce-scatter", [x], shape=shape, replica_groups=groups, dimensions=(d,),
                      to_apply=reducer)  # fmt: skip
    elif way == 3:
        made = g.emit("all-to-all", [x], shape=shape, replica_groups=groups, dimensions=(d,))
    elif way == 4:
        pairs = g.rng.choice(("{{0,0}}", "{}"))
        made = g.emit("collective-permute", [x], shape=shape, source_target_pairs=pairs)
    elif way == 5:
        made = g.emit("collective-broadcast", [x], shape=shape, replica_groups=groups)
    elif way == 6:
        start = g.emit("all-reduce-start", [x], shape=shape, replica_groups=groups,
                       to_apply=reducer)  # fmt: skip
        made = g.emit("all-reduce-done", [start], shape=shape)
    elif way == 7:
        start = g.emit("all-gather-start", [x], shape=TupleShape((shape, shape)),
                       replica_groups=groups, dimensions=(d,))  # fmt: skip
        made = g.emit("all-gather-done", [start], shape=shape)
    elif way == 8:
        token = array(_U32, ())
        start = g.emit("collective-permute-start", [x],
                       shape=TupleShape((shape, shape, token, token)),
                       source_target_pairs="{{0,0}}")  # fmt: skip
        made = g.emit("collective-permute-done", [start], shape=shape)
    else:
        made = g.emit(g.rng.choice(("partition-id", "replica-id")))
    g.result(made)


def _custom_call(g: Cases) -> None:
    """Targets that JAX leaves in programs for CPU."""
    way = g.rng.randrange(3)
    if way == 0:
        x = g.value(g.type(lambda t: not t.is_complex), g.dims())
        target = g.rng.choice(('"Sharding"', '"annotate_device_placement"', '"MoveToHost"'))
        made = g.emit("custom-call", [x], shape=x.shape, fixed=True, custom_call_target=target)
        return g.result(made)
    if way == 1:
        dims = g.dims(1, 2, empty=False)
        k = g.rng.randint(1, dims[-1])
        out = (*dims[:-1], k)
        shape = TupleShape((array(_F32, out), array(S32, out)))
        x = g.value(_F32, dims, "tame")
        made = g.emit("custom-call", [x], shape=shape, fixed=True, custom_call_target='"TopK"')
        return g.result(made)
    et, n = g.pick("f32", "f64"), g.size(17)
    x = g.numbers(et, (n, n), "unit")
    letter = "s" if et.bits == 32 else "d"
    matrix = g.given((x @ x.T + n * np.eye(n)).astype(et.dtype))
    by_columns = array(et, (n, n)).with_layout(Layout((0, 1)))
    operand = g.emit("copy", [matrix], shape=by_columns, fixed=True)
    shape = TupleShape((by_columns, array(S32, ())))
    made = g.emit(
        "custom-call", [operand], shape=shape, fixed=True,
        custom_call_target=f'"lapack_{letter}potrf_ffi"', api_version="API_VERSION_TYPED_FFI",
    )  # fmt: skip
    made.annotations["backend_config"] = "{uplo = 76 : ui8}"
    for n in range(2):
        g.results.append(g.emit("get-tuple-element", [made], index=n))
    g.rtol = _LINEAR[et.name]
    return None


MAKERS: dict[str, Maker] = {
    "reduce": _reduce, "reduce-many": _reduce_many, "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter, "dot": _dot, "ragged-dot": _ragged_dot,
    "scaled-dot": _scaled_dot, "convolution": _convolution, "fft": _fft, "cholesky": _cholesky,
    "triangular-solve": _triangular_solve, "sort": _sort, "topk": _topk, "scan": _scan,
    "batch-norm": _batch_norm, "rng-bit-generator": _rng_bits, "collective": _collective,
    "custom-call": _custom_call,
}  # fmt: skip
