"""What notebooks show of modules and computations; `hlo.reports.module` attaches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from hlo.analysis.cost import Cost
from hlo.frontends.text import PrintOptions
from hlo.frontends.text.printer import print_instruction
from hlo.ir import Computation, Instruction, Module
from hlo.ir.computation import counted
from hlo.reports.numbers import bytes_text, count_text
from hlo.support.notebook import LINES, ROWS, block, fold, listing, paragraph, table

_OPTIONS = PrintOptions(constant_limit=16, metadata=False, backend_config=False)


def module_html(module: Module) -> str:
    """Return a line about a module; folded, its entry's text and its other computations."""
    entry = module.entry if module.has_entry else None
    others = [c for c in module.computations if c is not entry]
    parts = [paragraph(repr(module).strip("<>"))]
    if entry is not None:
        parts.append(_text(entry, "ENTRY "))
    if others:
        rows = ((c.name, str(len(c))) for c in islice(others, ROWS))
        content = table(["computation", "instructions"], rows, count=len(others))
        parts.append(fold(counted(len(others), "other computation"), content))
    return block(*parts)


def computation_html(comp: Computation) -> str:
    """Return a line about a computation; folded, its text."""
    return block(paragraph(repr(comp).strip("<>")), _text(comp))


def cost_html(total: Cost, rows: Sequence[tuple[Instruction, Cost]]) -> str:
    """Return what a run costs in a line, and its instructions, the dearest first, as a table."""
    head = ["instruction", "opcode", "shape", "operations", "transcendentals", "bytes"]
    cells = (
        (i.name, i.opcode, str(i.shape), count_text(c.operations), count_text(c.transcendentals),
         bytes_text(c.bytes))
        for i, c in islice(rows, ROWS)
    )  # fmt: skip
    text = (
        f"{count_text(total.operations)} operations, {count_text(total.transcendentals)} "
        f"transcendentals, {bytes_text(total.bytes)} of memory traffic, unfused"
    )
    text += "" if total.exact else ", or more"
    return block(paragraph(text), table(head, cells, left=(0, 1, 2), count=len(rows)))


def statistics_html(
    title: str, facts: Sequence[tuple[str, str]], opcodes: Mapping[str, int],
    computations: Mapping[str, Mapping[str, Any]],
) -> str:  # fmt: skip
    """Return what is known of a module at a glance; opcodes and computations are folded."""
    counts = [(name, str(n)) for name, n in islice(opcodes.items(), ROWS)]
    comps = [
        (name, str(c["instructions"]), count_text(c["cost"].operations),
         bytes_text(c["cost"].bytes))
        for name, c in islice(computations.items(), ROWS)
    ]  # fmt: skip
    columns = ["computation", "instructions", "operations", "bytes"]
    folds = (
        ("opcode", len(opcodes), ["opcode", "instructions"], counts),
        ("computation", len(computations), columns, comps),
    )
    return block(
        paragraph(title), table(["a run", ""], facts),
        *(fold(counted(n, what), table(head, rows, count=n)) for what, n, head, rows in folds),
    )  # fmt: skip


def _text(comp: Computation, keyword: str = "") -> str:
    shown = comp.in_order()[:LINES]
    lines = [f"  {print_instruction(inst, _OPTIONS)}" for inst in shown]
    rest = len(comp) - len(shown)
    more = f"  ... and {counted(rest, 'more instruction')}" if rest else ""
    content = listing([f"{keyword}%{comp.name} {{", *lines], f"{more}\n}}" if more else "}")
    return fold(f"{keyword}{comp.name}: {counted(len(comp), 'instruction')}", content)
