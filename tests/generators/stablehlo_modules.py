"""Forms of what surrounds operations in StableHLO: constants, types, functions, regions, modules.

Right ones and wrong ones, line by line; MLIR's own parser says which are which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_TABLES = Path(__file__).with_suffix(".txt")


def modules() -> Iterator[tuple[str, str]]:
    """Yield all forms: a unique name, and the text."""
    for number, value in enumerate(_lines("constants")):
        kind = value.rpartition(" : ")[2]
        forms = {
            "short": f"stablehlo.constant {value}",
            "generic": f'"stablehlo.constant"() <{{value = {value}}}> : () -> {kind}',
        }
        for how, text in forms.items():
            yield (
                f"constant {number}, {how}",
                (f"func.func @main() -> {kind} {{\n  %0 = {text}\n  return %0 : {kind}\n}}\n"),
            )
    for number, kind in enumerate(_lines("types")):
        yield (
            f"type {number}",
            (f"func.func @main(%a: {kind}) -> {kind} {{\n  return %a : {kind}\n}}\n"),
        )
        yield (
            f"type {number} of a barrier",
            (
                f"func.func @main(%a: {kind}) -> {kind} {{\n"
                f"  %0 = stablehlo.optimization_barrier %a : {kind}\n  return %0 : {kind}\n}}\n"
            ),
        )
    for number, text in enumerate(_lines("functions")):
        for kind in ("tensor<4xf32>", "!stablehlo.token"):
            yield (
                f"function {number} of {kind}",
                _of(kind, text).replace(" func.func", "\nfunc.func"),
            )
    for number, text in enumerate(_lines("operations")):
        yield (
            f"operation {number}",
            _of(
                "tensor<4xf32>",
                f"func.func @main(%a: T, %p: tensor<4xi1>) -> T {{\n  %0 = {text}\n"
                "  return %0 : T\n}\n",
            ),
        )


def _of(kind: str, text: str) -> str:
    return re.sub(r"\bT\b", kind, text)


def _lines(section: str) -> list[str]:
    """Return the lines of a section of the tables."""
    text = _TABLES.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [line for line in text.split("\n") if line]
