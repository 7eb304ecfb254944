"""Annotations of a module in the form of Shardy: `xla.sdy.*` in its frontend attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo.errors import HloError, InferError, TextError
from hlo.ir import Computation, Instruction, Module
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.propagation.annotations import (
    Annotation,
    Annotations,
    is_call_of,
    leaf_shapes,
    read_annotations,
    shardings_of,
)
from hlo.spmd.propagation.graph import TO_AUTOMATIC, TO_MANUAL, running_computations
from hlo.values.sharding import Sharding
from hlo.values.sharding.shardy import (
    Axis,
    AxisSharding,
    Mesh,
    as_tiles,
    need_fit,
    per_value,
    read_attribute,
    read_axes,
    read_meshes,
    tiles_along,
)
from hlo.values.types import ArrayShape, Shape, TupleShape

MESHES = "xla.sdy.meshes"
_SHARDING = "xla.sdy.sharding"
_IN, _OUT, _MANUAL = "xla.sdy.in_shardings", "xla.sdy.out_shardings", "xla.sdy.manual_axes"
_ENTER, _LEAVE = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_RESULT = "xla.sdy.FuncResultSharding"


def has_meshes(module: Module) -> bool:
    """Return whether a module's shardings are in the form of Shardy."""
    return MESHES in module.attrs.get("frontend_attributes", {})


def _note(inst: Instruction, key: str) -> str | None:
    text = inst.annotations.get("frontend_attributes", {}).get(key)
    return None if text is None else str(text)


def _of_element(inst: Instruction, shardings: list[AxisSharding]) -> list[AxisSharding]:
    """Return an instruction's own shardings: XLA gives an element of a tuple those of all."""
    if inst.opcode != "get-tuple-element":
        return shardings
    whole = inst.operands[0].shape
    assert isinstance(whole, TupleShape)
    counts = [len(leaf_shapes(s)) for s in whole.elements]
    if len(shardings) == counts[inst.tuple_index] or len(shardings) != sum(counts):
        return shardings
    start = sum(counts[: inst.tuple_index])
    return shardings[start : start + counts[inst.tuple_index]]


