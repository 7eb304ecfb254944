"""Operations in pairs or chains: async, native start and done, send and recv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hlo.ir import Computation, Instruction
from hlo.ops import OPS, Trait
from hlo.verifier.report import Report

# The required opcode of an operation's only user.
_USER: dict[str, frozenset[str]] = {
    name: frozenset(spec.continued_by) for name, spec in OPS.items() if spec.continued_by
}
# The required opcode of an operation's first operand.
_OPERAND: dict[str, frozenset[str]] = {
    end: frozenset(start for start, ends in _USER.items() if end in ends)
    for end in {end for ends in _USER.values() for end in ends}
}
# A loop may carry an open transfer from one iteration to the next, in a tuple.
for _name in ("send", "recv"):
    _USER[_name] |= {"tuple"}
    _OPERAND[f"{_name}-done"] |= {"get-tuple-element"}
_TRANSFERS = frozenset({"send", "recv", "send-done", "recv-done"})


# The operations that these checks are about, besides those on channels.
PAIRED = _USER.keys() | _OPERAND.keys()


def check_pairs(
    instructions: Iterable[Instruction],
    callers: Mapping[Computation, list[Instruction]],
    report: Report,
) -> None:
    """Check that each start has exactly one done, of the same kind, on the same channel."""
    async_bodies = _check_async_bodies(callers, report)
    starts: dict[Instruction, Instruction] = {}  # of each link of an async chain
    for inst in instructions:
        opcode = inst.opcode
        if report.breaks_own_rule(inst):
            continue
        if opcode in _USER:
            _check_user(inst, async_bodies, report)
        if opcode in _OPERAND:
            _check_operand(inst, report)
        if opcode == "async-start":
            starts[inst] = inst
        elif inst.spec.has(Trait.ASYNC_CHAIN) and inst.operands[0] in starts:
            starts[inst] = starts[inst.operands[0]]
            _check_repeated(inst, starts[inst], report)
        if opcode in ("send", "recv"):
            _check_same_transfer(inst, report)
    _check_channels(instructions, report)


def _check_user(inst: Instruction, async_bodies: set[Computation], report: Report) -> None:
    wanted = _USER[inst.opcode]
    if inst.opcode in ("send", "recv") and inst.is_root and inst.parent in async_bodies:
        return  # the async operation around it waits
    names = " or ".join(sorted(wanted))
    users = inst.users
    if len(users) != 1:
        report.add(
            "bad-pair", f"exactly one {names} has to use it, it has {len(users)} users", inst,
            notes=[("a user is here", u) for u in users[:2]],
        )  # fmt: skip
    elif users[0].opcode not in wanted:
        report.add(
            "bad-pair", f"its user has to be {names}, not {users[0].opcode} {users[0].name}", inst,
            notes=[("the user is here", users[0])],
        )  # fmt: skip


def _check_operand(inst: Instruction, report: Report) -> None:
    wanted = _OPERAND[inst.opcode]
    operand = inst.operands[0]
    if operand.opcode not in wanted:
        report.add(
            "bad-pair",
            f"its operand has to be {' or '.join(sorted(wanted))}, not {operand.opcode} "
            f"{operand.name}",
            inst, operand=0,
        )  # fmt: skip


def _check_repeated(inst: Instruction, start: Instruction, report: Report) -> None:
    """Check that attributes repeated along an async chain equal those of its start."""
    for key in ("calls", "async_execution_thread"):
        here, there = inst.attrs.get(key), start.attrs.get(key)
        if here is not None and here != there:
            here, there = getattr(here, "name", here), getattr(there, "name", there)
            report.add(
                "bad-pair", f"its {key} is {here}, that of {start.name} is {there}", inst,
                attr=key, notes=[(f"{start.name} is here", start)],
            )  # fmt: skip


def _check_async_bodies(
    callers: Mapping[Computation, list[Instruction]], report: Report
) -> set[Computation]:
    """Check what async operations wrap: one operation on all the parameters, or only transfers."""
    bodies: set[Computation] = set()
    for comp, instructions in callers.items():
        chain = [c for c in instructions if c.spec.has(Trait.ASYNC_CHAIN)]
        if not chain:
            continue
        bodies.add(comp)
        starts = [c for c in chain if c.opcode == "async-start"]
        for other in starts[1:]:
            report.add(
                "bad-async", f"it calls {comp.name}, which belongs to one asynchronous operation",
                other, notes=[("the first is here", starts[0])],
            )  # fmt: skip
        for other in instructions:
            if not other.spec.has(Trait.ASYNC_CHAIN):
                report.add(
                    "bad-async", f"it calls {comp.name}, which is wrapped by an async operation",
                    other, notes=[("the async operation is here", chain[0])],
                )  # fmt: skip
        if not _may_be_async(comp, chain[0]):
            report.add(
                "bad-async",
                f"async computation {comp.name} has {len(comp)} instructions, it may have its "
                "parameters and a root",
                chain[0], notes=[(f"{comp.name} is here", comp)],
            )  # fmt: skip
    return bodies


def _may_be_async(comp: Computation, start: Instruction) -> bool:
    """True for a body of one operation on the parameters or on elements of them, for one of
    transfers, and for one whose operations the program itself declares a group."""
    said = start.annotations.get("frontend_attributes", ())
    others = {i.opcode for i in comp if not i.is_root} - {"parameter", "get-tuple-element"}
    return (
        not others
        or {*others, comp.root.opcode} <= _TRANSFERS | {"tuple"}
        or "_collectives_group" in said
    )


def _check_same_transfer(inst: Instruction, report: Report) -> None:
    for done in inst.users:
        if done.opcode != inst.opcode + "-done":
            continue
        for key in ("channel_id", "is_host_transfer"):
            here, there = inst.attrs.get(key), done.attrs.get(key)
            if here != there:
                report.add(
                    "bad-channel", f"its {key} is {_said(there)}, that of {inst.name} is "
                    f"{_said(here)}",
                    done, attr=key, notes=[(f"{inst.name} is here", inst)],
                )  # fmt: skip


def _said(value: object) -> str:
    return "not given" if value is None else str(value).lower()


_NAMES_DEVICES = frozenset({"replica_groups", "source_target_pairs"})
_REDUCES = frozenset({"all-reduce", "all-reduce-start"})


def _check_channels(instructions: Iterable[Instruction], report: Report) -> None:
    """Check that a channel to the host is for one kind of transfer, of one shape.

    Other operations may share a channel.
    """
    first: dict[int, Instruction] = {}
    for inst in instructions:
        channel = inst.channel_id
        if channel is None:
            continue
        if channel <= 0 and not inst.attrs.keys().isdisjoint(_NAMES_DEVICES):
            # XLA's verifier looks at the channels of all-reduces alone.
            refused = inst.opcode in _REDUCES
            report.add(
                "bad-channel", f"channel {channel} is not a channel", inst, attr="channel_id",
                hint=f"channels begin at 1; XLA refuses it on {inst.opcode} too",
                xla=None if refused else "takes it, and forgets it in protos",
            )  # fmt: skip
        if inst.opcode not in ("send", "recv") or not inst.is_host_transfer:
            continue
        other = first.setdefault(channel, inst)
        if (other.opcode, other.shape) != (inst.opcode, inst.shape):
            report.add(
                "bad-channel",
                f"channel {channel} to the host is also that of {other.opcode} {other.name}, which "
                f"has shape {other.shape}",
                inst, attr="channel_id", notes=[(f"{other.name} is here", other)],
            )  # fmt: skip
