"""The record that defines an operation, and the registry of all of them.

An opcode is one `OpSpec`: everything the project knows of it that is not code generation. Rules see
operations as `OpView`, the base of `ir.Instruction`, so this package knows neither the IR nor the
text format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Any, Protocol

from hlo.errors import InferError
from hlo.ops.attrs import Attr, AttributeAccessors
from hlo.ops.factors import Factors
from hlo.values.types import ElementType, Shape


class Category(Enum):
    """What kind of operation it is: one category for each family."""

    # There is one of each; an enumeration's own hash is a call in Python.
    __hash__ = object.__hash__

    DATA = "data"  # parameters, constants, iota: values without operands
    ELEMENTWISE = "elementwise"
    MOVEMENT = "movement"  # each output element is one input element, found by index
    INDEXING = "indexing"  # gather, scatter, dynamic slices
    REDUCTION = "reduction"
    CONTRACTION = "contraction"
    WINDOW = "window"
    SORT = "sort"
    LINALG = "linalg"
    RANDOM = "random"
    CONTROL = "control"
    STRUCTURE = "structure"  # tuples, tokens, annotations: no code of their own
    ASYNC = "async"
    COLLECTIVE = "collective"
    HOST = "host"  # infeed, outfeed, send, recv
    CUSTOM = "custom"


class Trait(Flag):
    """Facts that passes read. An operation without SIDE_EFFECT may be dropped when unused."""

    NONE = 0
    ELEMENTWISE = auto()  # result element i depends on operand elements i only
    COMMUTATIVE = auto()
    ASSOCIATIVE = auto()  # to the bit, on all element types
    ASSOCIATIVE_INT = auto()  # to the bit on integers and pred; on floats but for rounding
    IDEMPOTENT = auto()  # op(x, x) == x
    INVOLUTION = auto()  # op(op(x)) == x
    SIDE_EFFECT = auto()
    KEEPS_LAYOUT = auto()  # the result has its operands' layout, as of elementwise operations
    INDEXABLE = auto()  # a result element is computed from its index, as of elementwise operations
    REREADS = auto()  # reads elements of operands several times, or at indices that are no loop's
    INFERABLE = auto()  # the text may leave out the result shape
    COLLECTIVE = auto()
    NO_FOLD = auto()  # not a function of its operands alone (random state, ids, host data)
    TRANSCENDENTAL = auto()  # roots and functions that take a series, such as exponentials
    EXACT = auto()  # of floats of any type the result is one of the type: nothing is rounded
    NONNEGATIVE = auto()  # of floats the result is NaN or has a clear sign bit, whatever they are
    EXTREMUM = auto()  # the result is the greater, or the less, of two operands
    VIEW = auto()  # the elements of operand 0 at other strides: a view, where nothing is copied
    FORWARDS = auto()  # the result is operand 0 itself; the operation is for order or placement
    DEVICE_ID = auto()  # the number of the device that it runs on
    CALL = auto()  # the result is that of its one computation on its operands
    CONTROL_FLOW = auto()  # runs computations on whole values, in turn, where it stands
    ASYNC_CHAIN = auto()  # a link in the asynchronous run of a computation
    TUPLE_OF_ONE = auto()  # XLA reads a result that is an array as a tuple of one, and the reverse


# The cost of an element of most functions that take a series.
TRANSCENDENTAL_COST = 20.0


class OpView(AttributeAccessors):
    """An operation as its rules see it, with a typed property for each attribute."""

    __slots__ = ()

    name: str
    opcode: str
    shape: Shape
    attrs: Mapping[str, Any]
    annotations: Mapping[str, Any]

    @property
    def operand_shapes(self) -> Sequence[Shape]:
        """The shapes of the operands, in order."""
        raise NotImplementedError

    @property
    def module_functions(self) -> Mapping[str, Any]:
        """The functions that the module has for its custom calls, by target."""
        return {}

    def operand_shape(self, index: int) -> Shape:
        """Return the shape of one operand: where there are many, no list of all is made."""
        return self.operand_shapes[index]


class OpRecord(OpView):
    """An operation given by its parts: on other shapes than an instruction, or not built yet."""

    __slots__ = ("annotations", "attrs", "name", "opcode", "operand_shapes", "shape")

    operand_shapes: Sequence[Shape]

    def __init__(
        self,
        name: str,
        opcode: str,
        shape: Shape,
        attrs: Mapping[str, Any],
        operand_shapes: Sequence[Shape],
        annotations: Mapping[str, Any],
    ) -> None:
        self.name, self.opcode, self.shape = name, opcode, shape
        self.attrs, self.annotations = attrs, annotations
        self.operand_shapes = operand_shapes

    @staticmethod
    def of(
        op: OpView,
        operand_shapes: Sequence[Shape],
        attrs: Mapping[str, Any] | None = None,
        shape: Shape | None = None,
    ) -> OpRecord:
        """Return an operation on other shapes, by default with the same attributes and result."""
        return OpRecord(
            op.name, op.opcode, shape or op.shape, op.attrs if attrs is None else attrs,
            operand_shapes, op.annotations,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of an order, a value an element; by the total order of floats where it says so."""

    values: Any
    descending: bool
    total_order: bool


