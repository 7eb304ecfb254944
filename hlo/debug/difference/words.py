"""A group of changes in words: a rewrite by its name if that is sure, else what became of what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hlo.analysis.cost import cost_of_instruction
from hlo.analysis.matching import Matching
from hlo.debug.difference.changes import ADDED, CHANGED, MOVED, REMOVED, SWAPPED_KIND, Change
from hlo.debug.difference.details import Detail
from hlo.debug.difference.sites import Sites
from hlo.ir import Instruction

# Texts that differ from one instruction to the next, and so are not part of what happened to all.
_OWN = frozenset({"operands", "operands swapped", "calls", "control-predecessors", "result"})
_LAYOUT = re.compile(r"\{[^{}]*\}")
# Texts of values up to this length are part of the words.
_SHORT = 40
# Contents of something new that are listed.
_FEW = 8
# What says little about a large fusion.
_CHEAP = frozenset(
    {
        "bitcast",
        "broadcast",
        "constant",
        "get-tuple-element",
        "iota",
        "parameter",
        "reshape",
        "tuple",
    }
)
# Opcodes of a group that are listed.
_MOST = 10


def words(matching: Matching, sites: Sites, group: Sequence[Change]) -> str:
    """Return what happened to a group of changes, without names."""
    for change in group:
        for inst in change.instructions:
            if matching.of(inst) is None and inst.opcode in ("fusion", "call", "while"):
                return _around(sites, inst, group)
    if any(c.kind == MOVED for c in group):
        return _moved(matching, sites, group)
    removed = [c.left for c in group if c.left is not None and c.right is None]
    added = [c.right for c in group if c.right is not None and c.left is None]
    others = [_changed(c) for c in group if c.kind not in (ADDED, REMOVED)]
    if not removed and not added:
        return ", ".join(dict.fromkeys(others))
    text = _replaced(matching, removed, added)
    if others and " folded into " not in text:
        text = ", ".join(dict.fromkeys([text, *others]))
    return text


def _around(sites: Sites, site: Instruction, group: Sequence[Change]) -> str:
    """Return what happened to the contents of a fusion, call or loop that is new, or gone."""
    is_new = any(c.right is site for c in group)
    inside = [
        i for c in group if (i := c.right if is_new else c.left) is not None and i is not site
    ]
    came = [c for c in group if c.left is not None and c.right is not None]
    if not came:
        text = f"{site.opcode} {'added' if is_new else 'removed'}"
        return f"{text} with {_chain(inside)}" if 0 < len(inside) <= _FEW else text
    verbs = {
        "fusion": ("fused", "no longer fused"),
        "call": ("outlined", "inlined"),
        "while": ("moved into a loop", "moved out of a loop"),
    }
    text = f"{_contents(inside)} {verbs[site.opcode][not is_new]}"
    moved = {i for c in came for i in c.instructions}
    # What is cheap is computed again in each fusion that needs it.
    new = [i for i in inside if i not in moved and i.opcode not in _CHEAP]
    altered = bool(new) or any(c.kind == CHANGED for c in came if c.right is not site)
    return f"{text}, partly changed" if altered else text


def _contents(inside: Sequence[Instruction]) -> str:
    """Return the opcodes of what is inside of something: those that compute, of many uncounted."""
    telling = [i for i in inside if i.opcode not in _CHEAP] or list(inside)
    if len(telling) <= _FEW:
        return _chain(telling)
    opcodes = sorted({i.opcode for i in telling})
    if len(opcodes) <= _MOST:
        return " + ".join(opcodes)
    work = dict.fromkeys(opcodes, 0)
    for inst in telling:
        work[inst.opcode] += cost_of_instruction(inst).operations
    chosen = set(sorted(opcodes, key=lambda o: -work[o])[:_MOST])
    listed = " + ".join(o for o in opcodes if o in chosen)
    return f"{len(telling)} instructions ({listed}, ...)"


# --- one instruction ----------------------------------------------------------------------------


def _changed(change: Change) -> str:
    assert change.left is not None and change.right is not None
    opcode = change.left.opcode
    if change.kind == SWAPPED_KIND:
        return f"{opcode}: operands swapped"
    parts = [_detail(d) for d in change.details]
    return f"{opcode}: {', '.join(parts)}"


def _detail(detail: Detail) -> str:
    if detail.what == "layout":
        orders = [_LAYOUT.findall(text) for text in (detail.left, detail.right)]
        if all(len(found) == 1 for found in orders):
            return f"layout: {orders[0][0]} -> {orders[1][0]}"
    if detail.what in _OWN:
        return {"calls": "calls another computation", "result": "another result"}.get(
            detail.what, f"other {detail.what}"
        )
    if detail.what == "opcode":
        return f"now {detail.right}"
    if max(len(detail.left), len(detail.right)) > _SHORT:
        return f"other {detail.what}"
    return str(detail)


# --- removed and added --------------------------------------------------------------------------


def _replaced(
    matching: Matching, removed: Sequence[Instruction], added: Sequence[Instruction]
) -> str:
    if removed and added:
        return f"{_chain(removed)} replaced by {_chain(added)}"
    if added:
        if len(added) == 1 and _equal_one(added[0]) is not None:
            return f"{added[0].opcode} computed again, beside an equal one"
        return f"{_chain(added)} added"
    merged = [_merged_with(matching, inst) for inst in removed]
    if all(merged):
        return f"{_chain(removed)} merged with an equal one (CSE)"
    if folded := _folded_into(matching, removed):
        return f"{_chain(removed)} folded into {folded}"
    if not any(_is_used_outside(inst, removed) for inst in removed):
        return f"{_chain(removed)} without use removed"
    return f"{_chain(removed)} removed"


def _chain(instructions: Sequence[Instruction]) -> str:
    """Return opcodes in order of computation; repeated ones as counts."""
    counts: dict[str, int] = {}
    for inst in _ordered(instructions):
        counts[inst.opcode] = counts.get(inst.opcode, 0) + 1
    parts = [f"{n} {opcode}" if n > 1 else opcode for opcode, n in counts.items()]
    if len(parts) > _MOST:
        parts = [*parts[:_MOST], f"{sum(list(counts.values())[_MOST:])} others"]
    return " + ".join(parts)


def _ordered(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return instructions, operands before their users, else sorted by opcode."""
    depth: dict[Instruction, int] = {}
    left = sorted(instructions, key=lambda i: i.opcode)
    members = set(instructions)
    while left:
        ready = [i for i in left if all(o in depth or o not in members for o in i.operands)]
        for inst in ready or left:
            depth[inst] = 1 + max((depth.get(o, 0) for o in inst.operands), default=0)
        left = [i for i in left if i not in depth]
    return sorted(instructions, key=lambda i: (depth[i], i.opcode))


