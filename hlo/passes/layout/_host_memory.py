"""Values to be placed in host memory, and everything that shares their buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.values.layout.bitcasts import layout_of
from hlo.values.types import HOST_MEMORY_SPACE, ArrayShape, Shape, TupleShape

TO_HOST, TO_DEVICE = "MoveToHost", "MoveToDevice"
# An instruction, and the index of the buffer in its tuple.
Buffer = tuple[Instruction, tuple[int, ...]]

_FORWARDS = frozenset({"bitcast", "dynamic-update-slice", "opt-barrier"})
_SHARES = _FORWARDS | {"call", "conditional", "get-tuple-element", "tuple", "while"}


def is_mark(inst: Instruction, target: str) -> bool:
    """True for a custom call that annotates the placement of its operand, an array."""
    return (
        inst.opcode == "custom-call"
        and inst.custom_call_target == target
        and len(inst.operands) == 1
        and isinstance(inst.shape, ArrayShape)
    )


def in_space(shape: Shape, index: Sequence[int], space: int) -> Shape:
    """Return a shape with the array at an index in another memory space."""
    if isinstance(shape, TupleShape):
        n, rest = index[0], index[1:]
        elements = list(shape.elements)
        elements[n] = in_space(elements[n], rest, space)
        return TupleShape(tuple(elements))
    assert isinstance(shape, ArrayShape) and not index
    return shape.with_layout(replace(layout_of(shape), memory_space=space))


def shape_at(shape: Shape, index: Sequence[int]) -> Shape:
    """Return the part of a shape at an index."""
    for n in index:
        assert isinstance(shape, TupleShape)
        shape = shape.elements[n]
    return shape


@dataclass
class Family:
    """All buffers shared with an annotated value, through tuples, loops and calls.

    buffers: without the annotations. sources: uses of values defined elsewhere, by user and
    operand. uses: by instructions that do not share the buffer. marks: the MoveToHost annotations.
    """

    buffers: dict[Buffer, None] = field(default_factory=dict)
    sources: dict[tuple[Instruction, int], None] = field(default_factory=dict)
    uses: dict[tuple[Instruction, int], None] = field(default_factory=dict)
    marks: dict[Instruction, None] = field(default_factory=dict)


class _Unknown(Exception):
    """A buffer is shared in a way that is not followed."""


class HostMemory:
    """Follows buffers through a module. Valid until the module changes.

    result: the shape of the entry's result, in the layouts that callers see.
    """

    def __init__(self, callers: Mapping[Computation, Sequence[Instruction]], entry: Computation,
                 result: Shape) -> None:  # fmt: skip
        self._callers = callers
        self._entry = entry
        self._result = result

    def family(self, mark: Instruction) -> Family | None:
        """Return everything that shares the buffer of a value that is moved to the host.

        None if a buffer cannot be followed.
        """
        family = Family()
        todo: list[Buffer] = [(mark, ())]
        try:
            while todo:
                inst, index = todo.pop()
                known = family.marks if is_mark(inst, TO_HOST) else family.buffers
                key = inst if is_mark(inst, TO_HOST) else (inst, index)
                if key in known:
                    continue
                if has_control_edges(inst):
                    return None
                if is_mark(inst, TO_HOST):
                    family.marks[inst] = None
                else:
                    family.buffers[inst, index] = None
                    todo += self._before(inst, index, family)
                todo += self._after(inst, index, family)
        except _Unknown:
            return None
        return family

    def _before(
        self, inst: Instruction, index: tuple[int, ...], family: Family
    ) -> Iterator[Buffer]:
        """Yield the operand buffers that an instruction passes on."""
        if inst.opcode == "tuple":
            yield from self._operand(inst, index[0], index[1:], family)
        elif inst.opcode == "get-tuple-element":
            yield from self._operand(inst, 0, (inst.tuple_index, *index), family)
        elif inst.opcode in _FORWARDS:
            yield from self._operand(inst, 0, index, family)
        elif inst.opcode == "while":
            yield from self._operand(inst, 0, index, family)
            yield inst.body.root, index
            yield from ((c.parameters[0], index) for c in inst.called_computations)
        elif inst.opcode in ("call", "conditional"):
            yield from ((c.root, index) for c in inst.called_computations)
        elif inst.opcode == "parameter" and inst.parent is not self._entry:
            for caller in self._callers_of(inst):
                if caller.opcode == "while":
                    yield caller, index
                else:
                    for number in _bound_operands(caller, inst):
                        yield from self._operand(caller, number, index, family)
        elif not _is_in_host_memory(inst, index):
            raise _Unknown

    def _operand(
        self, user: Instruction, number: int, index: tuple[int, ...], family: Family
    ) -> Iterator[Buffer]:
        value = user.operands[number]
        shared = value.opcode in _SHARES or is_mark(value, TO_HOST)
        if shared or _is_in_host_memory(value, index):
            yield value, index
        elif value.opcode == "parameter" and value.parent is not self._entry:
            yield value, index
        elif index:
            raise _Unknown  # an element of a tuple that another operation defines
        else:
            family.sources[user, number] = None

    def _after(self, inst: Instruction, index: tuple[int, ...], family: Family) -> Iterator[Buffer]:
        """Yield the buffers of users that pass on an instruction's."""
        comp = inst.parent
        assert comp is not None
        if inst.is_root and comp is self._entry:
            wanted = shape_at(self._result, index)
            if not isinstance(wanted, ArrayShape) or not _is_host_shape(wanted):
                raise _Unknown  # the caller wants it on the device
        elif inst.is_root:
            yield from ((caller, index) for caller in self._callers_of(inst))
        for user in inst.users:
            for number, operand in enumerate(user.operands):
                if operand is inst:
                    yield from self._use(user, number, index, family)

    def _use(
        self, user: Instruction, number: int, index: tuple[int, ...], family: Family
    ) -> Iterator[Buffer]:
        if user.opcode == "tuple":
            yield user, (number, *index)
        elif user.opcode == "get-tuple-element":
            if user.tuple_index == index[0]:
                yield user, index[1:]
        elif user.opcode == "while" or (user.opcode in _FORWARDS and number == 0):
            yield user, index
        elif user.opcode == "dynamic-update-slice" and number == 1:
            yield user, ()
        elif user.opcode in ("call", "conditional") and (number or user.opcode == "call"):
            branch = number - 1 if user.opcode == "conditional" else 0
            place = 0 if user.opcode == "conditional" else number
            yield user.called_computations[branch].parameters[place], index
        elif index or has_control_edges(user):
            raise _Unknown
        elif is_mark(user, TO_HOST):
            yield user, ()
        else:
            family.uses[user, number] = None

    def _callers_of(self, inst: Instruction) -> Sequence[Instruction]:
        assert inst.parent is not None
        callers = self._callers.get(inst.parent, ())
        if any(not c.spec.has(Trait.CONTROL_FLOW) for c in callers):
            raise _Unknown
        # The condition of a loop has a result of its own.
        return [
            c
            for c in callers
            if not inst.is_root or c.opcode != "while" or c.condition != inst.parent
        ]


def _bound_operands(caller: Instruction, parameter: Instruction) -> list[int]:
    if caller.opcode == "call":
        return [parameter.parameter_number]
    return [1 + n for n, c in enumerate(caller.called_computations) if c is parameter.parent]


def _is_host_shape(shape: ArrayShape) -> bool:
    return layout_of(shape).memory_space == HOST_MEMORY_SPACE


def _is_in_host_memory(inst: Instruction, index: Sequence[int]) -> bool:
    shape = shape_at(inst.shape, index)
    return isinstance(shape, ArrayShape) and _is_host_shape(shape)
