"""Decide where each instruction of a flattened computation is computed.

What its consumers compute at the index they need takes no memory and no pass over it, but may be
computed more than once; what is costly, or read by kernels that are no loop over their result, is
written to memory.
"""

from __future__ import annotations

from enum import Enum, auto

from hlo.codegen.address import is_plain
from hlo.codegen.lower_movement import UNINITIALIZED
from hlo.codegen.rejoining import is_joint, rejoining
from hlo.ir import Computation, Instruction
from hlo.ops import Category, Trait
from hlo.ops.casts import widens
from hlo.types import ArrayShape


class Role(Enum):
    """How the value of an instruction comes about."""

    KERNEL = auto()  # a kernel of its own writes it to memory
    FUSED = auto()  # computed inside its consumers
    SCALAR = auto()  # computed in the entry function
    ALIAS = auto()  # renames values: tuples, tokens, barriers
    CONTROL = auto()  # while, conditional
    HOST = auto()  # runs outside: custom calls, queues
    PARAMETER = auto()


# Operations that can be computed at any index on demand, beside the elementwise ones.
_ON_DEMAND = frozenset(
    {
        "broadcast", "reshape", "transpose", "reverse", "slice", "pad", "iota", "dynamic-slice",
        "gather", "bitcast-convert", "map", "copy",
    }
)  # fmt: skip
ALIASES = frozenset(
    {
        "tuple",
        "get-tuple-element",
        "opt-barrier",
        "domain",
        "add-dependency",
        "after-all",
        "bitcast",  # of memory: see `relayout`
    }
)
# Consumers that read memory at any strides.
_READS_VIEWS = frozenset({"dot", "convolution"})
# Consumers that read an operand element several times, or not by a plain index.
_REREADERS = frozenset(
    {
        "dot",
        "convolution",
        "reduce-window",
        "select-and-scatter",
        "sort",
        "topk",
        "fft",
        "scatter",
        "map",
    }
)

# Operations that are simpler when their second operand is known.
_STEERED = frozenset(
    {"shift-left", "shift-right-logical", "shift-right-arithmetic", "divide", "remainder", "power"}
)

# What several kernels compute again rather than read: to write an array and read it takes a
# processor about as long as so many operations on vectors of it.
CHEAP = 10.0
_TRANSCENDENTAL = 20.0
_COST = {"divide": 5.0, "remainder": 10.0, "sqrt": 5.0, "rsqrt": 6.0, "map": 20.0, "gather": 6.0}
# A deeper chain of fused operations is cut: code size and Python's own stack are finite.
_MAX_DEPTH = 150
# A kernel of more arrays than that takes LLVM longer than the passes over memory that it saves.
_MAX_READS = 48


def is_uninitialized(inst: Instruction) -> bool:
    """True for memory that holds nothing yet."""
    return inst.opcode == "custom-call" and inst.attrs["custom_call_target"] == UNINITIALIZED


def is_on_demand(inst: Instruction) -> bool:
    """True when any element of the result can be computed from its index alone."""
    if not isinstance(inst.shape, ArrayShape):
        return False
    if inst.opcode == "copy" and inst.shape.dims and not is_plain(inst.shape):
        return False  # written place by place
    return inst.spec.has(Trait.ELEMENTWISE) or inst.opcode in _ON_DEMAND


