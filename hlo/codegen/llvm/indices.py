"""Arithmetic on indices, and addresses: what is known is computed here, sums with it come last.

An index that is another one and a known number is remembered as such. Sums, products and addresses
are of the other one, and the number is added at the end, where the machine adds it in the address
of an access: all elements at known distances have one address in common, which is computed once.
"""

from __future__ import annotations

from hlo.codegen.llvm.module import ModuleBuilder
from hlo.codegen.llvm.values import FALSE, TRUE, Index, Val, i64
from hlo.codegen.llvm.writer import Writer
from hlo.llvm import Binary, GetElementPtr, byte_size


class IndexWriter(Writer):
    """Writes the indices and addresses of one function."""

    def __init__(self, module: ModuleBuilder) -> None:
        super().__init__(module)
        # What index values were made from: a product (x, n) by its name, x's own quotient (m, n) by
        # (x, n), a remainder (m, n) by its name, a sum (x, n) with a known number n by its name.
        self._products: dict[str, tuple[str, int]] = {}
        self._quotients: dict[tuple[str, int], tuple[str, int]] = {}
        self._remainders: dict[str, tuple[str, int]] = {}
        self._sums: dict[str, tuple[str, int]] = {}
        # Addresses that lie so many bytes after another, by name.
        self._offsets: dict[str, tuple[str, int]] = {}

    # --- index arithmetic -----------------------------------------------------------------------

    def _index(self, opcode: str, flags: str, a: Index, b: Index) -> str:
        return self.op("i64", Binary(opcode, flags, "i64", (str(a), str(b)))).name

    def add(self, a: Index, b: Index) -> Index:
        """Return a + b without overflow."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        if isinstance(a, int):
            a, b = b, a
        assert isinstance(a, str)
        x, m = self._sums.get(a, (a, 0))
        if isinstance(b, int):
            return self._sum(x, m + b)
        # (m / n) * n + m % n == m: a merged loop's index is put together again.
        whole = self._quotients.get(self._products.get(a, ("", 0)))
        if whole is not None and self._remainders.get(b) == whole:
            return whole[0]
        y, n = self._sums.get(b, (b, 0))
        if m or n:
            return self.add(self.add(x, y), m + n)
        return self._index("add", "nsw", a, b)

    def _sum(self, x: str, n: int) -> str:
        """Return x + n, where x is no such sum."""
        if not n:
            return x
        name = self._index("add", "nsw", x, n)
        self._sums[name] = x, n
        return name

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(b, int):
            return self.add(a, -b)
        return self._index("sub", "nsw", a, b)

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        if b == 1:
            return a
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, str) and isinstance(b, int):
            x, m = self._sums.get(a, (a, 0))
            if m:
                return self.add(self.mul(x, b), m * b)
            name = self._index("mul", "nsw", a, b)
            self._products[name] = (a, b)
            return name
        return self._index("mul", "nsw", a, b)

    def udiv(self, a: Index, b: int) -> Index:
        """Return a // b for a >= 0 and a known b > 0."""
        if b == 1:
            return a
        if isinstance(a, int):
            return a // b
        name = self._index("udiv", "", a, b)
        self._quotients[name, b] = (a, b)
        return name

    def urem(self, a: Index, b: int) -> Index:
        """Return a % b for a >= 0 and a known b > 0."""
        if b == 1:
            return 0
        if isinstance(a, int):
            return a % b
        name = self._index("urem", "", a, b)
        self._remainders[name] = (a, b)
        return name

    def minimum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.intrinsic("smin", "i64", [i64(a), i64(b)]).name

    def maximum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.intrinsic("smax", "i64", [i64(a), i64(b)]).name

    def compare(self, predicate: str, a: Index, b: Index) -> Val:
        """Return the i1 of an integer comparison (`slt`, `eq`, `ult`, ...)."""
        if isinstance(a, int) and isinstance(b, int):
            known = {
                "eq": a == b, "ne": a != b,
                "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b,
            }  # fmt: skip
            if predicate in known:
                return TRUE if known[predicate] else FALSE
        return self.icmp(predicate, i64(a), b)

    # --- memory ---------------------------------------------------------------------------------

    def field_address(self, type_: str, base: str, *indices: Val) -> str:
        """Return the address of what indices lead to in a struct of a type at `base`."""
        types = ("ptr", *(x.type for x in indices))
        operation = GetElementPtr("", type_, types, (base, *(x.name for x in indices)))
        return self.effect("ptr", operation).name

    def address(self, base: str, offset: int) -> str:
        """Return the address so many bytes after a base."""
        operation = GetElementPtr("inbounds", "i8", ("ptr", "i64"), (base, str(offset)))
        return self.effect("ptr", operation).name

    def element_address(self, base: str, type_: str, index: Index, width: int = 64) -> str:
        """Return the address of element `index` of an array of `type_` at `base`.

        width: of the index, in bits.
        """
        if index == 0:
            return base
        size = byte_size(type_)
        root, distance = self.root_of(base) if size else (base, 0)
        if isinstance(index, str):
            index, extra = self._sums.get(index, (index, 0)) if size else (index, 0)
            distance += extra * size
            if distance:
                # What the number is added to may lie outside of the array.
                return self._after(self._element(root, type_, index, width, ""), distance)
        elif distance:
            return self._after(root, distance + index * size)
        address = self._element(root, type_, index, width, "inbounds")
        if isinstance(index, int) and size:
            self._offsets[address] = root, index * size
        return address

    def root_of(self, address: str) -> tuple[str, int]:
        """Return what an address is a known number of bytes after, and the number."""
        return self._offsets.get(address, (address, 0))

    def hidden(self, address: str) -> str:
        """Return an address of which LLVM's analysis of loops does not see how it was made."""
        if address not in self.bases:
            return address
        found = self.intrinsic("strip.invariant.group", "ptr", [Val("ptr", address)]).name
        self.bases[found] = address
        return found

    def _element(self, base: str, type_: str, index: Index, width: int, flags: str) -> str:
        operation = GetElementPtr(flags, type_, ("ptr", f"i{width}"), (base, str(index)))
        address = self.op("ptr", operation).name
        self.bases[address] = base
        return address

    def _after(self, root: str, distance: int) -> str:
        """Return the address so many bytes after one that is not such an address itself."""
        if not distance:
            return root
        address = self._element(root, "i8", distance, 64, "")
        self._offsets[address] = root, distance
        return address