def _is_used_outside(inst: Instruction, group: Iterable[Instruction]) -> bool:
    members = set(group)
    return inst.is_root or any(user not in members for user in inst.users)


def _merged_with(matching: Matching, inst: Instruction) -> Instruction | None:
    """Return the instruction that is now used in place of a removed one, and was equal to it."""
    for user in inst.users:
        partner = matching.of(user)
        if partner is None or len(partner.operands) != len(user.operands):
            continue
        for mine, other in zip(user.operands, partner.operands, strict=True):
            twin = matching.of(other)
            if mine is inst and twin is not None and twin is not inst and _equal(twin, inst):
                return twin
    return None


def _equal_one(inst: Instruction) -> Instruction | None:
    """Return another instruction of the same computation with equal operands and attributes."""
    assert inst.parent is not None
    beside = inst.operands[0].users if inst.operands else list(inst.parent)
    return next((i for i in beside if i is not inst and _equal(i, inst)), None)


def _equal(a: Instruction, b: Instruction) -> bool:
    same = a.opcode == b.opcode and a.shape == b.shape and a.attrs == b.attrs
    return same and a.operands == b.operands and a.parent is b.parent


def _folded_into(matching: Matching, removed: Sequence[Instruction]) -> str:
    """Return the opcode of the instruction whose attributes now say what removed ones did.

    That is sure if it is the only user of a chain, reads what the chain read, and differs.
    """
    members = set(removed)
    users = {u for inst in removed for u in inst.users if u not in members}
    if not users or any(inst.is_root or len(set(inst.operands)) != 1 for inst in removed):
        return ""
    for user in users:
        partner = matching.of(user)
        if partner is None or partner.opcode != user.opcode or partner.attrs == user.attrs:
            return ""
        if len(user.operands) != len(partner.operands):
            return ""
        for mine, other in zip(user.operands, partner.operands, strict=True):
            while mine in members:
                mine = mine.operands[0]
            if matching.of(mine) is not other:
                return ""
    opcodes = {u.opcode for u in users}
    return opcodes.pop() if len(opcodes) == 1 else ""


# --- moved --------------------------------------------------------------------------------------


def _moved(matching: Matching, sites: Sites, group: Sequence[Change]) -> str:
    moved = [c.left for c in group if c.kind == MOVED and c.left is not None]
    targets = {c.right.parent for c in group if c.kind == MOVED and c.right is not None}
    sources = {inst.parent for inst in moved}
    chain = _chain(moved)
    if len(targets) == 1 and len(sources) == 1:
        [source], [target] = sources, targets
        assert source is not None and target is not None
        into, out_of = sites.only(target), sites.only(source)
        if into is not None and into.opcode == "fusion":
            if out_of is None or out_of.opcode != "fusion":
                return f"{chain} fused"
            return f"{chain} moved to another fusion"
        if out_of is not None and out_of.opcode == "fusion":
            return f"{chain} no longer fused"
        if out_of is not None and out_of.opcode == "while":
            partner = matching.of(out_of)
            if partner is not None and partner.parent is target:
                return f"{chain} hoisted out of a loop"
        if into is not None and into.opcode == "while":
            partner = matching.of(into)
            if partner is not None and partner.parent is source:
                return f"{chain} moved into a loop"
        if into is not None and into.opcode == "call":
            return f"{chain} outlined"
        if out_of is not None and out_of.opcode == "call":
            return f"{chain} inlined"
    return f"{chain} moved to another computation"