def roles_in(comp: Computation) -> dict[Instruction, Role]:
    """Return the role of every instruction of one computation, but for rows: see `roles`."""
    roles: dict[Instruction, Role] = {}
    rejoined = rejoining(comp, own_cost)
    # What a kernel computes to have an element of an instruction: each operation once.
    work: dict[Instruction, frozenset[Instruction]] = {}
    depth: dict[Instruction, int] = {}
    reads: dict[Instruction, frozenset[Instruction]] = {}
    for inst in comp.in_order():
        role = _forced_role(inst)
        if role is None:
            role = Role.SCALAR if not inst.array_shape.dims else Role.FUSED
        roles[inst] = role
    # Operands come first in order, so costs of what would be inlined are known at each step.
    for inst in comp.in_order():
        if roles[inst] is not Role.FUSED:
            continue
        if inst.opcode == "constant":
            work[inst], depth[inst], reads[inst] = frozenset(), 0, frozenset()
            continue
        if _is_same_memory(inst) and roles[inst.operands[0]] is not Role.FUSED:
            roles[inst] = Role.ALIAS
            continue
        inlined = [o for o in dict.fromkeys(inst.operands) if roles[o] is Role.FUSED]
        work[inst] = frozenset({inst}).union(*(work[o] for o in inlined))
        cost = sum(map(own_cost, work[inst]))
        depth[inst] = 1 + max((depth[o] for o in inlined), default=0)
        apart = frozenset(o for o in inst.operands if roles[o] is not Role.FUSED)
        reads[inst] = apart.union(*(reads[o] for o in inlined))
        if any(map(is_joint, inst.users)):
            continue
        is_large = depth[inst] > _MAX_DEPTH or len(reads[inst]) > _MAX_READS
        is_whole = inst in rejoined and depth[inst] + rejoined[inst] <= _MAX_DEPTH
        if is_large or _must_keep(inst, roles, cost, comp, is_whole):
            roles[inst] = Role.KERNEL
    return roles


def _is_same_memory(inst: Instruction) -> bool:
    """True when an operation only gives its operand in memory other dimensions."""
    if inst.opcode not in ("reshape", "transpose", "copy"):
        return False
    (operand,) = inst.operands
    before, after = operand.shape, inst.shape
    if not isinstance(before, ArrayShape) or not isinstance(after, ArrayShape):
        return False
    if not before.dims or not after.dims or not is_plain(before) or not is_plain(after):
        return False
    assert before.layout is not None and after.layout is not None
    if before.layout.memory_space != after.layout.memory_space:
        return False
    old = [d for d in before.layout.minor_to_major if before.dims[d] != 1]
    new = [d for d in after.layout.minor_to_major if after.dims[d] != 1]
    if inst.opcode == "transpose":
        new = [inst.attrs["dimensions"][d] for d in new]
    if inst.opcode == "reshape":
        return old == sorted(old, reverse=True) and new == sorted(new, reverse=True)
    return old == new


def _forced_role(inst: Instruction) -> Role | None:
    if inst.opcode == "parameter":
        return Role.PARAMETER
    if is_joint(inst):
        return Role.KERNEL
    if inst.opcode in ALIASES:
        return Role.ALIAS
    if inst.opcode in ("while", "conditional"):
        return Role.CONTROL
    if is_uninitialized(inst):
        return Role.KERNEL
    if inst.spec.has(Trait.NO_FOLD):
        return Role.HOST  # collectives in groups of one have been lowered
    if inst.opcode == "constant":
        if not isinstance(inst.shape, ArrayShape) or inst.shape.dims:
            return Role.KERNEL
        return Role.FUSED if _decides_code(inst) else Role.SCALAR
    return None if is_on_demand(inst) else Role.KERNEL


def _decides_code(constant: Instruction) -> bool:
    """True for a number that kernels should know: an operation is cheaper by one than by any.

    What kernels are handed instead, they may share with others that have other numbers.
    """
    steered = False
    for user in constant.users:
        if user.opcode == "broadcast":
            steered |= any(u.opcode in _STEERED and u.operands[1] is user for u in user.users)
        elif not is_on_demand(user):
            return False
    return steered


def own_cost(inst: Instruction) -> float:
    """Return what computing one element takes, in simple operations, operands aside."""
    if inst.spec.has(Trait.VIEW) or inst.opcode == "iota":
        return 0.0
    return _COST.get(inst.opcode, _TRANSCENDENTAL if inst.spec.has(Trait.TRANSCENDENTAL) else 1.0)


