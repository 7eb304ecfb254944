"""Eigenvalues and eigenvectors of Hermitian matrices by Jacobi rotations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlo.errors import InferError
from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_computation, build_reducer
from hlo.ops.attrs import SliceDim
from hlo.passes.expand import _matrix as mx
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import PRED, S32, ArrayShape, TupleShape, array, complex_part


@module_pass
def eigh_expander(module: Module, rewrites: Rewrites) -> None:
    """Express the custom call Eigh by a loop of Jacobi sweeps.

    backend_config="lower,sorted,sweeps,tolerance", as XLA has it. In f64 or c128, rounded once.
    """
    expand_instructions(
        module, rewrites, "eigh_expander.expand", ["custom-call"], _expanded, approximate=True
    )


@dataclass(frozen=True)
class _Config:
    """Which triangle is read, whether eigenvalues ascend, and when to stop.

    tolerance: what is left beside the diagonal, of the norm of the matrix.
    """

    lower: bool
    is_sorted: bool
    sweeps: int
    tolerance: float

    @staticmethod
    def of(inst: Instruction) -> _Config:
        text = inst.annotations.get("backend_config", "")
        words = str(text).strip('"').split(",")
        try:
            lower, is_sorted, sweeps = (int(w) for w in words[:3])
            (tolerance,) = (float(w) for w in words[3:])
        except ValueError:
            raise InferError(
                f"Eigh: backend_config {text!r} is not lower,sorted,sweeps,tolerance",
                code="bad-value",
            ) from None
        return _Config(bool(lower), bool(is_sorted), min(max(sweeps, 0), 2**31 - 1), tolerance)


def _expanded(inst: Instruction) -> Computation | None:
    if inst.custom_call_target != "Eigh" or len(inst.operands) != 1:
        return None
    shape = inst.operands[0].shape
    if not isinstance(shape, ArrayShape) or shape.is_dynamic:
        return None
    config, et = _Config.of(inst), shape.element_type
    wanted = TupleShape((array(et, shape.dims), array(complex_part(et), shape.dims[:-1])))
    if shape.rank < 2 or shape.dims[-1] != shape.dims[-2] or not _same(inst.shape, wanted):
        raise InferError(
            f"Eigh: it takes square matrices and returns {wanted.to_string(False)} of "
            f"{shape.to_string(False)}, not {inst.shape.to_string(False)}",
            code="shape-mismatch",
        )
    d = Draft(inst)
    if not shape.num_elements:
        return d.done(d.zeros(inst.shape))
    a = _hermitian(d, mx.widened(d, d.parameters[0]), config.lower)
    a, v = _sweeps(d, a, config)
    values = mx.real(d, mx.total(d, mx.kept(d, mx.diagonal(d, a), a), (1,)))
    if config.is_sorted:
        values, v = _sorted(d, values, v)
    results = [d.convert(d.reshape(v, shape.dims), et)]
    results.append(d.convert(d.reshape(values, shape.dims[:-1]), complex_part(et)))
    return d.done(d.relaid(d.tuple(*results), inst.shape))


def _same(got: object, want: TupleShape) -> bool:
    if not isinstance(got, TupleShape) or len(got.elements) != 2:
        return False
    return all(
        isinstance(g, ArrayShape) and array(g.element_type, g.dims) == w
        for g, w in zip(got.elements, want.elements, strict=True)
    )


def _hermitian(b: Builder, a: Instruction, lower: bool) -> Instruction:
    """Append the whole matrix of which one triangle is given; its diagonal is real."""
    part = mx.kept(b, mx.diagonal(b, a, "GT" if lower else "LT"), a)
    other = mx.swapped(b, mx.conjugate(b, part))
    ends = mx.as_type_of(b, mx.real(b, mx.kept(b, mx.diagonal(b, a), a)), a)
    return b.op("add", b.op("add", part, other), ends)


def _sweeps(b: Builder, a: Instruction, config: _Config) -> tuple[Instruction, Instruction]:
    """Append a loop until nothing is left beside the diagonal; returns the matrix, and vectors."""
    n = a.array_shape.dims[-1]
    pairs = np.array([(p, q) for p in range(n) for q in range(p + 1, n)], np.int32)
    state = TupleShape((array(S32, ()), a.array_shape, a.array_shape))
    if not len(pairs):
        return a, mx.identity(b, a)

    def test(b: Builder, p: Instruction) -> Instruction:
        at, a, _ = (b.element(p, k) for k in range(3))
        beside = mx.total(b, mx.squares(b, mx.kept(b, mx.diagonal(b, a, "NE"), a)), (1, 2))
        whole = mx.total(b, mx.squares(b, a), (1, 2))
        little = b.filled(mx.part_type(a), whole.array_shape.dims, config.tolerance**2)
        large = b.compare(beside, b.op("multiply", whole, little), "GT")
        some = b.op("reduce", large, b.constant(PRED, False), dimensions=(0, 1, 2),
                    to_apply=build_reducer("or", PRED, b.like))  # fmt: skip
        limit = b.constant(S32, config.sweeps)
        return b.op("and", some, b.compare(at, limit, "LT"))

    def body(b: Builder, p: Instruction) -> Instruction:
        at, a, v = (b.element(p, k) for k in range(3))
        a, v = counted_loop(b, len(pairs), [a, v], [b.constant(S32, pairs)], _rotate)
        return b.tuple(b.op("add", at, b.constant(S32, 1)), a, v)

    start = b.tuple(b.constant(S32, 0), b.relaid(a, a.array_shape), mx.identity(b, a))
    loop = b.op(
        "while", start, shape=state,
        condition=build_computation("eigh.condition", [state], test, b.like),
        body=build_computation("eigh.body", [state], body, b.like),
    )  # fmt: skip
    return b.element(loop, 1), b.element(loop, 2)


def _rotate(
    b: Builder, at: Instruction, values: list[Instruction], fixed: list[Instruction]
) -> list[Instruction]:
    """Append a rotation of two rows and columns that makes zero of what they have in common."""
    (a, v), (pairs,) = values, fixed
    zero = b.constant(S32, 0)
    pair = [
        b.reshape(b.op("dynamic-slice", pairs, at, k, dynamic_slice_sizes=(1, 1)), ())
        for k in (zero, b.constant(S32, 1))
    ]
    p, q = pair
    row = mx.taken(b, a, p, 1)
    common = mx.taken(b, row, q, 2)
    ends = [mx.real(b, mx.taken(b, mx.taken(b, a, k, 1), k, 2)) for k in pair]
    size = b.op("sqrt", mx.squares(b, common))
    shape = size.array_shape
    none, one, two = (b.filled(shape.element_type, shape.dims, k) for k in (0, 1, 2))
    done = b.compare(size, none, "EQ")
    nonzero = b.op("select", done, one, size)
    # The tangent of the smaller of the two angles that will do.
    slope = b.op("divide", b.op("subtract", ends[1], ends[0]), b.op("multiply", two, nonzero))
    root = b.op("sqrt", b.op("add", one, b.op("multiply", slope, slope)))
    below = b.compare(slope, none, "LT")
    root = b.op("select", below, b.op("negate", root), root)
    tangent = b.op("select", done, none, b.op("divide", one, b.op("add", slope, root)))
    length = b.op("sqrt", b.op("add", one, b.op("multiply", tangent, tangent)))
    cosine = b.op("divide", one, length)
    sine = b.op("multiply", tangent, cosine)
    c, s = (mx.as_type_of(b, k, a) for k in (cosine, sine))
    # The phase of what they have in common; alone it turns nothing.
    unit = mx.as_type_of(b, one, a)
    turn = b.op("divide", common, mx.as_type_of(b, nonzero, a))
    turn = b.op("select", done, unit, turn)
    back = mx.conjugate(b, turn)
    a = _combined(b, a, pair, 2, (c, s), back)
    a = _combined(b, a, pair, 1, (c, s), turn)
    return [a, _combined(b, v, pair, 2, (c, s), back)]


def _combined(
    b: Builder, x: Instruction, pair: list[Instruction], dim: int,
    rotation: tuple[Instruction, Instruction], turn: Instruction,
) -> Instruction:  # fmt: skip
    """Append a matrix with c x_p - s t x_q and s t* x_p + c x_q in the places of two lines."""
    first, second = (mx.taken(b, x, k, dim) for k in pair)
    c, s = (mx.spread(b, k, first) for k in rotation)
    turned = b.op("multiply", s, mx.spread(b, turn, second))
    new_first = b.op("subtract", b.op("multiply", c, first), b.op("multiply", turned, second))
    back = mx.conjugate(b, turned)
    new_second = b.op("add", b.op("multiply", back, first), b.op("multiply", c, second))
    return mx.put(b, mx.put(b, x, new_first, pair[0], dim), new_second, pair[1], dim)


def _sorted(b: Builder, values: Instruction, v: Instruction) -> tuple[Instruction, Instruction]:
    """Append eigenvalues in ascending order, and the columns that go with them."""
    real, et = values.array_shape.element_type, v.array_shape.element_type
    before = build_computation(
        "ascending", [array(t, ()) for t in (real, real, et, et)],
        lambda b, x, y, *_: b.op(
            "compare", x, y, shape=array(PRED, ()), direction="LT", type="TOTALORDER"
        ), b.like,
    )  # fmt: skip
    both = b.op("sort", mx.spread(b, values, v), v, dimensions=(2,), is_stable=True,
                to_apply=before)  # fmt: skip
    batch, _, n = v.array_shape.dims
    row = (SliceDim(0, batch), SliceDim(0, 1), SliceDim(0, n))
    return b.op("slice", b.element(both, 0), slice=row), b.element(both, 1)
