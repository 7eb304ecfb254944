"""What the declarations of targets share: the call, its operands, configuration and results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder, build_reducer
from hlo.library_calls.config import Config, read_config
from hlo.ops.attrs import SliceDim
from hlo.values.types import ELEMENT_TYPES, F32, ArrayShape, ElementType, Shape, TupleShape, array


class Call(Builder):
    """A call, and the computation of plain operations that it becomes.

    operands: the parameters of the computation. wanted: the shapes of the results.
    config: what `backend_config` says of this target.
    """

    def __init__(self, inst: Instruction, section: str) -> None:
        super().__init__(Computation(f"{inst.name}.operations"), inst)
        self.inst = inst
        self.config: Config = read_config(str(inst.annotations.get("backend_config", "")), section)
        self.operands = [self.parameter(n, s, f"p{n}") for n, s in enumerate(inst.operand_shapes)]
        self.wanted = _arrays(
            inst, inst.shape.elements if isinstance(inst.shape, TupleShape) else [inst.shape]
        )
        _arrays(inst, inst.operand_shapes)
        if not self.wanted:
            raise InferError("returns no array", code="shape-mismatch")

    def _add(self, inst: Instruction) -> Instruction:
        # Its operations are recognized where they have taken the place of the call.
        inst.name = f"{self.inst.name}.{inst.opcode}"
        return super()._add(inst)

    # --- what is wrong --------------------------------------------------------------------------

    def wrong(self, message: str, code: str = "bad-value") -> InferError:
        return InferError(message, code=code, attr="backend_config")

    def need_operands(self, least: int, most: int | None = None) -> None:
        count, most = len(self.operands), least if most is None else most
        if not least <= count <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            raise InferError(f"{count} operands, not {expected}", code="operand-count")

    # --- values ---------------------------------------------------------------------------------

    @property
    def wide(self) -> ElementType:
        """The type of its arithmetic: floats are at least f32."""
        et = self.wanted[0].element_type
        if et.is_float:
            widest = [et, *(o.array_shape.element_type for o in self.operands)]
            return ELEMENT_TYPES["f64"] if any(t.name == "f64" for t in widest) else F32
        # Bytes are what is left of floats.
        return F32 if et.name in _BYTES else et

    def plain(self, number: int) -> Instruction:
        """Return an operand in the default layout, in which results are computed."""
        return self.relaid(self.operands[number], default_layout(self.operands[number]))

    def as_wide(self, value: Instruction) -> Instruction:
        return self.convert(value, self.wide)

    def number(self, value: complex, like: Instruction) -> Instruction:
        """Return a constant in the shape and type of a value."""
        shape = like.array_shape
        if not shape.element_type.is_complex:
            value = value.real
        with np.errstate(over="ignore"):
            return self.broadcast(self.constant(shape.element_type, value), array_like(shape))

    def times(self, value: Instruction, factor: complex) -> Instruction:
        return value if factor == 1 else self.op("multiply", value, self.number(factor, value))

    def spread(self, value: Instruction, dims: Sequence[int], like: Instruction) -> Instruction:
        """Return an array with its dimensions at some dimensions of another one's shape."""
        shape = array(value.array_shape.element_type, like.array_shape.dims)
        return self.op("broadcast", value, shape=shape, dimensions=tuple(dims))

    def fitted(self, value: Instruction, like: Instruction) -> Instruction:
        """Return an operand in the shape of another value: sizes of 1 are repeated, as are
        dimensions in front that it does not have."""
        have, want = value.array_shape.dims, like.array_shape.dims
        aligned = (1,) * (len(want) - len(have)) + have
        if len(aligned) > len(want) or any(
            a not in (1, b) for a, b in zip(aligned, want, strict=True)
        ):
            raise self.wrong(
                f"{value.array_shape.to_string(False)} does not broadcast to {list(want)}",
                "shape-mismatch",
            )
        kept = [n for n, (a, b) in enumerate(zip(aligned, want, strict=True)) if a == b]
        return self.spread(self.reshape(value, [want[n] for n in kept]), kept, like)

    def total(self, value: Instruction, dims: Sequence[int], opcode: str = "add") -> Instruction:
        """Return the sum, or another reduction, over some dimensions."""
        et = value.array_shape.element_type
        start = {"add": -0.0, "maximum": -math.inf}[opcode]
        return self.op(
            "reduce", value, self.constant(et, start), dimensions=tuple(dims),
            to_apply=build_reducer(opcode, et, self.inst),
        )  # fmt: skip

    def mean(self, value: Instruction, dims: Sequence[int]) -> Instruction:
        total = self.total(value, dims)
        count = math.prod(value.array_shape.dims[d] for d in dims)
        return self.op("divide", total, self.number(count, total))

    def softmax(self, value: Instruction, dim: int) -> tuple[Instruction, Instruction]:
        """Return the softmax along a dimension, and the logarithm of the sum of exponentials.

        Where everything is minus infinity, all are zero.
        """
        kept = [n for n in range(value.array_shape.rank) if n != dim]
        most = self.total(value, [dim], "maximum")
        least = self.number(-math.inf, most)
        most = self.op("select", self.compare(most, least, "EQ"), self.number(0, most), most)
        shifted = self.op("subtract", value, self.spread(most, kept, value))
        powers = self.op("exponential", shifted)
        total = self.total(powers, [dim])
        nonzero = self.op(
            "select", self.compare(total, self.number(0, total), "EQ"), self.number(1, total), total
        )
        result = self.op("divide", powers, self.spread(nonzero, kept, value))
        return result, self.op("add", most, self.op("log", total))

    def rounded(self, value: Instruction, et: ElementType) -> Instruction:
        """Return a value in a narrower type: finite numbers outside of its range are its ends.

        So libraries convert to f8, and to integers, which are rounded to the nearest even one.
        """
        old = value.array_shape.element_type
        least: float
        most: float
        if old.is_float and not et.is_float:
            value = self.op("round-nearest-even", value)
            least, most = np.iinfo(et.dtype).min, np.iinfo(et.dtype).max
        elif et.name.startswith("f8"):
            most = largest(et)
            least = -most
        else:
            return self.convert(value, et)
        value = self.op("clamp", self.constant(old, least), value, self.constant(old, most))
        return self.convert(value, et)

    def sliced(self, value: Instruction, dim: int, start: int, limit: int) -> Instruction:
        taken = [SliceDim(0, n) for n in value.array_shape.dims]
        taken[dim] = SliceDim(start, limit)
        return self.op("slice", value, slice=tuple(taken))

    # --- the end --------------------------------------------------------------------------------

    def done(self, *values: Instruction) -> Computation:
        """Return the computation with its results; those that remain are scratch memory.

        Values are rounded once, to the type of their result.
        """
        results = []
        for value, want in zip(values, self.wanted, strict=False):
            if value.array_shape.dims != want.dims:
                raise InferError(
                    f"returns {want.to_string(False)}; by operands and backend_config it is "
                    f"{value.array_shape.with_type(want.element_type).to_string(False)}",
                    code="shape-mismatch",
                )
            results.append(self.relaid(self.rounded(value, want.element_type), want))
        if len(values) > len(self.wanted):
            raise InferError(
                f"returns {len(self.wanted)} arrays, not {len(values)}", code="shape-mismatch"
            )
        for want in self.wanted[len(values) :]:
            if not is_scratch(want):
                raise InferError(
                    f"{want.to_string(False)} is no result of this target", code="shape-mismatch"
                )
            results.append(self.relaid(self.zeros(array_like(want)), want))
        self.comp.set_root(self.tuple(*results) if self.inst.shape.is_tuple else results[0])
        return self.comp


