"""Instructions as records. Each prints itself as LLVM IR.

What an instruction computes is an `Operation`, which is equal to another that computes the same;
an `Instruction` gives the result a name. Operands are what LLVM IR writes without the type: `%7`,
`@table`, `42`, `zeroinitializer`. Types are LLVM's: `i64`, `<8 x float>`.
"""

from __future__ import annotations

from typing import NamedTuple


def pointer_type(space: int) -> str:
    """Return the type of addresses in an address space."""
    return f"ptr addrspace({space})" if space else "ptr"


class Binary(NamedTuple):
    """An operation on two values of a type. flags: `nsw`, `contract`, ..., separated by spaces."""

    opcode: str
    flags: str
    type: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        opcode, flags, type_, (x, y) = self
        return f"{opcode} {flags} {type_} {x}, {y}" if flags else f"{opcode} {type_} {x}, {y}"


class Unary(NamedTuple):
    """`fneg` or `freeze`."""

    opcode: str
    type: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.opcode} {self.type} {self.operands[0]}"


class Compare(NamedTuple):
    """`icmp` or `fcmp`."""

    opcode: str
    predicate: str
    type: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        x, y = self.operands
        return f"{self.opcode} {self.predicate} {self.type} {x}, {y}"


class Select(NamedTuple):
    """One of two values of `type`, by a condition."""

    condition_type: str
    type: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        condition, x, y = self.operands
        return f"select {self.condition_type} {condition}, {self.type} {x}, {self.type} {y}"


class Cast(NamedTuple):
    """A conversion of a value of `type`."""

    opcode: str
    type: str
    to: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.opcode} {self.type} {self.operands[0]} to {self.to}"


class Call(NamedTuple):
    """A call of a function, by its name or an address.

    types: of the operands. overloads: the types that end the name of an intrinsic, `v8f32`.
    """

    flags: str
    type: str
    function: str
    types: tuple[str, ...]
    operands: tuple[str, ...]
    overloads: tuple[str, ...] = ()

    @property
    def callee(self) -> str:
        """The name of the function, empty where it is known by an address only."""
        name = ".".join([self.function, *self.overloads])
        return name[1:] if name[0] == "@" else ""

    def __str__(self) -> str:
        args = ", ".join([f"{t} {x}" for t, x in zip(self.types, self.operands, strict=True)])
        flags = f"{self.flags} " if self.flags else ""
        name = ".".join([self.function, *self.overloads])
        return f"call {flags}{self.type} {name}({args})"


class GetElementPtr(NamedTuple):
    """The address of an element of an array of `type`: operands are a base and indices."""

    flags: str
    type: str
    types: tuple[str, ...]
    operands: tuple[str, ...]

    def __str__(self) -> str:
        flags = f"{self.flags} " if self.flags else ""
        where = ", ".join([f"{t} {x}" for t, x in zip(self.types, self.operands, strict=True)])
        return f"getelementptr {flags}{self.type}, {where}"


class Load(NamedTuple):
    """A value from an address. align: in bytes, 0 for the type's own. space: of the address."""

    type: str
    operands: tuple[str, ...]
    align: int = 0
    is_invariant: bool = False
    space: int = 0

    def __str__(self) -> str:
        align = f", align {self.align}" if self.align else ""
        note = ", !invariant.load !{}" if self.is_invariant else ""
        return f"load {self.type}, {pointer_type(self.space)} {self.operands[0]}{align}{note}"


class Store(NamedTuple):
    """The operands are a value of `type` and an address. align: in bytes, 0 for the type's own.

    is_nontemporal: nobody reads it soon, so that it need not be in a cache. space: of the address.
    """

    type: str
    operands: tuple[str, ...]
    align: int = 0
    is_nontemporal: bool = False
    space: int = 0

    def __str__(self) -> str:
        value, address = self.operands
        align = f", align {self.align}" if self.align else ""
        note = ", !nontemporal !{i32 1}" if self.is_nontemporal else ""
        return f"store {self.type} {value}, {pointer_type(self.space)} {address}{align}{note}"


class AtomicUpdate(NamedTuple):
    """Combines a value with what memory holds, at once; the result is what it held before.

    opcode: `add`, `umax`, ... operands: the value, of `type`, and the address. scope: of the
    threads that see it as one operation, by LLVM's name. space: of the address.
    """

    opcode: str
    type: str
    operands: tuple[str, ...]
    scope: str
    space: int = 0

    def __str__(self) -> str:
        value, address = self.operands
        where = f"{pointer_type(self.space)} {address}"
        what = f"atomicrmw {self.opcode} {where}, {self.type} {value}"
        return f'{what} syncscope("{self.scope}") monotonic'


