"""Annotations with the origins of values."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import Shape, TupleShape


@module_pass
def add_original_value(module: Module, rewrites: Rewrites) -> None:
    """Annotate every array with the instruction of this module that defines it, and its index.

    Elements of tuples keep the annotations of their definitions. Existing annotations are kept.
    """
    for comp in module.computations:
        found: dict[Instruction, _Tree] = {}
        for inst in comp.in_order():
            found[inst] = tree = _tree(inst, found)
            text = _text(tree)
            if text is None or "origin" in inst.annotations:
                continue
            if rewrites.allow("add_original_value", inst):
                call = f',["{inst.name}#$"]' if inst.opcode == "while" else ""
                inst.annotations["origin"] = f"{{{text}{call}}}"


# The note of an array, the trees of a tuple's elements, or None for a token.
_Tree = str | list["_Tree"] | None


def _tree(inst: Instruction, found: dict[Instruction, _Tree]) -> _Tree:
    if inst.opcode == "tuple":
        return [found[o] for o in inst.operands]
    if inst.opcode == "get-tuple-element":
        whole = found[inst.operands[0]]
        assert isinstance(whole, list)
        return whole[inst.tuple_index]
    return _made_by(inst.name, inst.shape, ())


def _made_by(name: str, shape: Shape, index: tuple[int, ...]) -> _Tree:
    if isinstance(shape, TupleShape):
        return [_made_by(name, s, (*index, n)) for n, s in enumerate(shape.elements)]
    if not shape.is_array:
        return None
    place = f" {{{','.join(map(str, index))}}}" if index else ""
    return f'{{"{name}"{place}}}'


def _text(tree: _Tree) -> str | None:
    """Return the text of a tree, None where nothing is noted."""
    if not isinstance(tree, list):
        return tree
    parts = [_text(t) for t in tree]
    if not any(parts):
        return None
    return f"({', '.join(p or '{}' for p in parts)})"