def _arrays(inst: Instruction, shapes: Sequence[Shape]) -> list[ArrayShape]:
    found = []
    for shape in shapes:
        if not isinstance(shape, ArrayShape) or shape.is_dynamic:
            raise InferError(
                f"{shape.to_string(False)}: operands and results are arrays of static size",
                code="shape-mismatch",
            )
        found.append(shape)
    return found


def array_like(shape: ArrayShape) -> ArrayShape:
    """Return a shape in the default layout."""
    return array(shape.element_type, shape.dims)


def default_layout(value: Instruction) -> ArrayShape:
    return array_like(value.array_shape)


def largest(et: ElementType) -> float:
    """Return the largest finite number of a type of floats."""
    import ml_dtypes

    return float(ml_dtypes.finfo(et.dtype).max)


def is_scratch(shape: Shape) -> bool:
    """True for the shape of scratch memory, a result without a meaning: a vector of bytes."""
    return isinstance(shape, ArrayShape) and shape.rank == 1 and shape.element_type.name in _BYTES


_BYTES = ("s8", "u8")


# --- the table ----------------------------------------------------------------------------------

Expand = Callable[[Any], Computation]


@dataclass(frozen=True)
class Target:
    """A target: where its configuration is, and the function that writes its computation."""

    section: str
    expand: Expand


