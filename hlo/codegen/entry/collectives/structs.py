"""The structs of `hlo/include/hlo_collectives.h` as LLVM types, and access to their fields."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Index, Val, i32, i64


@dataclass(frozen=True)
class Struct:
    """A struct: its fields in order, each a name and an LLVM type."""

    fields: tuple[tuple[str, str], ...]

    @property
    def type(self) -> str:
        """The literal struct type."""
        return "{ " + ", ".join(type_ for _, type_ in self.fields) + " }"

    @property
    def size(self) -> str:
        """The bytes that it takes, as a constant expression."""
        return f"ptrtoint (ptr getelementptr ({self.type}, ptr null, i64 1) to i64)"

    def address(self, b: Builder, base: str, name: str, element: Index = 0) -> str:
        """Return the address of a field of a struct, or of one of an array of structs."""
        at = next(n for n, (field, _) in enumerate(self.fields) if field == name)
        return b.field_address(self.type, base, i64(element), i32(at))

    def load(self, b: Builder, base: str, name: str, element: Index = 0) -> Val:
        """Return the value of a field."""
        return b.load(dict(self.fields)[name], self.address(b, base, name, element))

    def store(self, b: Builder, value: Val, base: str, name: str) -> None:
        """Set a field."""
        b.store(value, self.address(b, base, name))


SHAPE = Struct((("type", "i32"), ("rank", "i32"), ("dims", "ptr"), ("minor_to_major", "ptr")))
ARRAY = Struct(
    (
        ("shape", SHAPE.type), ("element_bytes", "i64"), ("count", "i64"), ("rows", "i64"),
        ("columns", "i64"), ("part", "i64"), ("reduction", "i32"), ("reserved", "i32"),
        ("reduce", "ptr"),
    )
)  # fmt: skip
COLLECTIVE = Struct(
    (
        ("size", "i64"), ("name", "ptr"), ("opcode", "ptr"), ("signature", "ptr"), ("kind", "i32"),
        ("number", "i32"), ("channel_id", "i64"), ("num_replicas", "i32"),
        ("num_partitions", "i32"), ("num_groups", "i64"), ("group_ends", "ptr"), ("devices", "ptr"),
        ("sources", "ptr"), ("has_parts", "i32"), ("has_dynamic_root", "i32"),
        ("num_operands", "i64"), ("operands", "ptr"), ("num_results", "i64"), ("results", "ptr"),
        ("combine", "ptr"), ("errors", "ptr"),
    )
)  # fmt: skip
CALL = Struct(
    (
        ("size", "i64"), ("context", "ptr"), ("op", "ptr"), ("operands", "ptr"), ("results", "ptr"),
        ("request", "ptr"), ("message", "ptr"), ("message_size", "i64"), ("device", "i64"),
    )
)  # fmt: skip
TABLE = Struct(
    (("size", "i64"), ("context", "ptr"), ("run", "ptr"), ("start", "ptr"), ("wait", "ptr"))
)
