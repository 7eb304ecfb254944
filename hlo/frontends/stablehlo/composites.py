"""Composites, and those among them that stand for an operation of CHLO."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo.context import Context
from hlo.frontends.stablehlo.cursor import Attributes, Cursor
from hlo.frontends.stablehlo.same_names import CHLO, spelled
from hlo.frontends.stablehlo.syntax import Op
from hlo.ir import Instruction

_NAME = re.compile(r"[A-Za-z]\w*(?:\.[\w$]+)+", re.A)
# The operations that portable artifacts have as composites, which XLA restores, with this version.
_OF_CHLO = frozenset(f"chlo.{name}" for name in (*map(spelled, CHLO), "ragged_dot", "top_k"))
VERSION = 1


def stands_for(op: Op) -> str | None:
    """Return the name of the operation that a composite stands for, None if it is its own."""
    if op.kind != "composite" or op.attrs.get("version") != VERSION:
        return None
    name = op.attrs.get("name")
    return name if isinstance(name, str) and name in _OF_CHLO else None


def restored(c: Context) -> Context:
    """Return the operation that a composite stands for, which has the composite's attributes."""
    text = str(c.op.attrs.get("composite_attributes", "{}"))
    try:
        found = Cursor(text).attribute()
    except TextError as e:
        raise InferError(f"composite_attributes: {e.message}", code=e.code) from None
    if not isinstance(found, Attributes):
        raise InferError("composite_attributes is not a dictionary", code="bad-value")
    return replace(c, op=replace(c.op, attrs=found))


def composite(c: Context) -> Instruction:
    """Append a call of a composite's decomposition, with its name and attributes."""
    name = str(c.attr("name"))
    if not _NAME.fullmatch(name):
        raise InferError(f"name {name!r} is not of the form dialect.operation", code="bad-value")
    callee = c.converter.function(str(c.attr("decomposition")), c.op.start)
    inst = c.b.op("call", *c.operands, to_apply=callee, is_composite=True)
    attributes = c.op.attrs.get("composite_attributes", "{}")
    inst.annotations["frontend_attributes"] = MappingProxyType({
        "composite.attributes": str(attributes), "composite.name": str(name),
        "composite.version": str(c.integer("version", default=0)),
    })  # fmt: skip
    return inst
