"""Layouts while a module is flattened: plain ones for all values inside, others at the boundaries.

The layout of a value only matters where its memory is observed: by the caller, custom calls, and
`bitcast`, which reinterprets bytes. There, copies convert from and to the declared layouts; they
are fused like any movement, so that most are free. Operations that pass values on (tuples, loops,
branches) use the layouts of their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hlo.errors import HloError, InferError
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.values.layout import element_bits, physical_bytes
from hlo.values.layout.plain import is_plain
from hlo.values.types import S64, ArrayShape, BufferShape, Layout, Shape, TupleShape

_CHANGED_IN_PLACE = frozenset({"dynamic-update-slice", "scatter"})


def plain(shape: Shape) -> Shape:
    """Return a shape with plain layouts: the order of dimensions, and the memory space.

    A pinned buffer is an array here: `Pin` and `Unpin` are copies, which aliasing may require.
    """
    if isinstance(shape, TupleShape):
        return _mapped(shape, plain)
    if isinstance(shape, BufferShape):
        shape = shape.element
    if not isinstance(shape, ArrayShape):
        return shape
    layout = shape.layout
    if layout is None:
        return shape.with_layout(Layout.default(shape.rank))
    kept = Layout(layout.minor_to_major, memory_space=layout.memory_space)
    return shape if layout == kept else shape.with_layout(kept)


def without_buffers(shape: Shape) -> Shape:
    """Return a shape with its pinned buffers replaced by their arrays."""
    if isinstance(shape, TupleShape):
        return _mapped(shape, without_buffers)
    return shape.element if isinstance(shape, BufferShape) else shape


def _mapped(shape: TupleShape, change: Callable[[Shape], Shape]) -> TupleShape:
    """Return the shape of a tuple with changed elements, each changed once however often it occurs.

    Tuples of tuples that are all of the same one have a million parts after twenty instructions.
    """
    changed = {id(s): change(s) for s in {id(s): s for s in shape.elements}.values()}
    return TupleShape(tuple(changed[id(s)] for s in shape.elements))


def with_border(entry: Computation, parameters: Sequence[Shape], result: Shape) -> Computation:
    """Return an equivalent computation with other layouts in its signature."""
    if list(parameters) == list(entry.parameter_shapes) and result == entry.result_shape:
        return entry
    outer = Computation(entry.name)
    args = [
        relaid(outer, outer.add(p.clone(shape=shape)), p.shape)
        for p, shape in zip(entry.parameters, parameters, strict=True)
    ]
    made = _add(outer, entry.root, "call", entry.result_shape, args, to_apply=entry)
    outer.set_root(relaid(outer, made, result))
    if entry.module is not None:
        # What collectives do depends on the numbers of devices that a module is for.
        Module(entry.module.name, attrs=entry.module.attrs).add(outer, entry=True)
    return outer


def add_relaid(
    target: Computation,
    inst: Instruction,
    operands: list[Instruction],
    callees: Sequence[Computation],
) -> Instruction:
    """Append a copy of an instruction on other operands; returns its value in a plain layout.

    callees: replace its called computations.
    """
    opcode, shape = inst.opcode, plain(inst.shape)
    if opcode == "bitcast":
        return _bitcast(target, inst, operands[0])
    if opcode == "tuple":
        shape = TupleShape(tuple(o.shape for o in operands))
    elif opcode == "get-tuple-element":
        shape = operands[0].shape.at([inst.tuple_index])
    elif opcode == "while" or inst.spec.has(Trait.FORWARDS):
        shape = operands[0].shape
    elif opcode in _CHANGED_IN_PLACE:
        changed = [o.shape for o in operands[: len(operands) // 2]]
        shape = TupleShape(tuple(changed)) if inst.shape.is_tuple else operands[0].shape
    elif inst.spec.has(Trait.COLLECTIVE) and not inst.spec.has(Trait.DEVICE_ID):
        operands, shape = _met(target, inst, operands)
    elif opcode == "custom-call":
        shape = without_buffers(inst.shape)
        operands = [
            relaid(target, o, declared) if not _all_plain(declared) else o
            for o, declared in zip(operands, map(without_buffers, inst.operand_shapes), strict=True)
        ]
    made = inst.clone(operands, shape=shape)
    rest = iter(callees)
    for key in inst.spec.computation_attrs:
        value = inst.attrs[key]
        if isinstance(value, tuple):
            made.attrs[key] = tuple(next(rest) for _ in value)
        elif value is not None:
            made.attrs[key] = next(rest)
    return relaid(target, target.add(made), plain(shape))


def _met(
    target: Computation, inst: Instruction, operands: list[Instruction]
) -> tuple[list[Instruction], Shape]:
    """Return the operands of a collective, and its shape, in layouts in which it copies memory.

    A result has the layout of its operand. Where parts of all operands go to one result, they have
    one layout; where rows are moved, the first dimension is the slowest one, and numbers of rows
    are s64.
    """
    shape = plain(inst.shape)
    parts = list(shape.elements) if isinstance(shape, TupleShape) else [shape]
    if inst.opcode == "ragged-all-to-all":
        operands = [_in_rows(target, o, is_table=n >= 2) for n, o in enumerate(operands)]
        return operands, _row_major(shape)
    if inst.opcode == "all-to-all":
        operands = [relaid(target, o, _like(operands[0].shape, o.shape)) for o in operands]
    data = operands[: len(parts)]
    parts = [_like(o.shape, part) for o, part in zip(data, parts, strict=True)]
    return operands, TupleShape(tuple(parts)) if isinstance(shape, TupleShape) else parts[0]


def _like(model: Shape, shape: Shape) -> Shape:
    """Return a shape with the order of dimensions of another one of its rank."""
    assert isinstance(model, ArrayShape) and isinstance(shape, ArrayShape)
    assert model.layout is not None and shape.layout is not None
    return shape.with_layout(replace(shape.layout, minor_to_major=model.layout.minor_to_major))


def _row_major(shape: Shape) -> ArrayShape:
    assert isinstance(shape, ArrayShape)
    return shape.with_layout(Layout.default(shape.rank))


def _in_rows(target: Computation, value: Instruction, *, is_table: bool) -> Instruction:
    value = relaid(target, value, _row_major(value.shape))
    shape = value.array_shape
    if not is_table or shape.element_type is S64:
        return value
    return _add(target, value, "convert", replace(shape, element_type=S64), [value])


def add_argument(target: Computation, inst: Instruction) -> Instruction:
    """Append a copy of a parameter of the entry; returns its value in a plain layout.

    Raises HloError for a layout without addresses of elements.
    """
    need_addresses(inst)
    return relaid(target, target.add(inst.clone()), plain(inst.shape))


def need_addresses(inst: Instruction) -> None:
    """Raise HloError if a layout of an instruction does not say where elements are."""
    for _, leaf in inst.shape.leaves():
        if isinstance(leaf, ArrayShape):
            try:
                physical_bytes(leaf)
            except InferError as e:
                raise HloError.at(e.code, f"{inst.name}: {e.message}", inst.span) from None


def relaid(target: Computation, value: Instruction, shape: Shape) -> Instruction:
    """Append copies to convert a value to the layouts of a shape."""
    if value.shape == shape or not (shape.is_array or shape.is_tuple):
        return value
    if isinstance(shape, TupleShape):
        parts = [
            relaid(target, _element(target, value, n), s) for n, s in enumerate(shape.elements)
        ]
        return _add(target, value, "tuple", TupleShape(tuple(p.shape for p in parts)), parts)
    if value.opcode == "copy" and value.operands[0].shape == shape:
        return value.operands[0]
    return _add(target, value, "copy", shape, [value])


def _element(target: Computation, value: Instruction, index: int) -> Instruction:
    if value.opcode == "tuple":
        return value.operands[index]
    shape = value.shape.at([index])
    return _add(target, value, "get-tuple-element", shape, [value], index=index)


def _all_plain(shape: Shape) -> bool:
    return all(is_plain(leaf) for _, leaf in shape.leaves())


def _add(
    target: Computation,
    like: Instruction,
    opcode: str,
    shape: Shape,
    operands: Sequence[Instruction],
    **attrs: Any,
) -> Instruction:
    return target.create(opcode, shape, operands, attrs, like=like)


# --- bitcast ------------------------------------------------------------------------------------


def _bitcast(target: Computation, inst: Instruction, value: Instruction) -> Instruction:
    """Append a reinterpretation of memory.

    If elements keep their width, it maps indices: a reshape of the dimensions in memory order.
    Otherwise the operand is materialized in its declared layout, and `bitcast` is that memory in
    another shape.
    """
    before, after = inst.operands[0].array_shape, inst.array_shape
    if is_plain(before) and is_plain(after) and _same_width(before, after):
        value = relaid(target, value, plain(before))
        return _moved(target, inst, value, plain(after))
    need_addresses(inst)
    # Scalars have no memory inside a program, but 1-d arrays of one element do.
    if not before.dims:
        before = _line(before)
        value = _add(target, inst, "reshape", plain(before), [value])
    seen = _seen(after if after.dims else _line(after))
    made = _add(target, inst, "bitcast", seen, [relaid(target, value, _seen(before))])
    made = relaid(target, made, plain(seen))
    return made if after.dims else _add(target, inst, "reshape", plain(after), [made])


def _seen(shape: ArrayShape) -> ArrayShape:
    """Return the shape of the memory's content: a narrow type's bits are extended to a byte."""
    et, layout = shape.element_type, shape.layout
    assert layout is not None
    if et.is_pred or et.bits < 8:
        layout = replace(layout, element_bits=element_bits(shape))
    return shape.with_layout(layout)


def _same_width(a: ArrayShape, b: ArrayShape) -> bool:
    """True when elements can be reinterpreted one by one."""
    x, y = a.element_type, b.element_type
    if x is y:
        return True
    reinterpreted = x.bits == y.bits >= 8 and not (x.is_pred or y.is_pred)
    return reinterpreted and x.is_complex == y.is_complex


def _moved(target: Computation, inst: Instruction, value: Instruction, shape: Shape) -> Instruction:
    before, after = value.shape, shape
    assert isinstance(before, ArrayShape) and isinstance(after, ArrayShape)
    assert before.layout is not None and after.layout is not None
    order, wanted = before.layout.minor_to_major[::-1], after.layout.minor_to_major[::-1]
    et = before.element_type
    lines = ArrayShape(et, tuple(before.dims[d] for d in order), Layout.default(before.rank))
    value = _add(target, inst, "transpose", lines, [value], dimensions=order)
    dims = tuple(after.dims[d] for d in wanted)
    value = _add(target, inst, "reshape", ArrayShape(et, dims, Layout.default(len(dims))), [value])
    if et is not after.element_type:
        shape = ArrayShape(after.element_type, dims, Layout.default(len(dims)))
        value = _add(target, inst, "bitcast-convert", shape, [value])
    back = [0] * len(wanted)
    for at, d in enumerate(wanted):
        back[d] = at
    return _add(target, inst, "transpose", after, [value], dimensions=tuple(back))


def _line(shape: ArrayShape) -> ArrayShape:
    """Return the 1-d shape with the same memory as a scalar."""
    assert shape.layout is not None and not shape.dims
    layout = replace(shape.layout, minor_to_major=(0,))
    return ArrayShape(shape.element_type, (1,), layout)
