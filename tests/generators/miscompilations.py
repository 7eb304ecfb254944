"""Miscompilations: wrong rewrites of single instructions, of many kinds, planted where one chooses.

`sites(module)` says what can go wrong where. `plant` makes it wrong in a copy, as a pass would that
edits an instruction or replaces it by a new one. `mark` leaves the module right, and names the
instruction for the pass `miscompile`, which goes wrong there: load this file as a plug-in
(`--load-pass-plugin`), or call `register()`, and run `--passes=miscompile,default`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hlo.errors import HloError, InferError
from hlo.ir import Instruction, Module
from hlo.ir.calls import applied_computations
from hlo.passes import Rewrites, module_pass
from hlo.passes.registry import find_pass
from hlo.testing.compare import is_inexact
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, compatible

# Where `mark` leaves the kind: a frontend attribute, which passes and printers keep.
MARK = "miscompile"

# Returns the wrong instruction for a right one, in no computation yet, on operands that may be new
# as well; None where this cannot go wrong.
Wrong = Callable[[Instruction], Instruction | None]


@dataclass(frozen=True)
class Kind:
    """A way to go wrong: its name, the opcodes that it is about, and what it makes of one."""

    name: str
    opcodes: tuple[str, ...]
    make: Wrong


KINDS: dict[str, Kind] = {}


def _kind(opcodes: str) -> Callable[[Wrong], Wrong]:
    def add(make: Wrong) -> Wrong:
        name = make.__name__.strip("_").replace("_", "-")
        KINDS[name] = Kind(name, tuple(opcodes.split()), make)
        return make

    return add


# --- planting -----------------------------------------------------------------------------------


def sites(module: Module) -> Iterator[tuple[str, Instruction]]:
    """Yield the kinds that can go wrong at each instruction, functions of scalars left out.

    Whether the results then differ depends on the arguments.
    """
    applied = set(applied_computations(module))
    for comp in module.computations:
        for inst in comp if comp not in applied else ():
            for kind in KINDS.values():
                if inst.opcode in kind.opcodes:
                    made = kind.make(inst)
                    if made is not None:
                        _discard(made)
                        yield kind.name, inst


def plant(module: Module, kind: str, inst: Instruction, *, renames: bool = False) -> Module:
    """Return a copy of a module in which one of its instructions has gone wrong.

    renames: the wrong instruction has a new name, as one that a rewrite rule has made.
    """
    assert inst.parent is not None
    copy = module.clone()
    comp = copy.get(inst.parent.name)
    assert comp is not None
    _go_wrong(comp[inst.name], KINDS[kind], renames=renames)
    return copy


def mark(module: Module, kind: str, inst: Instruction) -> Module:
    """Return a copy of a module in which the pass `miscompile` gets an instruction wrong."""
    assert inst.parent is not None
    copy = module.clone()
    comp = copy.get(inst.parent.name)
    assert comp is not None
    notes = comp[inst.name].annotations
    notes["frontend_attributes"] = {**notes.get("frontend_attributes", {}), MARK: kind}
    return copy


def miscompile(module: Module, rewrites: Rewrites) -> None:
    """Get the instructions wrong that are marked for it."""
    for comp in module.computations:
        for inst in list(comp):
            kind = KINDS.get(inst.annotations.get("frontend_attributes", {}).get(MARK, ""))
            if kind is not None and inst.opcode in kind.opcodes:
                made = kind.make(inst)
                if made is not None:
                    _discard(made)
                    if rewrites.allow(f"{MARK}.{kind.name}", inst):
                        _go_wrong(inst, kind, renames=True)


def register() -> None:
    """Make `miscompile` a pass, unless it is one already."""
    try:
        find_pass(MARK)
    except HloError:
        module_pass(miscompile)


if __name__.startswith("hlo_pass_plugin_"):
    register()


def _go_wrong(inst: Instruction, kind: Kind, *, renames: bool) -> None:
    comp, name = inst.parent, inst.name
    made = kind.make(inst)
    assert comp is not None
    assert made is not None
    made.name = f"{inst.opcode}.{kind.name}"
    made.span = inst.span
    for key in ("metadata", "sharding"):
        if key in inst.annotations:
            made.annotations[key] = inst.annotations[key]
    made.annotations.pop("frontend_attributes", None)
    for new in reversed(_new(made)):
        comp.add(new)
    inst.replace_all_uses_with(made)
    if comp.root is inst:
        comp.set_root(made)
    dead = [inst]
    while dead:  # fusions may hold nothing in vain
        gone = dead.pop()
        if gone.parent is comp and not gone.num_users and gone.opcode != "parameter":
            dead += gone.operands
            comp.remove(gone)
    if not renames:
        comp.rename(made, name)
    comp.sort()


def _discard(made: Instruction) -> None:
    for new in _new(made):
        new.drop_edges()


def _new(made: Instruction) -> list[Instruction]:
    """Return an instruction, and the operands of operands that are in no computation either."""
    found = [made]
    for inst in found:
        found += [o for o in inst.operands if o.parent is None and o not in found]
    return found


# --- kinds --------------------------------------------------------------------------------------


def _op(inst: Instruction, opcode: str, *operands: Instruction, **attrs: Any) -> Instruction | None:
    """Return an operation of the shape of another one."""
    return Instruction(opcode, opcode, inst.shape, operands, attrs)


def _changed(inst: Instruction, **attrs: Any) -> Instruction | None:
    """Return an instruction with other attributes, if its shape is still what is inferred."""
    made = inst.clone(attrs=attrs)
    try:
        fits = compatible(made.spec.infer(made), inst.shape)
    except (InferError, HloError):  # an attribute that is impossible here
        fits = False
    if fits:
        return made
    made.drop_edges()
    return None


def _dims(inst: Instruction) -> tuple[int, ...]:
    return inst.shape.dims if isinstance(inst.shape, ArrayShape) else ()


@_kind("subtract divide power remainder atan2 shift-left shift-right-logical complex")
def _swapped_operands(inst: Instruction) -> Instruction | None:
    a, b = inst.operands
    return None if a is b else inst.clone([b, a])


_OTHER = {
    "add": "subtract", "multiply": "add", "maximum": "minimum", "minimum": "maximum",
    "and": "or", "or": "and", "sine": "cosine", "cosine": "sine", "exponential": "tanh",
    "tanh": "logistic", "rsqrt": "sqrt", "sqrt": "rsqrt", "log": "log-plus-one",
    "floor": "ceil", "ceil": "floor", "negate": "abs", "abs": "negate", "logistic": "tanh",
}  # fmt: skip


@_kind(" ".join(_OTHER))
def _other_operation(inst: Instruction) -> Instruction | None:
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or not is_inexact(shape.element_type.dtype):
        if inst.opcode not in ("add", "maximum", "minimum", "and", "or"):
            return None
        if inst.opcode == "add" and shape.dims == ():  # a counter would never end
            return None
    return _op(inst, _OTHER[inst.opcode], *inst.operands)


_DIRECTIONS = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "EQ": "NE", "NE": "EQ"}


@_kind("compare")
def _other_direction(inst: Instruction) -> Instruction | None:
    if _counts(inst):
        return None
    return inst.clone(attrs={"direction": _DIRECTIONS[inst.direction]})


@_kind("compare")
def _one_more_iteration(inst: Instruction) -> Instruction | None:
    more = {"LT": "LE", "GT": "GE", "LE": "LT", "GE": "GT"}.get(inst.direction)
    if not _counts(inst) or more is None:
        return None
    return inst.clone(attrs={"direction": more})


def _counts(inst: Instruction) -> bool:
    """True for the comparison that ends a loop."""
    comp = inst.parent
    assert comp is not None
    return comp.module is not None and any(
        caller.opcode == "while" and caller.condition is comp
        for caller in comp.module.instructions()
        if caller.opcode == "while"
    )


@_kind("constant")
def _corrupted_constant(inst: Instruction) -> Instruction | None:
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or not shape.num_elements or inst.literal is None:
        return None
    if not shape.dims and not is_inexact(shape.element_type.dtype):
        return None  # an index, or how often a loop runs
    if inst.literal.is_elided_in_part:
        return None
    return inst.clone(attrs={"literal": Literal(shape, _other_value(inst.literal.array))})


def _other_value(values: np.ndarray) -> np.ndarray:
    """Return an array whose middle element differs."""
    flat = values.reshape(-1).copy()
    at = flat.size // 2
    if flat.dtype == np.bool_:
        flat[at] = not flat[at]
    elif is_inexact(flat.dtype):
        value = np.asarray(flat[at]).astype(np.complex128 if flat.dtype.kind == "c" else np.float64)
        flat[at] = (value * 1.5 + 1 if np.isfinite(value) else np.zeros(())).astype(flat.dtype)
    else:
        flat[at] = np.asarray(int(flat[at]) ^ 1).astype(flat.dtype)
    return flat.reshape(values.shape)


@_kind("pad")
def _wrong_padding(inst: Instruction) -> Instruction | None:
    for n, d in enumerate(inst.padding):
        if d.high > 0 or d.low > 0:
            by = 1 if d.high > 0 else -1
            moved = replace(d, low=d.low + by, high=d.high - by)
            return _changed(inst, padding=(*inst.padding[:n], moved, *inst.padding[n + 1 :]))
    return None


@_kind("convolution reduce-window select-and-scatter")
def _wrong_window_padding(inst: Instruction) -> Instruction | None:
    for n, d in enumerate(inst.window):
        if d.pad_high > 0 or d.pad_low > 0:
            by = 1 if d.pad_high > 0 else -1
            moved = replace(d, pad_low=d.pad_low + by, pad_high=d.pad_high - by)
            return _changed(inst, window=(*inst.window[:n], moved, *inst.window[n + 1 :]))
    return None


@_kind("convolution")
def _reversed_window(inst: Instruction) -> Instruction | None:
    for n, d in enumerate(inst.window):
        if d.size > 1:
            other = replace(d, reversal=not d.reversal)
            return _changed(inst, window=(*inst.window[:n], other, *inst.window[n + 1 :]))
    return None


@_kind("reduce reduce-window")
def _wrong_initial_value(inst: Instruction) -> Instruction | None:
    init = inst.operands[-1]
    shape = init.shape
    if len(inst.operands) != 2 or init.opcode != "constant" or not isinstance(shape, ArrayShape):
        return None
    other = Literal(shape, _other_value(init.literal.array))
    constant = Instruction("initial", "constant", shape, (), {"literal": other})
    return inst.clone([inst.operands[0], constant])


@_kind("slice")
def _wrong_slice_start(inst: Instruction) -> Instruction | None:
    sizes = inst.operands[0].array_shape.dims
    for n, (d, size) in enumerate(zip(inst.slice, sizes, strict=True)):
        by = 1 if d.limit < size else -1 if d.start > 0 else 0
        if by:
            moved = replace(d, start=d.start + by, limit=d.limit + by)
            return _changed(inst, slice=(*inst.slice[:n], moved, *inst.slice[n + 1 :]))
    return None


@_kind("dynamic-slice dynamic-update-slice")
def _wrong_index(inst: Instruction) -> Instruction | None:
    first = 1 if inst.opcode == "dynamic-slice" else 2
    whole = inst.operands[0].array_shape.dims
    part = (inst.shape if first == 1 else inst.operands[1].shape).dims  # type: ignore[union-attr]
    for n, index in enumerate(inst.operands[first:], first):
        size = len(inst.operands) - first
        if isinstance(index.shape, ArrayShape) and not index.shape.dims and size == len(whole):
            if whole[n - first] == part[n - first]:
                continue
            one = Literal.of(np.ones((), index.shape.element_type.dtype))
            constant = Instruction("one", "constant", index.shape, (), {"literal": one})
            moved = Instruction("moved", "add", index.shape, [index, constant])
            operands = list(inst.operands)
            operands[n] = moved
            return inst.clone(operands)
    return None


@_kind("transpose")
def _wrong_order(inst: Instruction) -> Instruction | None:
    order, sizes = list(inst.dimensions), _dims(inst)
    for a in range(len(order)):
        for b in range(a):
            if sizes[a] == sizes[b] > 1:
                order[a], order[b] = order[b], order[a]
                return _changed(inst, dimensions=tuple(order))
    return None


@_kind("broadcast")
def _wrong_dimensions(inst: Instruction) -> Instruction | None:
    sizes, used = _dims(inst), list(inst.dimensions)
    for at, d in enumerate(used):
        for other in range(len(sizes)):
            if other not in used and sizes[other] == sizes[d] > 1:
                moved = [*used[:at], other, *used[at + 1 :]]
                if moved == sorted(moved):
                    return _changed(inst, dimensions=tuple(moved))
    return None


@_kind("iota")
def _wrong_iota_dimension(inst: Instruction) -> Instruction | None:
    sizes = _dims(inst)
    for other, size in enumerate(sizes):
        if other != inst.iota_dimension and size == sizes[inst.iota_dimension] > 1:
            return _changed(inst, iota_dimension=other)
    return None


@_kind("reverse")
def _dropped(inst: Instruction) -> Instruction | None:
    if all(_dims(inst)[d] < 2 for d in inst.dimensions):
        return None
    return _op(inst, "copy", inst.operands[0])


@_kind("reduce-precision floor ceil round-nearest-even round-nearest-afz sign")
def _lost_rounding(inst: Instruction) -> Instruction | None:
    return _op(inst, "copy", inst.operands[0])


@_kind("convert")
def _lost_conversion(inst: Instruction) -> Instruction | None:
    source = inst.operands[0]
    if source.opcode != "convert" or not compatible(source.operands[0].shape, inst.shape):
        return None
    return _op(inst, "copy", source.operands[0])


@_kind("select")
def _swapped_branches(inst: Instruction) -> Instruction | None:
    p, a, b = inst.operands
    return None if a is b else inst.clone([p, b, a])


@_kind("concatenate")
def _swapped_parts(inst: Instruction) -> Instruction | None:
    parts = list(inst.operands)
    for n in range(1, len(parts)):
        if parts[n] is not parts[0] and compatible(parts[n].shape, parts[0].shape):
            parts[0], parts[n] = parts[n], parts[0]
            return inst.clone(parts)
    return None


@_kind("dot")
def _wrong_contraction(inst: Instruction) -> Instruction | None:
    sizes, used = inst.operands[0].array_shape.dims, inst.lhs_contracting_dims
    for d, size in enumerate(sizes):
        if len(used) == 1 and d not in (*used, *inst.lhs_batch_dims) and size == sizes[used[0]] > 1:
            return _changed(inst, lhs_contracting_dims=(d,))
    return None


@_kind("dynamic-update-slice scatter")
def _lost_update(inst: Instruction) -> Instruction | None:
    if not compatible(inst.shape, inst.operands[0].shape):
        return None
    return _op(inst, "copy", inst.operands[0])


@_kind("clamp")
def _lost_bound(inst: Instruction) -> Instruction | None:
    _, value, high = inst.operands
    if not isinstance(high.shape, ArrayShape) or not compatible(high.shape, inst.shape):
        return _op(inst, "copy", value)
    return _op(inst, "minimum", value, high)


@_kind("add subtract multiply")
def _lost_operand(inst: Instruction) -> Instruction | None:
    if not _dims(inst):
        return None
    return _op(inst, "copy", inst.operands[0])


@_kind("gather")
def _wrong_gather_index(inst: Instruction) -> Instruction | None:
    operand, indices = inst.operands
    shape = indices.array_shape
    if not shape.num_elements:
        return None
    made = Instruction("indices", "not", shape, [indices])
    return inst.clone([operand, made])