class EvalContext(Protocol):
    """What an evaluation rule may ask of the interpreter."""

    def call(self, computation: Any, args: Sequence[Any]) -> Any:
        """Evaluate a computation on values; returns its result value."""

    def known_op(self, computation: Any) -> str | None:
        """Return the opcode of a body that is `op(p0, p1)` on scalars of one type, else None."""

    def projection(self, computation: Any) -> tuple[int, ...] | None:
        """Return the numbers of the parameters that are the result (or its tuple), else None."""

    def apply(self, computation: Any, args: Sequence[Any]) -> Any:
        """Apply a computation on scalars to arrays of equal shape, element by element."""

    def picks(self, computation: Any) -> bool:
        """True for a function of 2n scalars whose result i is always argument i or n + i."""

    def sort_keys(self, computation: Any, arrays: Sequence[Any]) -> list[SortKey] | None:
        """Return the keys by which a comparator orders the elements of arrays, first key first.

        None when it is not a lexicographic order of keys.
        """

    def never_ends(self, op: OpView) -> bool:
        """True for a `while` that goes on for ever if it goes on once."""

    def library_call(self, op: OpView) -> Any:
        """Return the computation that a call of a vendor's library stands for.

        None if its target is no library's. Raises InferError for what is not known of it.
        """

    @property
    def device_counts(self) -> tuple[int, int]:
        """Numbers of replicas and of partitions that the running module is for."""

    @property
    def host(self) -> Any:
        """The `hlo.host.Host`: queues, random state, custom-call targets, device numbers."""


Infer = Callable[[OpView], Shape]
Verify = Callable[[OpView], None]
Evaluate = Callable[[OpView, Sequence[Any], EvalContext], Any]
Resized = Callable[[OpView, Sequence[Shape], Shape], Mapping[str, Any]]


def _nothing_to_verify(op: OpView) -> None:
    """The rule of operations that shape inference checks in full."""


