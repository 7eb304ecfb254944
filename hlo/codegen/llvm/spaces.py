"""What is known of the addresses in kernels of GPUs: address space, alignment, who writes there.

Kernels are written with generic addresses. Here they get the address space that they are in, loads
and stores their alignment, and loads of what nobody writes are marked. LLVM's own passes for that
are among those that take longest, and none of them runs where its code generation does not
optimize.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from hlo.codegen.llvm.alignment import MOST, constant_multiple, multiple_of
from hlo.llvm import (
    Alloca,
    AtomicUpdate,
    Binary,
    Body,
    Branch,
    Call,
    Cast,
    ExtractElement,
    ExtractValue,
    Function,
    GetElementPtr,
    Instruction,
    Label,
    Line,
    LlvmModule,
    Load,
    Operation,
    Phi,
    Select,
    ShuffleVector,
    Store,
    Switch,
    Unary,
    byte_size,
    pointer_type,
)

# Address spaces of both makers' GPUs: global memory, and a thread's own.
_GLOBAL, _LOCAL = 1, 5
# The widest access of a thread, in bytes.
_WIDEST = 16
# Leaves an address as it is; it is for optimizations that do not run here.
_IDENTITY = "@llvm.strip.invariant.group"
_IN_SPACE = re.compile(r"addrspace\((\d+)\)")
_ALIGNED = re.compile(r"\balign (\d+)")
# Operations whose results are addresses or indices, and the types of those.
_TELLING = frozenset({Alloca, Binary, Call, Cast, GetElementPtr, Phi, Select, Unary})
_COUNTED = frozenset({"ptr", "i64", "i32"})
# Operations that have no address among their operands, whatever their type.
_WITHOUT = frozenset({Binary, ExtractElement, ExtractValue, ShuffleVector})
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


_UNKNOWN = Pointer()


def add_spaces(module: LlvmModule) -> None:
    """Let the addresses of a module for a GPU say all that is known of them.

    Functions without linkage are kernels: their addresses are of global memory.
    """
    functions = module.functions
    for name, table in module.globals.items():
        if not _IN_SPACE.search(table.text):
            # Functions read tables; what they write is in shared memory.
            text = table.text.replace("constant ", f"addrspace({_GLOBAL}) constant ", 1)
            module.globals[name] = dataclasses.replace(table, text=text)
    parameters: dict[str, dict[str, Pointer]] = {}
    found: dict[str, _Addresses] = {}
    for name in _callers_first(functions):
        function = functions[name]
        if not function.linkage:
            parameters[name] = dict(_of_kernel(function))
        found[name] = _Addresses(function, parameters.get(name, {}), module)
        for callee, arguments in found[name].calls:
            before = parameters.setdefault(callee, {})
            for (at, _), pointer in zip(_addresses(functions[callee]), arguments, strict=True):
                before[at] = before.get(at, pointer).meet(pointer)
    for name, addresses in found.items():
        functions[name] = addresses.rewritten(parameters)


def _addresses(function: Function) -> Iterator[tuple[str, str]]:
    """Yield the addresses among a function's parameters, and all that is said of each."""
    for parameter in function.parameters:
        if parameter.startswith("ptr "):
            yield parameter.rsplit(" ", 1)[1], parameter


def _of_kernel(function: Function) -> Iterator[tuple[str, Pointer]]:
    for name, said in _addresses(function):
        is_constant = {"noalias", "readonly"} <= {*said.split()}
        yield name, Pointer(_GLOBAL, _align_of(said), is_constant)


def _align_of(text: str) -> int:
    """Return the alignment that a parameter or a global has by its text."""
    found = _ALIGNED.search(text)
    return int(found[1]) if found else 1


def _space_of(text: str) -> int:
    """Return the address space of a type, or of a global by its text."""
    found = _IN_SPACE.search(text)
    return int(found[1]) if found else 0