class ShardyReader:
    """Reads the annotations of a module. Raises HloError (`bad-sharding`, ...) for bad text."""

    def __init__(self, module: Module) -> None:
        self.module = module
        try:
            self.meshes = read_meshes(str(module.attrs["frontend_attributes"][MESHES]))
        except TextError as e:
            raise HloError.at(e.code, f"{MESHES}: {e.message}") from None
        self._known: dict[str, list[AxisSharding]] = {}

    def shardings(self) -> Iterator[Sharding]:
        """Yield every sharding of the module, its meshes cut along each axis among them."""
        yield from shardings_of(self.module)
        for mesh in self.meshes.values():
            if mesh.axes:
                yield tiles_along(mesh, [(Axis(name),) for name, _ in mesh.axes])
        for inst in self.module.instructions():
            for key in (_SHARDING, _IN, _OUT):
                for sharding in self._read(inst, key):
                    yield as_tiles(sharding)

    def _read(self, inst: Instruction, key: str) -> list[AxisSharding]:
        text = _note(inst, key)
        if text is None:
            return []
        if text not in self._known:
            try:
                self._known[text] = read_attribute(text, self.meshes)
            except TextError as e:
                raise self._error(inst, key, e.message, e.code) from None
        return self._known[text]

    def _error(self, inst: Instruction, key: str, message: str, code: str) -> HloError:
        span = inst.span.attr("frontend_attributes") if inst.span is not None else None
        return HloError.at(code, f"{inst.name}: {key}: {message}", span)

    # --- annotations ----------------------------------------------------------------------------

    def annotations(self, mesh: DeviceMesh) -> Annotations:
        """Return what the module demands; its manual computations become manual regions."""
        regions = self._regions(mesh)
        found = read_annotations(self.module, mesh)
        entry = self.module.entry
        if any(is_call_of(i, _RESULT) for i in entry):
            # What the result's own sharding says of open dimensions is only that they are uncut.
            for leaf in range(len(leaf_shapes(entry.root.shape))):
                if not is_call_of(entry.root, _RESULT):
                    found.pop((entry.root, leaf), None)
        for inst in self.module.instructions():
            shardings = self._read(inst, _SHARDING)
            if shardings:
                if len(shardings) == 1 and not leaf_shapes(inst.shape):
                    # It has no results, and names the device that it runs on.
                    inst.annotations["sharding"] = per_value(shardings, inst.shape)
                    continue
                shardings = _of_element(inst, shardings)
                region = regions.get(inst, ())
                for leaf, annotation in self._of(inst, _SHARDING, shardings, inst.shape, mesh):
                    found[inst, leaf] = _in_region(annotation, region)
        self._results(found)
        for inst, region in regions.items():
            if is_call_of(inst, _ENTER):
                self._enter(inst, mesh, region, found)
            elif is_call_of(inst, _LEAVE):
                self._leave(inst, mesh, region, found)
        return found

    def _results(self, found: Annotations) -> None:
        """Give the elements of the entry's result the annotations that their operands are."""
        root = self.module.entry.root
        leaf = 0
        for operand in root.operands if root.opcode == "tuple" else ():
            if is_call_of(operand, _RESULT) and (operand, 0) in found:
                found[root, leaf] = found[operand, 0]
            leaf += len(leaf_shapes(operand.shape))

    def _of(
        self, inst: Instruction, key: str, shardings: Sequence[AxisSharding], shape: Shape,
        mesh: DeviceMesh,
    ) -> list[tuple[int, Annotation]]:  # fmt: skip
        try:
            shapes = leaf_shapes(shape)
            if not shapes:
                return []
            need_fit(shardings, shape)
            return [(leaf, _annotation(s, one, mesh))
                    for leaf, (s, one) in enumerate(zip(shardings, shapes, strict=True))
                    if isinstance(one, ArrayShape)]  # fmt: skip
        except InferError as e:
            raise self._error(inst, key, e.message, e.code) from None

    # --- manual computations --------------------------------------------------------------------

    def _manual(self, inst: Instruction, mesh: DeviceMesh) -> Axes:
        """Return the axes of a manual computation, from where it is entered or left."""
        shardings = [*self._read(inst, _IN), *self._read(inst, _OUT)]
        text = _note(inst, _MANUAL)
        if text is None or not shardings:
            raise self._error(inst, _MANUAL, "a manual computation needs axes and shardings",
                              "bad-sharding")  # fmt: skip
        named = shardings[0].mesh
        try:
            return _axes_of(read_axes(text, named), named, mesh)
        except (TextError, InferError) as e:
            raise self._error(inst, _MANUAL, e.message, e.code) from None

    def _regions(self, mesh: DeviceMesh) -> dict[Instruction, Axes]:
        """Return the manual axes of the region that each instruction has its operands from."""
        regions: dict[Instruction, Axes] = {}  # of the results
        found: dict[Instruction, Axes] = {}
        for comp in running_computations(self.module):
            for inst in comp.in_order():
                here = dict.fromkeys(a for o in inst.operands for a in regions[o])
                found[inst] = tuple(here) or regions.get(inst, ())
                regions[inst] = found[inst]
                if is_call_of(inst, _ENTER, _LEAVE):
                    manual = self._manual(inst, mesh)
                    rest = tuple(a for a in here if a not in manual)
                    regions[inst] = (*rest, *manual) if is_call_of(inst, _ENTER) else rest
                for callee in inst.called_computations:
                    for parameter in callee.parameters:
                        regions[parameter] = regions[inst]
        return found

    def _enter(self, inst: Instruction, mesh: DeviceMesh, outer: Axes, found: Annotations) -> None:
        """Make the operands of a manual computation what one device along its axes has."""
        manual, comp = self._manual(inst, mesh), inst.parent
        assert comp is not None
        shapes = _elements(inst.shape)
        shardings = self._read(inst, _IN)
        if not len(shapes) == len(shardings) == len(inst.operands):
            raise self._error(inst, _IN, f"{len(shardings)} shardings for "
                              f"{len(inst.operands)} operands", "bad-sharding")  # fmt: skip
        parts = []
        for operand, sharding, shape in zip(inst.operands, shardings, shapes, strict=True):
            if shape.is_token:
                parts.append(operand)
                continue
            [(_, said)] = self._of(inst, _IN, [sharding], operand.shape, mesh)
            whole = _mark(comp, "Sharding", operand, operand.shape, inst)
            found[whole, 0] = _in_region(said, outer)
            parts.append(whole)
            if mesh.count(manual) > 1:
                parts[-1] = _mark(comp, TO_MANUAL, whole, shape, inst)
                found[parts[-1], 0] = _inside(said, manual, outer)
        _take_place(inst, parts)

    def _leave(self, inst: Instruction, mesh: DeviceMesh, outer: Axes, found: Annotations) -> None:
        """Make the results of a manual computation the arrays of which each device has a part."""
        manual, comp = self._manual(inst, mesh), inst.parent
        assert comp is not None
        outer = tuple(a for a in outer if a not in manual)
        shapes = _elements(inst.shape)
        shardings = self._read(inst, _OUT)
        if not len(shapes) == len(shardings) == len(inst.operands):
            raise self._error(inst, _OUT, f"{len(shardings)} shardings for "
                              f"{len(inst.operands)} results", "bad-sharding")  # fmt: skip
        parts = []
        for operand, sharding, shape in zip(inst.operands, shardings, shapes, strict=True):
            if shape.is_token:
                parts.append(operand)
                continue
            [(_, said)] = self._of(inst, _OUT, [sharding], shape, mesh)
            target = "Sharding"
            if mesh.count(manual) > 1:
                # What is computed from nothing in the region is known to be there by this.
                operand = _mark(comp, target, operand, operand.shape, inst)
                found[operand, 0] = _inside(said, manual, outer)
                target = TO_AUTOMATIC
            parts.append(_mark(comp, target, operand, shape, inst))
            found[parts[-1], 0] = _in_region(said, outer)
        _take_place(inst, parts)


