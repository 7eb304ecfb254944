"""One operation of a computation: opcode, shape, operands, attributes, and who uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hlo.errors import InstructionSpan
from hlo.ops import OPS, OpSpec
from hlo.ops.aliases import opcode_hint
from hlo.ops.spec import OpView
from hlo.support.signature import shown
from hlo.values.types import ArrayShape, Shape

if TYPE_CHECKING:
    from hlo.ir.computation import Computation

# How many operands the repr of an instruction shows.
_SHOWN = 8
# From so many operands on, such as those of a large tuple, they are not searched one by one.
_MANY = 32


class Instruction(OpView):
    """An operation. The methods maintain the edges: never write `operands` or `users` directly.

    Attributes:
        name: unique in its computation.
        opcode: as HLO spells it, a key of `hlo.OPS`.
        shape: of its value, with layout.
        operands: in order, repeated where used twice.
        attrs: every attribute of the op table's declaration, decoded, with defaults filled in.
        control_predecessors: instructions that must run before this one without data dependence.
        annotations: attributes that any operation may have, by text name (`metadata`, `sharding`,
            `frontend_attributes`, `backend_config`, `statistics`, ...); absent ones have no entry.

    Raises:
        ValueError: for an unknown opcode.
        TypeError: for operands that are not instructions.

    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[2,3] parameter(0)  ROOT t = f32[3,2] transpose(x), dimensions={1,0} }''')
    >>> module["t"].attrs, module["x"].users
    ({'dimensions': (1, 0)}, [<Instruction t = f32[3,2]{1,0} transpose(x)>])
    """

    __slots__ = (
        "_parent", "_places", "_users", "annotations", "attrs", "control_predecessors",
        "control_successors", "name", "opcode", "operands", "shape", "span", "spec",
    )  # fmt: skip

    # Rules see the computations that attributes name as views; here they are the computations.
    to_apply: Computation
    calls: Computation
    condition: Computation
    body: Computation
    true_computation: Computation
    false_computation: Computation
    branch_computations: tuple[Computation, ...] | None
    custom_call_computations: tuple[Computation, ...]
    select: Computation
    scatter: Computation

    def __init__(
        self,
        name: str,
        opcode: str,
        shape: Shape,
        operands: Iterable[Instruction] = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        annotations: Mapping[str, Any] | None = None,
        span: InstructionSpan | None = None,
    ) -> None:
        spec = OPS.get(opcode)
        if spec is None:
            hint = opcode_hint(opcode)
            raise ValueError(f"there is no opcode {opcode!r}{f'; {hint}' if hint else ''}")
        self.name = name
        self.opcode = spec.name
        self.spec: OpSpec = spec
        self.shape = shape
        self.operands: list[Instruction] = list(operands)
        self.attrs: dict[str, Any] = {**spec.defaults, **attrs} if attrs else spec.defaults.copy()
        self.annotations: dict[str, Any] = dict(annotations) if annotations else {}
        self.control_predecessors: list[Instruction] = []
        self.control_successors: list[Instruction] = []
        self.span = span
        self._begin()

    def _begin(self) -> None:
        """Be used by nothing, in no computation, and a user of the operands."""
        self._parent: Computation | None = None
        # Values count uses; keys are in the order of their first use.
        self._users: dict[Instruction, int] = {}
        # Where each operand is, of an instruction with many, once one of them has been replaced.
        self._places: dict[Instruction, list[int]] | None = None
        for operand in self.operands:
            if not isinstance(operand, Instruction):
                raise TypeError(f"{self.name}: an operand is {shown(operand)}, not an Instruction")
            users = operand._users
            users[self] = users.get(self, 0) + 1

    @property
    def parent(self) -> Computation | None:
        """The computation that contains this instruction, or None after its removal."""
        return self._parent

    @property
    def users(self) -> Sequence[Instruction]:
        """The instructions that have this one as an operand, each once."""
        return list(self._users)

    @property
    def num_users(self) -> int:
        """The number of different instructions that use this one."""
        return len(self._users)

    @property
    def array_shape(self) -> ArrayShape:
        """The shape, of an instruction known to produce an array."""
        assert isinstance(self.shape, ArrayShape), self
        return self.shape

    @property
    def operand_shapes(self) -> Sequence[Shape]:
        """The shapes of the operands, in order."""
        return [o.shape for o in self.operands]

    def operand_shape(self, index: int) -> Shape:
        """Return the shape of one operand."""
        return self.operands[index].shape

    @property
    def module_functions(self) -> Mapping[str, Any]:
        """The functions that the module has for its custom calls, by target."""
        module = None if self._parent is None else self._parent.module
        return {} if module is None else module.custom_calls

    @property
    def is_root(self) -> bool:
        """True for the result of its computation."""
        return self._parent is not None and self._parent.root is self

    @property
    def called_computations(self) -> list[Computation]:
        """The computations that attributes name, in the order of the op table."""
        found: list[Computation] = []
        for key in self.spec.computation_attrs:
            value = self.attrs[key]
            if value is None:
                continue
            if isinstance(value, tuple):
                found.extend(value)
            else:
                found.append(value)
        return found

    def replace_called(self, new: Mapping[Computation, Computation]) -> None:
        """Replace called computations that are keys of `new`."""
        for key in self.spec.computation_attrs:
            value = self.attrs[key]
            if isinstance(value, tuple):
                self.attrs[key] = tuple(new.get(c, c) for c in value)
            elif value is not None:
                self.attrs[key] = new.get(value, value)

    def replace_operand(self, index: int, new: Instruction) -> None:
        """Make `new` the operand at `index`."""
        old = self.operands[index]
        if old is new:
            return
        old._drop_use(self)
        self._places = None
        self.operands[index] = new
        self._order_may_change()
        new._users[self] = new._users.get(self, 0) + 1

    def replace_all_uses_with(self, new: Instruction) -> None:
        """Make every user of this instruction use `new`; it also becomes the root in its place.

        `new` itself keeps this instruction as an operand, so that a wrapper can be put around it.
        """
        if new is self:
            return
        for user, count in list(self._users.items()):
            if user is new:
                continue
            user._replace(self, new)
            del self._users[user]
            new._users[user] = new._users.get(user, 0) + count
        if self._parent is not None and self._parent.root is self and new._parent is self._parent:
            self._parent.set_root(new)

    def _replace(self, old: Instruction, new: Instruction) -> None:
        """Make `new` the operand wherever `old` is, without telling either."""
        operands = self.operands
        if len(operands) < _MANY:
            for n, operand in enumerate(operands):
                if operand is old:
                    operands[n] = new
        else:
            places = self._places
            if places is None:
                places = self._places = {}
                for n, operand in enumerate(operands):
                    places.setdefault(operand, []).append(n)
            found = places.pop(old)
            for n in found:
                operands[n] = new
            places.setdefault(new, []).extend(found)
        self._order_may_change()

    def add_control_predecessor(self, other: Instruction) -> None:
        """Add a control dependence on `other`."""
        if other not in self.control_predecessors:
            self.control_predecessors.append(other)
            other.control_successors.append(self)
            self._order_may_change()

    def remove_control_predecessor(self, other: Instruction) -> None:
        """Remove the control dependence on `other`."""
        self.control_predecessors.remove(other)
        other.control_successors.remove(self)

    def clone(
        self,
        operands: Iterable[Instruction] | None = None,
        *,
        name: str | None = None,
        shape: Shape | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Instruction:
        """Return a copy without a computation, by default with the same operands.

        Attributes given in `attrs` replace those of the original. Called computations are shared;
        control dependences are not copied.
        """
        new = object.__new__(Instruction)
        new.name = name or self.name
        new.opcode, new.spec, new.span = self.opcode, self.spec, self.span
        new.shape = shape or self.shape
        new.operands = list(self.operands if operands is None else operands)
        new.attrs = {**self.attrs, **attrs} if attrs else self.attrs.copy()
        new.annotations = self.annotations.copy()
        new.control_predecessors = []
        new.control_successors = []
        new._begin()
        return new

    def drop_edges(self) -> None:
        """Remove this instruction from the users of its operands and from control dependences."""
        for operand in self.operands:
            operand._drop_use(self)
        self.operands.clear()
        self._places = None
        for other in list(self.control_predecessors):
            self.remove_control_predecessor(other)
        for other in list(self.control_successors):
            other.remove_control_predecessor(self)

    def _drop_use(self, user: Instruction) -> None:
        left = self._users[user] - 1
        if left:
            self._users[user] = left
        else:
            del self._users[user]

    def _order_may_change(self) -> None:
        if self._parent is not None:
            self._parent._is_ordered = False

    def predecessors(self) -> Iterator[Instruction]:
        """Yield what must run first: operands, then control predecessors."""
        yield from self.operands
        yield from self.control_predecessors

    # Set by `hlo.frontends.text`, a higher layer.
    to_text: ClassVar[Callable[[Instruction], str]]

    def __str__(self) -> str:
        return type(self).to_text(self)

    def __repr__(self) -> str:
        operands = [o.name for o in self.operands[:_SHOWN]]
        if len(self.operands) > _SHOWN:
            operands.append(f"... {len(self.operands) - _SHOWN} more")
        return f"<Instruction {self.name} = {self.shape} {self.opcode}({', '.join(operands)})>"
