"""What all operations of a builder share: appending, errors, scopes, sub-builders, finishing.

Operations are functions of a builder, a family a file; `XlaBuilder` has them as its methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import index
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from hlo.errors import HloError, InferError, TextError
from hlo.frontends.builder.call_site import Unnamed, call_site, error_here
from hlo.frontends.builder.calls import fitted_call, query
from hlo.frontends.builder.coercion import annotation_of, sharding_of
from hlo.frontends.builder.computation import XlaComputation
from hlo.frontends.builder.handle import Handle
from hlo.frontends.text.annotations import OpMetadata
from hlo.frontends.text.header import ProgramShape
from hlo.io.arguments import as_constant
from hlo.ir import Computation, Instruction
from hlo.ir.names import legal_name
from hlo.ops import OPS
from hlo.ops.attrs import INT, INTS
from hlo.support.signature import fitted, shown
from hlo.values.literal import Literal
from hlo.values.sharding import Sharding
from hlo.values.types import TOKEN, ElementType, Shape, array, compatible
from hlo.verifier.shapes import shape_problem

XlaOp = TypeVar("XlaOp", bound=Handle)
"""The class of a builder's handles. Operations are written for any; of `XlaBuilder` it is `XlaOp`,
whose operators are some of these functions."""

_P = ParamSpec("_P")
_B = TypeVar("_B", bound="BuilderCore[Any]")
_IS_OPERATION = "__hlo_operation__"


def operation(
    function: Callable[Concatenate[BuilderCore[XlaOp], _P], XlaOp],
) -> Callable[Concatenate[BuilderCore[XlaOp], _P], XlaOp]:
    """Mark a function that appends operations: its errors name the caller's line, or are deferred.

    Of one that fails nothing stays, neither what it had appended before.
    """

    @functools.wraps(function)
    def checked(builder: BuilderCore[XlaOp], *args: _P.args, **kwargs: _P.kwargs) -> XlaOp:
        before = builder._mark()
        try:
            given, named = fitted_call(function, (builder, *args), kwargs)
            return function(*given, **named)
        except Unnamed as e:
            error = e.named(checked.__name__.rstrip("_"))
        except (InferError, TextError, HloError) as e:
            error = error_here(e)
        builder._shrink(*before)
        return builder._failed(error)

    setattr(checked, _IS_OPERATION, True)
    return checked


def operations(builder: type[BuilderCore[Any]]) -> dict[str, Callable[..., Handle]]:
    """Return the methods that append operations, by name."""
    members = ((name, getattr(builder, name)) for name in dir(builder) if name[0] != "_")
    return {name: method for name, method in members if hasattr(method, _IS_OPERATION)}


class BuilderCore(Generic[XlaOp]):
    """The state of a builder: the computation so far, its errors, and the scopes that are open."""

    def __init__(
        self, name: str, client: Any = None, *, parent: BuilderCore[XlaOp] | None = None
    ) -> None:
        self.name = legal_name(fitted(name, str, "XlaBuilder: name"))
        self.client: Any = client if parent is None else parent.client
        self._computation = Computation(self.name)
        self._parent = parent
        self._die_immediately: bool = parent._die_immediately if parent else True
        self._errors: list[HloError] = []
        self._last: Instruction | None = None
        self._return: Instruction | None = None
        self._annotations: dict[str, Any] = {}

    def _mark(self) -> tuple[int, Instruction | None]:
        """Return the point that `_shrink` goes back to."""
        return len(self._computation), self._last

    def _shrink(self, size: int, last: Instruction | None) -> None:
        """Take out what was appended after the first `size` instructions, of which `last` was."""
        for inst in reversed(list(self._computation)[size:]):
            self._computation.remove(inst)
        self._last = last

    def _handle(self, inst: Instruction | None, error: HloError | None = None) -> XlaOp:
        """Return the handle of an instruction, or of one that an error kept from being made."""
        raise NotImplementedError

    # --- errors ---------------------------------------------------------------------------------

    @query
    def set_die_immediately_on_error(self, enabled: bool) -> None:
        """Say whether a broken rule raises at once, as it does at first, or in `build`.

        >>> b = hlo.XlaBuilder("m")
        >>> b.set_die_immediately_on_error(False)
        >>> bad = b.parameter(0, "f32[2]") + b.parameter(1, "f32[3]")
        >>> try:
        ...     b.build()
        ... except hlo.HloError as error:
        ...     print(error.code)
        shape-mismatch
        """
        self._die_immediately = enabled

    def _failed(self, error: HloError) -> XlaOp:
        """Raise an error, or note it and return a handle that stands for nothing."""
        if self._die_immediately:
            raise error from None
        if error not in self._errors:
            self._errors.append(error)
        return self._handle(None, error)

    # --- scopes ---------------------------------------------------------------------------------

    @query
    def metadata(self, **fields: Any) -> AbstractContextManager[None]:
        """Give the operations of a `with` block metadata: `op_name="..."`, `source_line=3`, ...

        >>> b = hlo.XlaBuilder("m")
        >>> with b.metadata(op_name="layer1/add"):
        ...     y = b.parameter(0, "f32[2]") + 1
        >>> print(y.instruction.annotations["metadata"])
        {op_name="layer1/add"}
        """
        for name, value in fields.items():
            fitted(value, str | int | Sequence[int], f"metadata: {name}")
        return self._scope("metadata", annotation_of("metadata", str(OpMetadata(fields))))

    @query
    def sharding(self, sharding: Sharding | str) -> AbstractContextManager[None]:
        """Give the operations of a `with` block a sharding, also as text: `{replicated}`.

        >>> b = hlo.XlaBuilder("m")
        >>> with b.sharding("{devices=[2]0,1}"):
        ...     x = b.parameter(0, "f32[2]")
        >>> print(x.instruction.annotations["sharding"])
        {devices=[2]0,1}
        """
        return self._scope("sharding", sharding_of(sharding))

    @query
    def frontend_attributes(self, attributes: Mapping[str, str]) -> AbstractContextManager[None]:
        """Give the operations of a `with` block attributes, besides those of scopes around it.

        >>> b = hlo.XlaBuilder("m")
        >>> with b.frontend_attributes({"fuse": "no"}):
        ...     x = b.parameter(0, "f32[2]")
        >>> print(x.instruction.annotations["frontend_attributes"])
        {'fuse': 'no'}
        """
        outer = self._annotations.get("frontend_attributes", {})
        return self._scope("frontend_attributes", {**outer, **attributes})

    @contextmanager
    def _scope(self, key: str, value: Any) -> Iterator[None]:
        before = self._annotations
        self._annotations = {**before, key: value}
        try:
            yield
        finally:
            self._annotations = before

    # --- queries --------------------------------------------------------------------------------

    @query
    def get_shape(self, operand: XlaOp) -> Shape:
        """Return the inferred shape of a value.

        >>> b = hlo.XlaBuilder("m")
        >>> print(b.get_shape(b.parameter(0, "f32[2,3]") @ b.parameter(1, "f32[3]")))
        f32[2]{0}
        """
        return operand.shape

    @query
    def get_program_shape(self, root: XlaOp | None = None) -> ProgramShape:
        """Return the shapes of the parameters so far and of the result.

        >>> b = hlo.XlaBuilder("m")
        >>> x = b.parameter(0, "f32[2,3]") > 0
        >>> print(b.get_program_shape())
        (f32[2,3]{1,0})->pred[2,3]{1,0}
        """
        return ProgramShape(tuple(self._computation.parameter_shapes), self._root(root).shape)

    # --- finishing ------------------------------------------------------------------------------

    @query
    def create_sub_builder(self: _B, name: str) -> _B:
        """Return a builder for a computation that this one's program calls.

        >>> b = hlo.XlaBuilder("m")
        >>> sub = b.create_sub_builder("larger")
        >>> larger = sub.build(sub.max_(sub.parameter(0, "f32[]"), sub.parameter(1, "f32[]")))
        >>> print(b.reduce(b.parameter(0, "f32[2,3]"), 0.0, larger, [1]).shape)
        f32[2]{0}
        """
        return type(self)(name, parent=self)

    @query
    def set_return_value(self, operand: XlaOp) -> None:
        """Make a value the result in place of the one appended last.

        >>> b = hlo.XlaBuilder("m")
        >>> x = b.parameter(0, "f32[2]")
        >>> b.set_return_value(x * 2)
        >>> unused = x + 1
        >>> hlo.interpret(b.build().module(), [1, 2])
        array([2., 4.], dtype=float32)
        """
        self._return = own(self, "set_return_value", 0, operand)

    def _root(self, root: XlaOp | None) -> Instruction:
        found = self._return or self._last
        if root is not None:
            found = own(self, "build", 0, root)
        if found is None:
            raise InferError(f"build: {self.name} has no operations", code="empty-computation")
        return found

    def build(self, root: XlaOp | None = None) -> XlaComputation:
        """Return the computation of what was appended.

        root: its result; by default what `set_return_value` named, else what was appended last.
        Raises HloError with the errors that were deferred, and if parameter numbers are missing.

        >>> b = hlo.XlaBuilder("m")
        >>> b.build(b.parameter(0, "f32[2]") + 1)
        <XlaComputation m: (f32[2]{0})->f32[2]{0}>
        """
        if self._errors:
            raise HloError([d for e in self._errors for d in e.diagnostics])
        return self._built(root)

    @query
    def _built(self, root: XlaOp | None) -> XlaComputation:
        numbers = [p.parameter_number for p in self._computation.parameters]
        if numbers != list(range(len(numbers))):
            missing = min(set(range(len(numbers))) - set(numbers))
            raise InferError(
                f"build: {self.name} has parameters {numbers}, number {missing} is missing",
                code="bad-parameter-number",
            )
        self._computation.set_root(self._root(root))
        return XlaComputation(self._computation.clone(self.name))

    def build_and_note_error(self, root: XlaOp | None = None) -> XlaComputation | None:
        """Return the computation, or note what is wrong in the parent builder and return None.

        >>> b = hlo.XlaBuilder("m")
        >>> b.set_die_immediately_on_error(False)
        >>> sub = b.create_sub_builder("sub")
        >>> bad = sub.parameter(0, "f32[2]") + sub.parameter(1, "f32[3]")
        >>> print(sub.build_and_note_error())
        None
        """
        try:
            return self.build(root)
        except HloError as e:
            if self._parent is None or self._parent._die_immediately:
                raise
            self._parent._errors.append(e)
            return None


def emit(
    builder: BuilderCore[XlaOp],
    opcode: str,
    *operands: Handle,
    shape: Shape | None = None,
    element_type: ElementType | None = None,
    name: str = "",
    **attrs: Any,
) -> XlaOp:
    """Append an operation of the op table; raises InferError where a rule of it is broken.

    shape: what the result has to be, for operations that do not determine it. element_type: the
    result's, for those that determine all but that.
    """
    inputs = [own(builder, opcode, i, o) for i, o in enumerate(operands)]
    attrs = {key: _checked(opcode, key, value) for key, value in attrs.items()}
    declared = array(element_type, ()) if element_type is not None else shape or TOKEN
    inst = Instruction(
        name or opcode, opcode, declared, inputs, attrs,
        annotations=builder._annotations, span=call_site(),
    )  # fmt: skip
    try:
        inst.spec.check_arity(len(inputs))
        inferred = inst.spec.infer(inst)
        if shape is None:
            inst.shape = inferred
        elif not compatible(inferred, shape):
            raise InferError(
                f"{opcode}: the result is {shape.to_string(False)}, the operands and "
                f"attributes give {inferred.to_string(False)}"
            )
        inst.spec.verify(inst)
        problem = shape_problem(inst.shape)
        if problem is not None:
            raise InferError(f"{opcode}: {problem[1]}", code=problem[0])
    except InferError:
        inst.drop_edges()
        raise
    return append(builder, inst)


def append(builder: BuilderCore[XlaOp], inst: Instruction) -> XlaOp:
    """Append an instruction of whatever kind."""
    builder._last = builder._computation.add(inst)
    return builder._handle(inst)


def parameters_of(builder: BuilderCore[Any]) -> Sequence[Instruction]:
    """Return the parameters so far, in the order of their numbers."""
    return builder._computation.parameters


def own(builder: BuilderCore[Any], opcode: str, number: int, operand: Handle) -> Instruction:
    """Return the instruction of an operand, which has to be of this builder."""
    if not isinstance(operand, Handle):
        raise InferError(
            f"{opcode}: operand {number} is a {type(operand).__name__}, not a value of the "
            "program", operand=number, code="type-mismatch",
            hint="constant() makes one from a number",
        )  # fmt: skip
    if operand.builder is not builder:
        raise InferError(
            f"{opcode}: operand {number} is a value of builder {operand.builder.name}, "
            f"not of {builder.name}",
            operand=number, code="bad-value",
            hint="pass it to the computation as an operand",
        )  # fmt: skip
    return operand.instruction


def value_of(builder: BuilderCore[XlaOp], value: Any, like: ElementType | Handle) -> XlaOp:
    """Return a handle as it is, and a number or an array as a constant of an element type."""
    if isinstance(value, Handle):
        return cast(XlaOp, value)
    et = like.element_type if isinstance(like, Handle) else like
    if not isinstance(et, ElementType):
        raise InferError(
            "an operand has to be a value of the program", code="type-mismatch",
            hint="constant() makes one from a number",
        )  # fmt: skip
    return constant_of(builder, Literal.of(as_constant(value, et, "a constant operand")))


def constant_of(builder: BuilderCore[XlaOp], literal: Literal) -> XlaOp:
    """Append a constant of a literal."""
    return emit(builder, "constant", shape=literal.shape, literal=literal)


def _checked(opcode: str, key: str, value: Any) -> Any:
    """Return the value of an attribute, checked for what a text could not spell otherwise."""
    codec = OPS[opcode].attrs[key].codec
    if codec is INTS and value is not None:
        return tuple(map(index, value))
    if codec is INT and value is not None:
        return index(value)
    if codec.words and value is not None and value not in codec.words:
        raise InferError(
            f"{opcode}: {key} is {shown(value)}", attr=key, code="bad-value",
            hint="one of " + ", ".join(codec.words),
        )  # fmt: skip
    return value
