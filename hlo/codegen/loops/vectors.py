"""Vectors in shape-independent functions: loads and stores, shuffles, conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hlo.codegen.llvm import FALSE, Builder, Index, ModuleBuilder, Val, i32, i64, int_const, ptr
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Target
from hlo.llvm import Function, Origin, as_vector, overload, vector_type
from hlo.values.types import ElementType


def vector_constant(type_: str, numbers: Sequence[int]) -> Val:
    """Return a constant vector."""
    return Val(vector_type(len(numbers), type_), f"<{', '.join(f'{type_} {n}' for n in numbers)}>")


def vector_at(b: Builder, vector: str, base: str, element: str, at: Index) -> Val:
    """Load a vector of elements, starting at index `at`."""
    address = b.element_address(base, element, at)
    align = {"float": 4, "double": 8}.get(element) or int(element[1:]) // 8
    return b.load(vector, address, align=align)


def lanes_below(b: Builder, first: int, count: str, lanes: int, type_: str = "i64") -> Val:
    """Return which lanes, numbered from `first`, are below a count. type_: to compare them in."""
    numbers = vector_constant(type_, range(first, first + lanes))
    limit = i64(count) if type_ == "i64" else b.cast("trunc", i64(count), type_)
    return b.icmp("slt", numbers, b.splat(limit, lanes))


def masked_load(b: Builder, vector: str, address: str, mask: Val, align: int) -> Val:
    """Load the lanes set in a mask; the others are zero. align: of the address, in bytes."""
    name = f"llvm.masked.load.{overload(vector)}.p0"
    b.module.declare(name, vector, ["ptr", mask.type, vector])
    return b.call(name, [ptr(address, align), mask, Val(vector, "zeroinitializer")], vector)


def masked_store(b: Builder, value: Val, address: str, mask: Val, align: int) -> None:
    """Store the lanes set in a mask. align: of the address, in bytes."""
    name = f"llvm.masked.store.{overload(value.type)}.p0"
    b.module.declare(name, "void", [value.type, "ptr", mask.type])
    b.call_void(name, [value, ptr(address, align), mask])


def lanes_of(target: Target, et: ElementType) -> int:
    """Return the number of lanes of a vector register."""
    return max(1, target.vector_bits // max(et.bits, 8))


def define(
    module: ModuleBuilder,
    name: str,
    parameters: str,
    write: Callable[[Builder], None],
    attributes: Sequence[str] = (),
) -> str:
    """Add an internal function to a module, unless it exists; returns its name.

    name: what the function does depends on nothing else, so that modules share its code.
    attributes: of the function, besides the common ones.
    """
    if not module.has(name) and module.reuse(name, f"function {name}({parameters})") is None:
        # Added before its body is emitted: this fixes the order of functions, and ends recursion.
        function = module.add(
            Function(
                name, [parameters], ("noinline", "nounwind", *attributes), linkage="internal",
                is_general=True, origin=Origin(f"function {name}({parameters})"),
            )
        )  # fmt: skip
        b = Builder(module)
        b.keeps_indices = True
        write(b)
        b.ret()
        b.finish(function)
    return name


# --- conversion ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Types:
    """A chain of element types, each converted to the next."""

    chain: tuple[ElementType, ...]

    @staticmethod
    def of(*types: ElementType) -> Types:
        """Return the chain of these types, without repetitions."""
        return Types((*(a for a, b in pairwise(types) if a is not b), types[-1]))

    def __str__(self) -> str:
        return ".".join(t.name for t in self.chain)

    def load(self, b: Builder, address: str, at: Index) -> scalar.Value:
        """Return an element as the last type."""
        return self.through(b, scalar.load(b, self.chain[0], address, at))

    def through(self, b: Builder, value: scalar.Value) -> scalar.Value:
        """Convert an element of the first type to each of the others in turn."""
        for source, target in pairwise(self.chain):
            value = scalar.convert(b, value, source, target)
        return value

    def store(self, b: Builder, value: scalar.Value, address: str, at: Index) -> None:
        scalar.store(b, self.chain[-1], value, address, at)

    def result_address(self, b: Builder, base: str, at: Index) -> str:
        """Return the address of an element of the last type."""
        last = self.chain[-1]
        at = b.mul(at, 2) if last.is_complex else at
        return b.element_address(base, scalar.memory_type(last), at)

    def has_vectors(self, module: ModuleBuilder) -> bool:
        """True if `convert` supports the chain."""
        return all(_has_vector_form(module, a, b) for a, b in pairwise(self.chain)) and not any(
            t.is_complex for t in self.chain
        )

    def convert(self, b: Builder, raw: Val) -> Val:
        """Convert a vector from the first type, in its memory representation, to the last."""
        for source, target in pairwise(self.chain):
            raw = _convert_vector(b, raw, source, target)
        return raw


def _has_vector_form(module: ModuleBuilder, source: ElementType, target: ElementType) -> bool:
    if target.is_integer and target.bits >= 8:
        return source.is_integer or source.is_pred
    if target.name not in ("f32", "f64"):
        return False
    if source.name == "f16":
        return module.has_half_conversion
    return source.is_integer or source.is_pred or source.name in ("bf16", "f32", "f64")


def _convert_vector(b: Builder, raw: Val, source: ElementType, target: ElementType) -> Val:
    lanes = as_vector(raw.type).lanes

    def op(how: str, value: Val, element: str) -> Val:
        vector = vector_type(lanes, element)
        return b.cast(how, value, vector)

    want = scalar.memory_type(target)
    if source.is_pred:
        raw = b.icmp("ne", raw, "zeroinitializer")
        return op("zext" if target.is_integer else "uitofp", raw, want)
    if source.is_integer:
        s = "s" if source.is_signed else "u"
        if source.bits < 8:
            raw = op("trunc", raw, f"i{source.bits}")
        if target.is_float:
            return op(f"{s}itofp", raw, want)
        if source.bits == target.bits:
            return raw
        how = "trunc" if source.bits > target.bits else {"s": "sext", "u": "zext"}[s]
        return op(how, raw, want)
    if source.name == "bf16":
        wide = op("zext", raw, "i32")
        by = vector_constant("i32", [16] * lanes)
        raw = op("bitcast", b.binary("shl", wide, by), "float")
    elif source.name == "f16":
        raw = op("fpext", op("bitcast", raw, "half"), "float")
    have = as_vector(raw.type).element
    if have == want:
        return raw
    return op("fpext" if want == "double" else "fptrunc", raw, want)


def prefetch(b: Builder, address: str, *, to_write: bool = False) -> None:
    """Prefetch the cache line at an address, which need not be readable."""
    kind = "i32 immarg"
    b.module.declare("llvm.prefetch.p0", "void", ["ptr", kind, kind, kind])
    b.call_void("llvm.prefetch.p0", [ptr(address), i32(int(to_write)), i32(3), i32(1)])


def clear(b: Builder, address: str, size: Index) -> None:
    """Set so many bytes to zero."""
    b.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1 immarg"])
    b.call_void("llvm.memset.p0.i64", [ptr(address), int_const(8, 0), i64(size), FALSE])
