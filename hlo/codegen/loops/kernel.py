"""One kernel: a native function that computes one stored value from others.

The signature is `void k(buffers..., scalars..., i64 begin, i64 end)`; the range is a chunk of the
kernel's outermost loop, so that the target can divide it. Kernels of equal structure are emitted
once: the key has everything that the code depends on, so that a second one is not even emitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.codegen.llvm import Builder, Index, ModuleBuilder, Val
from hlo.codegen.loops.address import (
    Indices,
    load,
    num_positions,
    store,
    store_in_order,
    store_position,
    store_prefix,
)
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.codegen.targets.base import Extent, LlvmTarget, Plan, Target
from hlo.ir import Computation, Instruction
from hlo.values.layout import element_bits, physical_dims, physical_elements
from hlo.values.layout.plain import loop_order
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape


@dataclass
class Inputs:
    """The inputs of a kernel: leaves of its fused operands, mapped to parameters.

    leaves: instructions that are loaded or passed as scalars, in the order of first visit.
    buffer_of: the number of the buffer parameter of an array leaf. Two leaves in the same memory
    have the same number, and one that is overwritten in place has the output's.
    """

    leaves: list[Instruction]
    buffer_of: dict[Instruction, int]
    scalars: list[Instruction]


# The turn of a loop that costs less is over in some hundred cycles, in rough scalar operations.
LIGHT_COST = 400


class Kernel:
    """The context of a kernel emitter.

    is_light: some loop around calls may cost less than `LIGHT_COST` a turn.
    """

    def __init__(
        self,
        module: ModuleBuilder,
        inst: Instruction,
        roles: Mapping[Instruction, Role],
        inputs: Inputs,
        target: LlvmTarget,
    ) -> None:
        self.b = Builder(module)
        self.b.vector_bits = target.vector_bits if target.has_vectors else 0
        self.inst = inst
        self.roles = roles
        self.inputs = inputs
        self.elements = ElementEmitter(self.b, roles, self._load)
        self.begin, self.end = "%begin", "%end"
        self.outputs: list[str] = []
        self.scratch: list[str] = []
        self.tables: list[str] = []
        self.target = target
        self.is_light = True
        # Whether threads read from scratch memory what others have written in the same launch.
        self.meets = False

    @property
    def shape(self) -> ArrayShape:
        """The shape of the (single) result."""
        return self.inst.array_shape

    def pointer(self, inst: Instruction) -> str:
        """Return the address of an operand that is in memory."""
        return f"%buf{self.inputs.buffer_of[inst]}"

    def scalar(self, inst: Instruction) -> Value:
        """Return an operand that is a scalar of the entry function."""
        number = self.inputs.scalars.index(inst)
        return scalar_parameter(inst, number)

    def store(self, value: Value, indices: Indices, output: int = 0) -> None:
        """Store an element of a result."""
        shape = self.inst.shape
        leaf = shape.at((output,)) if shape.is_tuple else shape
        assert isinstance(leaf, ArrayShape)
        store(self.b, leaf, value, self.outputs[output], indices)

    def _load(self, inst: Instruction, indices: Indices) -> Value:
        if inst not in self.inputs.buffer_of:
            return self.scalar(inst)
        return load(self.b, inst.array_shape, self.pointer(inst), indices)


def slot_of(k: Kernel, iterations: int) -> Index:
    """Return the index of the workspace slot for a kernel's chunk.

    Chunks begin at multiples of at least an equal part of all iterations, so no two have the same
    slot.
    """
    return k.b.udiv(k.b.mul(k.begin, k.target.slots(iterations)), max(1, iterations))


def scalar_parameter(inst: Instruction, number: int) -> Value:
    """Return the parameters for a captured scalar."""
    et = inst.array_shape.element_type
    t = scalar.ssa_type(et)
    if et.is_complex:
        return Cplx(Val(t, f"%s{number}r"), Val(t, f"%s{number}i"))
    return Val(t, f"%s{number}")


@dataclass(frozen=True)
class Structure:
    """What a kernel computes from its parameters.

    key: equal for kernels that compute the same. numbers: the names of the instructions in it.
    """

    key: str
    numbers: Mapping[Instruction, str]


def structure_of(inst: Instruction, inputs: Inputs) -> Structure:
    """Return what the kernel of an instruction computes."""
    number: dict[Instruction, str] = {}
    for leaf in inputs.leaves:
        place = inputs.buffer_of.get(leaf)
        where = f"b{place}" if place is not None else f"s{inputs.scalars.index(leaf)}"
        number[leaf] = f"{where}:{leaf.shape}"
    parts: list[str] = []

    def visit(node: Instruction) -> str:
        """Write a node's line and return its number. Fusion depth is bounded."""
        if node not in number:
            operands = ",".join(visit(o) for o in node.operands)
            parts.append(f"{node.opcode}({operands}){node.shape}{attributes_key(node)}")
            number[node] = f"n{len(parts)}"
        return number[node]

    visit(inst)
    return Structure(";".join(parts), number)


