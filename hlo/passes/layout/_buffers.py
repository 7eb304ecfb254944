"""Which values share memory, which operands are overwritten by results, and who reads them when."""

from __future__ import annotations

from collections.abc import Iterator

from hlo.ir import Computation, Instruction

# A value: the defining instruction, and the index in its tuple.
Buffer = tuple[Instruction, tuple[int, ...]]

# Operations whose result is in the memory of their operands.
_ALIASES = frozenset({"get-tuple-element", "tuple", "bitcast", "opt-barrier"})


def buffer_of(inst: Instruction) -> Buffer:
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


def overwritten(inst: Instruction) -> list[int]:
    """Return the numbers of the operands whose memory an operation's results take."""
    match inst.opcode:
        case "dynamic-update-slice":
            return [0]
        case "scatter":
            return list(range(len(inst.operands) // 2))
        case "custom-call":
            return [a.operand for a in inst.output_to_operand_aliasing]
        case "fusion":
            aliased = (a.operand for a in inst.output_to_operand_aliasing)
            return sorted({*aliased, *_overwritten_inside(inst.calls)})
        case "call":
            return sorted(_overwritten_in_call(inst.to_apply))
    return []


def _overwritten_inside(fusion: Computation) -> Iterator[int]:
    """Yield the parameters of a fusion that what computes its results updates."""
    root = fusion.root
    for result in root.operands if root.opcode == "tuple" else [root]:
        update, _ = buffer_of(result)
        if update.opcode != "fusion":
            for n in overwritten(update):
                value, _ = buffer_of(update.operands[n])
                if value.opcode == "parameter":
                    yield value.parameter_number


def _overwritten_in_call(comp: Computation) -> set[int]:
    """Return the parameters of a called computation that it uses as its own memory."""
    found: set[int] = set()
    for inst in comp:
        for n in [0] if inst.opcode == "while" else overwritten(inst):
            value = inst.operands[n]
            parts = value.operands if value.opcode == "tuple" else [value]
            definitions = (buffer_of(part)[0] for part in parts)
            found |= {i.parameter_number for i in definitions if i.opcode == "parameter"}
    return found


def loop_of(inst: Instruction, operand: int) -> Instruction | None:
    """Return the loop that takes an operand of an instruction as its state: itself, or its callee's
    result."""
    if inst.opcode == "while":
        return inst
    if inst.opcode != "call":
        return None
    root = inst.to_apply.root
    is_state = root.opcode == "while" and root.operands[0] is inst.to_apply.parameters[operand]
    return root if is_state else None


def keeps_element(body: Computation, n: int) -> bool:
    """Return whether a loop's body only reads an element of the state and hands it on."""
    state, root = body.parameters[0], body.root
    element: Buffer = (state, (n,))
    if root.opcode != "tuple" or buffer_of(root.operands[n]) != element:
        return False
    if any(user.opcode != "get-tuple-element" for user in state.users):
        return False
    todo = [user for user in state.users if user.tuple_index == n]
    while todo:
        value = todo.pop()
        for user in value.users:
            if user is root:
                if [o for o in root.operands if buffer_of(o) == element] != [root.operands[n]]:
                    return False
            elif user.opcode == "bitcast":
                todo.append(user)
            elif user.opcode in ("tuple", "opt-barrier") or user.shape.is_tuple:
                return False
            elif any(user.operands[k] is value for k in overwritten(user)):
                return False
    return True


class Readers:
    """The instructions of a computation that read each buffer, and whether they do so in time."""

    def __init__(self, comp: Computation) -> None:
        self._readers: dict[Instruction, list[tuple[tuple[int, ...], Instruction | None]]] = {}
        order = comp.in_order()
        for inst in order:
            if inst.opcode not in _ALIASES:
                for operand in inst.operands:
                    self._add(operand, inst)
        self._add(comp.root, None)
        # By bits: what each instruction depends on. A schedule says more.
        self._earlier: dict[Instruction, int] = {}
        bits = {inst: 1 << n for n, inst in enumerate(order)}
        is_scheduled = comp.module is not None and comp.module.is_scheduled
        for inst in order:
            found = bits[inst] - 1 if is_scheduled else 0
            if not is_scheduled:
                for before in inst.predecessors():
                    found |= self._earlier[before] | bits[before]
            self._earlier[inst] = found
        self._bits = bits

    def _add(self, value: Instruction, reader: Instruction | None) -> None:
        inst, index = buffer_of(value)
        if inst.opcode == "tuple":
            for operand in inst.operands:
                self._add(operand, reader)
        else:
            self._readers.setdefault(inst, []).append((index, reader))

    def is_read_after(self, buffer: Buffer, update: Instruction) -> bool:
        """Return whether a buffer may be read after, or while, an instruction overwrites it."""
        inst, index = buffer
        for at, reader in self._readers.get(inst, ()):
            overlaps = at[: len(index)] == index[: len(at)]
            if overlaps and reader is not update:
                if reader is None or not self._earlier[update] & self._bits[reader]:
                    return True
        return False
