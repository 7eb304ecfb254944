"""A module as one HTML page: a drawing for each computation, with search, and no other file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hlo.ir import Computation, Instruction, Module
from hlo.reports.graph.layers import Spot, arrange
from hlo.reports.graph.style import colour, shape_text, title

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 190, 44, 14, 46
_MAX_LABEL = 28

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<style>
body {{ font: 13px sans-serif; margin: 1em; }}
header {{ position: sticky; top: 0; background: white; padding: 4px 0; }}
details {{ border: 1px solid #bbb; border-radius: 4px; margin: 6px 0; padding: 4px 8px; }}
summary {{ cursor: pointer; }}
.drawing {{ overflow: auto; max-height: 85vh; }}
rect {{ stroke: #666; }}
.root rect {{ stroke-width: 2.5; }}
.found rect {{ stroke: #d00; stroke-width: 3; }}
path {{ fill: none; stroke: #888; }}
path.order {{ stroke-dasharray: 3 3; }}
text {{ font-size: 11px; }}
text.name {{ fill: #444; font-size: 10px; }}
</style></head><body>
<header><b>{name}</b> <input id="find" size="40" placeholder="name, opcode or shape">
<span id="count"></span></header>
"""
_FOOT = """<script>
const find = document.getElementById("find"), count = document.getElementById("count");
find.addEventListener("input", () => {
  const word = find.value.trim().toLowerCase();
  let found = 0, first = null;
  for (const node of document.querySelectorAll("g.node")) {
    const hit = word && node.dataset.text.includes(word);
    node.classList.toggle("found", Boolean(hit));
    if (hit) { found++; first ??= node; }
  }
  count.textContent = word ? found + " found" : "";
  if (first) {
    first.closest("details").open = true;
    first.scrollIntoView({ block: "center", inline: "center" });
  }
});
</script></body></html>
"""


def to_html(module: Module) -> str:
    """Return a page that shows a module: values flow downwards, dashed lines are order only."""
    parts = [_HEAD.format(name=escape(module.name))]
    ordered = sorted(module.computations, key=lambda comp: comp is not module.entry)
    for comp in ordered:
        is_open = " open" if comp is module.entry else ""
        label = f"{escape(comp.name)}, {len(comp)} instructions"
        parts.append(f'<details{is_open} id="{escape(comp.name)}"><summary>{label}</summary>')
        parts.extend(_drawing(comp))
        parts.append("</details>\n")
    return "".join([*parts, _FOOT])


def _drawing(comp: Computation) -> Iterator[str]:
    order = comp.in_order()
    numbers = {inst: n for n, inst in enumerate(order)}
    spots = arrange([[numbers[before] for before in inst.predecessors()] for inst in order])
    width = (max(s.place for s in spots) + 1) * (_WIDTH + _GAP_X)
    height = (max(s.layer for s in spots) + 1) * (_HEIGHT + _GAP_Y)
    yield f'<div class="drawing"><svg width="{width}" height="{height}">'
    for inst in order:
        to = spots[numbers[inst]]
        count = len(inst.operands)
        for n, operand in enumerate(inst.operands):
            yield _edge(spots[numbers[operand]], to, (n + 1) / (count + 1), "value")
        for before in inst.control_predecessors:
            yield _edge(spots[numbers[before]], to, 0.5, "order")
    for inst in order:
        yield _node(inst, spots[numbers[inst]])
    yield "</svg></div>"


def _corner(spot: Spot) -> tuple[int, int]:
    return spot.place * (_WIDTH + _GAP_X) + 4, spot.layer * (_HEIGHT + _GAP_Y) + 4


def _edge(start: Spot, end: Spot, share: float, kind: str) -> str:
    (x0, y0), (x1, y1) = _corner(start), _corner(end)
    x0, y0, x1 = x0 + _WIDTH // 2, y0 + _HEIGHT, x1 + round(_WIDTH * share)
    bend = _GAP_Y // 2
    return f'<path class="{kind}" d="M{x0} {y0}C{x0} {y0 + bend} {x1} {y1 - bend} {x1} {y1}"/>'


def _node(inst: Instruction, spot: Spot) -> str:
    x, y = _corner(spot)
    shape = shape_text(inst.shape)
    searched = escape(f"{inst.name} {inst.opcode} {shape}".lower())
    calls = "".join(f"\ncalls {c.name}" for c in inst.called_computations)
    operands = ", ".join(o.name for o in inst.operands)
    tip = escape(f"{inst.name} = {inst.shape} {inst.opcode}({operands}){calls}")
    kind = "node root" if inst.is_root else "node"
    lines = (
        f'<text x="{x + 6}" y="{y + 14}">{_label(title(inst))}</text>'
        f'<text class="name" x="{x + 6}" y="{y + 26}">{_label(inst.name)}</text>'
        f'<text class="name" x="{x + 6}" y="{y + 38}">{_label(shape)}</text>'
    )
    return (
        f'<g class="{kind}" data-text="{searched}"><title>{tip}</title>'
        f'<rect x="{x}" y="{y}" rx="4" width="{_WIDTH}" height="{_HEIGHT}" '
        f'fill="{colour(inst)}"/>{lines}</g>'
    )


def _label(text: str) -> str:
    return escape(text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}\u2026")