def attributes_key(inst: Instruction) -> str:
    """Return a key that is equal for equal attributes."""
    return ",".join(f"{k}={_value_key(v)}" for k, v in inst.attrs.items() if v is not None)


def _value_key(value: object) -> str:
    if isinstance(value, Computation):
        return computation_key(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_value_key, value))})"
    if isinstance(value, Literal):
        arrays = [value.value] if not isinstance(value.value, tuple) else value.value
        return ",".join(f"{a.dtype}{a.shape}{a.tobytes().hex()}" for a in arrays)
    return repr(value)


def computation_key(comp: Computation) -> str:
    """Return a key that is equal for equivalent computations."""
    number = {i: str(n) for n, i in enumerate(comp.in_order())}
    return "{" + ";".join(
        f"{i.opcode}({','.join(number[o] for o in i.operands)}){i.shape}{attributes_key(i)}"
        for i in number
    ) + f"->{number[comp.root]}" + "}"  # fmt: skip


# --- loops --------------------------------------------------------------------------------------


def loop_nest(
    b: Builder, bounds: Sequence[tuple[Index, Index]], body: Callable[[tuple[str, ...]], None]
) -> None:
    """Emit the body for every index tuple within the bounds, the last one fastest."""

    def level(at: int, indices: tuple[str, ...]) -> None:
        if at == len(bounds):
            body(indices)
            return
        with b.loop(*bounds[at]) as i:
            level(at + 1, (*indices, i))

    level(0, ())


# Emits a loop: `(builder, bounds, body)`.
InnerLoop = Callable[[Builder, tuple[Index, Index], Callable[[str], None]], None]


def plain_loop(b: Builder, bounds: tuple[Index, Index], body: Callable[[str], None]) -> None:
    """Emit a loop over indices within bounds whose iterations are independent."""
    with b.loop(*bounds, folded=True) as i:
        body(i)


def over_elements(
    k: Kernel,
    shape: ArrayShape,
    body: Callable[[Indices], None],
    merged: Sequence[bool] | None = None,
    innermost: InnerLoop = plain_loop,
) -> Extent:
    """Loop over the elements of a shape in memory order, over a chunk of the outermost loop.

    Dimensions of size one have no loop. merged: for each adjacent pair of the rest, in memory
    order, whether they may be collapsed into one loop (see `collapse.collapsible`); by default
    none. innermost: emits the innermost loop.
    """
    b = k.b
    order = loop_order(shape)
    if not order:
        with b.loop(k.begin, k.end):
            body((0,) * shape.rank)
        return Extent(1)
    groups = grouped(order, merged or [False] * (len(order) - 1))
    sizes = [math.prod(shape.dims[d] for d in g) for g in groups]
    # The leading loops are collapsed into one, which is divided.
    lead, iterations = 1, sizes[0]
    while iterations < k.target.wanted_iterations and lead < len(groups) - 1:
        iterations *= sizes[lead]
        lead += 1

    def run(found: tuple[str, ...]) -> None:
        first = split_index(b, found[0], sizes[:lead])
        body(indices_of(b, shape, groups, [*first, *found[1:]]))

    *outer, last = [(k.begin, k.end), *((0, n) for n in sizes[lead:])]
    loop_nest(b, outer, lambda at: innermost(b, last, lambda i: run((*at, i))))
    return Extent(iterations, shape.num_elements / max(iterations, 1))


