"""Device functions, written into the kernels that call them.

A copy of a function has registers, labels and local memory of its own. What a call passes in
`.param` memory becomes registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from hlo.errors import HloError
from hlo.gpu.ptx.parser import connect
from hlo.gpu.ptx.records import (
    SIZES,
    Address,
    BasicBlock,
    Function,
    Instruction,
    Module,
    Negated,
    Operand,
    Reg,
    Symbol,
    Vector,
)


def without_calls(function: Function, module: Module) -> Function:
    """Return a kernel with the functions that it calls in it, or the same if it calls none.

    Raises HloError, code `unsupported-ptx`, for functions that call themselves, or that a register
    says.
    """
    if not any(i.opcode == "call" for b in function.blocks for i in b.instructions):
        return function
    return _Inliner(function, module).function


class _Inliner:
    def __init__(self, kernel: Function, module: Module) -> None:
        self._module = module
        self._numbers = itertools.count()
        self.function = replace(
            kernel, blocks=[], registers=dict(kernel.registers), variables=dict(kernel.variables)
        )
        self._copy(kernel, "", {}, "", (kernel.name,))
        connect(self.function)

    def _copy(
        self, source: Function, suffix: str, passed: Mapping[str, str], after: str,
        callers: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Add the blocks of a function.

        suffix: of its names. passed: for its parameters and results, the names of what the caller
        passes. after: the label of what follows the call. callers: functions that are being copied.
        """
        names = _Names(source, suffix, passed)
        out = self.function
        out.registers.update({names.register(r): t for r, t in source.registers.items()})
        for variable in source.variables.values():
            if variable.space == "local":
                name = names.symbol(variable.name)
                out.variables[name] = variable._replace(name=name)
        for block in source.blocks:
            self._open(names.symbol(block.label) if block.label else "")
            for inst in block.instructions:
                if inst.opcode == "call":
                    self._call(inst, names, callers)
                elif names.is_passed(inst):
                    self._pass(inst, names)
                elif inst.opcode == "ret" and after:
                    left = replace(inst, opcode="bra", operands=(Symbol(after),))
                    self._add(replace(left, guard=names.guard(inst)))
                else:
                    self._add(names.instruction(inst))

    def _open(self, label: str) -> None:
        self.function.blocks.append(BasicBlock(label, []))

    def _add(self, inst: Instruction) -> None:
        self.function.blocks[-1].instructions.append(inst)

    def _call(self, inst: Instruction, names: _Names, callers: tuple[str, ...]) -> None:
        at = next((n for n, o in enumerate(inst.operands) if isinstance(o, Symbol)), -1)
        callee = None
        if at >= 0 and isinstance(name := inst.operands[at], Symbol):
            callee = self._module.functions.get(name.name)
        if callee is None or inst.guard is not None or callee.name in callers:
            raise _unsupported(inst, "only plain calls of functions are known")
        results, arguments = inst.operands[:at], inst.operands[at + 1 : at + 2]
        passed = {}
        for variables, lists in ((callee.results, results), (callee.parameters, arguments)):
            given = [x for o in lists if isinstance(o, Vector) for x in o.elements]
            for variable, symbol in zip(variables, given, strict=False):
                assert isinstance(symbol, Symbol)
                passed[variable.name] = names.passed.get(symbol.name, names.symbol(symbol.name))
        number = next(self._numbers)
        after = f"$after~{number}"
        self._copy(callee, f"~{number}", passed, after, (*callers, callee.name))
        self._open(after)

    def _pass(self, inst: Instruction, names: _Names) -> None:
        """Move what is stored to a parameter, or loaded from one, by registers."""
        loads = inst.opcode == "ld"
        address, other = inst.operands[1 if loads else 0], inst.operands[0 if loads else 1]
        assert isinstance(address, Address)
        assert isinstance(address.base, Symbol)
        size = SIZES[inst.type]
        elements = other.elements if isinstance(other, Vector) else (other,)
        for n, element in enumerate(elements):
            memory = names.memory(address.base.name)
            reg = Reg(f"%{memory}+{address.offset + n * size}")
            if not loads:
                self.function.registers.setdefault(reg.name, f"b{max(16, 8 * size)}")
            elif reg.name not in self.function.registers:
                raise _unsupported(inst, "what is loaded was not stored as one number")
            own = names.operand(element)
            operands = (own, reg) if loads else (reg, own)
            sign = "s" if inst.type == "s8" else "u"
            moved = replace(inst, opcode="mov", modifiers=(f"b{8 * size}",), operands=operands)
            if size == 1:
                moved = replace(moved, opcode="cvt", modifiers=(f"{sign}16", f"{sign}8"))
            self._add(replace(moved, guard=names.guard(inst)))


def _unsupported(inst: Instruction, why: str) -> HloError:
    return HloError.at("unsupported-ptx", f"line {inst.line}: {inst.name}: {why}")


class _Names:
    """The names of a copy of a function."""

    def __init__(self, source: Function, suffix: str, passed: Mapping[str, str]) -> None:
        self.passed = passed
        self._source, self._suffix = source, suffix
        spaces = {v.name for v in source.variables.values() if v.space in ("local", "param")}
        self._own = spaces | {b.label for b in source.blocks}
        self._parameters = {v.name for v in source.variables.values() if v.space == "param"}

    def register(self, name: str) -> str:
        return name if name in ("_", "%cc") else name + self._suffix

    def symbol(self, name: str) -> str:
        return name + self._suffix if name in self._own else name

    def memory(self, name: str) -> str:
        """Return the name of a parameter, or of what is passed for it."""
        return self.passed.get(name, self.symbol(name))

    def is_passed(self, inst: Instruction) -> bool:
        """Return whether an instruction accesses what a call passes."""
        if inst.opcode not in ("ld", "st") or not inst.modifiers[0].startswith("param"):
            return False
        address = inst.operands[1 if inst.opcode == "ld" else 0]
        if not isinstance(address, Address) or not isinstance(address.base, Symbol):
            return False
        return address.base.name in self.passed or address.base.name in self._parameters

    def guard(self, inst: Instruction) -> Reg | None:
        return None if inst.guard is None else Reg(self.register(inst.guard.name))

    def instruction(self, inst: Instruction) -> Instruction:
        operands = tuple(map(self.operand, inst.operands))
        return replace(inst, operands=operands, guard=self.guard(inst))

    def operand(self, operand: Operand) -> Operand:
        match operand:
            case Reg():
                return Reg(self.register(operand.name))
            case Negated():
                return Negated(Reg(self.register(operand.reg.name)))
            case Symbol():
                return Symbol(self.symbol(operand.name))
            case Vector():
                return Vector(tuple(map(self.operand, operand.elements)))
            case Address():
                base = self.operand(operand.base)
                assert isinstance(base, Reg | Symbol) or base is operand.base
                return operand._replace(
                    base=base, coordinates=tuple(map(self.operand, operand.coordinates))
                )
        return operand
