"""The sums of shares of k, added up."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.llvm import i64, ptr
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.loops.outlined import call_outlined
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Extent


@dataclass(frozen=True)
class AddShares:
    """Adds the sums of the shares of k, and stores them."""

    arithmetic: Arithmetic
    store: Types
    shares: int
    partial: int
    elements: int

    def __call__(self, k: Kernel) -> Extent:
        b, base = k.b, k.scratch[self.partial]
        chunk = 256
        k.is_light = False
        with b.loop(k.begin, k.end, plain=True) as part:
            first = b.mul(part, chunk)
            last = b.minimum(b.add(first, chunk), self.elements)
            arguments = {base: ptr(base), "%first": i64(first), "%last": i64(last)}
            call_outlined(k, arguments, lambda inner: self._add(inner, base))
        return Extent(-(-self.elements // chunk), chunk * self.shares / 8)

    def _add(self, k: Kernel, base: str) -> None:
        """Add some elements."""
        b, arithmetic, store = k.b, self.arithmetic, self.store
        with b.loop("%first", "%last", rolled=True) as at:
            values = []
            for share in range(self.shares):
                place = b.add(at, share * self.elements)
                address = b.element_address(base, arithmetic.type, place)
                values.append(b.load(arithmetic.type, address))
            total = values[0]
            for value in values[1:]:
                total = arithmetic.add(b, total, value)
            value = scalar.from_memory(b, arithmetic.total, total)
            store.store(b, store.through(b, value), k.outputs[0], at)
