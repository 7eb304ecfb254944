"""Small changes of modules: `edit(module, kind, rng)` makes one, and says which instructions it is.

Each leaves the module valid, in its own order and under its names: `shuffled.py` hides it among
changes of names and order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, Layout, Shape

_FLOATS = ("f32", "bf16", "f16", "f64")
_FLOAT_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
_FLOAT_UNARY = ("tanh", "exponential", "negate", "cosine", "sine", "abs", "logistic", "sqrt")
_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
_ANY_NUMBERS = ("add", "subtract", "multiply", "maximum", "minimum")


@dataclass
class Edit:
    """What an edit did: names (with their computations) of what it removed, and what it added.

    A changed instruction is in both. says: words of which one is in the details of the change.
    """

    kind: str
    before: set[tuple[str, str]] = field(default_factory=set)
    after: set[Instruction] = field(default_factory=set)
    reported_as: str = "changed"


def edit(module: Module, kind: str, rng: random.Random) -> Edit | None:
    """Make an edit of a kind in a random place; None if the module has no place for it."""
    places = [i for c in module.computations for i in c]
    rng.shuffle(places)
    for inst in places:
        made = EDITS[kind](inst, rng)
        if made is not None:
            made.kind = kind
            assert inst.parent is not None or made.before
            for comp in module.computations:
                comp.sort()
            return made
    return None


def _id(inst: Instruction) -> tuple[str, str]:
    assert inst.parent is not None
    return inst.parent.name, inst.name


def _is_float(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and shape.element_type.name in _FLOATS


def _comp(inst: Instruction) -> Computation:
    assert inst.parent is not None
    return inst.parent


def _replace(inst: Instruction, new: Instruction) -> Edit:
    """Put a new instruction in the place of another."""
    comp, before = _comp(inst), _id(inst)
    comp.add(new)
    for other in list(inst.control_predecessors):
        new.add_control_predecessor(other)
    for other in list(inst.control_successors):
        other.add_control_predecessor(new)
    inst.replace_all_uses_with(new)
    if comp.root is inst:
        comp.set_root(new)
    comp.remove(inst)
    return Edit("", {before}, {new})


def _opcode(inst: Instruction, rng: random.Random) -> Edit | None:
    if not isinstance(inst.shape, ArrayShape) or inst.annotations.get("sharding"):
        return None
    if inst.opcode in _FLOAT_BINARY and _is_float(inst.shape):
        choices = _FLOAT_BINARY
    elif inst.opcode in _ANY_NUMBERS and inst.shape.element_type.name != "pred":
        choices = _ANY_NUMBERS
    elif inst.opcode in _FLOAT_UNARY and _is_float(inst.operands[0].shape):
        choices = _FLOAT_UNARY if _is_float(inst.shape) else ()
    else:
        return None
    choices = tuple(c for c in choices if c != inst.opcode)
    if not choices:
        return None
    return _replace(inst, Instruction("edited", rng.choice(choices), inst.shape, inst.operands))


def _direction(inst: Instruction, rng: random.Random) -> Edit | None:
    if inst.opcode != "compare":
        return None
    old = inst.attrs["direction"]
    inst.attrs["direction"] = rng.choice([d for d in _DIRECTIONS if d != old])
    return Edit("", {_id(inst)}, {inst})


def _annotation(inst: Instruction, rng: random.Random) -> Edit | None:
    if inst.opcode in ("parameter", "constant") or "frontend_attributes" in inst.annotations:
        return None
    inst.annotations["frontend_attributes"] = {"edited": str(rng.randrange(9))}
    return Edit("", {_id(inst)}, {inst})


def _dimension(inst: Instruction, rng: random.Random) -> Edit | None:
    if inst.opcode == "iota" and isinstance(inst.shape, ArrayShape) and inst.shape.rank > 1:
        inst.attrs["iota_dimension"] = (inst.attrs["iota_dimension"] + 1) % inst.shape.rank
        return Edit("", {_id(inst)}, {inst})
    if inst.opcode == "slice":
        slices = list(inst.attrs["slice"])
        for n, s in enumerate(slices):
            operand = inst.operands[0].shape
            assert isinstance(operand, ArrayShape)
            if s.limit < operand.dims[n] and s.stride == 1:
                slices[n] = type(s)(s.start + 1, s.limit + 1, s.stride)
                inst.attrs["slice"] = tuple(slices)
                return Edit("", {_id(inst)}, {inst})
    return None


def _constant(inst: Instruction, rng: random.Random) -> Edit | None:
    if inst.opcode != "constant" or not isinstance(inst.shape, ArrayShape):
        return None
    literal = inst.attrs["literal"]
    if literal.elided or inst.shape.num_elements == 0:
        return None
    array = np.array(literal.array)
    at = rng.randrange(array.size)
    flat = array.reshape(-1)
    flat[at] = not flat[at] if array.dtype == bool else flat[at] + np.ones((), array.dtype)
    new = Literal(inst.shape, array)
    if new == literal:
        return None
    inst.attrs["literal"] = new
    return Edit("", {_id(inst)}, {inst})


def _layout(inst: Instruction, rng: random.Random) -> Edit | None:
    shape = inst.shape
    if inst.opcode in ("parameter", "bitcast", "constant") or not isinstance(shape, ArrayShape):
        return None
    if shape.rank < 2 or inst.is_root or shape.layout.tiles:
        return None
    order = tuple(reversed(shape.layout.minor_to_major))
    inst.shape = shape.with_layout(Layout(order))
    return Edit("", {_id(inst)}, {inst})


def _swap(inst: Instruction, rng: random.Random) -> Edit | None:
    if len(inst.operands) != 2 or inst.opcode in ("dynamic-slice", "while"):
        return None
    a, b = inst.operands
    if a is b or a.shape != b.shape or inst.called_computations:
        return None
    inst.replace_operand(0, b)
    inst.replace_operand(1, a)
    commutes = inst.spec.has(Trait.COMMUTATIVE)
    return Edit("", {_id(inst)}, {inst}, "swapped" if commutes else "changed")


def _rewire(inst: Instruction, rng: random.Random) -> Edit | None:
    if not inst.operands or inst.called_computations:
        return None
    comp = _comp(inst)
    at = rng.randrange(len(inst.operands))
    old = inst.operands[at]
    before = []
    for other in comp.in_order():
        if other is inst:
            break
        if other.shape == old.shape and other is not old and other.opcode != "constant":
            before.append(other)
    if not before or old.opcode == "constant":
        return None
    new = rng.choice(before)
    if (new.opcode, new.operands, new.attrs) == (old.opcode, old.operands, old.attrs):
        return None
    inst.replace_operand(at, new)
    return Edit("", {_id(inst)}, {inst})


def _insert(inst: Instruction, rng: random.Random) -> Edit | None:
    """Put a new operation between an instruction and one of its users."""
    if not _is_float(inst.shape) or not inst.num_users or inst.annotations.get("sharding"):
        return None
    opcode = rng.choice(["negate", "tanh", "copy"])
    new = _comp(inst).add(Instruction("edited", opcode, inst.shape, [inst]))
    user = rng.choice([u for u in inst.users if u is not new])
    user.replace_operand(user.operands.index(inst), new)
    return Edit("", set(), {new}, "added")


def _result(inst: Instruction, rng: random.Random) -> Edit | None:
    """Put a new operation behind the result."""
    if not inst.is_root or not _is_float(inst.shape) or inst.annotations.get("sharding"):
        return None
    comp = _comp(inst)
    new = comp.add(Instruction("edited", "negate", inst.shape, [inst]))
    comp.set_root(new)
    return Edit("", set(), {new}, "added")


def _remove(inst: Instruction, rng: random.Random) -> Edit | None:
    """Take an operation out, whose operand is of the same shape."""
    source = next((o for o in inst.operands if o.shape == inst.shape), None)
    if source is None or inst.is_root or not inst.num_users or inst.called_computations:
        return None
    if inst.control_predecessors or inst.control_successors or inst.opcode == "tuple":
        return None
    edit = Edit("", {_id(inst)}, set(), "removed")
    inst.replace_all_uses_with(source)
    _comp(inst).remove(inst)
    return edit


def _remove_unused(inst: Instruction, rng: random.Random) -> Edit | None:
    if inst.num_users or inst.is_root or inst.opcode in ("parameter", "custom-call", "rng"):
        return None
    if inst.called_computations or inst.control_predecessors or inst.control_successors:
        return None
    edit = Edit("", {_id(inst)}, set(), "removed")
    _comp(inst).remove(inst)
    return edit


def _copy_for_a_user(inst: Instruction, rng: random.Random) -> Edit | None:
    """Compute a value a second time, for one of its users."""
    if inst.num_users < 2 or inst.opcode in ("parameter", "get-tuple-element", "tuple"):
        return None
    if inst.called_computations or inst.control_predecessors or inst.control_successors:
        return None
    new = _comp(inst).add(inst.clone(name="edited"))
    user = rng.choice([u for u in inst.users if u is not new])
    for n, operand in enumerate(user.operands):
        if operand is inst:
            user.replace_operand(n, new)
    # Which of both is the copy, nothing says.
    return Edit("", set(), {new, inst}, "added")


def _after(inst: Instruction, rng: random.Random) -> Edit | None:
    """Add a control dependence on an earlier instruction."""
    before = []
    for other in _comp(inst).in_order():
        if other is inst:
            break
        before.append(other)
    before = [b for b in before if b not in inst.control_predecessors]
    if (
        inst.opcode in ("parameter", "constant")
        or not before
        or _comp(inst).name.startswith("fused")
    ):
        return None
    if any(c.opcode == "fusion" for c in _callers(inst)):
        return None
    inst.add_control_predecessor(rng.choice(before))
    return Edit("", {_id(inst)}, {inst})


def _callers(inst: Instruction) -> Sequence[Instruction]:
    comp = _comp(inst)
    return comp.module.callers()[comp] if comp.module is not None else ()


def _fuse(inst: Instruction, rng: random.Random) -> Edit | None:
    """Put an elementwise operation and its only user into a fusion."""
    comp = _comp(inst)
    if inst.num_users != 1 or not inst.spec.has(Trait.ELEMENTWISE) or inst.is_root:
        return None
    [user] = inst.users
    if not user.spec.has(Trait.ELEMENTWISE) or user.opcode == "map" or inst.opcode == "map":
        return None
    if any(c.opcode != "call" and c.opcode != "while" for c in _callers(inst)):
        return None
    if comp.module is None or any(i.control_predecessors or i.control_successors
                                  for i in (inst, user)):  # fmt: skip
        return None
    edit = Edit("", {_id(inst), _id(user)}, set(), "moved")
    arguments: list[Instruction] = []
    for operand in [*inst.operands, *user.operands]:
        if operand is not inst and operand not in arguments:
            arguments.append(operand)
    body = Computation("edited_computation")
    made = {
        a: body.add(Instruction("p", "parameter", a.shape, (), {"number": n}))
        for n, a in enumerate(arguments)
    }
    for old in (inst, user):
        made[old] = body.add(old.clone([made[o] for o in old.operands]))
    body.set_root(made[user])
    attrs = {"kind": "kLoop", "calls": body}
    fusion = Instruction("edited", "fusion", user.shape, arguments, attrs)
    comp.module.add(body)
    comp.add(fusion)
    user.replace_all_uses_with(fusion)
    if comp.root is user:
        comp.set_root(fusion)
    comp.remove(user)
    comp.remove(inst)
    edit.after = {made[inst], made[user], fusion}
    return edit


EDITS: dict[str, Callable[[Instruction, random.Random], Edit | None]] = {
    "opcode": _opcode,
    "direction": _direction,
    "annotation": _annotation,
    "dimension": _dimension,
    "constant": _constant,
    "layout": _layout,
    "swap": _swap,
    "rewire": _rewire,
    "insert": _insert,
    "result": _result,
    "remove": _remove,
    "remove-unused": _remove_unused,
    "copy-for-a-user": _copy_for_a_user,
    "control": _after,
    "fuse": _fuse,
}