class Alloca(NamedTuple):
    """Memory on the stack for a number of values of a type. align: in bytes, 0 for the type's.

    space: the address space of the stack.
    """

    type: str
    number: int = 1
    align: int = 0
    space: int = 0
    operands: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = f", i64 {self.number}" if self.number != 1 else ""
        align = f", align {self.align}" if self.align else ""
        space = f", addrspace({self.space})" if self.space else ""
        return f"alloca {self.type}{count}{align}{space}"


class Fence(NamedTuple):
    """Orders accesses to memory. scope: among whom, `workgroup`. ordering: `release`, ..."""

    scope: str
    ordering: str
    operands: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f'fence syncscope("{self.scope}") {self.ordering}'


class ExtractElement(NamedTuple):
    """An element of a vector: operands are the vector and the element's number."""

    type: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        vector, lane = self.operands
        return f"extractelement {self.type} {vector}, i64 {lane}"


class ExtractValue(NamedTuple):
    """A member of a struct of a type, by its number."""

    type: str
    operands: tuple[str, ...]
    number: int

    def __str__(self) -> str:
        return f"extractvalue {self.type} {self.operands[0]}, {self.number}"


class InsertElement(NamedTuple):
    """A vector with another element: operands are the vector, the element, and its number."""

    type: str
    element_type: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        vector, value, lane = self.operands
        return f"insertelement {self.type} {vector}, {self.element_type} {value}, i64 {lane}"


class ShuffleVector(NamedTuple):
    """Elements of two vectors by number.

    lanes: how many the result has. mask: their numbers, none for the first element everywhere.
    """

    type: str
    operands: tuple[str, ...]
    lanes: int
    mask: tuple[int, ...] = ()

    def __str__(self) -> str:
        x, y = self.operands
        mask = f"<{', '.join(f'i32 {n}' for n in self.mask)}>" if self.mask else "zeroinitializer"
        return f"shufflevector {self.type} {x}, {self.type} {y}, <{self.lanes} x i32> {mask}"


class Phi(NamedTuple):
    """A value by the block that control comes from: for each operand, its label."""

    type: str
    operands: tuple[str, ...]
    labels: tuple[str, ...]

    def __str__(self) -> str:
        ways = [f"[ {x}, %{label} ]" for x, label in zip(self.operands, self.labels, strict=True)]
        return f"phi {self.type} {', '.join(ways)}"


class LoopMetadata(NamedTuple):
    """What LLVM is told about a loop.

    number: of the metadata node. is_final: LLVM's vectorizer and unroller leave it as it is.
    """

    number: int
    is_final: bool


class Branch(NamedTuple):
    """To a label, or by an operand, a condition, to one of two. loop: of which it is the end."""

    operands: tuple[str, ...]
    labels: tuple[str, ...]
    loop: LoopMetadata | None = None

    def __str__(self) -> str:
        where = ", ".join(
            [*(f"i1 {x}" for x in self.operands), *(f"label %{x}" for x in self.labels)]
        )
        return f"br {where}" + (f", !llvm.loop !{self.loop.number}" if self.loop else "")


class Switch(NamedTuple):
    """To the label with the number of the operand, to the last one for any other."""

    type: str
    operands: tuple[str, ...]
    labels: tuple[str, ...]

    def __str__(self) -> str:
        *labels, other = self.labels
        cases = " ".join(f"{self.type} {n}, label %{x}" for n, x in enumerate(labels))
        return f"switch {self.type} {self.operands[0]}, label %{other} [ {cases} ]"


class Return(NamedTuple):
    """The end of a function, with its result as the operand if it has one."""

    type: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"ret {self.type} {self.operands[0]}" if self.operands else "ret void"


Operation = (
    Binary | Unary | Compare | Select | Cast | Call | GetElementPtr | Load | Store | Alloca
    | AtomicUpdate | Fence | ExtractElement | ExtractValue | InsertElement | ShuffleVector | Phi
    | Branch | Switch | Return
)  # fmt: skip


class Instruction(NamedTuple):
    """An operation in a function.

    result: the name of its value, empty if it has none. debug: the number of the metadata node with
    its location in the HLO, 0 for none.
    """

    result: str
    operation: Operation
    debug: int = 0

    def __str__(self) -> str:
        result, operation, debug = self
        text = f"  {result} = {operation!s}" if result else f"  {operation!s}"
        return f"{text}, !dbg !{debug}" if debug else text


class Label(NamedTuple):
    """The beginning of a block."""

    name: str

    def __str__(self) -> str:
        return f"{self.name}:"


class Location(NamedTuple):
    """The line and column of the HLO that the instructions that follow are for."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"  ;@ {self.line} {self.column}"
