"""Calls, branches, loops, tuples and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from hlo.errors import InferError
from hlo.frontends.builder.callee import Callee, callee_of
from hlo.frontends.builder.coercion import ShapeLike, shape_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation
from hlo.frontends.builder.handle import Handle
from hlo.ops.attrs import OutputAlias
from hlo.support.signature import fitted, shown
from hlo.values.literal import Literal
from hlo.values.types import PRED

Alias = OutputAlias | tuple[Sequence[int], tuple[int, Sequence[int]]]


# --- tokens ---------------------------------------------------------------------------------------


@operation
def create_token(builder: BuilderCore[XlaOp]) -> XlaOp:
    """Append a token that nothing has to precede.

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.create_token().shape)
    token[]
    """
    return emit(builder, "after-all")


@operation
def after_all(builder: BuilderCore[XlaOp], tokens: Sequence[XlaOp]) -> XlaOp:
    """Append a token that comes after all others that are given.

    tokens: any number of them, and of other values.

    Source: "AfterAll" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.after_all([b.create_token(), b.create_token()]).shape)
    token[]
    """
    return emit(builder, "after-all", *tokens)


@operation
def optimization_barrier(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append a value that no optimization moves anything across; a tuple for several.

    Source: "OptimizationBarrier" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.optimization_barrier(b.parameter(0, "s32[]") + 1) - 1
    >>> hlo.interpret(b.build().module(), 3)
    array(3, dtype=int32)
    """
    return emit(builder, "opt-barrier", operand)


# --- calls ----------------------------------------------------------------------------------


@operation
def call(builder: BuilderCore[XlaOp], computation: Callee, operands: Sequence[XlaOp] = ()) -> XlaOp:
    """Append the result of a computation on operands.

    Raises HloError where their number or shapes are not those of the computation's parameters.
    Source: "Call" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.call(lambda x: x * x, [b.parameter(0, "s32[]")])
    >>> hlo.interpret(b.build().module(), 5)
    array(25, dtype=int32)
    """
    callee = callee_of(builder, computation, [o.shape for o in operands], "callee")
    return emit(builder, "call", *operands, to_apply=callee)


@operation
def composite_call(
    builder: BuilderCore[XlaOp], computation: Callee, operands: Sequence[XlaOp], name: str,
    attributes: str | None = None, version: int | None = None,
) -> XlaOp:  # fmt: skip
    """Append a call under a name that a compiler may know; the computation says what it means.

    name: as in `foo.bar`.
    attributes: a dictionary as text, as in `{n = 1 : i32}`; empty unless given.
    version: from 0 on, 0 unless given.

    Raises HloError for an empty name, empty text of attributes, a negative version, and as for
    `call`. Source: "CompositeCall" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.composite_call(lambda x: x * x, [b.parameter(0, "s32[]")], "my.square")
    >>> hlo.interpret(b.build().module(), 3)
    array(9, dtype=int32)
    """
    said = {
        "composite.name": name,
        "composite.attributes": "{}" if attributes is None else attributes,
        "composite.version": str(version or 0),
    }
    callee = callee_of(builder, computation, [o.shape for o in operands], "decomposition")
    with builder.frontend_attributes(said):
        return emit(builder, "call", *operands, to_apply=callee, is_composite=True)


@operation
def custom_call(
    builder: BuilderCore[XlaOp],
    target_name: str, operands: Sequence[XlaOp], shape: ShapeLike, opaque: str = "", *,
    operand_shapes_with_layout: Sequence[ShapeLike] | None = None,
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    computations: Sequence[Callee] = (),
    schedule: str = "SCHEDULE_NONE",
    api_version: str = "API_VERSION_ORIGINAL",
) -> XlaOp:  # fmt: skip
    """Append a call of a function outside the program.

    target_name: its symbol.
    shape: of what it returns.
    opaque: text that it is given.
    operand_shapes_with_layout: the layouts in which it takes its operands.
    has_side_effect: it may not be left out. What the function is, a run says:
    `Host(libraries=..., custom_calls=...)`.
    output_operand_aliasing: what it returns in the place of an operand, as pairs of an index
    into the result and the operand's number and index: `((), (0, ()))`.
    literal: a constant that it is given.
    computations: what it may call, of the operands' shapes.
    schedule: SCHEDULE_NONE, SCHEDULE_LATEST or SCHEDULE_EARLIEST.
    api_version: how it is called: API_VERSION_ORIGINAL, which returns nothing,
    API_VERSION_STATUS_RETURNING, API_VERSION_STATUS_RETURNING_UNIFIED or API_VERSION_TYPED_FFI.

    Source: "CustomCall" (000, 002, 003), "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.custom_call("my_norm", [b.parameter(0, "f32[8]")], "f32[]", opaque="eps=1e-5")
    >>> print(y.shape)
    f32[]
    """
    layouts = operand_shapes_with_layout
    op = emit(
        builder, "custom-call", *operands, shape=shape_of(shape),
        custom_call_target=target_name,
        operand_layout_constraints=None if layouts is None else tuple(map(shape_of, layouts)),
        custom_call_has_side_effect=has_side_effect,
        literal=literal,
        output_to_operand_aliasing=tuple(map(_alias, output_operand_aliasing)),
        schedule=schedule,
        api_version=api_version,
        called_computations=tuple(
            callee_of(builder, c, [o.shape for o in operands], "called") for c in computations
        ),
    )  # fmt: skip
    if opaque:
        op.instruction.annotations["backend_config"] = opaque
    return op


