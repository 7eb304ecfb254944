"""What one kernel computes and reads, and what it takes to fuse a producer into it.

A kernel is an instruction with copies of the producers that it evaluates at the indices it needs.
Its time is the larger of what memory and what arithmetic take: producers that are cheap beside the
traffic they save may be evaluated several times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from hlo.analysis.bitcasts import is_bitcast
from hlo.analysis.congruence import has_control_edges
from hlo.analysis.cost import cost_of_instruction
from hlo.analysis.effects import Effects
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.values.types import ArrayShape, Shape

# The unit of time is a byte of traffic.
_OPERATION = 0.8
_TRANSCENDENTAL = 16.0
_START = 1024.0
# Of the operations of a contraction: so many on its result are done while it waits for operands.
_HIDDEN = 1 / 16
# What takes more operations an element is never evaluated more often than it has elements.
_CHEAP = 10 * _OPERATION
# A kernel of more arrays or instructions takes longer to compile than it saves.
_MAX_OPERANDS = 48
MAX_MEMBERS = 200
_MAX_REDUCTIONS = 5
# At how many different indices a value may be evaluated: each is code of its own.
_MAX_INDICES = 8
_MAX_CONCATENATED = 8
_MIN_ROW_BYTES = 64
_MIN_CONCATENATED_BYTES = 2048

# Evaluated for each user anew, though others may need it in memory.
_FREE = frozenset({"broadcast", "iota"})
_CONTRACTIONS = frozenset({"convolution", "dot"})
_REDUCTIONS = frozenset({"reduce", "reduce-window"})

# An index into an operand: the movements on the way to it, the outermost first; none for the same
# place in memory.
_Index = tuple[Instruction, ...]


@dataclass
class Kernel:
    """An instruction and what is fused into it.

    members: the root and copies of others. reads: by value that it reads, how many elements at each
    index. work: the operations of one run, in bytes of traffic. strided: what is read at any
    strides but not computed. kept: what has to be in memory. hero: the contraction. hero_work: the
    part of the work that is the hero's.
    """

    root: Instruction
    members: dict[Instruction, None]
    reads: dict[Instruction, dict[_Index, float]] = field(default_factory=dict)
    work: float = 0.0
    strided: set[Instruction] = field(default_factory=set)
    kept: set[Instruction] = field(default_factory=set)
    hero: Instruction | None = None
    hero_work: float = 0.0
    reductions: int = 0

    @cached_property
    def time(self) -> float:
        traffic = _written(self.root)
        for operand, indices in self.reads.items():
            traffic += _read(operand, indices)
        work = max(self.hero_work, self.work - self.hero_work * _HIDDEN)
        return _START + max(traffic, work)


def is_fusible(inst: Instruction, effects: Effects) -> bool:
    """True for what can be in a loop fusion, as its root or as a producer."""
    shape = inst.shape
    if has_control_edges(inst) or not effects.is_function(inst):
        return False
    if not all(_is_plain(s) for s in (shape, *inst.operand_shapes)):
        return False
    if inst.opcode == "copy":  # one that changes nothing separates two buffers on purpose
        return shape != inst.operands[0].shape
    return (
        inst.spec.has(Trait.ELEMENTWISE)
        or inst.spec.moved is not None
        or inst.opcode in ("bitcast", "iota")
        or inst.opcode in _REDUCTIONS
        or inst.opcode in _CONTRACTIONS
    )


def is_contraction(inst: Instruction) -> bool:
    """True for sums of products, which kernels of their own compute."""
    return inst.opcode in _CONTRACTIONS


def is_free(inst: Instruction) -> bool:
    """True for what costs nothing to evaluate in each kernel that needs it."""
    return inst.opcode in _FREE and isinstance(inst.shape, ArrayShape)


def is_scalar_constant(inst: Instruction) -> bool:
    """True for a constant of one element."""
    return inst.opcode == "constant" and isinstance(inst.shape, ArrayShape) and inst.shape.is_scalar


def _is_plain(shape: Shape) -> bool:
    """True for arrays of static shape in the default memory."""
    for _, leaf in shape.leaves():
        if not isinstance(leaf, ArrayShape) or leaf.is_dynamic:
            return False
        if leaf.layout is not None and leaf.layout.memory_space:
            return False
    return True


def kernel_of(inst: Instruction) -> Kernel:
    """Return the kernel of one fusible instruction."""
    kernel = Kernel(inst, {inst: None})
    cost = cost_of_instruction(inst)
    kernel.work = cost.operations * _OPERATION + cost.transcendentals * _TRANSCENDENTAL
    kernel.reductions = inst.opcode in _REDUCTIONS
    total = float(elements(inst))
    for n, operand in enumerate(inst.operands):
        index: _Index = () if _keeps_index(inst) or elements(operand) == 1 else (inst,)
        count = 1.0 if elements(operand) == 1 else total * _evaluations(inst, n)
        at = kernel.reads.setdefault(operand, {})
        at[index] = at.get(index, 0.0) + count if index else count
    if inst.opcode in _CONTRACTIONS:
        kernel.hero, kernel.hero_work = inst, kernel.work
        kernel.strided.update(inst.operands)
    if inst.opcode == "dynamic-update-slice":
        kernel.kept.add(inst.operands[0])
    if _is_long_concatenation(inst):
        kernel.kept.update(inst.operands)
    return kernel


def elements(inst: Instruction) -> int:
    """Return the number of elements of a value, those of all leaves of a tuple."""
    shape = inst.shape
    if isinstance(shape, ArrayShape):
        return shape.num_elements
    return sum(s.num_elements for _, s in inst.shape.leaves() if isinstance(s, ArrayShape))


def _bytes(inst: Instruction) -> int:
    shape = inst.shape
    if isinstance(shape, ArrayShape):
        return shape.byte_size
    return sum(s.byte_size for _, s in inst.shape.leaves() if isinstance(s, ArrayShape))


def _written(root: Instruction) -> float:
    return _bytes(root.operands[1] if root.opcode == "dynamic-update-slice" else root)


def _read(operand: Instruction, indices: dict[_Index, float]) -> float:
    size = _bytes(operand)
    return min(1.0, sum(indices.values()) / max(1, elements(operand))) * size


def _keeps_index(inst: Instruction) -> bool:
    """True when each element is computed from the operands' elements at the same place."""
    if inst.opcode == "copy":
        return True
    if inst.opcode == "reshape":
        return is_bitcast(inst)
    return inst.spec.has(Trait.ELEMENTWISE) and isinstance(inst.shape, ArrayShape)


