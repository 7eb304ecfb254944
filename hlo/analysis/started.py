"""Collectives that only start where they stand, and end where a `WAIT` does.

Code generation makes these of pairs such as all-reduce-start and all-reduce-done: the plain
collective, and a custom call of `WAIT` that takes its results, which it passes on, and then its
operands, which have to stay as they are until then.
"""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ops.host.custom_targets import WAIT


def is_started(collective: Instruction) -> bool:
    """True for a collective whose results are complete after a `WAIT` only."""
    users = list(collective.users)
    users += [u for user in users if user.opcode == "get-tuple-element" for u in user.users]
    # What a collective only reads is an operand of its end as well.
    return any(is_wait(user) and started_by(user) is collective for user in users)


def is_wait(inst: Instruction) -> bool:
    """True for the end of a collective that has been started."""
    return inst.opcode == "custom-call" and inst.custom_call_target == WAIT


def started_by(wait: Instruction) -> Instruction:
    """Return the collective that a `WAIT` ends."""
    first = wait.operands[0]
    return first.operands[0] if first.opcode == "get-tuple-element" else first
