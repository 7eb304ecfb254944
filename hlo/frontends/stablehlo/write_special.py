"""Writing of operations whose operands, results or regions differ from HLO's.

Each function appends the equivalent of an instruction and returns its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.frontends.stablehlo.attributes import (
    Boolean,
    Elements,
    Enumeration,
    Integer,
    Numbers,
    String,
    Unit,
    Verbatim,
    integers,
    listed,
    output_operand_alias,
)
from hlo.frontends.stablehlo.spelling import type_of
from hlo.frontends.stablehlo.tree import Attributes, Value
from hlo.frontends.stablehlo.values import Tree, leaves, location_of, notes_of, shaped
from hlo.frontends.stablehlo.write_rules import RULES, channel, groups
from hlo.frontends.stablehlo.writer import Body, Special
from hlo.ir import Instruction
from hlo.ops import OPS, Trait
from hlo.ops.host.custom import API_VERSIONS
from hlo.values.literal import Literal
from hlo.values.types import S32, S64, ArrayShape, Layout, Shape, TupleShape, array


def _same(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    return trees[0]


def _tuple(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    return tuple(trees)


def _element(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    return trees[0][inst.tuple_index]


def _constant(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    return _literal(b, inst.literal, inst)


def _literal(b: Body, literal: Literal, inst: Instruction) -> Tree:
    if isinstance(literal.shape, TupleShape) and not literal.elided:
        return tuple(_literal(b, part, inst) for part in literal.elements)
    if literal.elided:
        raise InferError("its elements are elided, {...}", code="elided-constants")
    if not isinstance(literal.shape, ArrayShape):
        raise InferError(f"StableHLO has no constants of {literal.shape}", code="unknown-type")
    attrs = {"value": Elements(literal)}
    return b.operation("stablehlo.constant", [], [literal.shape], attrs)[0]


def _number_list(b: Body, values: Sequence[int]) -> Value:
    shape = array(S64, (len(values),))
    literal = Literal(shape, np.array(values, np.int64))
    (name,) = b.operation("stablehlo.constant", [], [shape], {"value": Elements(literal)})
    return name, shape


def _extras(inst: Instruction) -> dict[str, Any]:
    return {"notes": notes_of(inst), "location": location_of(inst)}


# --- control ------------------------------------------------------------------------------------


def _while(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    regions = [b.region_of(inst.attrs[key]) for key in ("condition", "body")]
    names = b.operation("stablehlo.while", b.operands(inst, trees), leaves(inst.shape), None,
                        regions, **_extras(inst))  # fmt: skip
    return shaped(names, inst.shape)


def _conditional(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    def branch(comp: Any, tree: Tree) -> Any:
        def fill(names: list[str]) -> list[Value]:
            return b.values(b.computation(comp, [tree]), comp.root.shape)

        return [], fill

    is_pred = inst.operands[0].array_shape.element_type.is_pred
    comps = inst.called_computations
    regions = [branch(comp, tree) for comp, tree in zip(comps, trees[1:], strict=True)]
    name = "stablehlo.if" if is_pred else "stablehlo.case"
    index = b.values(trees[0], inst.operands[0].shape)
    names = b.operation(name, index, leaves(inst.shape), None, regions, **_extras(inst))
    return shaped(names, inst.shape)


def _barrier(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    operands = b.operands(inst, trees)
    names = b.operation("stablehlo.optimization_barrier", operands, [s for _, s in operands],
                        **_extras(inst))  # fmt: skip
    return shaped(names[: len(leaves(inst.shape))], inst.shape)


# --- collectives --------------------------------------------------------------------------------


def _reduce_scatter(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    """Append a reduce-scatter of each operand: StableHLO's has one."""
    if inst.mode is not None:
        raise InferError("StableHLO has no mode of it", code="no-counterpart")
    attrs = {"scatter_dimension": Integer(inst.dimensions[0])} | groups(inst)
    shapes = leaves(inst.shape)
    names = []
    for value, shape in zip(b.operands(inst, trees), shapes, strict=True):
        regions = [b.region_of(inst.to_apply)]
        names += b.operation("stablehlo.reduce_scatter", [value], [shape], attrs, regions,
                             **_extras(inst))  # fmt: skip
    return shaped(names, inst.shape)