def _evaluations(inst: Instruction, n: int) -> float:
    """Return how many elements of an operand an element of the result needs on average."""
    total, operand = max(1, elements(inst)), elements(inst.operands[n])
    match inst.opcode:
        case "pad" | "concatenate":
            return operand / total
        case "reduce" | "reduce-window" | "dot" | "convolution":
            return max(1.0, operand / total)
        case "dynamic-update-slice":
            return 0.0 if n == 0 else operand / total
        case "gather":
            return 1.0 if n == 0 else operand / total
    return 1.0


def _is_long_concatenation(inst: Instruction) -> bool:
    """True for what is better done by copying each operand: many of them, or long rows."""
    if inst.opcode != "concatenate":
        return False
    shape = inst.array_shape
    if len(inst.operands) > _MAX_CONCATENATED:
        return True
    if shape.rank <= 1 or shape.byte_size < _MIN_CONCATENATED_BYTES:
        return False
    (dim,) = inst.dimensions
    minor = shape.layout.minor_to_major[0] if shape.layout is not None else shape.rank - 1
    row = shape.dims[dim] * shape.element_type.bits // 8
    return dim == minor and row >= _MIN_ROW_BYTES


# --- fusing -------------------------------------------------------------------------------------


def can_take(consumer: Kernel, producer: Kernel) -> bool:
    """Return whether a producer may be evaluated inside a consumer that reads it."""
    p, indices = producer.root, consumer.reads[producer.root]
    if not isinstance(p.shape, ArrayShape) or p in consumer.kept:
        return False
    if p.opcode in ("constant", "dynamic-update-slice") or _is_long_concatenation(p):
        return False
    if p in consumer.strided and not _changes_strides(producer):
        return False
    if producer.hero is not None and not _is_epilogue(consumer, p, indices):
        return False
    if consumer.reductions + producer.reductions > _MAX_REDUCTIONS and producer.reductions:
        return False
    if len(consumer.members) + len(producer.members) > MAX_MEMBERS:
        return False
    operands = len(consumer.reads.keys() | producer.reads.keys()) - 1
    if operands > max(_MAX_OPERANDS, len(consumer.reads)):
        return False
    return len(indices) <= _MAX_INDICES


def _changes_strides(kernel: Kernel) -> bool:
    """True for memory seen at other strides or as a wider type: contractions read at any."""
    return all(
        m.spec.has(Trait.VIEW) or m.opcode == "bitcast" or (m.opcode == "convert" and _widens(m))
        for m in kernel.members
    )


def _widens(convert: Instruction) -> bool:
    before, after = convert.operands[0].array_shape, convert.array_shape
    old, new = before.element_type, after.element_type
    return old.is_float and new.is_float and new.bits > old.bits


def _is_epilogue(consumer: Kernel, hero: Instruction, indices: dict[_Index, float]) -> bool:
    """True when a kernel does no more than compute on each element of a contraction."""
    root = consumer.root
    if consumer.hero is not None or consumer.reductions or list(indices) != [()]:
        return False
    if root.opcode == "dynamic-update-slice" or not isinstance(root.shape, ArrayShape):
        return False
    return elements(root) == elements(hero)


def repeats(consumers: list[Kernel], producer: Kernel) -> bool:
    """Return whether fusing evaluates anything of a producer more often than alone."""
    p = producer.root
    evaluated = sum(sum(c.reads[p].values()) for c in consumers)
    return evaluated > elements(p) and len(consumers) + elements(p) > 2


def is_cheap(producer: Kernel) -> bool:
    """True for what may be evaluated several times."""
    return producer.work <= _CHEAP * max(1, elements(producer.root)) and producer.hero is None


def merged(consumer: Kernel, producer: Kernel) -> Kernel:
    """Return a kernel that evaluates a producer where it is read."""
    p, size = producer.root, max(1, elements(producer.root))
    reads = {operand: dict(at) for operand, at in consumer.reads.items() if operand is not p}
    work = consumer.work
    for index, count in consumer.reads[p].items():
        share = count / size
        work += producer.work * share
        for operand, places in producer.reads.items():
            at = reads.setdefault(operand, {})
            for place, inner in places.items():
                if elements(operand) == 1:
                    at[()] = 1.0
                else:
                    at[index + place] = max(at.get(index + place, 0.0), inner * share)
    strided = consumer.strided | producer.strided
    if p in strided:
        strided |= producer.reads.keys()
    return Kernel(
        consumer.root,
        consumer.members | producer.members,
        reads,
        work,
        strided - {p},
        consumer.kept | producer.kept,
        consumer.hero or producer.hero,
        consumer.hero_work or producer.hero_work,
        consumer.reductions + producer.reductions,
    )
