"""What a PTX text says: a module of kernels and functions, of basic blocks of instructions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Reg(NamedTuple):
    """A register, `%r1`; its type is that of its declaration. `_` stands for no register."""

    name: str


# The carry of sums, which instructions write and read without naming it.
CARRY = Reg("%cc")


class Special(NamedTuple):
    """A register that the machine sets, `%tid.x`."""

    name: str


class Negated(NamedTuple):
    """A predicate register whose value is taken negated, `!%p1`."""

    reg: Reg


class Immediate(NamedTuple):
    """A number. bits: of an `int`, its value, which may be negative; of `f32` and `f64`, the bits
    of the floating-point number."""

    bits: int
    type: str = "int"


class Symbol(NamedTuple):
    """A name: of a variable, a parameter, a function or a label."""

    name: str


class Address(NamedTuple):
    """Memory at so many bytes from where a register or a variable says, `[%rd1+8]`.

    coordinates: of tensors, `[%rd1, {%r1, %r2}]`.
    """

    base: Reg | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


class Vector(NamedTuple):
    """Several operands as one: `{%r1, %r2}`, `%p1|%p2`, and the lists of a call."""

    elements: tuple[Operand, ...]


Operand = Reg | Special | Negated | Immediate | Symbol | Address | Vector


class Location(NamedTuple):
    """A place in the source that PTX was made of, as `.loc` says it."""

    file: str
    line: int


@dataclass(slots=True)
class Instruction:
    """One instruction: `@!%p1 ld.global.v4.f32 {...}, [...];`.

    opcode: `ld`. modifiers: `("global", "v4", "f32")`. guard: the register that says which
    threads do it, or nothing. line: in the PTX, from 1.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None = None
    guard_negated: bool = False
    line: int = 0
    location: Location | None = None

    @property
    def name(self) -> str:
        """Return the opcode with its modifiers, as PTX writes them."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def type(self) -> str:
        """Return the last modifier, the type of most instructions."""
        return self.modifiers[-1] if self.modifiers else ""


@dataclass(slots=True)
class BasicBlock:
    """Instructions that run one after the other; only the last may branch.

    label: or an empty text. successors: numbers of blocks of the function; of a branch with a
    guard, the target and then the next block.
    """

    label: str
    instructions: list[Instruction]
    successors: tuple[int, ...] = ()


class Variable(NamedTuple):
    """Memory with a name: a parameter, or a variable of a function or of the module.

    space: `param`, `shared`, `local`, `global` or `const`. size: in bytes, 0 if the launch says it.
    content: of the first bytes, the others are 0. addresses: (offset, symbol, bytes after it) of
    pointers in the content. type: of an element, `f32`.
    """

    name: str
    space: str
    size: int
    align: int
    content: bytes = b""
    addresses: tuple[tuple[int, str, int], ...] = ()
    type: str = ""


@dataclass(slots=True)
class Function:
    """A kernel, or a device function, with a body.

    results: where a device function leaves them. registers: names and types, `{"%r1": "b32"}`.
    variables: `.local` and `.shared` that are defined in it, and the `.param` of its calls. shared:
    variables of shared memory that it or what it calls names, of the module or of functions.
    labels: numbers of blocks. threads: the most of a block by `.maxntid` and `.reqntid`, or 0.
    """

    name: str
    is_kernel: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    shared: tuple[Variable, ...] = ()
    blocks: list[BasicBlock] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    threads: int = 0
    line: int = 0

    @property
    def local_bytes(self) -> int:
        """How much local memory a thread has for the variables, each aligned."""
        size = 0
        for variable in self.variables.values():
            if variable.space == "local":
                size = -(-size // variable.align) * variable.align + variable.size
        return size


@dataclass(slots=True)
class Module:
    """A PTX text. variables: those of the module, by name."""

    version: str
    target: str
    kernels: dict[str, Function]
    functions: dict[str, Function]
    variables: dict[str, Variable]


# Bytes of a value of a type, where memory holds it.
SIZES = {
    **dict.fromkeys(("b8", "u8", "s8", "pred"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2", "tf32"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 8),
    "b128": 16,
}
