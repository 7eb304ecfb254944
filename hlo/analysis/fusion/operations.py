"""What is to know of an operation to fuse it: how it reads its operands, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.ops.elementwise.casts import widens
from hlo.ops.host.custom_targets import UNINITIALIZED
from hlo.values.layout.plain import is_plain
from hlo.values.types import ArrayShape

# Made once: `|` of flags takes longer than all else of a question.
_BY_INDEX = Trait.ELEMENTWISE | Trait.INDEXABLE

# What several kernels compute again rather than read: to write an array and read it takes a
# processor about as long as so many operations on vectors of it.
CHEAP = 10.0
# What functions cost that take a hundred instructions of code.
TRANSCENDENTAL = 20.0
# Arrays of so many bytes stay in the cache from one kernel to the next.
CACHED_BYTES = 1 << 20
# A kernel of more arrays than that takes LLVM longer than the passes over memory that it saves.
MAX_READS = 48
# Instructions that one kernel computes, at the most: code size is finite.
MAX_INSTRUCTIONS = 150

# An annotation of tuples whose elements one kernel computes, see `siblings`.
MULTI_OUTPUT = "multi_output"


def is_multi_output(inst: Instruction) -> bool:
    """True for a tuple that is a kernel."""
    return MULTI_OUTPUT in inst.annotations


def is_uninitialized(inst: Instruction) -> bool:
    """True for memory that holds nothing yet."""
    return inst.opcode == "custom-call" and inst.custom_call_target == UNINITIALIZED


def is_on_demand(inst: Instruction) -> bool:
    """True when any element of the result can be computed from its index alone."""
    if not isinstance(inst.shape, ArrayShape):
        return False
    if inst.opcode == "copy" and inst.shape.dims and not is_plain(inst.shape):
        return False  # written place by place
    return inst.spec.has(_BY_INDEX)


@dataclass(frozen=True)
class Piece:
    """The elements of a wrapped array from `first` to `end`: of the source, `shift` further on."""

    first: int
    end: int
    shift: int


# A kernel chooses among them for each element, or has a loop for each.
_MOST_PIECES = 4


def wrapped(inst: Instruction) -> tuple[Instruction, list[Piece]] | None:
    """Return the array that a concatenation is parts of, as a roll or a periodic boundary is."""
    if inst.opcode != "concatenate" or not 2 <= len(inst.operands) <= _MOST_PIECES:
        return None
    (axis,) = inst.dimensions
    source, pieces, at = None, [], 0
    for operand in inst.operands:
        start = 0
        whole = operand
        if operand.opcode == "slice":
            if any(s.stride != 1 or (s.start and d != axis) for d, s in enumerate(operand.slice)):
                return None
            start, (whole,) = operand.slice[axis].start, operand.operands
        if whole is not (source or whole) or not is_plain(whole.shape):
            return None
        source = whole
        end = at + operand.array_shape.dims[axis]
        pieces.append(Piece(at, end, start - at))
        at = end
    assert source is not None
    return source, pieces


def is_index_vector(inst: Instruction) -> bool:
    """True for index vectors, put together for what reads their components one by one."""
    if inst.opcode != "concatenate" or not inst.users:
        return False
    (axis,) = inst.dimensions
    return all(o.array_shape.dims[axis] == 1 for o in inst.operands) and all(
        u.opcode in ("gather", "scatter")
        and axis == u.index_vector_dim
        and [n for n, o in enumerate(u.operands) if o is inst] == [len(u.operands) // 2]
        for u in inst.users
    )


def is_pointwise(user: Instruction, operand: Instruction) -> bool:
    """True when an element of a value is used for the element of the same index only."""
    before, after = operand.shape, user.shape
    if is_multi_output(user):
        return True
    if not isinstance(before, ArrayShape) or not isinstance(after, ArrayShape):
        return False
    return user.spec.has(Trait.ELEMENTWISE) and after.dims == before.dims


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


# Operations that may change an operand in place.
UPDATES = frozenset({"dynamic-update-slice", "scatter", "custom-call"})


def updated_operands(inst: Instruction) -> dict[tuple[int, ...], Instruction]:
    """Return the operands that an instruction changes in place to be its results, by result."""
    if inst.opcode == "dynamic-update-slice":
        return {(): inst.operands[0]}
    if inst.opcode == "scatter":
        if not inst.shape.is_tuple:
            return {(): inst.operands[0]}
        return {(n,): inst.operands[n] for n in range(len(inst.operands) // 2)}
    if inst.opcode == "custom-call":
        aliases = inst.output_to_operand_aliasing
        return {tuple(a.output): inst.operands[a.operand] for a in aliases if not a.operand_index}
    return {}


def rereads(user: Instruction, operand: Instruction) -> bool:
    if user.spec.has(Trait.REREADS):
        return True
    if user.opcode in ("broadcast", "gather"):
        return user.array_shape.num_elements > operand.array_shape.num_elements
    return False
