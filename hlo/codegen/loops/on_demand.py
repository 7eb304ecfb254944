"""Kernels whose result elements are computed independently from their index.

For operations with rare expensive cases (such as very large angles), the loop is emitted twice: a
fast version, and a general one for strips that contain such a case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hlo.analysis.fusion.accesses import TransposedRead, transposed_reads
from hlo.analysis.fusion.roles import Role
from hlo.codegen.llvm import Builder, Index, RareFlag
from hlo.codegen.loops.address import Indices
from hlo.codegen.loops.boundary import boundary_loop
from hlo.codegen.loops.collapse import collapsible, collapsible_reads
from hlo.codegen.loops.kernel import Kernel, over_elements
from hlo.codegen.loops.tiled_transpose import TiledLoops
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.native import NATIVE
from hlo.codegen.targets.base import Extent
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Each adds a hundred lines of code.
_MOST_TRANSPOSED = 4


def emit_on_demand(k: Kernel) -> Extent:
    """Emit a kernel whose result elements are computed independently from their index."""
    order = loop_order(k.shape)
    merged = collapsible(k.inst, k.roles, order)
    if any(is_rare(inst) for inst in _fused(k)):
        strips = _Strips(k)
        return over_elements(k, k.shape, strips.element, merged, strips.loop)

    def body(at: Indices) -> None:
        k.store(k.elements.compute(k.inst, at), at)

    transposed = _transposed(k, order)
    if transposed and (tiled := TiledLoops(k.shape, merged, transposed)).is_worthwhile:
        return tiled.run(k, body)
    return over_elements(k, k.shape, body, merged, boundary_loop(k, [k.inst], merged))


def emit_multi_output(k: Kernel) -> Extent:
    """Emit a kernel that computes several results element by element."""
    results = k.inst.operands
    shape = results[0].array_shape
    merged = collapsible_reads(results, k.roles, loop_order(shape))

    def body(at: Indices) -> None:
        # All loads precede the stores: a result may share the buffer of an operand.
        values = [k.elements.at(result, at) for result in results]
        for number, value in enumerate(values):
            k.store(value, at, number)

    return over_elements(k, shape, body, merged, boundary_loop(k, results, merged))


def _transposed(k: Kernel, order: Sequence[int]) -> list[TransposedRead]:
    """Return the arrays that the kernel reads in tiles."""
    found = [
        read
        for read in transposed_reads(k.inst, k.roles, order)
        if read.node in k.inputs.buffer_of
        and k.pointer(read.node) not in k.outputs
        and read.shape.element_type.byte_width <= 8
    ]
    return found[:_MOST_TRANSPOSED]


class _Strips:
    """A loop in strips: each with the fast code, and again with the general code if necessary.

    If the kernel overwrites an operand, the fast results are buffered until they are known to be
    right.
    """

    SIZE = 256

    def __init__(self, k: Kernel) -> None:
        self.k = k
        et = k.shape.element_type
        self.aside: str | None = None
        if any(f"%buf{n}" in k.outputs for n in k.inputs.buffer_of.values()):
            count = self.SIZE * (2 if et.is_complex else 1)
            self.aside = k.b.alloca(scalar.memory_type(et), count, align=64).name
        # Called by `element` with the position in the strip.
        self.act: Callable[[Indices], None] = self._store
        self.place: Index = 0

    def loop(self, b: Builder, bounds: tuple[Index, Index], body: Callable[[str], None]) -> None:
        first, end = bounds
        strips = b.udiv(b.add(b.sub(end, first), self.SIZE - 1), self.SIZE)
        with b.loop(0, strips) as strip:
            low = b.add(first, b.mul(strip, self.SIZE))
            high = b.minimum(b.add(low, self.SIZE), end)

            def run(act: Callable[[Indices], None]) -> None:
                self.act = act
                with b.loop(low, high, plain=b.is_careful) as i:
                    self.place = b.sub(i, low)
                    body(i)

            flag = b.rare_flag = RareFlag(b)
            run(self._keep if self.aside else self._store)
            b.rare_flag = None
            with b.when(flag.read(b)):
                b.is_careful = True
                run(self._store)
                b.is_careful = False
            if self.aside:
                with b.when(b.binary("xor", flag.read(b), "true")):
                    run(self._take)

    def element(self, at: Indices) -> None:
        self.act(at)

    def _store(self, at: Indices) -> None:
        self.k.store(self.k.elements.compute(self.k.inst, at), at)

    def _keep(self, at: Indices) -> None:
        k, et = self.k, self.k.shape.element_type
        assert self.aside is not None
        scalar.store(k.b, et, k.elements.compute(k.inst, at), self.aside, self.place)

    def _take(self, at: Indices) -> None:
        k, et = self.k, self.k.shape.element_type
        assert self.aside is not None
        k.store(scalar.load(k.b, et, self.aside, self.place), at)


def is_rare(inst: Instruction) -> bool:
    """True for an operation with rare expensive cases."""
    shape = inst.shape
    native = NATIVE.get(inst.opcode)
    return (
        native is not None
        and isinstance(shape, ArrayShape)
        and native.has_rare_cases(shape.element_type)
    )


def _fused(k: Kernel) -> Iterator[Instruction]:
    """Yield the instructions that a kernel computes, with those of functions that it applies."""
    seen: set[Instruction] = set()
    stack = [k.inst]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            for comp in node.called_computations:
                stack.extend(comp)
            stack.extend(o for o in node.operands if k.roles.get(o) is Role.FUSED)