def _annotation(sharding: AxisSharding, shape: ArrayShape, mesh: DeviceMesh) -> Annotation:
    rank = shape.rank
    tiles = as_tiles(sharding)
    spec = mesh.spec(tiles, rank) if mesh.size > 1 else PartitionSpec.replicated(rank)
    if not sharding.dims:
        return Annotation(spec, (False,) * rank, tiles)
    open_ = tuple(not d.closed for d in sharding.dims)
    return Annotation(
        spec, open_, None if any(open_) else tiles, tuple(d.priority for d in sharding.dims),
        _axes_of(sharding.replicated, sharding.mesh, mesh),
    )  # fmt: skip


def _axes_of(axes: tuple[Axis, ...], named: Mesh, mesh: DeviceMesh) -> Axes:
    """Return axes of a named mesh as those of the device mesh."""
    if mesh.size == 1 or not axes:
        return ()
    return mesh.spec(tiles_along(named, [axes]), 1).dims[0]


def _in_region(said: Annotation, manual: Axes) -> Annotation:
    """Return an annotation within a manual region."""
    if not manual:
        return said
    return replace(said, spec=replace(said.spec, manual=manual), sharding=None)


def _inside(said: Annotation, manual: Axes, outer: Axes) -> Annotation:
    """Return what the annotation of an array says of the part of it in a manual region."""
    dims = tuple(tuple(a for a in axes if a not in manual) for axes in said.spec.dims)
    axes = (*outer, *(a for a in manual if a not in outer))
    return Annotation(PartitionSpec(dims, axes), said.open, None, said.priorities, said.replicated)


def _elements(shape: Shape) -> Sequence[Shape]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def _mark(
    comp: Computation, target: str, operand: Instruction, shape: Shape, like: Instruction
) -> Instruction:
    return comp.create("custom-call", shape, [operand], {"custom_call_target": target}, like=like)


def _take_place(inst: Instruction, parts: list[Instruction]) -> None:
    """Replace an instruction by its elements."""
    comp = inst.parent
    assert comp is not None
    if not inst.shape.is_tuple:
        inst.replace_all_uses_with(parts[0])
    else:
        for user in inst.users:
            if user.opcode == "get-tuple-element":
                user.replace_all_uses_with(parts[user.tuple_index])
                if not user.is_root:
                    comp.remove(user)
        if inst.num_users or inst.is_root:
            inst.replace_all_uses_with(comp.create("tuple", inst.shape, parts, like=inst))
    comp.remove(inst)