def _callers_first(functions: Mapping[str, Function]) -> list[str]:
    """Return the names of functions so that each comes after those that call it."""
    order: list[str] = []
    seen: set[str] = set()
    for first in functions:
        stack = [(first, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                callees = sorted(functions[name].symbols & functions.keys())
                stack += [(callee, False) for callee in callees]
    return order[::-1]


class _Addresses:
    """The addresses of one function."""

    def __init__(
        self, function: Function, parameters: Mapping[str, Pointer], module: LlvmModule
    ) -> None:
        """parameters: what is known of those that are addresses."""
        self._function, self._module = function, module
        # Addresses that are known to be in a space, and whether what is there is constant.
        self._places = {n: (p.space, p.is_constant) for n, p in parameters.items() if p.space}
        # What addresses and integers are multiples of, where it is of more than 1.
        self._multiples = {n: p.align for n, p in parameters.items() if p.align > 1}
        for symbol in function.symbols & module.globals.keys():
            text = module.globals[symbol].text
            is_constant = " constant " in text
            self._note(f"@{symbol}", Pointer(_space_of(text), _align_of(text), is_constant))
        # Addresses that are others.
        self._same: dict[str, str] = {}
        # What functions are called with: the callee, and what is known of each address.
        self.calls: list[tuple[str, list[Pointer]]] = []
        # What is added to values, by the names of the sums, once it is asked for.
        self._steps: dict[str, str] | None = None
        guesses: dict[str, Pointer] = {}
        for turn in itertools.count():
            wrong = self._learn(guesses)
            if not wrong:
                break
            guesses |= wrong if turn < _ROUNDS else dict.fromkeys(guesses, _UNKNOWN)

    # --- what is known ----------------------------------------------------------------------------

    def _learn(self, guesses: dict[str, Pointer]) -> dict[str, Pointer]:
        """Note what is known of each value, if guesses are true; returns better ones.

        guesses: of what loops carry. At first they go by what it is before the loop.
        """
        self.calls.clear()
        self._same.clear()
        merged: list[tuple[str, Phi]] = []
        for line in self._function.body:
            if type(line) is not Instruction or type(line.operation) not in _TELLING:
                continue
            name, operation = line.result, line.operation
            if type(operation) is Call:
                self._look_at_call(name, operation)
            elif type(operation) is Phi:
                if operation.type in _COUNTED:
                    merged.append((name, operation))
                    self._note(name, guesses.setdefault(name, self._guess(operation)))
            else:
                self._find(name, operation)
        wrong: dict[str, Pointer] = {}
        for name, phi in merged:
            found = reduce(Pointer.meet, map(self._of, phi.operands), guesses[name])
            if found != guesses[name]:
                wrong[name] = found
        return wrong

    def _of(self, operand: str) -> Pointer:
        """Return what is known of an operand."""
        space, is_constant = self._places.get(operand, (0, False))
        multiple = self._multiples.get(operand) or constant_multiple(operand)
        return Pointer(space, multiple, is_constant)

    def _note(self, name: str, found: Pointer) -> None:
        self._note_place(name, found.space, found.is_constant)
        self._note_multiple(name, found.align)

    def _note_place(self, name: str, space: int, is_constant: bool) -> None:
        if space:
            self._places[name] = space, is_constant
        else:
            self._places.pop(name, None)

    def _note_multiple(self, name: str, multiple: int) -> None:
        if multiple > 1:
            self._multiples[name] = multiple
        else:
            self._multiples.pop(name, None)

    def _guess(self, phi: Phi) -> Pointer:
        """Return what a loop carries, by what it begins with and the number that is added to it."""
        first, *others = phi.operands
        found = self._of(first)
        if phi.type == "ptr":
            return found
        if self._steps is None:
            self._steps = {
                line.result: line.operation.operands[1]
                for line in self._function.body
                if type(line) is Instruction and type(line.operation) is Binary
                and line.operation.opcode == "add"
            }  # fmt: skip
        steps = [constant_multiple(self._steps[x]) for x in others if x in self._steps]
        return found._replace(align=min(found.align, *steps, MOST))

    def _look_at_call(self, name: str, call: Call) -> None:
        if call.function == _IDENTITY:
            self._same[name] = call.operands[0]
            self._note(name, self._of(call.operands[0]))
        elif call.callee in self._module.functions:
            pairs = zip(call.types, call.operands, strict=True)
            self.calls.append((call.callee, [self._of(x) for t, x in pairs if t == "ptr"]))
        elif call.type in _COUNTED:
            self._note_multiple(name, multiple_of(call, self._multiples))

    def _find(self, name: str, operation: Operation) -> None:
        """Note what is known of a result."""
        match operation:
            case Alloca():
                self._note_place(name, _LOCAL, False)
                return
            case Select(type="ptr", operands=values) | Unary(type="ptr", operands=values):
                self._note(name, reduce(Pointer.meet, map(self._of, values[-2:])))
                return
            case Cast("addrspacecast"):
                self._look_at_cast(name, operation)
                return
            case GetElementPtr(operands=(base, *_)):
                self._note_place(name, *self._places.get(base, (0, False)))
            case Binary(type=type_) | Select(type=type_) if type_ not in _COUNTED:
                return
        self._note_multiple(name, multiple_of(operation, self._multiples))

    def _look_at_cast(self, name: str, cast: Cast) -> None:
        """Note what is known of an address that is converted to another space, or a generic one."""
        (operand,) = cast.operands
        found = self._of(operand)
        if cast.to == "ptr":
            found = found._replace(space=_space_of(cast.type))
        if cast.to in ("ptr", pointer_type(found.space)):
            self._same[name] = operand
        self._note(name, found)

    # --- rewriting --------------------------------------------------------------------------------

    def rewritten(self, parameters: Mapping[str, Mapping[str, Pointer]]) -> Function:
        """Return the function with all that is known. parameters: of functions, by name."""
        function = self._function
        own = parameters.get(function.name, {})
        written = [
            p.replace("ptr", pointer_type(own[name].space), 1) if name in own else p
            for p in function.parameters
            for name in [p.rsplit(" ", 1)[1]]
        ]
        writer = _Writer(self._places, self._multiples, self._same, parameters)
        body = writer.rewritten(function.body)
        return dataclasses.replace(function, parameters=written, body=body)


class _Writer:
    """Writes a function's lines with the address spaces of what they name.

    places, multiples, same: see `_Addresses`. parameters: see `rewritten` there.
    """

    def __init__(
        self, places: Mapping[str, tuple[int, bool]], multiples: Mapping[str, int],
        same: Mapping[str, str], parameters: Mapping[str, Mapping[str, Pointer]],
    ) -> None:  # fmt: skip
        self._places, self._multiples, self._same = places, multiples, same
        self._parameters = parameters
        self._lines: list[Line] = []

    def rewritten(self, body: Body) -> list[Line]:
        ends = self._ends(body)
        block = ""
        for line in body:
            if type(line) is not Instruction:
                block = line.name if type(line) is Label else block
                self._lines.append(line)
                continue
            name, operation = line.result, line.operation
            if name in self._same:
                continue
            if isinstance(operation, Branch | Switch):
                self._lines += ends.get(block, ())
            if isinstance(operation, Alloca) and not operation.space:
                own = f"{name}.generic"
                cast = Cast("addrspacecast", "ptr", pointer_type(_LOCAL), (own,))
                self._lines += [line._replace(result=own), line._replace(operation=cast)]
            elif type(operation) in _WITHOUT:
                self._lines.append(line)
            else:
                operation = self._written(name, operation)
                self._lines.append(Instruction(name, operation, line.debug))
        return self._lines

    def _ends(self, body: Body) -> dict[str, list[Line]]:
        """Return what blocks end with so that values which come from several are generic there."""
        found: dict[str, list[Line]] = {}
        for line in body:
            if type(line) is Instruction and type(line.operation) is Phi:
                phi, name = line.operation, line.result
                if phi.type == "ptr" and name not in self._places:
                    for operand, label in zip(phi.operands, phi.labels, strict=True):
                        if operand in self._places:
                            cast = self._cast(f"{name}.{label}", operand)
                            found.setdefault(label, []).append(cast)
        return found

    def _written(self, name: str, operation: Operation) -> Operation:
        """Return an operation with the types and names that addresses have in their spaces."""
        match operation:
            case Call():
                return self._call(operation)
            case GetElementPtr(flags, type_, (_, *types), (base, *indices)):
                pointer = pointer_type(self._space(name))
                return GetElementPtr(flags, type_, (pointer, *types), (self._name(base), *indices))
            case Load(type_, (address,), align, is_invariant):
                space, is_constant = self._places.get(address, (0, False))
                return Load(
                    type_, (self._name(address),), self._align(align, type_, address),
                    is_invariant or is_constant, space,
                )  # fmt: skip
            case Store(type_, (value, address), align, is_nontemporal):
                align = self._align(align, type_, address)
                where = self._generic(value), self._name(address)
                return Store(type_, where, align, is_nontemporal, self._space(address))
            case AtomicUpdate(_, _, (value, address)):
                return operation._replace(
                    operands=(value, self._name(address)), space=self._space(address)
                )
            case Select(type="ptr") | Unary(type="ptr") | Phi(type="ptr") if self._space(name):
                own = [self._name(x) for x in operation.operands]
                type_ = pointer_type(self._space(name))
                return operation._replace(type=type_, operands=tuple(own))
            case Phi(type_, operands, labels):
                own = [
                    f"{name}.{label}" if x in self._places else x
                    for x, label in zip(operands, labels, strict=True)
                ]
                return operation._replace(operands=tuple(own)) if type_ == "ptr" else operation
            case Select(type=type_) | Unary(type=type_) | Cast(type=type_) if type_ != "ptr":
                return operation
        operands = tuple([self._generic(x) for x in operation.operands])
        return operation._replace(operands=operands)

    def _call(self, call: Call) -> Call:
        if not any(x.startswith("ptr") for x in call.types):
            return call
        pointers = iter(self._parameters.get(call.callee, {}).values())
        types, operands = [*call.types], [*call.operands]
        for at, (type_, operand) in enumerate(zip(call.types, call.operands, strict=True)):
            if type_ == "ptr":
                space = next(pointers, _UNKNOWN).space
                types[at] = pointer_type(space)
                operands[at] = self._name(operand) if space else self._generic(operand)
            elif operand in self._same:
                operands[at] = self._name(operand)
        return call._replace(types=tuple(types), operands=tuple(operands))

    # --- addresses --------------------------------------------------------------------------------

    def _space(self, operand: str) -> int:
        return self._places.get(operand, (0, False))[0]

    def _name(self, operand: str) -> str:
        """Return the name of an address in its space."""
        while operand in self._same:
            operand = self._same[operand]
        return operand

    def _generic(self, operand: str) -> str:
        """Return an operand, as a generic address if it is one in a space."""
        if operand not in self._places:
            return self._name(operand)
        name = f"{operand}.generic.{len(self._lines)}"
        self._lines.append(self._cast(name, operand))
        return name

    def _cast(self, name: str, operand: str) -> Instruction:
        type_ = pointer_type(self._space(operand))
        return Instruction(name, Cast("addrspacecast", type_, "ptr", (self._name(operand),)))

    def _align(self, align: int, type_: str, address: str) -> int:
        """Return the alignment of an access, 0 for that of its type."""
        found = max(align, min(self._multiples.get(address, 1), _WIDEST))
        return found if align or found > byte_size(type_) else 0