def _rooted(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    """Append a collective with a root, which is a list in StableHLO."""
    operands, attrs = b.operands(inst, trees), groups(inst)
    if inst.has_dynamic_root:
        attrs["has_dynamic_root"] = Unit()
        name, shape = operands[-1]
        if not shape.dims:  # type: ignore[attr-defined]
            operands[-1] = _changed(b, "stablehlo.reshape", (name, shape), array(S32, (1,)))
    regions = [b.region_of(comp) for comp in inst.called_computations]
    name = f"stablehlo.{inst.opcode.replace('-', '_')}"
    names = b.operation(name, operands, leaves(inst.shape), attrs, regions, **_extras(inst))
    return shaped(names, inst.shape)


# --- movement -----------------------------------------------------------------------------------


def _bitcast(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    """Append a bitcast by transposes and reshapes, in the physical order of dimensions."""
    (operand,) = inst.operands
    before, after = operand.array_shape, inst.array_shape
    for shape in (before, after):
        if shape.layout is None or shape.layout.tiles or shape.dynamic:
            raise InferError("StableHLO has no memory layouts for a bitcast to reinterpret",
                             code="no-counterpart")  # fmt: skip
    if before.element_type.bits != after.element_type.bits:
        raise InferError("StableHLO changes the size of elements only in bitcast_convert",
                         code="no-counterpart")  # fmt: skip
    value: Value = (str(trees[0]), _rows(before))
    value = _transposed(b, value, _physical(before))
    dims = tuple(after.dims[d] for d in _physical(after))
    value = _changed(b, "stablehlo.reshape", value, array(before.element_type, dims))
    value = _changed(b, "stablehlo.bitcast_convert", value, array(after.element_type, dims))
    order = _physical(after)
    return _transposed(b, value, [order.index(d) for d in range(after.rank)])[0]


def _physical(shape: ArrayShape) -> list[int]:
    assert shape.layout is not None
    return list(reversed(shape.layout.minor_to_major))


def _rows(shape: ArrayShape) -> ArrayShape:
    return shape.with_layout(Layout.default(shape.rank))


def _changed(b: Body, name: str, value: Value, shape: ArrayShape) -> Value:
    if value[1] == shape:
        return value
    return b.operation(name, [value], [shape])[0], shape


def _transposed(b: Body, value: Value, order: Sequence[int]) -> Value:
    shape = value[1]
    assert isinstance(shape, ArrayShape)
    if list(order) == list(range(shape.rank)):
        return value
    out = array(shape.element_type, tuple(shape.dims[d] for d in order))
    attrs = {"permutation": integers(order)}
    return b.operation("stablehlo.transpose", [value], [out], attrs)[0], out


def _dynamic_slice(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    """Append a dynamic slice or update, whose start indices are scalars."""
    name = f"stablehlo.{inst.opcode.replace('-', '_')}"
    is_slice = inst.opcode == "dynamic-slice"
    arrays = 1 if is_slice else 2
    attrs = {"slice_sizes": integers(inst.dynamic_slice_sizes)} if is_slice else {}
    values = b.operands(inst, trees)
    starts = values[arrays:]
    if len(starts) == 1 and inst.operands[arrays].array_shape.rank == 1:
        starts = _elements(b, starts[0])
    operands = [*values[:arrays], *starts]
    return b.operation(name, operands, [inst.shape], attrs, **_extras(inst))[0]


def _elements(b: Body, value: Value) -> list[Value]:
    """Return the elements of a list as scalars."""
    shape = value[1]
    assert isinstance(shape, ArrayShape)
    one = array(shape.element_type, (1,))
    found = []
    for i in range(shape.dims[0]):
        bounds = {"start_indices": (i,), "limit_indices": (i + 1,), "strides": (1,)}
        attrs = {key: integers(numbers) for key, numbers in bounds.items()}
        part = b.operation("stablehlo.slice", [value], [one], attrs)[0], one
        found.append(_changed(b, "stablehlo.reshape", part, array(shape.element_type, ())))
    return found


def _dynamic_reshape(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    value, *sizes = b.operands(inst, trees)
    one = array(S32, (1,))
    parts = [_changed(b, "stablehlo.reshape", size, one) for size in sizes]
    shape = array(S32, (len(parts),))
    (joined,) = b.operation("stablehlo.concatenate", parts, [shape], {"dimension": Integer(0)})
    names = b.operation("stablehlo.dynamic_reshape", [value, (joined, shape)], [inst.shape],
                        **_extras(inst))  # fmt: skip
    return names[0]


def _rng(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    word = inst.distribution.removeprefix("rng_").upper()
    sizes = _number_list(b, inst.array_shape.dims)
    attrs = {"rng_distribution": Enumeration("rng_distribution", word)}
    operands = [*b.operands(inst, trees), sizes]
    return b.operation("stablehlo.rng", operands, [inst.shape], attrs, **_extras(inst))[0]


# --- asynchronous operations ---------------------------------------------------------------------


def _start(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    """Append the operation that is started; its done is a no-op."""
    name = inst.opcode.removesuffix("-start")
    rule = RULES[name]
    shape = inst.shape
    if name != "all-reduce":
        assert isinstance(shape, TupleShape)
        shape = shape.elements[1]
    regions = [b.region_of(inst.attrs[key]) for key in rule.regions]
    names = b.operation(rule.name, b.operands(inst, trees), leaves(shape), rule.attrs(inst),
                        regions, **_extras(inst))  # fmt: skip
    return shaped(names, shape)


# --- the host -----------------------------------------------------------------------------------


def _after_all(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    if not all(o.shape.is_token for o in inst.operands):
        raise InferError("StableHLO has after_all of tokens only", code="no-counterpart")
    name = "stablehlo.after_all" if trees else "stablehlo.create_token"
    return b.operation(name, b.operands(inst, trees), [inst.shape], **_extras(inst))[0]


def _infeed(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    attrs = {"infeed_config": String(inst.infeed_config or "")}
    names = b.operation("stablehlo.infeed", b.operands(inst, trees), leaves(inst.shape), attrs,
                        **_extras(inst))  # fmt: skip
    return shaped(names, inst.shape)


def _outfeed(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    attrs = {"outfeed_config": String(inst.outfeed_config or "")}
    operands = b.operands(inst, trees)
    return b.operation("stablehlo.outfeed", operands, [inst.shape], attrs, **_extras(inst))[0]


# A send is written at its done; until then its value is the operands.
def _wait_later(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    return tuple(trees)


def _transfer(inst: Instruction, kind: int) -> Attributes:
    is_host = inst.is_host_transfer
    attrs = channel(inst, kind if is_host else 1)
    if not attrs:
        raise InferError("StableHLO needs a channel", code="no-counterpart")
    return attrs | {"is_host_transfer": Boolean(is_host)}


def _send_done(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    (start,) = inst.operands
    if start.opcode != "send":
        raise InferError(
            "the start of this operation is not in its computation", code="no-counterpart"
        )
    operands = b.operands(start, trees[0])  # type: ignore[arg-type]
    attrs = _transfer(start, 2)
    return b.operation("stablehlo.send", operands, [inst.shape], attrs, **_extras(start))[0]


def _recv_done(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    (start,) = inst.operands
    if start.opcode != "recv":
        raise InferError(
            "the start of this operation is not in its computation", code="no-counterpart"
        )
    operands = b.operands(start, trees[0])  # type: ignore[arg-type]
    names = b.operation("stablehlo.recv", operands, leaves(inst.shape), _transfer(start, 3),
                        **_extras(start))  # fmt: skip
    return shaped(names, inst.shape)


# --- custom calls -------------------------------------------------------------------------------

_CUSTOM = frozenset(
    "custom_call_target custom_call_has_side_effect api_version output_to_operand_aliasing "
    "operand_layout_constraints to_apply called_computations".split()
)


def _custom_call(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    for key, attr in inst.spec.attrs.items():
        if key not in _CUSTOM and attr.prints(inst.attrs[key]):
            raise InferError(f"StableHLO has no {key} of custom calls", code="no-counterpart")
    version = API_VERSIONS.index(inst.api_version)
    attrs: Attributes = {
        "call_target_name": String(inst.custom_call_target),
        "has_side_effect": Boolean(bool(inst.custom_call_has_side_effect)),
        "api_version": Integer(version, "i32"),
    }
    config = inst.annotations.get("backend_config")
    # The newest API version has attributes, older ones a string.
    if inst.api_version == "API_VERSION_TYPED_FFI":
        attrs["backend_config"] = Verbatim(str(config or "{}"))
    elif config is not None:
        attrs["backend_config"] = String(str(config))
    if inst.called_computations:
        names = map(b.writer.function_of, inst.called_computations)
        attrs["called_computations"] = listed(names)
    aliases = [
        output_operand_alias(a.output, a.operand, a.operand_index)
        for a in inst.output_to_operand_aliasing
    ]
    if aliases:
        attrs["output_operand_aliases"] = listed(aliases)
    for a in inst.output_to_operand_aliasing:
        sizes = (inst.shape.at(a.output), inst.operands[a.operand].shape.at(a.operand_index))
        if type_of(sizes[0]) != type_of(sizes[1]):
            raise InferError("what shares memory in StableHLO has one type", code="no-counterpart")
    constraints = inst.operand_layout_constraints
    shape = inst.shape
    nested = isinstance(shape, TupleShape) and any(s.is_tuple for s in shape.elements)
    several = isinstance(shape, TupleShape) and len(shape.elements) != 1 and not nested
    results = list(shape.elements) if several else [shape]  # type: ignore[attr-defined]
    if constraints is not None:
        outs = list(shape.elements) if isinstance(shape, TupleShape) else [shape]
        attrs["operand_layouts"] = listed(map(_order, constraints))
        attrs["result_layouts"] = listed(map(_order, outs))
    operands = [(b.packed(inst, tree, o.shape), o.shape)
                for tree, o in zip(trees, inst.operands, strict=True)]  # fmt: skip
    names_out = b.operation("stablehlo.custom_call", operands, results, attrs, **_extras(inst))
    return shaped(names_out, shape) if several else b.unpacked(inst, names_out[0], shape)


def _order(shape: Shape) -> Numbers:
    order: tuple[int, ...] = ()
    if isinstance(shape, ArrayShape) and shape.layout is not None:
        order = shape.layout.minor_to_major
    return Numbers(order, (len(order),), "index")


_STARTS = [s.name for s in OPS.values() if s.starts and s.has(Trait.COLLECTIVE)]
SPECIAL: dict[str, Special] = {
    "add-dependency": _barrier,
    "after-all": _after_all,
    **dict.fromkeys(_STARTS, _start),
    **dict.fromkeys((end for start in _STARTS for end in OPS[start].continued_by), _same),
    **dict.fromkeys(("async-update", "async-done", "copy", "copy-start", "copy-done", "domain"),
                    _same),
    "bitcast": _bitcast,
    **dict.fromkeys(("collective-broadcast", "collective-reduce"), _rooted),
    "conditional": _conditional,
    "constant": _constant,
    "custom-call": _custom_call,
    "dynamic-reshape": _dynamic_reshape,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_slice,
    "get-tuple-element": _element,
    "infeed": _infeed,
    "opt-barrier": _barrier,
    "outfeed": _outfeed,
    "recv": _wait_later,
    "recv-done": _recv_done,
    "reduce-scatter": _reduce_scatter,
    "rng": _rng,
    "send": _wait_later,
    "send-done": _send_done,
    "tuple": _tuple,
    "while": _while,
}  # fmt: skip
