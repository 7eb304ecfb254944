"""Each instruction by itself: operand count, attributes, shape, and the rule of its operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo.errors import InferError
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.ops.spec import OpRecord
from hlo.values.layout.bitcasts import layout_of, reshape_is_bitcast
from hlo.values.types import (
    HOST_MEMORY_SPACE,
    ArrayShape,
    ElementType,
    Shape,
    TupleShape,
    compatible,
)
from hlo.verifier.report import Report, VerifyOptions
from hlo.verifier.shapes import (
    in_host_memory,
    is_unbounded,
    mismatch,
    same,
    shape_problem,
    without_space,
)

# Operations whose result has the layout of their operands.
_KEEPS_LAYOUT = Trait.KEEPS_LAYOUT | Trait.ELEMENTWISE

# Operations that pass buffers on as they are: their result has the layouts that inference finds.
_PASSES_LAYOUT = frozenset(
    {
        "bitcast", "call", "conditional", "constant", "copy-done", "copy-start", "custom-call",
        "dynamic-update-slice", "fusion", "get-tuple-element", "infeed", "opt-barrier", "outfeed",
        "parameter", "recv", "recv-done", "send", "send-done", "tuple", "while",
    }
)  # fmt: skip
# Of these, the ones that move between memory spaces.
_PASSES_ORDER_ONLY = frozenset({"copy-start", "recv", "send"})


def check_instructions(module: Module, options: VerifyOptions, report: Report) -> None:
    """Check every instruction of a structurally sound module."""
    fused = frozenset(
        comp
        for inst in module.instructions()
        if inst.opcode == "fusion"
        for comp in inst.called_computations
    )
    checker = InstructionChecker(options, report, fused)
    for comp in module.computations:
        for inst in comp:
            checker.check(inst)


class InstructionChecker:
    """Checks instructions one by one. fused: the computations of fusions."""

    def __init__(
        self, options: VerifyOptions, report: Report, fused: frozenset[Computation] = frozenset()
    ) -> None:
        self._options = options
        self._report = report
        self._stricter = (
            options.sorted_broadcasts or options.reshapes_are_bitcasts or options.names_unchanged
        )
        self._fused = fused
        # Valid shapes, by identity: many instructions share few shapes. The values keep the ids
        # alive.
        self._sound: dict[int, Shape] = {}

    def check(self, inst: Instruction) -> None:
        """Report what is wrong with an instruction whatever the others are."""
        if id(inst.shape) not in self._sound and not self._shape_is_sound(inst):
            return
        if not self._has_its_attributes(inst):
            return
        if not inst.spec.takes(len(inst.operands)):
            return  # already reported by the structure check
        if not self._window_is_whole(inst):
            return
        try:
            inferred = self._infer(inst)
            inst.spec.verify(inst)
        except InferError as e:
            self._report.add_infer_error(inst, e)
            return
        shape = inst.shape
        if inferred is not shape and inferred != shape:
            self._compare(inst, inferred)
        if self._options.layout_sensitive:
            self._check_kept_layout(inst)
        if self._stricter:
            self._check_stricter(inst)

    def _shape_is_sound(self, inst: Instruction) -> bool:
        shape = inst.shape
        problem = shape_problem(shape)
        if problem is None and not self._options.allow_unbounded_dynamism and is_unbounded(shape):
            problem = "unbounded-dimension", "dimensions without a bound are not allowed"
        if problem is None and not self._options.allow_host_memory_space and in_host_memory(shape):
            problem = "host-memory", "values in the host's memory space are not allowed"
        if problem is not None:
            self._report.add(problem[0], problem[1], inst)
            return False
        self._sound[id(shape)] = shape
        return True

    def _has_its_attributes(self, inst: Instruction) -> bool:
        spec, attrs = inst.spec, inst.attrs
        if attrs.keys() != spec.attrs.keys():
            for key in spec.attrs.keys() - attrs.keys():
                self._report.add("missing-attribute", f"attribute {key} is missing", inst)
            for key in attrs.keys() - spec.attrs.keys():
                self._report.add(
                    "unknown-attribute", f"it has no attribute {key}", inst, attr=key,
                    hint="one of " + ", ".join(spec.attrs) if spec.attrs else None,
                )  # fmt: skip
            return False
        missing = [k for k, a in spec.attrs.items() if a.required and attrs[k] is None]
        for key in missing:
            self._report.add("missing-attribute", f"attribute {key} is missing", inst)
        return not missing

    def _window_is_whole(self, inst: Instruction) -> bool:
        window = inst.attrs.get("window") or ()
        given = [dim for dim in window if dim.reversal is not None]
        if len(given) == len(window):
            return True
        self._report.add(
            "bad-value", f"rhs_reversal has {len(given)} dimensions, the window has {len(window)}",
            inst, attr="window",
        )  # fmt: skip
        return False

    def _infer(self, inst: Instruction) -> Shape:
        if not self._options.allow_mixed_precision:
            return inst.spec.infer(inst)
        try:
            return inst.spec.infer(inst)
        except InferError as e:
            # Operands that differ in precision only count as the widest of them, and as what the
            # computation that they are passed to takes.
            promoted = None
            if e.code in ("type-mismatch", "shape-mismatch"):
                promoted = _promote(inst.operand_shapes)
            elif e.code == "bad-computation":
                promoted = _as_passed(inst)
            if promoted is None:
                raise
            return inst.spec.infer(OpRecord.of(inst, promoted))

    def _compare(self, inst: Instruction, inferred: Shape) -> None:
        """Report a declared shape that is not the inferred one."""
        got, layouts = inst.shape, self._options.layout_sensitive
        passes = inst.opcode in _PASSES_LAYOUT
        if layouts and inst.opcode == "copy":
            passes = _crosses_to_host(inferred, got)
        layouts = layouts and passes
        if layouts:
            inferred = self._as_placed(inst, inferred)
        if same(inferred, got, layouts=layouts, orders_only=inst.opcode in _PASSES_ORDER_ONLY):
            return
        if (
            self._options.allow_mixed_precision
            and not passes
            and _same_but_precision(inferred, got)
        ):
            return
        code = "shape-mismatch"
        if compatible(inferred, got):
            code = "layout-mismatch"
        elif compatible(inferred, got, ignore_element_type=True):
            code = "type-mismatch"
        what, said, found = mismatch("the result", got, inferred, layouts=layouts)
        message = f"{what} is {said}, the operands and attributes give {found}"
        self._report.add(code, message, inst)

    def _as_placed(self, inst: Instruction, inferred: Shape) -> Shape:
        """Return the inferred shape with what of its layout the operation is free to choose."""
        got = inst.shape
        if not isinstance(got, ArrayShape) or not isinstance(inferred, ArrayShape):
            return inferred
        here, layout = layout_of(got), layout_of(inferred)
        if inst.opcode == "copy":
            if here.memory_space == HOST_MEMORY_SPACE:
                return inferred.with_layout(here)  # may transpose, even in host memory
            return inferred.with_layout(replace(layout, memory_space=here.memory_space))
        if inst.opcode == "dynamic-update-slice" and inst.parent in self._fused:
            # Inside fusions, memory spaces and tiles are not final.
            layout = replace(layout, memory_space=here.memory_space, tiles=here.tiles)
            return inferred.with_layout(layout)
        return inferred

    def _check_kept_layout(self, inst: Instruction) -> None:
        """Check that the layout stays where the operation cannot change it."""
        result = inst.shape
        if not isinstance(result, ArrayShape) or not (inst.spec.has(_KEEPS_LAYOUT)):
            return
        # An element size is part of the layout, and the element type may change.
        want = replace(without_space(layout_of(result)), element_bits=0)
        for i, operand in enumerate(inst.operand_shapes):
            if isinstance(operand, ArrayShape) and operand.rank == result.rank:
                self._check_space(inst, i, operand, result)
                if replace(without_space(layout_of(operand)), element_bits=0) != want:
                    self._report.add(
                        "layout-mismatch",
                        f"the result is {result}, operand {i} is {operand}: this operation "
                        "does not change layouts",
                        inst, operand=i,
                    )  # fmt: skip

    def _check_space(
        self, inst: Instruction, number: int, operand: ArrayShape, result: ArrayShape
    ) -> None:
        """Check that a dynamic slice moves data the way it can: to the device, an update to the
        host."""
        if inst.opcode not in ("dynamic-slice", "dynamic-update-slice"):
            return
        before, after = layout_of(operand).memory_space, layout_of(result).memory_space
        reads = inst.opcode == "dynamic-slice"
        if (before, after) == ((0, HOST_MEMORY_SPACE) if reads else (HOST_MEMORY_SPACE, 0)):
            self._report.add(
                "layout-mismatch",
                f"it cannot move data from memory space {before} of operand {number} to {after}",
                inst, operand=number,
            )  # fmt: skip

    def _check_stricter(self, inst: Instruction) -> None:
        """Check constraints that only some pipelines require."""
        options, opcode = self._options, inst.opcode
        if options.sorted_broadcasts and opcode == "broadcast":
            dims = inst.dimensions
            if list(dims) != sorted(dims):
                self._report.add(
                    "bad-dimension", f"the dimensions {{{','.join(map(str, dims))}}} do not ascend",
                    inst, attr="dimensions",
                )  # fmt: skip
        if options.reshapes_are_bitcasts and opcode == "reshape" and inst.parent not in self._fused:
            operand, result = inst.operand_shapes[0], inst.shape
            assert isinstance(operand, ArrayShape) and isinstance(result, ArrayShape)
            if not reshape_is_bitcast(operand, result):
                self._report.add(
                    "layout-mismatch", f"it moves data from {operand} to {result}", inst
                )
        metadata = inst.annotations.get("metadata")
        if options.names_unchanged and metadata is not None:
            was = metadata.fields.get("scheduling_name", inst.name)
            # Copies of an instruction are named after it.
            if was != inst.name and not any(x in inst.name for x in (".remat", ".clone")):
                self._report.add("renamed", f"it was scheduled as {was}", inst, attr="metadata")


# --- mixed precision ----------------------------------------------------------------------------


def _promote(shapes: Sequence[Shape]) -> list[Shape] | None:
    """Return the shapes with every float upcast to the widest; None when all are equal."""
    floats = {
        s.element_type
        for shape in shapes
        for _, s in shape.leaves()
        if isinstance(s, ArrayShape) and s.element_type.is_float
    }
    if len(floats) < 2:
        return None
    widest = max(floats, key=lambda t: t.bits)
    return [_with_float(s, widest) for s in shapes]


def _as_passed(inst: Instruction) -> list[Shape] | None:
    """Return the operand shapes with every float as the parameter that it is passed to, or None."""
    callee = inst.attrs.get("to_apply")
    if callee is None or len(callee.parameter_shapes) != len(inst.operands):
        return None
    return [
        _with_float(operand, parameter.element_type)
        if isinstance(parameter, ArrayShape) and parameter.element_type.is_float
        else operand
        for operand, parameter in zip(inst.operand_shapes, callee.parameter_shapes, strict=True)
    ]


def _crosses_to_host(a: Shape, b: Shape) -> bool:
    """True when one of two arrays is in the host's memory and the other is not."""
    spaces = [layout_of(s).memory_space for s in (a, b) if isinstance(s, ArrayShape)]
    return len(set(spaces)) == 2 and HOST_MEMORY_SPACE in spaces


def _with_float(shape: Shape, et: ElementType) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_with_float(s, et) for s in shape.elements))
    if isinstance(shape, ArrayShape) and shape.element_type.is_float:
        return shape.with_type(et)
    return shape


def _same_but_precision(a: Shape, b: Shape) -> bool:
    if not compatible(a, b, ignore_element_type=True):
        return False
    for (_, x), (_, y) in zip(a.leaves(), b.leaves(), strict=True):
        if isinstance(x, ArrayShape) and isinstance(y, ArrayShape):
            both_float = x.element_type.is_float and y.element_type.is_float
            if x.element_type is not y.element_type and not both_float:
                return False
    return True
