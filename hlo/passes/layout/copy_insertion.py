"""Copy insertion, where two interfering values would share memory."""

from __future__ import annotations

from collections.abc import Callable

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.layout._buffers import (
    Buffer,
    Readers,
    buffer_of,
    keeps_element,
    loop_of,
    overwritten,
)
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import ArrayShape, TupleShape


@module_pass
def copy_insertion(module: Module, rewrites: Rewrites) -> None:
    """Insert copies where a result, a loop's state or a branch aliases a value that is still live.

    Each element of the entry's result has memory of its own, except arguments that the header lets
    it overwrite. A loop's state is updated in place: its initial value is not read afterwards, and
    the body keeps each element in its buffer. So are the operands of updates and scatters.
    """
    copies = _Copies(rewrites)
    aliases = module.attrs.get("input_output_alias", ())
    given = {(a.output, a.parameter, a.index) for a in aliases}

    def of_entry(at: tuple[int, ...], buffer: Buffer) -> bool:
        inst, index = buffer
        return (at, inst.parameter_number, index) in given

    comps = unfused(module)
    # The arguments of these are what their caller has copied as far as it needs them.
    owners = {
        inst.body if inst.opcode == "while" else inst.to_apply
        for comp in comps
        for inst in comp.call_sites
        if inst.opcode in ("while", "call")
    }
    donated = {(a.parameter, tuple(a.index)) for a in aliases}

    def may_change(at: tuple[int, ...], buffer: Buffer) -> bool:
        inst, index = buffer
        if inst.parent is module.entry:
            return (inst.parameter_number, index) in donated
        return inst.parent in owners

    for comp in comps:
        for inst in comp:
            if inst.opcode == "while":
                copies.before_loop(inst, owns=comp in owners)
                copies.in_result(inst.body, lambda at, buffer: buffer[1] == at)
                copies.in_time(inst.body)
            elif inst.opcode == "conditional":
                for branch in inst.called_computations:
                    copies.in_result(branch, lambda at, buffer: False)
    copies.in_result(module.entry, of_entry)
    for comp in comps:
        copies.before_updates(comp, may_change, owns=comp in owners)


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
            buffer = buffer_of(operand)
            if not isinstance(operand.shape, ArrayShape):
                continue
            if buffer in seen or _is_shared(operand, (n,), may_stay):
                self._copy_operand(root, n)
            seen.add(buffer)

    def before_updates(
        self, comp: Computation, may_stay: Callable[[tuple[int, ...], Buffer], bool], *, owns: bool
    ) -> None:
        """Copy operands that are overwritten although they are constants or read afterwards.

        may_stay: whether an argument may be overwritten. owns: all of them may.
        """
        updates = [(inst, n) for inst in comp for n in overwritten(inst)]
        readers = Readers(comp) if updates else None
        for inst, n in updates:
            operand = inst.operands[n]
            if not isinstance(operand.shape, ArrayShape):
                self.before_loop(inst, n, owns=owns)
                continue
            assert readers is not None
            is_read = readers.is_read_after(buffer_of(operand), inst)
            if is_read or _is_shared(operand, (n,), may_stay):
                self._copy_operand(inst, n)

    def before_loop(self, loop: Instruction, operand: int = 0, *, owns: bool) -> None:
        """Copy initial values of a loop that have other users or may not be overwritten.

        operand: which one it is, of a call that has the loop. owns: the computation may overwrite
        its own arguments.
        """
        init = loop.operands[operand]
        is_argument = buffer_of(init)[0].opcode == "parameter" and not owns
        if init.num_users > 1 or init.is_root or is_argument:
            init = self._split(loop, operand)
        if init.opcode != "tuple":
            return
        inner = loop_of(loop, operand)
        seen: set[Buffer] = set()
        for n, element in enumerate(init.operands):
            if not isinstance(element.shape, ArrayShape):
                continue
            buffer = buffer_of(element)
            if buffer not in seen and inner is not None and keeps_element(inner.body, n):
                seen.add(buffer)
                continue
            if (
                buffer in seen
                or _has_other_users(element, init)
                or element.is_root
                or _is_shared(element, (n,), lambda at, buffer: False)
            ):
                self._copy_operand(init, n)
            seen.add(buffer)

    def _split(self, loop: Instruction, operand: int) -> Instruction:
        """Give a loop an initial value that nothing else uses; returns that."""
        init = loop.operands[operand]
        assert loop.parent is not None
        if not isinstance(init.shape, TupleShape) or not self._rewrites.allow(
            "copy_insertion.split", loop
        ):
            return init
        b = Builder(loop.parent, init)
        shapes = enumerate(init.shape.elements)
        elements = (
            init.operands
            if init.opcode == "tuple"
            else [b.op("get-tuple-element", init, shape=shape, index=n) for n, shape in shapes]
        )
        made = b.op("tuple", *elements, shape=init.shape)
        loop.replace_operand(operand, made)
        return made

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
            made = buffer_of(operand)[0]
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


def _is_shared(
    inst: Instruction,
    at: tuple[int, ...],
    may_stay: Callable[[tuple[int, ...], Buffer], bool],
) -> bool:
    buffer = buffer_of(inst)
    if buffer[0].opcode == "parameter":
        return not may_stay(at, buffer)
    return buffer[0].opcode == "constant"
