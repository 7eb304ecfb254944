"""Buffers `b(shape)`: memory that operations write in place, so that every write is by one user.

`Pin` turns an array into a buffer, `Unpin` a buffer into an array, `CreateBuffer` creates one; all
are custom calls. Other custom calls forward a buffer as the result that aliases it. Source: XLA's
`hlo_verifier.cc` and the description of buffers in its documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.values.types import BufferShape, Shape, compatible
from hlo.verifier.report import Report

Index = tuple[int, ...]

_CONVERSIONS = ("Pin", "Unpin", "CreateBuffer")
# What may write to a buffer operand, as far as is known without looking inside, besides calls.
_WRITERS = frozenset({"custom-call", "async-start"})
# Operations besides custom calls that may have buffers as operands and results.
_PASSES_ON = frozenset({"get-tuple-element", "parameter", "tuple", "while"})


def check_buffers(
    module: Module,
    instructions: Iterable[Instruction],
    callers: Mapping[Computation, list[Instruction]],
    report: Report,
) -> None:
    """Check the operations that create, release, forward and write buffers."""
    checker = _Checker(callers, report)
    for inst in instructions:
        comp = inst.parent
        assert comp is not None
        if any(c.opcode == "async-start" for c in callers[comp]):
            # The async operations repeat the wrapped one.
            if inst is comp.root and inst.opcode == "custom-call":
                checker.check(inst)
            continue
        checker.check(inst, in_entry=comp is module.entry)


class _Checker:
    def __init__(self, callers: Mapping[Computation, list[Instruction]], report: Report) -> None:
        self._callers = callers
        self._report = report
        # By identity: a module shares few shapes among many instructions.
        self._known: dict[int, tuple[Shape, list[Index]]] = {}

    def _places(self, shape: Shape) -> list[Index]:
        """Return the indices of buffers in a shape."""
        found = self._known.get(id(shape))
        if found is None:
            places = [index for index, leaf in shape.leaves() if isinstance(leaf, BufferShape)]
            found = self._known[id(shape)] = shape, places
        return found[1]

    def check(self, inst: Instruction, *, in_entry: bool = False) -> None:
        results = self._places(inst.shape)
        operands = [
            (number, place)
            for number, shape in enumerate(inst.operand_shapes)
            for place in self._places(shape)
        ]
        target = inst.attrs.get("custom_call_target")
        if not (results or operands or target in _CONVERSIONS):
            return
        if self._report.breaks_own_rule(inst) or inst.spec.has(Trait.ASYNC_CHAIN):
            return
        if target in _CONVERSIONS:
            self._check_conversion(inst, str(target))
        elif inst.opcode == "custom-call":
            self._check_handed_on(inst, results, operands)
        elif inst.opcode not in _PASSES_ON and not _is_annotated(inst):
            self._report.add("bad-buffer", "it cannot have buffers", inst)
        elif inst.opcode == "parameter" and in_entry:
            self._report.add("bad-buffer", "a program takes arrays, not buffers", inst)
        if inst.opcode in ("custom-call", "parameter", "while"):
            for place in results:
                self._check_writers(inst, place)

    def _check_conversion(self, inst: Instruction, target: str) -> None:
        wanted = 0 if target == "CreateBuffer" else 1
        if len(inst.operands) != wanted:
            self._report.add(
                "operand-count", f"{target} takes {wanted}, not {len(inst.operands)}", inst
            )
            return
        buffer, array = (
            (inst.operands[0].shape, inst.shape)
            if target == "Unpin"
            else (inst.shape, inst.operands[0].shape if wanted else _contents(inst.shape))
        )
        if not isinstance(buffer, BufferShape) or not compatible(buffer.element, array):
            self._report.add(
                "bad-buffer",
                f"{target} goes between an array and a buffer of it, not {array.to_string(False)} "
                f"and {buffer.to_string(False)}",
                inst,
            )  # fmt: skip
        elif wanted and len(inst.output_to_operand_aliasing) != 1:
            self._report.add(
                "bad-buffer", f"the result of {target} aliases its operand: one entry is needed",
                inst, attr="output_to_operand_aliasing",
            )  # fmt: skip

    def _check_handed_on(
        self, inst: Instruction, results: list[Index], operands: list[tuple[int, Index]]
    ) -> None:
        """Check that each buffer operand is forwarded as exactly one result."""
        attr = "output_to_operand_aliasing"
        aliases = inst.attrs[attr]
        taken = [(a.operand, a.operand_index) for a in aliases]
        given = [a.output for a in aliases]
        for number, place in operands:
            count = taken.count((number, place))
            if count != 1:
                self._report.add(
                    "bad-buffer",
                    f"the buffer in operand {number} at {_text(place)} is {count} results, "
                    "it has to be one",
                    inst, operand=number,
                )  # fmt: skip
        for place in results:
            if place not in given:
                self._report.add(
                    "bad-buffer", f"the buffer in the result at {_text(place)} is of no operand",
                    inst, attr=attr,
                )  # fmt: skip

    def _check_writers(self, inst: Instruction, place: Index) -> None:
        writers = self._writers(inst, place)
        if len(writers) > 1:
            where = f" at {_text(place)}" if place else ""
            self._report.add(
                "bad-buffer",
                f"the buffer{where} is written by {len(writers)} operations, one may", inst,
                notes=[(f"{w.name} writes it here", w) for w in writers],
            )  # fmt: skip

    def _writers(self, inst: Instruction, place: Index) -> list[Instruction]:
        """Return the operations that may write the buffer at an index of a value."""
        found: list[Instruction] = []
        todo = [(inst, place)]
        while todo:
            value, at = todo.pop()
            for user in value.users:
                if user.opcode in _WRITERS or user.spec.has(Trait.CALL | Trait.CONTROL_FLOW):
                    found.append(user)
                elif user.opcode == "get-tuple-element" and at[:1] == (user.tuple_index,):
                    todo.append((user, at[1:]))
                elif user.opcode == "tuple" and not user.is_root:
                    todo.extend((user, (i, *at)) for i, o in enumerate(user.operands) if o is value)
                elif user.opcode == "tuple" and self._is_loop_body(user):
                    found.append(user)  # live in the next iteration
        return found

    def _is_loop_body(self, inst: Instruction) -> bool:
        assert inst.parent is not None
        return any(c.opcode == "while" for c in self._callers[inst.parent])


def _is_annotated(inst: Instruction) -> bool:
    """True for a call that represents asynchronous work on a separate stream."""
    said = inst.annotations.get("frontend_attributes", ())
    return inst.opcode == "call" and "_xla_stream_annotation" in said


def _contents(shape: Shape) -> Shape:
    return shape.element if isinstance(shape, BufferShape) else shape


def _text(index: Index) -> str:
    return "{" + ",".join(map(str, index)) + "}"
