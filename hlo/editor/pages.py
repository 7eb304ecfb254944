"""Web pages on operations: the section of each in OpenXLA's operation semantics."""

from __future__ import annotations

import re

from hlo.ops.spec import OpSpec

_PAGE = "https://openxla.org/xla/operation_semantics"
_REPOSITORY = "https://github.com/openxla/xla/blob/main"
# Sections of operations whose source in the op table is their opcode, if they have another name.
_SECTIONS = {
    "cosine": "Cos", "count-leading-zeros": "Clz", "divide": "Div", "exponential": "Exp",
    "exponential-minus-one": "Expm1", "log-plus-one": "Log1p", "maximum": "Max", "minimum": "Min",
    "multiply": "Mul", "negate": "Neg", "popcnt": "PopulationCount", "power": "Pow",
    "remainder": "Rem", "sine": "Sin", "subtract": "Sub",
}  # fmt: skip
# Elementwise operations that have no section yet.
_MISSING = frozenset({"acos", "acosh", "asin", "asinh", "atanh", "exp2", "log2", "sinh"})
_NAME = re.compile(r'(?:003:? )?"?((?:[A-Z][a-z0-9]+)+[A-Z]?)\b')
_OPCODE = re.compile(r"003: ([a-z][a-z0-9-]*)$")
_FILE = re.compile(r"\bxla/[\w/]+\.(?:h|cc)\b")


def link_of(spec: OpSpec) -> str | None:
    """Return a link in Markdown to the page of an operation, None if none is known."""
    if spec.name in _MISSING:
        return None
    opcode, named = _OPCODE.match(spec.source), _NAME.match(spec.source)
    if opcode is not None:
        section = _SECTIONS.get(opcode[1]) or "".join(w.title() for w in opcode[1].split("-"))
    elif named is not None and not spec.source.startswith("Stable"):
        section = named[1]
    else:
        file = _FILE.search(spec.source)
        return None if file is None else f"[XLA: {file[0]}]({_REPOSITORY}/{file[0]})"
    return f"[OpenXLA operation semantics: {section}]({_PAGE}#{section.lower()})"
