"""Custom calls: operations defined by a function outside the module."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hlo.errors import InferError, TextError, did_you_mean
from hlo.ops.attrs import (
    BOOL,
    COMPUTATION,
    COMPUTATIONS,
    CONV_DIMS,
    INT,
    OUTPUT_ALIASES,
    PRECISIONS,
    SHAPES,
    STRING,
    WINDOW,
    Attr,
    Codec,
    enum,
    need,
)
from hlo.ops.host.callbacks import callback_target, is_callback, missing_callback
from hlo.ops.host.custom_targets import (
    CHECK_SIZE,
    UNINITIALIZED,
    builtin_target,
    builtin_targets,
    target_factors,
    verify_target,
)
from hlo.ops.host.jax_targets import foreign_target
from hlo.ops.host.outside import conforming
from hlo.ops.host.python_targets import python_target
from hlo.ops.rules import need_aliases, need_compatible
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.literal import Literal, read_literal, write_literal
from hlo.values.scan import Scanner
from hlo.values.shape_text import read_shape
from hlo.values.types import MAX_NESTING, ArrayShape, Shape, TupleShape


def _read_typed_literal(s: Scanner, depth: int = 0) -> Literal:
    """Read `f32[2]{0} {1, 2}`, or a tuple of such: each array has its shape in front of it."""
    if s.peek("("):
        if depth >= MAX_NESTING:
            s.fail(f"tuples are nested more than {MAX_NESTING} deep", code="nesting-too-deep")
        parts = [_read_typed_literal(s, depth + 1) for _ in s.items("(", ")")]
        return Literal(TupleShape(tuple(p.shape for p in parts)), parts)
    shape = read_shape(s, before_literal=True)
    start = s.pos
    try:
        literal = read_literal(s.text, shape, start, _end_of_array(s.text, start))
    except TextError as e:
        raise TextError(e.message, start + e.offset, code=e.code, hint=e.hint) from None
    s.pos = _end_of_array(s.text, start)
    return literal


def _end_of_array(text: str, start: int) -> int:
    """Return where the array literal at `start` ends: at a comma or brackets that are not its."""
    depth = 0
    for m in _LITERAL_PIECE.finditer(text, start):
        if m[0] in "({":
            depth += 1
        elif m[0] in ")}":
            depth -= 1
        if depth < 0 or (depth == 0 and m[0] == ","):
            return m.start()
    return len(text)


_LITERAL_PIECE = re.compile(r"/\*.*?\*/|//[^\r\n]*|[(){},]", re.S)


def _write_typed_literal(literal: Literal) -> str:
    if isinstance(literal.shape, TupleShape):
        return "( " + ", ".join(map(_write_typed_literal, literal.elements)) + " )"
    return f"{literal.shape} {write_literal(literal)}"


TYPED_LITERAL = Codec("shape literal", _read_typed_literal, _write_typed_literal)

# In the order of their numbers. A custom call without a version can only be one that XLA expands.
API_VERSIONS = (
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)


def _infer(op: OpView) -> Shape:
    # What the target returns is known to the target alone.
    return op.shape


def _verify(op: OpView) -> None:
    target = op.custom_call_target
    if target in (CHECK_SIZE, UNINITIALIZED):
        raise InferError(
            f"custom-call: {target} is for compiled code itself, a program cannot call it",
            attr="custom_call_target", code="unknown-custom-call",
        )  # fmt: skip
    verify_target(op)
    said = op.annotations.get("frontend_attributes", ())
    need_aliases(
        op, op.output_to_operand_aliasing, buffers=target in ("Pin", "Unpin"),
        shapes="xla_skip_custom_call_alias_shape_check" not in said,
    )  # fmt: skip
    constraints = op.operand_layout_constraints
    if constraints is not None and target != "LayoutConstraint":
        attr, operands = "operand_layout_constraints", op.operand_shapes
        if len(constraints) != len(operands):
            raise InferError(
                f"custom-call: {attr} has {len(constraints)} shapes for {len(operands)} operands",
                attr=attr, code="operand-count",
            )  # fmt: skip
        for i, (want, got) in enumerate(zip(constraints, operands, strict=True)):
            need_compatible(op, want, got, f"{attr} and operand {i}", attr=attr)
    if op.attrs.get("to_apply") is not None and op.custom_call_computations:
        raise InferError(
            "custom-call: to_apply and called_computations say the same, give one of them",
            attr="to_apply", code="bad-value",
        )  # fmt: skip
    for attr in ("feature_group_count", "batch_group_count"):
        if op.attrs[attr] < 1:
            raise InferError(
                f"custom-call: {attr} is {op.attrs[attr]}, at least 1 is needed",
                attr=attr, code="bad-value",
            )  # fmt: skip


def find_target(
    op: OpView, host: Any, library_call: Callable[[OpView], Callable[..., Any] | None]
) -> Callable[..., Any]:
    """Return the function `f(op, args) -> value` of a custom call. Raises InferError.

    The host's own functions come first, then what needs no library, then the host's libraries and
    the module's functions.
    library_call: returns the function of a vendor's library, None for other targets, and raises
    InferError for what is not known of it.
    """
    name = op.custom_call_target
    if name in host.custom_calls:
        return _from_python(op, host.custom_calls[name])
    target = builtin_target(name)
    if target is not None:
        return target
    unknown = None
    try:
        target = library_call(op)
    except InferError as e:
        unknown = e
    target = target or host.target_of(op)
    if target is None and name in op.module_functions:
        return _from_python(op, op.module_functions[name])
    if target is None and is_callback(name):
        raise missing_callback(op)
    if target is None:
        raise unknown or InferError(
            f"custom-call: nothing is known of target {name!r}",
            attr="custom_call_target", code="unknown-custom-call", hint=_unknown(name, host),
        )  # fmt: skip
    return target  # type: ignore[no-any-return]


def _from_python(op: OpView, given: Any) -> Callable[..., Any]:
    """Return the function of a call from what is given: itself, or functions by number."""
    return callback_target(op, given) if isinstance(given, Mapping) else python_target(given)


def _unknown(name: str, host: Any) -> str:
    """Return a hint for an unknown target."""
    foreign = foreign_target(name)
    if foreign is not None:
        return foreign
    if host.libraries:
        return "only functions that a library itself defines are called, not those it links to"
    close = did_you_mean(name, [*host.known_targets, *builtin_targets()])
    give = "give its function: hlo-run --load FILE (.so or .py), Host(custom_calls=...) in Python"
    drop = "a call whose result nothing reads is dropped with --verify=lenient, as XLA does"
    return f"{close} Or {give}; {drop}" if close else f"{give}; {drop}"


def _evaluate(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    def library_call(op: OpView) -> Callable[..., Any] | None:
        computation = ctx.library_call(op)
        return None if computation is None else lambda _, args: ctx.call(computation, args)

    verify_target(op)
    value = find_target(op, ctx.host, library_call)(op, args)
    what = f"the result of target {op.custom_call_target!r}"
    return conforming(op, value, op.shape, what)


def _resized(op: OpView, operands: Sequence[Shape], result: Shape) -> Mapping[str, Any]:
    """Return the layouts that are asked for, of shapes in the sizes of the part."""
    constraints = op.operand_layout_constraints
    if constraints is None:
        return {}
    return {
        "operand_layout_constraints": tuple(
            replace(want, dims=part.dims)
            if isinstance(want, ArrayShape) and isinstance(part, ArrayShape)
            else want
            for want, part in zip(constraints, operands, strict=True)
        )
    }


register(
    OpSpec(
        "custom-call",
        (0, None),
        _infer,
        _evaluate,
        Category.CUSTOM,
        "003 CustomCall",
        (
            'f32[4] custom-call(f32[4] x), custom_call_target="Sharding", sharding={replicated}',
            'f32[2,3] custom-call(f32[2,3] x), custom_call_target="MoveToHost", '
            "operand_layout_constraints={f32[2,3]{1,0}}, custom_call_has_side_effect=true, "
            "api_version=API_VERSION_TYPED_FFI",
        ),
        attrs={
            "window": Attr(WINDOW),
            "dim_labels": Attr(CONV_DIMS),
            "feature_group_count": Attr(INT, default=1),
            "batch_group_count": Attr(INT, default=1),
            "operand_precision": Attr(PRECISIONS, default=()),
            "padding_type": Attr(
                enum("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"), default="PADDING_INVALID"
            ),
            "custom_call_target": need(STRING),
            "operand_layout_constraints": Attr(SHAPES),
            "custom_call_has_side_effect": Attr(BOOL, default=False),
            "literal": Attr(TYPED_LITERAL),
            "output_to_operand_aliasing": Attr(OUTPUT_ALIASES, default=()),
            "schedule": Attr(
                enum("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST", any_case=True),
                default="SCHEDULE_NONE",
            ),
            "api_version": Attr(enum(*API_VERSIONS, any_case=True), default="API_VERSION_ORIGINAL"),
            "to_apply": Attr(COMPUTATION),
            "called_computations": Attr(COMPUTATIONS, default=()),
        },
        verify=_verify,
        resized=_resized,
        # Even without the attribute, a target may have side effects.
        traits=Trait.SIDE_EFFECT | Trait.NO_FOLD,
        factors=target_factors,
    )
)
