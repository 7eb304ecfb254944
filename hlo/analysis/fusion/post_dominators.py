"""Values with several users that one kernel computes once, since it needs all of these users."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.analysis.fusion.operations import is_pointwise
from hlo.ir import Computation, Instruction

# Paths that take more steps to come together again are taken for ones that do not.
_MAX_DETOUR = 100


def rejoining(comp: Computation, longest_delay: float) -> dict[Instruction, int]:
    """Return what has several users whose results come together again, element by element.

    A kernel that computes the place where they do computes the value once, however many users it
    has: there is nothing to gain by keeping it. The place is the immediate post-dominator. With
    each value, by how many operations the way to the place makes a kernel deeper, at most.

    longest_delay: paths of more than that in costly operations stay apart: a kernel that waits for
    long chains of them loses more time than it takes to write what they share to memory.
    """
    order = comp.in_order()
    # How long the longest way to each instruction is: in operations, and in costly ones.
    level: dict[Instruction, int] = {}
    delay: dict[Instruction, float] = {}
    for inst in order:
        cost = inst.spec.cost
        longest, most = 0, 0.0
        for operand in inst.operands:
            longest, most = max(longest, level[operand]), max(most, delay[operand])
        level[inst] = 1 + longest
        delay[inst] = most + cost if cost > 1 else most
    found: dict[Instruction, int] = {}
    # The post-dominator of what only elementwise operations of its dimensions use, and how many
    # there are above that.
    join: dict[Instruction, Instruction] = {}
    height: dict[Instruction, int] = {}
    for inst in reversed(order):
        height[inst] = 0
        users = inst.users
        if inst is comp.root or not users or not all(is_pointwise(u, inst) for u in users):
            continue
        place: Instruction | None = users[0]
        for user in users[1:]:
            place = _meet(place, user, join, height)
        if place is not None:
            join[inst], height[inst] = place, height[place] + 1
            if len(users) > 1 and delay[place] - delay[inst] <= longest_delay:
                found[inst] = level[place] - level[inst]
    return found


def _meet(
    a: Instruction | None,
    b: Instruction,
    join: Mapping[Instruction, Instruction],
    height: Mapping[Instruction, int],
) -> Instruction | None:
    """Return the first place that all paths from two values pass, None if there is none nearby."""
    other: Instruction | None = b
    for _ in range(_MAX_DETOUR):
        if a is other or a is None or other is None:
            return a if a is other else None
        if height[a] >= height[other]:
            a = join.get(a)
        else:
            other = join.get(other)
    return None
