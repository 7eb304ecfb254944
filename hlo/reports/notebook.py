"""What notebooks show of modules and computations; `hlo.reports.module` attaches it."""

from __future__ import annotations

from itertools import islice

from hlo.frontends.text import PrintOptions
from hlo.frontends.text.printer import print_instruction
from hlo.ir import Computation, Module
from hlo.ir.computation import counted
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


def _text(comp: Computation, keyword: str = "") -> str:
    shown = comp.in_order()[:LINES]
    lines = [f"  {print_instruction(inst, _OPTIONS)}" for inst in shown]
    rest = len(comp) - len(shown)
    more = f"  ... and {counted(rest, 'more instruction')}" if rest else ""
    content = listing([f"{keyword}%{comp.name} {{", *lines], f"{more}\n}}" if more else "}")
    return fold(f"{keyword}{comp.name}: {counted(len(comp), 'instruction')}", content)
