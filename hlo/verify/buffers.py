"""Buffers `b(shape)`: memory that operations write in place, so that every write is by one user.

Source: the description of buffers in XLA's documentation. `Pin` turns an array into a buffer,
`Unpin` a buffer into an array, `CreateBuffer` makes one; all are custom calls.
"""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.types import BufferShape, Shape, compatible
from hlo.verify.report import Report


def check_buffers(module: Module, report: Report) -> None:
    """Check the operations that make, end and write buffers."""
    for inst in module.instructions():
        if report.breaks_own_rule(inst):
            continue
        target = inst.attrs.get("custom_call_target")
        if target in ("Pin", "Unpin", "CreateBuffer"):
            _check_conversion(inst, str(target), report)
        if isinstance(inst.shape, BufferShape):
            writers = [u for u in inst.users if _writes(u, inst)]
            if len(writers) > 1:
                report.add(
                    "bad-buffer",
                    f"the buffer is written by {len(writers)} operations, one may", inst,
                    notes=[(f"{w.name} writes it here", w) for w in writers],
                )  # fmt: skip


def _check_conversion(inst: Instruction, target: str, report: Report) -> None:
    wanted = 0 if target == "CreateBuffer" else 1
    if len(inst.operands) != wanted:
        report.add("operand-count", f"{target} takes {wanted}, not {len(inst.operands)}", inst)
        return
    buffer, array = (
        (inst.operands[0].shape, inst.shape)
        if target == "Unpin"
        else (inst.shape, inst.operands[0].shape if wanted else _contents(inst.shape))
    )
    if not isinstance(buffer, BufferShape) or not compatible(buffer.element, array):
        report.add(
            "bad-buffer",
            f"{target} goes between an array and a buffer of it, not {array.to_string(False)} and "
            f"{buffer.to_string(False)}",
            inst,
        )  # fmt: skip


def _contents(shape: Shape) -> Shape:
    return shape.element if isinstance(shape, BufferShape) else shape


def _writes(user: Instruction, buffer: Instruction) -> bool:
    if user.attrs.get("custom_call_target") == "Unpin":
        return True
    places = {i for i, operand in enumerate(user.operands) if operand is buffer}
    aliases = user.attrs.get("output_to_operand_aliasing") or ()
    return any(a.operand in places for a in aliases)
