"""Tokens of infeeds and outfeeds through loops and conditionals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone
from hlo.passes.control_flow._branches import branches_of, with_branches
from hlo.passes.control_flow._loops import annotations_for
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import TOKEN, Shape, TupleShape

# Where the token goes in.
_OPERAND = {"infeed": 0, "outfeed": 1}


@dataclass(frozen=True)
class _Chain:
    """Exchanges of one kind in one computation, each with the token of the one before.

    starts: the operands that are a token of nothing. end: what gives the last token, which nothing
    uses, as its element `place` or as a whole.
    """

    starts: Sequence[tuple[Instruction, int]]
    end: Instruction
    place: int | None

    def token(self, b: Builder, end: Instruction) -> Instruction:
        return end if self.place is None else b.op("get-tuple-element", end, index=self.place)


@module_pass
def infeed_token_propagation(module: Module, rewrites: Rewrites) -> None:
    """Thread tokens of infeeds and outfeeds through loops and branches, in execution order.

    Where they begin with nothing and end unused. Each queue then has one chain of tokens through
    the program, so that its order does not rest on barriers or on where instructions stand.
    """
    calls = Calls(module)
    chains: dict[Computation, dict[str, _Chain]] = {}
    for comp in unfused(module):
        found: dict[str, list[_Chain]] = {kind: [] for kind in _OPERAND}
        for inst in comp.in_order():
            if inst.opcode in _OPERAND:
                if (chain := _chain_from(inst)) is not None:
                    found[inst.opcode].append(chain)
            elif (threaded := _threaded(inst, chains, calls, rewrites)) is not None:
                for kind, chain in threaded.items():
                    found[kind].append(chain)
        chains[comp] = {k: c for k in found if (c := _linked(comp, found[k], rewrites))}


def _chain_from(first: Instruction) -> _Chain | None:
    """Return the chain that begins at an infeed or outfeed, if one does and its end is free."""
    at = _OPERAND[first.opcode]
    token = first.operands[at]
    if token.opcode != "after-all" or token.operands or has_control_edges(token):
        return None
    last = first
    while (users := _users_of_token(last)) != []:
        if users is None or len(users) > 1 or users[0].opcode != first.opcode:
            return None
        last = users[0]
    return _Chain([(first, at)], last, 1 if first.opcode == "infeed" else None)


def _users_of_token(inst: Instruction) -> list[Instruction] | None:
    """Return what uses the token of an infeed or outfeed, None where it is part of a result."""
    if inst.is_root:
        return None
    if inst.opcode == "outfeed":
        return list(inst.users)
    found: list[Instruction] = []
    for user in inst.users:
        if user.opcode != "get-tuple-element":
            found.append(user)
        elif user.tuple_index == 1:
            if user.is_root:
                return None
            found += user.users
    return found


def _linked(comp: Computation, found: Sequence[_Chain], rewrites: Rewrites) -> _Chain | None:
    """Make one chain of those of a computation, which come in order; returns it."""
    if not found:
        return None
    for before, after in pairwise(found):
        if not rewrites.allow("infeed_token_propagation.link", after.end):
            return None
        token = before.token(Builder(comp, before.end), before.end)
        for user, at in after.starts:
            user.replace_operand(at, token)
    return _Chain(found[0].starts, found[-1].end, found[-1].place)


def _threaded(
    inst: Instruction,
    chains: Mapping[Computation, Mapping[str, _Chain]],
    calls: Calls,
    rewrites: Rewrites,
) -> dict[str, _Chain] | None:
    """Put one that takes and gives tokens in the place of a loop or conditional with chains.

    Returns the chains of which these are part now.
    """
    if inst.opcode not in ("while", "conditional") or has_control_edges(inst):
        return None
    bodies = [inst.body] if inst.opcode == "while" else branches_of(inst)
    kinds = [k for k in _OPERAND if any(k in chains[c] for c in bodies)]
    if not kinds or not rewrites.allow(f"infeed_token_propagation.{inst.opcode}", inst):
        return None
    comp = inst.parent
    assert comp is not None
    b = Builder(comp, inst)
    starts = {kind: b.op("after-all") for kind in kinds}
    if inst.opcode == "while":
        state = b.tuple(*_parts(b, inst.operands[0]), *starts.values())
        new = b.op(
            "while", state, shape=_longer(inst.shape, len(kinds)),
            condition=_with_tokens(inst.condition, {}, kinds, ()),
            body=_with_tokens(bodies[0], chains[bodies[0]], kinds, kinds),
        )  # fmt: skip
        new.annotations.update(annotations_for(inst, {n: n for n in range(len(state.operands))}))
        new.annotations.pop("sharding", None)
    else:
        arguments, branches = [], []
        for branch, argument in zip(bodies, inst.operands[1:], strict=True):
            taken = [k for k in kinds if k in chains[branch]]
            parts = _parts(b, argument)
            arguments.append(b.tuple(*parts, *(starts[k] for k in taken)) if taken else argument)
            branches.append(_with_tokens(branch, chains[branch], taken, kinds))
        new = with_branches(inst, branches, arguments, b)
    calls.added([new])
    count = len(_elements(inst.shape))
    parts = [b.op("get-tuple-element", new, index=n) for n in range(count)]
    inst.replace_all_uses_with(b.tuple(*parts) if inst.shape.is_tuple else parts[0])
    calls.remove(inst)
    return {
        kind: _Chain([(u, u.operands.index(start)) for u in start.users], new, count + n)
        for n, (kind, start) in enumerate(starts.items())
    }


def _with_tokens(
    comp: Computation, chains: Mapping[str, _Chain], taken: Sequence[str], given: Sequence[str]
) -> Computation:
    """Return a copy whose argument has tokens of some kinds at its end, and its result of others.

    A copy that takes and gives none has the argument and the result as they were.
    """
    copy, old = Computation(comp.name, execution_thread=comp.execution_thread), comp.parameters[0]
    b, count = Builder(copy, old), len(_elements(old.shape))
    argument = b.parameter(0, _longer(old.shape, len(taken)) if taken else old.shape, old.name)
    made = {old: argument}
    if taken:
        parts = [b.op("get-tuple-element", argument, index=n) for n in range(count)]
        made = {old: b.tuple(*parts) if old.shape.is_tuple else parts[0]}
    copy_cone(comp, copy, made, comp)
    root, tokens = made[comp.root], []
    for kind in given:
        if kind not in taken:
            tokens.append(b.op("after-all"))
            continue
        chain = chains[kind]
        token = b.op("get-tuple-element", argument, index=count + taken.index(kind))
        for user, at in chain.starts:
            made[user].replace_operand(at, token)
        tokens.append(chain.token(b, made[chain.end]))
    copy.set_root(b.tuple(*_parts(b, root), *tokens) if given else root)
    return copy


def _elements(shape: Shape) -> tuple[Shape, ...]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def _longer(shape: Shape, count: int) -> TupleShape:
    return TupleShape((*_elements(shape), *[TOKEN] * count))


def _parts(b: Builder, value: Instruction) -> list[Instruction]:
    if not isinstance(value.shape, TupleShape):
        return [value]
    return [b.element(value, n) for n in range(len(value.shape.elements))]