_TARGETS: dict[str, Target] = {}
# The frontend attribute of a call whose function the host has.
_KEPT = "_hlo_host_function"
# Targets that begin so are those of a library, known or not.
_LIBRARIES = ("__cublas$", "__cudnn$", "__cusolver$", "__cub$", "__gpu$", "__onednn$")


def library_call(*names: str, section: str) -> Callable[[Expand], Expand]:
    """Register the meaning of targets.

    section: the field of `backend_config` that is about them; fields may also be outside of it.
    """

    def add(expand: Expand) -> Expand:
        for name in names:
            assert name not in _TARGETS, name
            _TARGETS[name] = Target(section, expand)
        return expand

    return add


def is_library_target(name: str) -> bool:
    """True for a target of a library whose meaning is known."""
    return name in _TARGETS


def keep_call(inst: Instruction) -> None:
    """Mark a call as one of a function that the host has, which nothing expands."""
    attributes = inst.annotations.get("frontend_attributes", {})
    inst.annotations["frontend_attributes"] = {**attributes, _KEPT: "true"}


def need_expansion(inst: Instruction) -> Computation | None:
    """Return the computation that a custom call stands for.

    None if its target is no library's, and for a call that is to be kept.

    Raises InferError for a target of a library that is not known, and for what is not known of a
    target that is.
    """
    name = inst.custom_call_target
    target = _TARGETS.get(name)
    if _KEPT in inst.annotations.get("frontend_attributes", ()):
        return None
    if target is None:
        if name.startswith(_LIBRARIES):
            raise _unknown(name)
        return None
    try:
        return target.expand(Call(inst, target.section))
    except InferError as e:
        # What an operation inside says of its operands is not about those of the call.
        attr = e.attr if e.attr == "backend_config" else None
        raise InferError(
            f"custom-call: {name}: {e.message}", attr=attr, code=e.code,
            hint=_REPLACE if e.code == "unsupported" else e.hint,
        ) from None  # fmt: skip


_REPLACE = "give its function: hlo-run --load FILE (.so or .py), Host(custom_calls=...) in Python"


def _unknown(name: str) -> InferError:
    """Return the error of a target that is a library's, but none that is known."""
    same = [t for t in _TARGETS if t.split("$")[0] == name.split("$")[0]]
    known = ", ".join(sorted(same or _TARGETS))
    return InferError(
        f"custom-call: nothing is known of target {name!r}",
        attr="custom_call_target", code="unknown-custom-call",
        hint=f"known are {known}; or {_REPLACE}",
    )  # fmt: skip


def expand_call(inst: Instruction) -> Computation | None:
    """Return the computation that a custom call stands for.

    None where `need_expansion` has none, and for what it refuses: that stays a call, whose function
    the host has to have.
    """
    if inst.custom_call_target not in _TARGETS:
        return None
    try:
        return need_expansion(inst)
    except InferError:
        return None
