"""Reductions, windows, sorts and selections: only what is there takes part.

Operands come at their bounds, with sizes. `hlo.eval.dynamic_rules` says what each operation means.
"""

from __future__ import annotations

from typing import Any

from hlo.analysis.patterns import single_binary_op
from hlo.expansions.draft import Draft
from hlo.expansions.dynamic.draft import SizedDraft, shared_size, sized, unsupported
from hlo.expansions.dynamic.sized import Size, Sized, Value, static, static_array
from hlo.expansions.scan import scan_loop
from hlo.ir import Computation, Instruction
from hlo.ops import OPS
from hlo.ops.attrs import WindowDim
from hlo.values.types import PRED, ArrayShape, ElementType, Shape, TupleShape, array


def _identity(opcode: str | None, et: ElementType) -> Any:
    """Return the scalar that changes nothing, None where there is none."""
    identity = None if opcode is None else OPS[opcode].identity
    return None if identity is None else identity(et)


@sized("reduce", "reduce-window")
def _reduce(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    count = len(args) // 2
    xs, inits = args[:count], [a.data for a in args[count:]]
    shape = xs[0].shape
    sizes = [shared_size(d, [x.sizes[dim] for x in xs]) for dim in range(shape.rank)]
    if inst.opcode == "reduce":
        gone = inst.dimensions
        kept = tuple(n for dim, n in enumerate(sizes) if dim not in gone)
        covered = [n if dim in gone else shape.dims[dim] for dim, n in enumerate(sizes)]
    else:
        kept = tuple(
            n if dim == WindowDim() else positions(d, dim, n)
            for dim, n in zip(inst.window, sizes, strict=True)
        )
        covered = [
            shape.dims[at] if dim == WindowDim() else sizes[at]
            for at, dim in enumerate(inst.window)
        ]
    made = _reduced(d, inst, [x.data for x in xs], inits, d.meant(shape, covered))
    if count == 1 and not isinstance(made.shape, TupleShape):
        return Sized(made, kept)
    return tuple(Sized(d.op("get-tuple-element", made, index=n), kept) for n in range(count))


def _reduced(
    d: SizedDraft,
    inst: Instruction,
    xs: list[Instruction],
    inits: list[Instruction],
    there: Instruction | None,
) -> Instruction:
    """Append a reduction of the elements that are there."""
    if there is None:
        return d.clone(inst, [*xs, *inits])
    body: Computation = inst.to_apply
    shapes = [static_array(x.shape) for x in xs]
    et = shapes[0].element_type
    identity = _identity(single_binary_op(body) if len(xs) == 1 else None, et)
    if identity is not None:
        fill = d.broadcast(d.constant(et, identity), shapes[0])
        x = d.op("select", there, xs[0], fill, shape=shapes[0])
        return d.clone(inst, [x, *inits])
    # Elements and what is made of them say whether they count at all.
    n = len(xs)
    made = d.comp.add(inst.clone([*xs, there, *inits, d.constant(PRED, True)]))
    made.attrs["to_apply"] = _counting(inst, body)
    results = [s for _, s in static(inst.shape).leaves()]
    first = results[0]
    assert isinstance(first, ArrayShape)
    made.shape = TupleShape((*results, first.with_type(PRED)))
    parts = [d.op("get-tuple-element", made, index=i) for i in range(n)]
    return d.op("tuple", *parts) if inst.shape.is_tuple else parts[0]


def _counting(inst: Instruction, body: Computation) -> Computation:
    """Return a reduction's function that leaves out what does not count."""
    n = len(body.parameters) // 2
    shapes: list[Shape] = [p.shape for p in body.parameters]
    flag = array(PRED, ())
    d = Draft(inst, [*shapes[:n], flag, *shapes[n:], flag])
    olds, news = d.parameters[:n], d.parameters[n + 1 : -1]
    old, new = d.parameters[n], d.parameters[-1]
    called = d.op("call", *olds, *news, shape=body.root.shape, to_apply=body)
    results = [called] if n == 1 and not called.shape.is_tuple else [
        d.op("get-tuple-element", called, index=i) for i in range(n)
    ]  # fmt: skip
    picked = [
        d.op("select", new, d.op("select", old, c, b), a)
        for a, b, c in zip(olds, news, results, strict=True)
    ]
    return d.done(d.op("tuple", *picked, d.op("or", old, new)))


def positions(d: SizedDraft, dim: WindowDim, n: Size) -> Size:
    """Return how many positions a window has over a dimension: `WindowDim.output_size`."""
    if isinstance(n, int):
        return dim.output_size(n)
    base = d.arithmetic("multiply", d.arithmetic("subtract", n, 1), dim.lhs_dilate)
    base = d.arithmetic("maximum", d.arithmetic("add", base, 1), 0)
    left = d.arithmetic("add", base, dim.pad_low + dim.pad_high - dim.dilated_size())
    # Rounded down for negative numbers too, which are then none.
    steps = d.arithmetic("divide", d.arithmetic("add", left, dim.stride), dim.stride)
    return d.arithmetic("maximum", steps, 0)


@sized("select-and-scatter")
def _select_and_scatter(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Choose among what is there, for as much of the source as there are windows."""
    x, source, init = args
    et = x.shape.element_type
    select = inst.select.root
    fill = None
    if select.opcode == "compare" and et.name != "f8e8m0fnu" and not et.is_complex:
        is_low = select.direction in ("GE", "GT")
        fill = _identity("maximum" if is_low else "minimum", et)
    combined = _identity(single_binary_op(inst.scatter), source.shape.element_type)
    if fill is None or combined is None:
        raise unsupported(inst, "operands")
    sizes = []
    for dim, n, m in zip(inst.window, x.sizes, source.sizes, strict=True):
        sizes.append(d.arithmetic("minimum", positions(d, dim, n), m))
    data = d.covered(x.data, x.sizes, d.constant(et, fill))
    updates = d.covered(source.data, sizes, d.constant(source.shape.element_type, combined))
    return Sized(d.clone(inst, [data, updates, init.data]), x.sizes)


@sized("sort")
def _sort(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Sort what is there to the front."""
    shape = args[0].shape
    sizes = tuple(shared_size(d, [a.sizes[dim] for a in args]) for dim in range(shape.rank))
    (axis,) = inst.dimensions
    xs = [a.data for a in args]
    bounds: list[Size] = list(shape.dims)
    bounds[axis] = sizes[axis]
    there = d.meant(shape, bounds)
    if there is None:
        made = d.clone(inst, xs)
        if not inst.shape.is_tuple:
            return Sized(made, sizes)
    else:
        made = d.comp.add(inst.clone([*xs, there]))
        made.attrs["to_apply"] = _there_first(inst, inst.to_apply)
        made.shape = TupleShape((*(static(x.shape) for x in xs), shape.with_type(PRED)))
    results = [Sized(d.op("get-tuple-element", made, index=n), sizes) for n in range(len(xs))]
    return tuple(results) if inst.shape.is_tuple else results[0]


def _there_first(inst: Instruction, body: Computation) -> Computation:
    """Return a comparator that puts what is there before what is not."""
    flag = array(PRED, ())
    d = Draft(inst, [*(p.shape for p in body.parameters), flag, flag])
    *given, a, b = d.parameters
    called = d.op("call", *given, shape=body.root.shape, to_apply=body)
    differ = d.op("xor", a, b)
    return d.done(d.op("select", differ, a, called))


@sized("scan")
def _scan(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Call the function on what is there of each slice; what it makes of the last sets sizes."""
    (dim,) = inst.dimensions
    carries = inst.num_carries
    scanned = args[: len(args) - carries]
    steps = shared_size(d, [x.sizes[dim] for x in scanned]) if scanned else 0
    takes_count = isinstance(steps, Instruction)
    count = [Sized(d.size(steps), ())] if takes_count else []
    made = d.inlined(scan_loop(inst, takes_count=takes_count), [*args, *count])
    results = list(made) if inst.shape.is_tuple else [made]
    for n, x in enumerate(results[: len(results) - carries]):
        if takes_count:
            results[n] = Sized(x.data, (*x.sizes[:dim], steps, *x.sizes[dim + 1 :]))
    return tuple(results) if inst.shape.is_tuple else results[0]


@sized("topk")
def _top_k(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x = args[0]
    et = x.shape.element_type
    fill = _identity("maximum" if inst.largest else "minimum", et)
    sizes = list(x.sizes)
    data = x.data
    if x.is_varying(len(sizes) - 1):
        if fill is None:
            raise unsupported(inst, "an operand")
        only_last = [*x.shape.dims[:-1], sizes[-1]]
        data = d.covered(data, only_last, d.constant(et, fill))
    made = d.clone(inst, [data])
    kept = (*sizes[:-1], inst.k)
    return tuple(Sized(d.op("get-tuple-element", made, index=n), kept) for n in range(2))
