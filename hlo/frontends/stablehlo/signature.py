"""Attributes of functions, arguments, results and operations: shardings, layouts, aliases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo import sdy
from hlo.frontends.stablehlo.auto_layouts import open_layout
from hlo.frontends.stablehlo.functions import Function, Program
from hlo.frontends.text.header import ProgramShape
from hlo.ir import Computation, Instruction, Module
from hlo.ir.aliases import BufferDonor, InputOutputAlias
from hlo.ir.builder import Builder
from hlo.values.scan import Scanner
from hlo.values.sharding import Sharding, TupleSharding, WholeSharding
from hlo.values.sharding.shardy import Mesh
from hlo.values.sharding.text import read_sharding
from hlo.values.types import ArrayShape, Layout, Shape, TupleShape, without_layout

_ORDER = re.compile(r"\{\s*(\d+(?:\s*,\s*\d+)*)?\s*\}")
_COUNTS = {"mhlo.num_partitions": "num_partitions", "mhlo.num_replicas": "replica_count"}


def annotate(
    inst: Instruction, built: Sequence[Instruction], attrs: Mapping[str, Any],
    meshes: Mapping[str, Mesh],
) -> None:  # fmt: skip
    """Set the attributes that any operation may have on its instructions. Raises InferError.

    inst: the value of the operation; built: all instructions appended for it.
    """
    if "mhlo.sharding" in attrs:
        inst.annotations["sharding"] = _sharding(attrs["mhlo.sharding"])
    notes = attrs.get("mhlo.frontend_attributes")
    if isinstance(notes, dict):
        for one in built:
            known = dict(one.annotations.get("frontend_attributes", {}))
            known |= {k: str(v) for k, v in notes.items()}
            one.annotations["frontend_attributes"] = MappingProxyType(dict(sorted(known.items())))
    if "sdy.sharding" in attrs:
        sdy.annotate(inst, attrs["sdy.sharding"], meshes)


def _sharding(text: Any) -> Sharding:
    scanner = Scanner(str(text))
    try:
        found = read_sharding(scanner)
        scanner.end()
    except TextError as e:
        raise InferError(f"mhlo.sharding: {e.message}", code=e.code) from None
    return found


def shard_results(
    comp: Computation, attrs: Sequence[Mapping[str, Any]], meshes: Mapping[str, Mesh]
) -> None:
    """Set the shardings of a function's results. Raises InferError."""
    if not any("mhlo.sharding" in a or "sdy.sharding" in a for a in attrs):
        return
    b, root = Builder(comp), comp.root
    several = len(attrs) != 1
    results = list(root.operands) if several else [root]
    shardings: list[Sharding] = []
    for i, found in enumerate(attrs):
        sharding: Sharding = WholeSharding("replicated")
        if "sdy.sharding" in found:
            results[i], sharding = sdy.result_sharding(b, results[i], found["sdy.sharding"], meshes)
        elif "mhlo.sharding" in found:
            sharding = _sharding(found["mhlo.sharding"])
        shardings.append(sharding)
    # A new root: the returned value may have a sharding of its own.
    whole = b.tuple(*results)
    if several:
        whole.annotations["sharding"] = TupleSharding(tuple(shardings))
    else:
        whole = b.op("get-tuple-element", whole, index=0)
        whole.annotations["sharding"] = shardings[0]
    comp.set_root(whole)
    if several and not root.num_users:
        comp.remove(root)


def set_header(module: Module, program: Program, main: Function) -> None:
    """Set the module's header from attributes of the MLIR module and of `main`. Raises
    InferError."""
    entry = module.entry
    attrs = module.attrs
    for name, key in _COUNTS.items():
        count = program.attrs.get(name, 1)
        if type(count) is not int or not 0 < count < 1 << 31:
            raise InferError(f"{name} is a count, not {count!r}", code="bad-value")
        if count > 1:
            attrs[key] = count
    notes = program.attrs.get("mhlo.frontend_attributes")
    known = {k: str(v) for k, v in notes.items()} if isinstance(notes, dict) else {}
    if program.meshes:
        listed = (f"{name} = #sdy.mesh<{' '.join(mesh.text.split())}>"
                  for name, mesh in sorted(program.meshes.items()))  # fmt: skip
        known["xla.sdy.meshes"] = f"{{{', '.join(listed)}}}"
    known |= _memory_kinds({"parameter": main.arguments, "result": main.results})
    if known:
        attrs["frontend_attributes"] = MappingProxyType(known)
    _alias(module, main)
    parameters = [_laid_out(p.shape, a.attrs) for p, a in
                  zip(entry.parameters, main.arguments, strict=True)]  # fmt: skip
    result = _result_shape(entry, main, parameters)
    if parameters != [p.shape for p in entry.parameters] or result != entry.result_shape:
        attrs["entry_computation_layout"] = ProgramShape(tuple(parameters), result)


def _result_shape(entry: Computation, main: Function, parameters: Sequence[Shape]) -> Shape:
    """Return the shape of the result: an operation may give it another layout, but callers get what
    they say, or the default one."""
    result = without_layout(entry.result_shape)
    if len(main.results) == 1:
        attrs = main.results[0].attrs
        return _laid_out(result, attrs, open_layout(entry.root, parameters))
    if not isinstance(result, TupleShape) or len(main.results) != len(result.elements):
        return result
    is_open = entry.root.opcode == "tuple"
    found = []
    for n, (shape, declared) in enumerate(zip(result.elements, main.results, strict=True)):
        where_open = open_layout(entry.root.operands[n], parameters) if is_open else None
        found.append(_laid_out(shape, declared.attrs, where_open))
    return TupleShape(tuple(found))


def _memory_kinds(sides: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return where arguments and results are to be, as frontend attributes, if one is elsewhere
    than usual."""
    found = {}
    for side, declared in sides.items():
        kinds = [d.attrs.get("mhlo.memory_kind", "device") for d in declared]
        if any(kind != "device" for kind in kinds):
            found[f"{side}_memory_kinds"] = ",".join(map(str, kinds))
    return found


def _alias(module: Module, main: Function) -> None:
    aliases, donors = [], []
    count = len(main.results)
    for number, declared in enumerate(main.arguments):
        attrs = declared.attrs
        output = attrs.get("tf.aliasing_output")
        if output is not None:
            if type(output) is not int or not 0 <= output < max(count, 1):
                raise InferError(
                    f"tf.aliasing_output {output} of {count} results", code="bad-value"
                )
            aliases.append(InputOutputAlias((output,) if count != 1 else (), number))
        elif attrs.get("jax.buffer_donor") is True:
            donors.append(BufferDonor(number))
    if aliases:
        module.attrs["input_output_alias"] = tuple(aliases)
    if donors:
        module.attrs["buffer_donor"] = tuple(donors)


def _laid_out(shape: Shape, attrs: Mapping[str, Any], where_open: Layout | None = None) -> Shape:
    """Return a shape in the layout of `mhlo.layout_mode`.

    where_open: the layout where that leaves it open.
    """
    mode = attrs.get("mhlo.layout_mode", "default")
    if mode == "auto" and isinstance(shape, ArrayShape) and where_open is not None:
        return shape.with_layout(where_open)
    m = _ORDER.fullmatch(mode) if isinstance(mode, str) else None
    if m is None or not isinstance(shape, ArrayShape):
        return shape
    order = tuple(int(n) for n in m[1].split(",")) if m[1] else ()
    if sorted(order) != list(range(shape.rank)):
        raise InferError(f"mhlo.layout_mode {mode} for {shape}", code="bad-layout")
    return shape.with_layout(Layout(order))
