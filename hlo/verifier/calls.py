"""Checks across calls: fusion bodies, execution threads, and consistency of callers and callees.

Shapes of parameters and results are checked by each operation's own rule; these checks look
inside the bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.values.types import Shape
from hlo.verifier.report import Report, VerifyOptions
from hlo.verifier.shapes import same

_SAME_THREAD = frozenset({"conditional", "fusion", "while"})


def check_calls(
    module: Module,
    instructions: Iterable[Instruction],
    callers: Mapping[Computation, list[Instruction]],
    options: VerifyOptions,
    report: Report,
) -> None:
    """Check every call between the computations of a structurally sound module."""
    for comp in module.computations:
        fusions = [c for c in callers[comp] if c.opcode == "fusion"]
        if fusions:
            _check_fused(module, comp, fusions, callers[comp], report)
    for inst in instructions:
        if not inst.spec.computation_attrs or report.breaks_own_rule(inst):
            continue
        _check_threads(inst, report)
        if options.layout_sensitive:
            _check_layouts(inst, report)


def _check_fused(
    module: Module,
    comp: Computation,
    fusions: list[Instruction],
    callers: list[Instruction],
    report: Report,
) -> None:
    """Check that a fused computation belongs to one fusion and that all of it is used."""
    fusion = fusions[0]
    if comp is module.entry:
        report.add("bad-fusion", f"its body {comp.name} is the entry computation", fusion)
    for other in callers:
        if other is not fusion:
            report.add(
                "bad-fusion", f"{comp.name} is the body of fusion {fusion.name}, which owns it",
                other, notes=[("the fusion is here", fusion)],
            )  # fmt: skip
    root = comp.root
    if root.num_users:
        report.add("bad-fusion", f"the root of fused computation {comp.name} has users", root)
    for inst in comp:
        if not inst.num_users and inst is not root and not _has_side_effect(inst):
            report.add(
                "bad-fusion",
                f"nothing in fused computation {comp.name} uses it, and it is not the root", inst,
            )  # fmt: skip


def _has_side_effect(inst: Instruction) -> bool:
    return inst.spec.has(Trait.SIDE_EFFECT) or bool(inst.custom_call_has_side_effect)


def _check_threads(inst: Instruction, report: Report) -> None:
    """Check that a body runs on its caller's thread, unless an async operation enters it."""
    assert inst.parent is not None
    here = inst.parent.execution_thread
    if inst.spec.has(Trait.ASYNC_CHAIN):
        named = inst.async_execution_thread
        if named is None and inst.opcode == "async-start":
            named = "main"  # updates and dones need not repeat the attributes of the start
        for comp in inst.called_computations:
            if named is not None and comp.execution_thread != named:
                report.add(
                    "thread-mismatch",
                    f"it runs on thread {named!r}, {comp.name} is of thread "
                    f"{comp.execution_thread!r}",
                    inst, attr="async_execution_thread",
                )  # fmt: skip
    elif (
        inst.opcode in _SAME_THREAD
        or inst.opcode == "custom-call"
        or "to_apply" in inst.spec.computation_attrs
    ):
        for comp in inst.called_computations:
            if comp.execution_thread != here:
                report.add(
                    "thread-mismatch",
                    f"it is on thread {here!r}, its computation {comp.name} is of thread "
                    f"{comp.execution_thread!r}",
                    inst, notes=[(f"{comp.name} is here", comp)],
                )  # fmt: skip


def _check_layouts(inst: Instruction, report: Report) -> None:
    """Check that layouts of operands and results match those of the body."""
    for what, outer, comp, inner in _boundaries(inst):
        if not same(outer, inner, layouts=True):
            report.add(
                "layout-mismatch", f"{what} is {outer}, in {comp.name} it is {inner}", inst,
                notes=[(f"{comp.name} is here", comp)],
            )  # fmt: skip


def _boundaries(inst: Instruction) -> Iterator[tuple[str, Shape, Computation, Shape]]:
    """Yield `(what, caller's shape, computation, callee's shape)` for all operands and results."""
    bodies, outer = inst.called_computations, inst.operand_shapes
    if inst.spec.has(Trait.CALL):
        for i, shape in enumerate(bodies[0].parameter_shapes[: len(outer)]):
            yield f"operand {i}", outer[i], bodies[0], shape
        yield "the result", inst.shape, bodies[0], bodies[0].result_shape
    elif inst.opcode == "while":
        for comp in bodies:
            yield "the operand", outer[0], comp, comp.parameter_shapes[0]
        body = inst.body
        yield "the result", inst.shape, body, body.result_shape
    elif inst.opcode == "conditional":
        for i, comp in enumerate(bodies):
            yield f"operand {i + 1}", outer[i + 1], comp, comp.parameter_shapes[0]
            yield "the result", inst.shape, comp, comp.result_shape
