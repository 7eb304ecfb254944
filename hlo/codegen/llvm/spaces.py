"""The address spaces of what kernels of GPUs read and write, and what else is known of addresses.

Kernels are written with generic addresses. Here they get the address space that they are in, loads
and stores their alignment, and loads of what nobody writes are marked. LLVM's own passes for that
are among those that take longest, and none of them runs where its code generation does not
optimize.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from hlo.codegen.llvm.addresses import LOCAL, UNKNOWN, Addresses, Pointer
from hlo.codegen.llvm.alignment import WIDEST
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

# The address space of global memory, of both makers' GPUs.
_GLOBAL = 1
# Operations that have no address among their operands, whatever their type.
_WITHOUT = frozenset({Binary, ExtractElement, ExtractValue, ShuffleVector})


def add_spaces(module: LlvmModule) -> None:
    """Let the addresses of a module for a GPU say all that is known of them.

    Functions without linkage are kernels: their addresses are of global memory.
    """
    functions = module.functions
    for name, value in module.globals.items():
        if not value.space:
            # Functions read tables; what they write is in shared memory.
            module.globals[name] = value.in_space(_GLOBAL)
    parameters: dict[str, dict[str, Pointer]] = {}
    found: dict[str, Addresses] = {}
    for name in _callers_first(functions):
        function = functions[name]
        if not function.linkage:
            parameters[name] = dict(_of_kernel(function))
        found[name] = Addresses(function, parameters.get(name, {}), module)
        for callee, arguments in found[name].calls:
            before = parameters.setdefault(callee, {})
            for (at, _), pointer in zip(_addresses(functions[callee]), arguments, strict=True):
                before[at] = before.get(at, pointer).meet(pointer)
    for name, addresses in found.items():
        functions[name] = _rewritten(functions[name], addresses, parameters)


def _addresses(function: Function) -> Iterator[tuple[str, list[str]]]:
    """Yield the addresses among a function's parameters, and all that is said of each."""
    for name, (type_, *said) in function.named_parameters.items():
        if type_ == "ptr":
            yield name, said


def _of_kernel(function: Function) -> Iterator[tuple[str, Pointer]]:
    for name, said in _addresses(function):
        align = int(said[said.index("align") + 1]) if "align" in said else 1
        yield name, Pointer(_GLOBAL, align, {"noalias", "readonly"} <= {*said})


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


def _rewritten(
    function: Function, addresses: Addresses, parameters: Mapping[str, Mapping[str, Pointer]]
) -> Function:
    """Return a function with all that is known. parameters: of functions, by name."""
    own = parameters.get(function.name, {})
    written = [
        p.replace("ptr", pointer_type(own[name].space), 1) if name in own else p
        for p, name in zip(function.parameters, function.named_parameters, strict=True)
    ]
    body = _Writer(addresses, parameters).rewritten(function.body)
    return dataclasses.replace(function, parameters=written, body=body)


class _Writer:
    """Writes a function's lines with the address spaces of what they name.

    parameters: what is known of those of functions that are addresses, by the function's name.
    """

    def __init__(
        self, addresses: Addresses, parameters: Mapping[str, Mapping[str, Pointer]]
    ) -> None:
        self._places, self._multiples = addresses.places, addresses.multiples
        self._same, self._phis = addresses.same, addresses.phis
        self._parameters = parameters
        self._lines: list[Line] = []

    def rewritten(self, body: Body) -> list[Line]:
        ends = self._ends()
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
                cast = Cast("addrspacecast", "ptr", pointer_type(LOCAL), (own,))
                self._lines += [line._replace(result=own), line._replace(operation=cast)]
            elif type(operation) in _WITHOUT:
                self._lines.append(line)
            else:
                operation = self._written(name, operation)
                self._lines.append(Instruction(name, operation, line.debug))
        return self._lines

    def _ends(self) -> dict[str, list[Line]]:
        """Return what blocks end with so that values which come from several are generic there."""
        found: dict[str, list[Line]] = {}
        for name, phi in self._phis:
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
                space = next(pointers, UNKNOWN).space
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
        found = max(align, min(self._multiples.get(address, 1), WIDEST))
        return found if align or found > byte_size(type_) else 0