def _as_they_are(op: OpView, operands: Sequence[Shape], result: Shape) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class OpSpec:
    """One operation of the op table.

    Attributes:
        name: HLO spelling.
        arity: operand count, or `(least, most)` with None for no bound.
        attrs: the attributes by text name, in printing order.
        infer: operand shapes and attributes -> result shape; raises `InferError`. Operations whose
            shape is not determined (parameter, convert) read `op.shape` and return what it has to
            be.
        verify: what inference cannot see; raises `InferError`.
        evaluate: the reference semantics on numpy values.
        examples: instruction lines, or whole modules where computations are needed; each is a test.
        source: the section of the specification, or the XLA file, that was followed.
        moved: the operands that the result's elements are taken from, of an operation that computes
            nothing but only moves data: all `args[moved]`.
        identity: the value e with x op e = x for every x of an element type, to the bit; None for
            a type without one.
        continued_by: of an operation that leaves something running: the operations one of which has
            to use the result, to wait for the end or to hand on.
        starts: of a start: the operation that does the same at once (`all-gather-start`:
            `all-gather`).
        payload: the attribute that is written between the parentheses in place of operands
            (`parameter(0)`, `constant({1,2})`); it has no `key=value` form.
        cost: what computing one element of the result takes, operands aside, an addition being 1;
            0 for what computes nothing. Of operations whose elements are computed one by one.
        factors: which dimensions of operands and results are one index, by which an operation is
            distributed over devices.
        resized: the attributes that hold sizes, of the same operation on parts of its operands,
            cut as `factors` allows: from the operation and the shapes of operands and result of the
            part.

    >>> spec = hlo.OPS["transpose"]
    >>> spec.arity, list(spec.attrs), spec.examples
    (1, ['dimensions'], ('f32[4,2,3] transpose(f32[2,3,4] x), dimensions={2,0,1}',))
    """

    name: str
    arity: int | tuple[int, int | None]
    infer: Infer
    evaluate: Evaluate
    category: Category
    source: str
    examples: tuple[str, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    verify: Verify = _nothing_to_verify
    traits: Trait = Trait.NONE
    moved: slice | None = None
    identity: Callable[[ElementType], Any] | None = None
    continued_by: tuple[str, ...] = ()
    starts: str | None = None
    payload: str | None = None
    cost: float = 1.0
    factors: Factors = field(kw_only=True)
    resized: Resized = _as_they_are

    def __repr__(self) -> str:
        return f"<OpSpec {self.name}>"

    def __post_init__(self) -> None:
        object.__setattr__(self, "defaults", {k: a.default for k, a in self.attrs.items()})
        names = tuple(k for k, a in self.attrs.items() if a.codec.holds_computations)
        object.__setattr__(self, "computation_attrs", names)
        implied = {k: a.implied for k, a in self.attrs.items() if a.implied is not None}
        object.__setattr__(self, "implied_attrs", implied)
        settled = {k: a.settled for k, a in self.attrs.items() if a.settled is not None}
        object.__setattr__(self, "settled_attrs", settled)
        object.__setattr__(self, "_trait_bits", self.traits._value_)

    _trait_bits: int = field(init=False, repr=False, compare=False)
    defaults: dict[str, Any] = field(init=False, repr=False, compare=False)
    computation_attrs: tuple[str, ...] = field(init=False, repr=False, compare=False)
    implied_attrs: dict[str, Callable[[Sequence[Shape]], Any]] = field(
        init=False, repr=False, compare=False
    )
    settled_attrs: dict[str, Callable[[Any, Sequence[Shape]], Any]] = field(
        init=False, repr=False, compare=False
    )

    def has(self, trait: Trait) -> bool:
        # Of their numbers: `&` of flags makes a flag, and passes ask this of each instruction.
        return self._trait_bits & trait._value_ != 0

    def is_associative(self, et: ElementType) -> bool:
        """Return whether (x op y) op z = x op (y op z) to the bit, on an element type."""
        is_exact = et.is_integer or et.is_pred
        return self.has(Trait.ASSOCIATIVE) or (is_exact and self.has(Trait.ASSOCIATIVE_INT))

    def takes(self, count: int) -> bool:
        """Return whether `count` operands are allowed."""
        lo, hi = self._arity_range
        return lo <= count and (hi is None or count <= hi)

    @property
    def _arity_range(self) -> tuple[int, int | None]:
        return self.arity if isinstance(self.arity, tuple) else (self.arity, self.arity)

    def check_arity(self, count: int) -> None:
        """Raise InferError unless `count` operands are allowed."""
        lo, hi = self._arity_range
        if not self.takes(count):
            want = str(lo) if lo == hi else f"at least {lo}" if hi is None else f"{lo} to {hi}"
            plural = "" if want == "1" else "s"
            raise InferError(
                f"{self.name} takes {want} operand{plural}, not {count}", code="operand-count"
            )


OPS: dict[str, OpSpec] = {}


def register(spec: OpSpec) -> OpSpec:
    """Add an operation to the table."""
    assert spec.name not in OPS, f"{spec.name} is declared twice"
    OPS[spec.name] = spec
    return spec