def grouped(order: Sequence[int], merged: Sequence[bool]) -> list[list[int]]:
    """Return the dimensions of each loop."""
    groups = [[order[0]]]
    for d, is_merged in zip(order[1:], merged, strict=True):
        if is_merged:
            groups[-1].append(d)
        else:
            groups.append([d])
    return groups


def indices_of(
    b: Builder, shape: ArrayShape, groups: Sequence[Sequence[int]], found: Sequence[Index]
) -> Indices:
    """Return the indices of the element at the current iteration of loops over groups."""
    indices: list[Index] = [0] * shape.rank
    for group, at in zip(groups, found, strict=True):
        parts = split_index(b, at, [shape.dims[d] for d in group])
        for d, i in zip(group, parts, strict=True):
            indices[d] = i
    return tuple(indices)


def split_index(b: Builder, at: Index, sizes: Sequence[int]) -> list[Index]:
    """Return the indices of a row-major array of `sizes` at a linear index."""
    parts: list[Index] = []
    for n in reversed(sizes[1:]):
        parts.append(b.urem(at, n))
        at = b.udiv(at, n)
    return [at, *reversed(parts)]


KernelEmitter = Callable[[Kernel], Extent]


Planner = Callable[[Instruction, Mapping[Instruction, Role], Target], Plan]
PLANNERS: dict[str, Planner] = {}


def kernel(*opcodes: str) -> Callable[[KernelEmitter], KernelEmitter]:
    """Register the emitter of opcodes that are a single kernel."""

    def add(emitter: KernelEmitter) -> KernelEmitter:
        planner(*opcodes)(lambda inst, roles, target: Plan((emitter,)))
        return emitter

    return add


def planner(*opcodes: str) -> Callable[[Planner], Planner]:
    """Register a function that chooses the kernels of opcodes by shapes and target."""

    def add(plan: Planner) -> Planner:
        for opcode in opcodes:
            assert opcode not in PLANNERS, opcode
            PLANNERS[opcode] = plan
        return plan

    return add


@kernel("copy")
def copy_to_layout(k: Kernel) -> Extent:
    """Write an array in a layout with tiles, padding, or several elements in a byte."""
    (source,) = k.inst.operands
    shape = k.shape
    assert shape.layout is not None
    prefix = shape.layout.dynamic_prefix_bytes
    count = num_positions(shape)
    if count and not prefix and element_bits(shape) >= 8 and not _tail(shape):
        return _in_order(k, source)
    # The prefix is written with the first position, so that only one chunk does it.
    with k.b.loop(k.begin, k.end) as at:
        if prefix:
            with k.b.when(k.b.compare("eq", at, 0)):
                store_prefix(k.b, shape, k.outputs[0])
        if count:
            store_position(k.b, shape, k.outputs[0], at, lambda i: k.elements.at(source, i))
    return Extent(max(count, 1), 4.0)


def _tail(shape: ArrayShape) -> int:
    """Return the number of padding elements after the last tile."""
    return physical_elements(shape) - math.prod(physical_dims(shape))


# The inner loops have at least so many iterations.
_INNER_PLACES = 32


def _in_order(k: Kernel, source: Instruction) -> Extent:
    """Write an array with whole-byte elements, looping over the physical dimensions."""
    b, dims = k.b, physical_dims(k.shape)
    inner = len(dims)
    while inner and math.prod(dims[inner:]) < _INNER_PLACES:
        inner -= 1

    def element(at: Indices) -> Value:
        return k.elements.at(source, at)

    with b.loop(k.begin, k.end) as number:
        first = split_index(b, number, dims[:inner]) if inner else []
        loop_nest(
            b, [(0, n) for n in dims[inner:]],
            lambda rest: store_in_order(b, k.shape, k.outputs[0], [*first, *rest], element),
        )  # fmt: skip
    return Extent(math.prod(dims[:inner]), 4.0 * math.prod(dims[inner:]))
