"""What a function's addresses are known to be: their address space, alignment, who writes there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property, reduce
from typing import NamedTuple

from hlo.codegen.llvm.alignment import MOST, additions, constant_multiple, multiple_of
from hlo.llvm import (
    Alloca,
    Binary,
    Call,
    Cast,
    Function,
    GetElementPtr,
    Instruction,
    LlvmModule,
    Operation,
    Phi,
    Select,
    Unary,
    pointer_type,
)

# The address space of a thread's own memory, of both makers' GPUs.
LOCAL = 5
# Leaves an address as it is; it is for optimizations that do not run here.
_IDENTITY = "@llvm.strip.invariant.group"
_SPACES = {pointer_type(space): space for space in range(LOCAL + 1)}
# Operations whose results are addresses or indices, and the types of those.
_TELLING = frozenset({Alloca, Binary, Call, Cast, GetElementPtr, Phi, Select, Unary})
_COUNTED = frozenset({"ptr", "i64", "i32"})
# How often a better guess of what loops carry is tried.
_ROUNDS = 3


class Pointer(NamedTuple):
    """What is known of an address.

    space: its address space, 0 where that is not known. align: a power of two that it is a multiple
    of. is_constant: nobody writes there while the kernel runs.
    """

    space: int = 0
    align: int = 1
    is_constant: bool = False

    def meet(self, other: Pointer) -> Pointer:
        """Return what is known of an address that is one of the two."""
        align = min(self.align, other.align)
        if self.space != other.space:
            return Pointer(0, align)
        return Pointer(self.space, align, self.is_constant and other.is_constant)


UNKNOWN = Pointer()


class Addresses:
    """The addresses of one function.

    places: those that are known to be in a space, with it, and whether what is there is constant.
    multiples: what addresses and integers are multiples of, where it is of more than 1. same:
    addresses that are others. phis: those of addresses and integers. calls: what functions are
    called with, the callee and what is known of each address.
    """

    def __init__(
        self, function: Function, parameters: Mapping[str, Pointer], module: LlvmModule
    ) -> None:
        """parameters: what is known of those that are addresses."""
        self._function, self._module = function, module
        self.places = {n: (p.space, p.is_constant) for n, p in parameters.items() if p.space}
        self.multiples = {n: p.align for n, p in parameters.items() if p.align > 1}
        for symbol in function.symbols & module.globals.keys():
            value = module.globals[symbol]
            self._note(f"@{symbol}", Pointer(value.space, value.align, value.is_constant))
        self.same: dict[str, str] = {}
        self.calls: list[tuple[str, list[Pointer]]] = []
        self.phis: list[tuple[str, Phi]] = []
        guesses: dict[str, Pointer] = {}
        for turn in itertools.count():
            wrong = self._learn(guesses)
            if not wrong:
                break
            guesses |= wrong if turn < _ROUNDS else dict.fromkeys(guesses, UNKNOWN)

    @cached_property
    def _sums(self) -> dict[str, tuple[str, str]]:
        return additions(self._function.body)

    # --- what is known ----------------------------------------------------------------------------

    def _learn(self, guesses: dict[str, Pointer]) -> dict[str, Pointer]:
        """Note what is known of each value, if guesses are true; returns better ones.

        guesses: of what loops carry. At first they go by what it is before the loop.
        """
        self.calls.clear()
        self.same.clear()
        self.phis.clear()
        for line in self._function.body:
            if type(line) is not Instruction or type(line.operation) not in _TELLING:
                continue
            name, operation = line.result, line.operation
            if type(operation) is Call:
                self._look_at_call(name, operation)
            elif type(operation) is Phi:
                if operation.type in _COUNTED:
                    self.phis.append((name, operation))
                    self._note(name, guesses.setdefault(name, self._guess(operation)))
            else:
                self._find(name, operation)
        wrong: dict[str, Pointer] = {}
        for name, phi in self.phis:
            found = reduce(Pointer.meet, map(self._of, phi.operands), guesses[name])
            if found != guesses[name]:
                wrong[name] = found
        return wrong

    def _of(self, operand: str) -> Pointer:
        """Return what is known of an operand."""
        space, is_constant = self.places.get(operand, (0, False))
        multiple = self.multiples.get(operand) or constant_multiple(operand)
        return Pointer(space, multiple, is_constant)

    def _note(self, name: str, found: Pointer) -> None:
        self._note_place(name, found.space, found.is_constant)
        self._note_multiple(name, found.align)

    def _note_place(self, name: str, space: int, is_constant: bool) -> None:
        if space:
            self.places[name] = space, is_constant
        else:
            self.places.pop(name, None)

    def _note_multiple(self, name: str, multiple: int) -> None:
        if multiple > 1:
            self.multiples[name] = multiple
        else:
            self.multiples.pop(name, None)

    def _guess(self, phi: Phi) -> Pointer:
        """Return what a loop carries, by what it begins with and the number that is added to it."""
        first, *others = phi.operands
        found = self._of(first)
        if phi.type == "ptr":
            return found
        steps = [constant_multiple(self._sums[x][1]) for x in others if x in self._sums]
        return found._replace(align=min(found.align, *steps, MOST))

    def _look_at_call(self, name: str, call: Call) -> None:
        if call.function == _IDENTITY:
            self.same[name] = call.operands[0]
            self._note(name, self._of(call.operands[0]))
        elif call.callee in self._module.functions:
            pairs = zip(call.types, call.operands, strict=True)
            self.calls.append((call.callee, [self._of(x) for t, x in pairs if t == "ptr"]))
        elif call.type in _COUNTED:
            self._note_multiple(name, multiple_of(call, self.multiples))

    def _find(self, name: str, operation: Operation) -> None:
        """Note what is known of a result."""
        match operation:
            case Alloca():
                self._note_place(name, LOCAL, False)
                return
            case Select(type="ptr", operands=values) | Unary(type="ptr", operands=values):
                self._note(name, reduce(Pointer.meet, map(self._of, values[-2:])))
                return
            case Cast("addrspacecast"):
                self._look_at_cast(name, operation)
                return
            case GetElementPtr(operands=(base, *_)):
                self._note_place(name, *self.places.get(base, (0, False)))
            case Binary(type=type_) | Select(type=type_) if type_ not in _COUNTED:
                return
        self._note_multiple(name, multiple_of(operation, self.multiples))

    def _look_at_cast(self, name: str, cast: Cast) -> None:
        """Note what is known of an address that is converted to another space, or a generic one."""
        (operand,) = cast.operands
        found = self._of(operand)
        if cast.to == "ptr":
            found = found._replace(space=_SPACES[cast.type])
        if cast.to in ("ptr", pointer_type(found.space)):
            self.same[name] = operand
        self._note(name, found)
