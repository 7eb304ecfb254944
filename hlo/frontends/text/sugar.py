"""Async sugar: `add-start(a, b)` for an async-start whose computation is one `add`.

Source: the rules of XLA's text parser for opcodes that end in -start, -update or -done.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.errors import InferError, InstructionSpan
from hlo.frontends.text.attributes import Attributes, Schema
from hlo.ir import Computation, Instruction
from hlo.ops import OPS, OpSpec
from hlo.values.types import Shape, TupleShape

_PARTS = ("start", "update", "done")


@dataclass(frozen=True)
class AsyncOpcode:
    """`add-start` decomposed: the wrapped operation, and the async operation."""

    inner: OpSpec
    spec: OpSpec

    @staticmethod
    def of(opcode: str) -> AsyncOpcode | None:
        """Decompose an opcode that is not in the table; None for any other word."""
        name, _, part = opcode.rpartition("-")
        inner = OPS.get(name)
        if inner is None or part not in _PARTS or inner.payload is not None:
            return None
        return AsyncOpcode(inner, OPS[f"async-{part}"])

    @property
    def is_start(self) -> bool:
        return self.spec.name == "async-start"

    def schema(self) -> Schema:
        """Return the attributes of both operations. The start has the inner one's; older programs
        repeat them on update and done."""
        outer = Schema.of(self.spec)
        attrs = {k: a for k, a in outer.attrs.items() if k != "calls"} | dict(
            Schema.of(self.inner).attrs
        )
        required = tuple(k for k, a in attrs.items() if a.required and self.is_start)
        return Schema(f"{self.inner.name}-{self.spec.name.removeprefix('async-')}", attrs, required)


def wrap(
    opcode: AsyncOpcode,
    shape: Shape | None,
    operands: list[Instruction],
    attributes: Attributes,
    span: InstructionSpan,
) -> Computation | None:
    """Check one operation of an async chain; for the start, return the computation that it calls.

    `attributes` is left with those of the outer operation. span: the source location, for the
    instructions that the sugar leaves out. Raises InferError.
    """
    if not opcode.is_start:
        chain = operands[0] if len(operands) == 1 else None
        if chain is None or chain.opcode not in ("async-start", "async-update"):
            raise InferError(
                f"{opcode.spec.name} takes one operand, an async-start or async-update",
                operand=0, code="bad-async-chain",
            )  # fmt: skip
        root = inner_root(chain)
        inner = root.opcode if root is not None else ""
        if inner != opcode.inner.name:
            raise InferError(
                f"this ends an asynchronous {opcode.inner.name}, its operand starts a {inner}",
                operand=0, code="bad-async-chain",
            )  # fmt: skip
        assert root is not None
        for key in opcode.inner.attrs.keys() & attributes.own.keys():
            if attributes.own.pop(key) != root.attrs[key]:
                raise InferError(
                    f"{key} is not that of the {inner} which its operand starts", attr=key,
                    code="bad-async-chain",
                )  # fmt: skip
        return None
    if (
        not isinstance(shape, TupleShape)
        or len(shape.elements) < 2
        or not isinstance(shape.elements[0], TupleShape)
    ):
        raise InferError(
            "the shape of an asynchronous start is ((operands), result, contexts..)",
            code="bad-async-shape",
        )
    comp = Computation("async_wrapped")
    parameters = [
        comp.create("parameter", o.shape, attrs={"number": i}, name="async_param")
        for i, o in enumerate(operands)
    ]
    own = {k: attributes.own.pop(k) for k in opcode.inner.attrs if k in attributes.own}
    root = comp.create(
        opcode.inner.name, shape.elements[1], parameters, own, name="async_op", root=True
    )
    root.annotations.update(attributes.annotations)
    for inst in comp:
        inst.span = span
    thread = attributes.own.get("async_execution_thread")
    comp.execution_thread = thread or "main"
    attributes.own["calls"] = comp
    return comp


def wrapped_root(inst: Instruction) -> Instruction | None:
    """Return the operation that an async-start wraps, if the sugar can express it completely.

    That is the case if parsing the sugar yields the same wrapper, including names and annotations.
    XLA prints the sugar for every computation of one operation; see `single_operation`.
    """
    if inst.opcode != "async-start":
        return None
    comp = inst.calls
    if not _is_generated(comp.name, "async_wrapped") or not comp.has_root:
        return None
    root: Instruction = comp.root
    thread = inst.async_execution_thread or "main"
    if (
        list(root.operands) != list(comp.parameters)
        or len(comp) != len(comp.parameters) + 1
        or root.name != "async_op"
        or not all(_is_generated(p.name, "async_param") for p in comp.parameters)
        or root.annotations != inst.annotations
        or comp.execution_thread != thread
        or AsyncOpcode.of(f"{root.opcode}-start") is None
        or f"{root.opcode}-start" in OPS
    ):
        return None
    return root


def single_operation(inst: Instruction) -> Instruction | None:
    """Return the operation that an async-start wraps, if its computation has only one."""
    if inst.opcode != "async-start":
        return None
    comp = inst.calls
    if not comp.has_root or any(i.opcode != "parameter" and not i.is_root for i in comp):
        return None
    root: Instruction = comp.root
    return root


def _is_generated(name: str, base: str) -> bool:
    rest = name.removeprefix(base)
    return name.startswith(base) and (not rest or (rest[0] == "." and rest[1:].isdigit()))


def inner_root(inst: Instruction) -> Instruction | None:
    """Return the root of the computation that an async operation runs."""
    while inst.opcode in ("async-update", "async-done") and inst.operands:
        inst = inst.operands[0]
    callees = inst.called_computations
    return callees[0].root if callees and callees[0].has_root else None