def _must_keep(
    inst: Instruction,
    roles: dict[Instruction, Role],
    cost: float,
    comp: Computation,
    is_whole: bool,
) -> bool:
    """True for what has to be in memory. is_whole: one kernel has room for all uses."""
    users = inst.users
    if inst is comp.root or not users:
        return True
    if any(roles[u] in (Role.ALIAS, Role.CONTROL, Role.HOST) for u in users):
        return True
    if cost > CHEAP and not is_whole:
        if len(users) > 1 or any(_rereads(u, inst) for u in users):
            return True
    # What is updated in place has to be in memory, and so has what is read of it to that end: the
    # update would have to be of a copy otherwise.
    if any(inst in updated_operands(u).values() or _reads_updated(u, inst, roles) for u in users):
        return True
    # A kernel that is no loop over its result reads its operands from memory.
    return any(
        roles[u] is Role.KERNEL
        and not (u.opcode in _READS_VIEWS and _is_view(inst, roles))
        and u.spec.category not in (Category.REDUCTION, Category.WINDOW, Category.SORT)
        and not is_on_demand(u)
        and u.opcode not in ("dynamic-update-slice", "scatter", "concatenate", "copy")
        for u in users
    )


def updated_operands(inst: Instruction) -> dict[tuple[int, ...], Instruction]:
    """Return the operands that an instruction changes in place to be its results, by result."""
    if inst.opcode == "dynamic-update-slice":
        return {(): inst.operands[0]}
    if inst.opcode == "scatter":
        if not inst.shape.is_tuple:
            return {(): inst.operands[0]}
        return {(n,): inst.operands[n] for n in range(len(inst.operands) // 2)}
    if inst.opcode == "custom-call":
        aliases = inst.attrs["output_to_operand_aliasing"]
        return {tuple(a.output): inst.operands[a.operand] for a in aliases if not a.operand_index}
    return {}


def _reads_updated(user: Instruction, inst: Instruction, roles: dict[Instruction, Role]) -> bool:
    """True when a value is computed from the array that its user changes in place."""
    changed = {_source(o) for o in updated_operands(user).values()}
    stack, seen = [inst] if changed else [], set[Instruction]()
    while stack:
        for operand in stack.pop().operands:
            if _source(operand) in changed:
                return True
            if roles[operand] is Role.FUSED and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return False


def _source(inst: Instruction) -> tuple[Instruction, tuple[int, ...]]:
    """Return the tuple that a value is taken out of, and the place in it."""
    path: tuple[int, ...] = ()
    while inst.opcode == "get-tuple-element":
        path = (inst.attrs["index"], *path)
        (inst,) = inst.operands
    return inst, path


def _is_view(inst: Instruction, roles: dict[Instruction, Role]) -> bool:
    """True for memory seen with other strides, or as a wider type."""
    while roles[inst] is Role.FUSED:
        if not (inst.spec.has(Trait.VIEW) or is_widening(inst)):
            return False
        inst = inst.operands[0]
    return isinstance(inst.shape, ArrayShape) and bool(inst.shape.dims)


def is_widening(inst: Instruction) -> bool:
    """True for a conversion that a view does as it reads: it keeps every value."""
    if inst.opcode != "convert":
        return False
    (before,), after = inst.operand_shapes, inst.shape
    if not isinstance(before, ArrayShape) or not isinstance(after, ArrayShape):
        return False
    narrow, wide = before.element_type, after.element_type
    is_read_so = wide.is_integer or wide.name in ("f32", "f64")
    return is_read_so and (narrow.is_integer or narrow.is_float) and widens(narrow, wide)


def _rereads(user: Instruction, operand: Instruction) -> bool:
    if user.opcode in _REREADERS:
        return True
    if user.opcode in ("broadcast", "gather"):
        return user.array_shape.num_elements > operand.array_shape.num_elements
    return False
