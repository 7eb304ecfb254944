"""Copy insertion, where two interfering values would share memory."""

from __future__ import annotations

from collections.abc import Callable

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import ArrayShape

# A value: the defining instruction, and the index in its tuple.
Buffer = tuple[Instruction, tuple[int, ...]]


@module_pass
def copy_insertion(module: Module, rewrites: Rewrites) -> None:
    """Insert copies where a result, a loop's state or a branch aliases a value that is still live.

    Each element of the entry's result has memory of its own, except arguments that the header lets
    it overwrite. A loop's state is updated in place: its initial value is not read afterwards, and
    the body keeps each element in its buffer.
    """
    copies = _Copies(rewrites)
    aliases = module.attrs.get("input_output_alias", ())
    given = {(a.output, a.parameter, a.index) for a in aliases}

    def of_entry(at: tuple[int, ...], buffer: Buffer) -> bool:
        inst, index = buffer
        return (at, inst.parameter_number, index) in given

    for comp in unfused(module):
        for inst in comp:
            if inst.opcode == "while":
                copies.before_loop(inst)
                copies.in_result(inst.body, lambda at, buffer: buffer[1] == at)
                copies.in_time(inst.body)
            elif inst.opcode == "conditional":
                for branch in inst.called_computations:
                    copies.in_result(branch, lambda at, buffer: False)
    copies.in_result(module.entry, of_entry)


class _Copies:
    def __init__(self, rewrites: Rewrites) -> None:
        self._rewrites = rewrites
        self._changed: set[Computation] = set()

    def in_result(
        self, comp: Computation, may_stay: Callable[[tuple[int, ...], Buffer], bool]
    ) -> None:
        """Copy elements of a result that are arguments, constants, or duplicates.

        may_stay: whether an element, by index, may be in the memory of an argument.
        """
        root = comp.root
        if root.opcode != "tuple":
            if isinstance(root.shape, ArrayShape) and _is_shared(root, (), may_stay):
                self._copy_root(comp)
            return
        seen: set[Buffer] = set()
        for n, operand in enumerate(root.operands):
            buffer = _buffer(operand)
            if not isinstance(operand.shape, ArrayShape):
                continue
            if buffer in seen or _is_shared(operand, (n,), may_stay):
                self._copy_operand(root, n)
            seen.add(buffer)

    def before_loop(self, loop: Instruction) -> None:
        """Copy initial values of a loop that have other users or may not be overwritten."""
        init = loop.operands[0]
        if init.opcode != "tuple" or init.num_users > 1:
            return
        seen: set[Buffer] = set()
        for n, operand in enumerate(init.operands):
            if not isinstance(operand.shape, ArrayShape):
                continue
            buffer = _buffer(operand)
            if (
                buffer in seen
                or _has_other_users(operand, init)
                or operand.is_root
                or _is_shared(operand, (n,), lambda at, buffer: False)
            ):
                self._copy_operand(init, n)
            seen.add(buffer)

    def in_time(self, body: Computation) -> None:
        """Copy new elements of a loop's state that are written while the old ones are still
        live."""
        root, state = body.root, body.parameters[0]
        if root.opcode != "tuple" or root.num_users:
            return
        place = {inst: n for n, inst in enumerate(body.in_order())}
        last: dict[int, int] = {}
        for user in state.users:
            if user.opcode == "get-tuple-element":
                # Copies for the result come last.
                uses = [
                    len(place) if u.opcode == "copy" and u.users == [root] else place[u]
                    for u in user.users
                    if u is not root
                ]
                index = user.tuple_index
                last[index] = max([last.get(index, -1), *uses])
        for n, operand in enumerate(root.operands):
            made = _buffer(operand)[0]
            early = made.opcode != "parameter" and place[made] < last.get(n, -1)
            if early and isinstance(operand.shape, ArrayShape):
                self._copy_operand(root, n)
        if body not in self._changed:
            return
        body.sort()
        own = set(root.operands)
        copies = [i for i in body if i.opcode == "copy" and i in own and i.num_users == 1]
        late = {*copies, root}
        if not any(has_control_edges(i) for i in late):
            # Copies of elements that are computed too early come last.
            body.reorder([*(i for i in body if i not in late), *copies, root])

    def _copy_operand(self, user: Instruction, n: int) -> None:
        operand = user.operands[n]
        assert user.parent is not None
        if operand.opcode == "copy" and operand.num_users == 1:
            return
        if has_control_edges(user) or not self._rewrites.allow("copy_insertion.copy", operand):
            return
        self._changed.add(user.parent)
        b = Builder(user.parent, operand)
        user.replace_operand(n, b.op("copy", operand, shape=operand.shape))

    def _copy_root(self, comp: Computation) -> None:
        root = comp.root
        if self._rewrites.allow("copy_insertion.copy", root):
            comp.set_root(Builder(comp, root).op("copy", root, shape=root.shape))


def _has_other_users(value: Instruction, init: Instruction) -> bool:
    """True for values with users other than a loop and the copies made for it."""
    return any(
        u is not init and not (u.opcode == "copy" and u.users == [init]) for u in value.users
    )


def _buffer(inst: Instruction) -> Buffer:
    """Return the value that defines the buffer of a value."""
    index: tuple[int, ...] = ()
    while True:
        if inst.opcode == "get-tuple-element":
            index = (inst.tuple_index, *index)
            inst = inst.operands[0]
        elif inst.opcode == "tuple" and index:
            inst, index = inst.operands[index[0]], index[1:]
        elif inst.opcode in ("bitcast", "opt-barrier"):
            inst = inst.operands[0]
        else:
            return inst, index


def _is_shared(
    inst: Instruction,
    at: tuple[int, ...],
    may_stay: Callable[[tuple[int, ...], Buffer], bool],
) -> bool:
    buffer = _buffer(inst)
    if buffer[0].opcode == "parameter":
        return not may_stay(at, buffer)
    return buffer[0].opcode == "constant"
