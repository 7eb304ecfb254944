"""Where the value of each instruction of a computation is computed.

What its consumers compute at the index they need takes no memory and no pass over it, but may be
computed more than once; what is costly, or read by kernels that are no loop over their result, is
written to memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, auto

from hlo.analysis.fusion.limits import USUAL, FusionLimits
from hlo.analysis.fusion.operations import (
    CACHED_BYTES,
    CHEAP,
    MAX_READS,
    TRANSCENDENTAL,
    UPDATES,
    is_index_vector,
    is_multi_output,
    is_on_demand,
    is_uninitialized,
    is_widening,
    rereads,
    updated_operands,
    wrapped,
)
from hlo.analysis.fusion.post_dominators import rejoining
from hlo.ir import Computation, Instruction
from hlo.ops import Category, Trait
from hlo.values.layout.plain import is_plain, minor_to_major
from hlo.values.types import ArrayShape


class Role(Enum):
    """How the value of an instruction comes about."""

    # There is one of each; an enumeration's own hash is a call in Python.
    __hash__ = object.__hash__

    KERNEL = auto()  # a kernel of its own writes it to memory
    FUSED = auto()  # computed inside its consumers
    SCALAR = auto()  # computed in the entry function
    ALIAS = auto()  # renames values: tuples, tokens, barriers
    CONTROL = auto()  # while, conditional
    HOST = auto()  # runs outside: custom calls, queues; of a pass, what it leaves alone
    PARAMETER = auto()


_ALIASES = frozenset(
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
# What only says where elements are.
_MOVES = frozenset({"broadcast", "reshape", "transpose", "bitcast", "copy", "slice", "reverse"})
# Consumers that read memory at any strides.
_READS_VIEWS = frozenset({"dot", "convolution"})
# What is computed of a product's operand besides elementwise operations, and the least of its
# elements that are: fewer stay in the cache.
_PACKABLE, _PACKED = frozenset({"broadcast", "iota", "constant"}), 1 << 16
# What is computed besides, of a part of an array.
_PARTS = frozenset({"dynamic-slice", "slice", "reshape", "bitcast"})
# Kernels that are loops over more than their result, or write it in parts.
_LOOPS = frozenset({Category.REDUCTION, Category.WINDOW, Category.SORT})
_TAKES_ELEMENTS = frozenset({"dynamic-update-slice", "scatter", "concatenate", "copy"})
# What reads values by the name that they have.
_BY_NAME = frozenset({Role.ALIAS, Role.CONTROL, Role.HOST})
# Operations that are simpler when their second operand is known.
_STEERED = frozenset(
    {"shift-left", "shift-right-logical", "shift-right-arithmetic", "divide", "remainder", "power"}
)

# A deeper chain of fused operations is cut: code size and Python's own stack are finite.
_MAX_DEPTH = 150
# What several kernels compute from more arrays of its size is stored: to read them all again takes
# longer than to write it. The sum of a network's layers up to each of them is such a value.
_MOST_REREAD = 2


def initial_roles(
    comp: Computation, is_opaque: Callable[[Instruction], bool] = lambda _: False
) -> dict[Instruction, Role]:
    """Return the roles before anything is decided: all that can be fused is.

    is_opaque: true for what is left as it is, and reads its operands from memory.
    """
    roles: dict[Instruction, Role] = {}
    for inst in comp.in_order():
        role = Role.HOST if is_opaque(inst) else _forced_role(inst)
        if role is None:
            role = Role.SCALAR if not inst.array_shape.dims else Role.FUSED
        roles[inst] = role
    return roles


def roles_in(
    comp: Computation,
    is_opaque: Callable[[Instruction], bool] = lambda _: False,
    limits: FusionLimits = USUAL,
) -> dict[Instruction, Role]:
    """Return the role of every instruction of one computation, but for rows: see `rows`.

    is_opaque: true for what is left as it is, and reads its operands from memory. limits: when
    values are computed where they are used.
    """
    roles = initial_roles(comp, is_opaque)
    rejoined = rejoining(comp, limits.delay)
    uses = _uses(comp) if limits.again else {}
    # What a kernel computes to have an element of an instruction, each operation once, as long as
    # that is cheap: None of what is not.
    work: dict[Instruction, frozenset[Instruction] | None] = {}
    # What an element costs, with what it is computed from as often as that is used.
    cost: dict[Instruction, float] = {}
    depth: dict[Instruction, int] = {}
    functions: dict[Instruction, int] = {}
    reads: dict[Instruction, frozenset[Instruction]] = {}
    # Operands come first in order, so costs of what would be inlined are known at each step.
    for inst in comp.in_order():
        if roles[inst] is not Role.FUSED:
            continue
        if inst.opcode == "constant":
            work[inst], depth[inst], functions[inst], reads[inst] = _NONE, 0, 0, _NONE
            cost[inst] = 0.0
            continue
        if is_same_memory(inst) and roles[inst.operands[0]] is not Role.FUSED:
            roles[inst] = Role.ALIAS
            continue
        inlined: list[Instruction] = []
        apart: list[Instruction] = []
        for operand in dict.fromkeys(inst.operands):
            (inlined if roles[operand] is Role.FUSED else apart).append(operand)
        work[inst] = cheap = _cheap_work(inst, [work[o] for o in inlined])
        cost[inst] = inst.spec.cost + sum([cost.get(o, 0.0) for o in inst.operands])
        depth[inst] = 1 + max([depth[o] for o in inlined], default=0)
        functions[inst] = max([functions[o] for o in inlined], default=0)
        functions[inst] += inst.spec.cost >= TRANSCENDENTAL
        reads[inst] = read = frozenset(apart).union(*[reads[o] for o in inlined])
        if any(map(is_multi_output, inst.users)):
            functions[inst] = 0  # as of what is read: what reads it was not cut before
            continue
        is_large = (
            depth[inst] > _MAX_DEPTH
            or len(read) > MAX_READS
            or (functions[inst] > limits.in_a_row and inst.array_shape.byte_size <= CACHED_BYTES)
        )
        is_whole = inst in rejoined and depth[inst] + rejoined[inst] <= _MAX_DEPTH
        is_read_much = not is_whole and len(inst.users) > 1 and _reads_much(inst, read, limits)
        is_again = (
            cheap is None
            and not is_whole
            and cost[inst] <= limits.again
            and limits.is_better_again(cost[inst], inst.array_shape, uses[inst])
        )
        if (
            is_large
            or is_read_much
            or _must_keep(
                inst, roles, cheap, comp, is_whole=is_whole, is_again=is_again, limits=limits
            )
        ):
            roles[inst] = Role.KERNEL
            cost[inst] = 0.0
    return roles


_NONE: frozenset[Instruction] = frozenset()


def _uses(comp: Computation) -> dict[Instruction, int]:
    """Return how many elements are computed of each value at the most, if nothing else is stored.

    That is for each user so many as it has itself; what only moves elements is as its own users.
    """
    found: dict[Instruction, int] = {}
    for inst in reversed(comp.in_order()):
        total = 0
        for user in inst.users:
            if user.opcode in _MOVES:
                total += found[user]
            else:
                shape = user.operands[0].shape if user.opcode == "reduce" else user.shape
                total += shape.num_elements if isinstance(shape, ArrayShape) else 0
        found[inst] = total
    return found


def _reads_much(inst: Instruction, reads: frozenset[Instruction], limits: FusionLimits) -> bool:
    """True for what is computed from more arrays of its size than it is worth for several users."""
    if len(reads) <= _MOST_REREAD:
        return False
    size = inst.array_shape.byte_size
    large = [r for r in reads if isinstance(r.shape, ArrayShape) and r.shape.byte_size >= size]
    again = size * len(large) * len(inst.users)
    return len(large) > _MOST_REREAD and limits.byte * again >= limits.launch


def _cheap_work(
    inst: Instruction, parts: Sequence[frozenset[Instruction] | None]
) -> frozenset[Instruction] | None:
    """Return an instruction with what it is computed from, None if that is not cheap in all."""
    if None in parts or inst.spec.cost > CHEAP:
        return None
    found = frozenset((inst,)).union(*parts)  # type: ignore[arg-type]
    return found if sum([i.spec.cost for i in found]) <= CHEAP else None


def is_same_memory(inst: Instruction) -> bool:
    """True when an operation only gives its operand in memory other dimensions."""
    if inst.opcode not in ("reshape", "transpose", "copy"):
        return False
    (operand,) = inst.operands
    before, after = operand.shape, inst.shape
    if not isinstance(before, ArrayShape) or not isinstance(after, ArrayShape):
        return False
    if not before.dims or not after.dims or not is_plain(before) or not is_plain(after):
        return False
    if _memory_space(before) != _memory_space(after):
        return False
    old = [d for d in minor_to_major(before) if before.dims[d] != 1]
    new = [d for d in minor_to_major(after) if after.dims[d] != 1]
    if inst.opcode == "transpose":
        new = [inst.dimensions[d] for d in new]
    if inst.opcode == "reshape":
        return old == sorted(old, reverse=True) and new == sorted(new, reverse=True)
    return old == new


def _memory_space(shape: ArrayShape) -> int:
    return shape.layout.memory_space if shape.layout is not None else 0


def _forced_role(inst: Instruction) -> Role | None:
    if inst.opcode == "parameter":
        return Role.PARAMETER
    if is_multi_output(inst):
        return Role.KERNEL
    if inst.opcode in _ALIASES:
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
    if is_on_demand(inst) or _may_wrap(inst) or is_index_vector(inst) or _is_joined(inst):
        return None
    return Role.KERNEL


def _is_joined(inst: Instruction) -> bool:
    """True for a reduction that one kernel computes with others."""
    return inst.opcode == "reduce" and any(map(is_multi_output, inst.users))


def _may_wrap(inst: Instruction) -> bool:
    """True for parts of one array, put together for what computes element by element."""
    return wrapped(inst) is not None and all(
        u.spec.has(Trait.ELEMENTWISE) and u.array_shape.dims == inst.array_shape.dims
        for u in inst.users
    )


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


def _must_keep(
    inst: Instruction,
    roles: dict[Instruction, Role],
    cheap: frozenset[Instruction] | None,
    comp: Computation,
    limits: FusionLimits,
    *,
    is_whole: bool,
    is_again: bool,
) -> bool:
    """True for what has to be in memory.

    cheap: all that computes it, None if that is costly. is_whole: one kernel has room for all uses.
    is_again: those who use it had better compute it, each for itself.
    """
    users = inst.users
    is_costly = cheap is None and not is_whole
    if inst is comp.root or not users:
        return True
    if is_costly and not is_again and len(users) > 1:
        return True
    if inst.opcode == "concatenate" and not (is_index_vector(inst) or _reads_memory(inst, roles)):
        return True
    for user in users:
        role = roles[user]
        if role in _BY_NAME:
            return True
        if is_costly and rereads(user, inst) and not (is_again and user.opcode == "broadcast"):
            return True
        # What is updated in place has to be in memory, and so has what is read of it to that end:
        # the update would have to be of a copy otherwise.
        if user.opcode in UPDATES and (
            inst in updated_operands(user).values() or _reads_updated(user, inst, roles)
        ):
            return True
        # A kernel that is no loop over its result reads its operands from memory.
        if role is Role.KERNEL and not _reads_elements(user, inst, roles, cheap, limits):
            return True
    return False


def _reads_elements(
    user: Instruction,
    inst: Instruction,
    roles: dict[Instruction, Role],
    cheap: frozenset[Instruction] | None,
    limits: FusionLimits,
) -> bool:
    """True for a kernel that computes elements of an operand as it needs them."""
    return (
        is_on_demand(user)
        or user.opcode in _TAKES_ELEMENTS
        or user.spec.category in _LOOPS
        or (user.opcode in _READS_VIEWS and _is_view(inst, roles))
        or (user.opcode == "dot" and cheap is not None and _is_packed(inst, user, cheap, limits))
    )


def _is_packed(
    inst: Instruction, dot: Instruction, work: frozenset[Instruction], limits: FusionLimits
) -> bool:
    """True when a product computes an operand while it packs it.

    That is for large arrays whose innermost dimension is none that is summed over, computed by a
    few operations on elements of the same place or of a line, or of a part of an array where few
    rows are multiplied.
    """
    shape = inst.array_shape
    types = (inst.array_shape, *(o.array_shape for o in dot.operands), dot.array_shape)
    if len(inst.users) != 1 or shape.num_elements < _PACKED or not is_plain(shape):
        return False
    if not all(x.element_type.is_float for x in types) or dot.operands[0] is dot.operands[1]:
        return False
    side = "lhs" if dot.operands[0] is inst else "rhs"
    inner = next(d for d in minor_to_major(shape) if shape.dims[d] != 1)
    summed = (*dot.attrs[f"{side}_contracting_dims"], *dot.attrs[f"{side}_batch_dims"])
    own = math.prod(
        n for d, n in enumerate(shape.dims) if d not in dot.attrs[f"{side}_contracting_dims"]
    )
    packable = _PACKABLE | (_PARTS if dot.array_shape.num_elements <= own * limits.rows else set())
    return inner not in summed and all(
        i.spec.has(Trait.ELEMENTWISE) or i.opcode in packable for i in work
    )


def _reads_memory(inst: Instruction, roles: dict[Instruction, Role]) -> bool:
    """True for a wrapped array whose parts are read from the source, which is in memory."""
    found = wrapped(inst)
    return found is not None and roles[found[0]] is not Role.FUSED and all(
        roles[o] is Role.FUSED or o is found[0] for o in inst.operands
    )  # fmt: skip


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
    """Return the tuple that a value is taken out of, and its index path in it."""
    path: tuple[int, ...] = ()
    while inst.opcode == "get-tuple-element":
        path = (inst.tuple_index, *path)
        (inst,) = inst.operands
    return inst, path


def _is_view(inst: Instruction, roles: dict[Instruction, Role]) -> bool:
    """True for memory seen with other strides, or as a wider type."""
    while roles[inst] is Role.FUSED:
        if not (inst.spec.has(Trait.VIEW) or is_widening(inst)):
            return False
        inst = inst.operands[0]
    return isinstance(inst.shape, ArrayShape) and bool(inst.shape.dims)