custom_call_op = custom_call

# --- branches and loops ---------------------------------------------------------------------


@operation
def conditional(
    builder: BuilderCore[XlaOp],
    predicate: XlaOp | None = None,
    true_operand: XlaOp | Sequence[Callee] | None = None,
    true_computation: Callee | Sequence[XlaOp] | None = None,
    false_operand: XlaOp | None = None,
    false_computation: Callee | None = None,
    *,
    branch_index: XlaOp | None = None,
    branch_computations: Sequence[Callee] | None = None,
    branch_operands: Sequence[XlaOp] | None = None,
) -> XlaOp:
    """Append the result of one of several computations.

    `conditional(predicate, true_operand, true_computation, false_operand, false_computation)`
    chooses by a pred scalar; `conditional(branch_index, branch_computations, branch_operands)`
    by an s32 scalar, where any number that is not a branch means the last one. Each computation
    takes one operand, of the shape of its own; all return one shape, the result's.

    Raises HloError for others. Source: "Conditional" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.parameter(0, "s32[]")
    >>> y = b.conditional(x < 0, x, lambda x: -x, x, lambda x: x * 2)
    >>> hlo.interpret(b.build().module(), -3), hlo.interpret(b.build().module(), 4)
    (array(3, dtype=int32), array(8, dtype=int32))
    """
    if not isinstance(true_operand, Handle) and branch_index is None:
        # The second form by position.
        branch_index, branch_computations = predicate, true_operand
        branch_operands = fitted(
            true_computation, Sequence[XlaOp] | None, "conditional: branch_operands"
        )
    if branch_index is not None:
        if branch_computations is None or branch_operands is None:
            raise _incomplete("branch_computations and branch_operands")
        return _switch(builder, branch_index, branch_computations, branch_operands)
    if (
        predicate is None
        or not isinstance(true_operand, Handle)
        or true_computation is None
        or false_operand is None
        or false_computation is None
    ):
        raise _incomplete("a predicate, and an operand and a computation for each case")
    if predicate.element_type is not PRED:
        raise InferError(
            f"conditional: the predicate has shape {predicate.shape.to_string(False)}, "
            "pred[] is needed", operand=0, code="type-mismatch",
        )  # fmt: skip
    on_true = callee_of(builder, cast(Callee, true_computation), [true_operand.shape], "on_true")
    return emit(
        builder, "conditional", predicate, true_operand, false_operand, true_computation=on_true,
        false_computation=callee_of(builder, false_computation, [false_operand.shape], "on_false"),
    )  # fmt: skip


def _switch(
    builder: BuilderCore[XlaOp],
    index: XlaOp,
    computations: Sequence[Callee],
    operands: Sequence[XlaOp],
) -> XlaOp:
    """Append the result of the computation of a number."""
    if len(computations) != len(operands):
        raise InferError(
            f"conditional: {len(computations)} branches and {len(operands)} operands",
            code="operand-count",
        )
    branches = tuple(
        callee_of(builder, c, [o.shape], f"branch_{i}")
        for i, (c, o) in enumerate(zip(computations, operands, strict=True))
    )
    return emit(builder, "conditional", index, *operands, branch_computations=branches)


@operation
def while_(builder: BuilderCore[XlaOp], condition: Callee, body: Callee, init: XlaOp) -> XlaOp:
    """Append what `init` becomes when `body` is applied as long as `condition` holds.

    init: of any shape, a tuple too; the result has it.
    condition: from it to a pred scalar.
    body: from it to the same shape.

    Raises HloError for computations of another type. Source: "While" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.while_(lambda n: n < 100, lambda n: n * 2, b.parameter(0, "s32[]"))
    >>> hlo.interpret(b.build().module(), 3)
    array(192, dtype=int32)
    """
    state = [init.shape]
    return emit(
        builder, "while", init, condition=callee_of(builder, condition, state, "condition"),
        body=callee_of(builder, body, state, "body"),
    )  # fmt: skip


def _alias(given: Alias) -> OutputAlias:
    """Return an alias, which may be given as a pair as XLA's builder has it."""
    if isinstance(given, OutputAlias):
        return given
    try:
        output, (operand, index) = given
        return OutputAlias(tuple(output), operand, tuple(index))
    except (TypeError, ValueError):
        raise InferError(
            f"custom-call: {shown(given)} is not an alias", attr="output_to_operand_aliasing",
            code="bad-value", hint="((), (0, ())) lets the result reuse the buffer of operand 0",
        ) from None  # fmt: skip


def _incomplete(needed: str) -> InferError:
    return InferError(f"conditional: it needs {needed}", code="operand-count")
