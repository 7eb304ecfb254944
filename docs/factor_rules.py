"""Prints docs/factor-rules.md: the factor rule of every opcode, on its examples in the op table.

python -m docs.factor_rules > docs/factor-rules.md
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

from hlo.frontends.text import parse
from hlo.ops import OPS
from hlo.ops.factors import DimFactors, FactorKind, FactorRule
from hlo.values.types import ArrayShape, Shape

_HEAD = """# Factor rules

Along which dimensions each operation can be cut: what sharding propagation and the partitioner work
from ([sharding](sharding.md)). `make operations` generates this page from the op table.

The letters are the factors of an example of the operation. A dimension with two letters is their
product, the first the major one, and one with none is of size 1 and belongs to no index. `( )` is
what is not an array. Factors that are in none of the columns pass through: each part of the result
is the operation on parts of the operands.

- *Reduced*: parts of the operands give partial results.
- *Moved*: a part of the result takes elements of other parts, or depends on where it is.
- *Whole*: each device needs all of it, for the reason that is given. A reason without letters is
  that of an operation without factors.
"""


def render() -> str:
    """Return the page."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, spec in OPS.items():
        for text in spec.examples:
            inst = next(i for i in parse(text).instructions() if i.opcode == name)
            shapes = inst.operand_shapes, [s for _, s in inst.shape.leaves()]
            names = rows.setdefault(_cells(spec.factors(inst), *shapes), [])
            if name not in names:
                names.append(name)
    lines = [_HEAD, "| operation | factors | reduced | moved | whole |", "|---|---|---|---|---|"]
    for cells, names in sorted(rows.items(), key=lambda row: row[1]):
        lines.append(f"| {', '.join(f'`{n}`' for n in names)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cells(
    rule: FactorRule, operands: Sequence[Shape], results: Sequence[Shape]
) -> tuple[str, str, str, str]:
    if rule.structural:
        return ("-", "-", "-", rule.reason)
    factors = " ".join(map(_written, rule.operands, operands))
    factors += " -> " + " ".join(map(_written, rule.results, results))
    reduced, moved, needed = (
        ", ".join(ascii_lowercase[n] for n, f in enumerate(rule.factors) if f.kind is kind)
        for kind in (FactorKind.REDUCTION, FactorKind.PERMUTATION, FactorKind.NEED_REPLICATION)
    )
    whole = f"{needed}: {rule.reason}" if needed else "-"
    return (f"`{factors.strip()}`", reduced or "-", moved or "-", whole)


def _written(dims: DimFactors, shape: Shape) -> str:
    if not isinstance(shape, ArrayShape):
        return "( )"
    return f"[{','.join(''.join(ascii_lowercase[n] for n in factors) for factors in dims)}]"


if __name__ == "__main__":
    print(render(), end="")
