"""The instructions of a computation in groups that a person can read, nested as they need.

Groups are the scopes of `op_name`: `jit(f)/layer_3/attention/dot_general` is in `attention`, which
is in `layer_3`. What has no scope of its own is with its users: a constant or a parameter that one
layer reads stands in that layer. Where a group would still have too many parts, also in modules
without metadata, consecutive parts become groups, cut where the fewest values are live: between
two layers that is the one value that the first hands to the second. Such groups are named by the
functions of the program that made their instructions, where the metadata has stack frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from hlo.analysis.source_location import call_stack
from hlo.ir import Computation, Instruction
from hlo.ops import Category

# More parts than these make a group hard to read, and slow to lay out; then it is cut into pieces.
MOST_PARTS = 40
_PIECE = 20
_FEW = 4
# What says little of what a group does.
_PLAIN = frozenset({Category.DATA, Category.STRUCTURE, Category.MOVEMENT})
# One of these says more than several others.
_DEAR = frozenset(
    {Category.CONTRACTION, Category.WINDOW, Category.SORT, Category.LINALG, Category.COLLECTIVE}
)
_WEIGHT_OF_DEAR = 12
# Functions in the name of a group.
_FUNCTIONS = 2
Scope = tuple[str, ...]


@dataclass(eq=False)
class Group:
    """Parts of a computation that belong together, in the order in which they run."""

    name: str
    parts: list[Group | Instruction] = field(default_factory=list)

    def instructions(self) -> Iterator[Instruction]:
        """Yield the instructions, those of the groups inside too."""
        stack: list[Group | Instruction] = [self]
        while stack:
            part = stack.pop()
            if isinstance(part, Group):
                stack.extend(reversed(part.parts))
            else:
                yield part

    def groups(self) -> Iterator[Group]:
        """Yield this group and those inside, outer ones first."""
        stack = [self]
        while stack:
            group = stack.pop()
            yield group
            stack.extend(p for p in reversed(group.parts) if isinstance(p, Group))


def groups_of(comp: Computation) -> Group:
    """Return a group of all instructions of a computation, named like it."""
    order = comp.in_order()
    scopes = _scopes(order)
    root = Group(comp.name)
    by_scope: dict[Scope, Group] = {(): root}
    for inst in order:
        _group_at(scopes[inst], by_scope).parts.append(inst)
    _simplify(root)
    if len(root.parts) == 1 and isinstance(root.parts[0], Group):
        root.parts = root.parts[0].parts
    for group in list(root.groups()):
        _gather_parameters(group)
    place = {inst: n for n, inst in enumerate(_beside_users(order))}
    for group in list(root.groups()):
        _split(group, place)
    return root


def scope_of(op_name: str) -> Scope:
    """Return the scopes that an `op_name` spells, without the operation itself."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(op_name):
        depth += (c in "([{") - (c in ")]}")
        if c == "/" and depth <= 0:
            parts.append(op_name[start:at])
            start = at + 1
    return tuple(p for p in parts if p)


# --- scopes -------------------------------------------------------------------------------------


def _scopes(order: Sequence[Instruction]) -> dict[Instruction, Scope]:
    """Return the scope of each instruction, for those without one that of their users."""
    named: dict[Instruction, Scope] = {}
    for inst in order:
        metadata = inst.annotations.get("metadata")
        scope = scope_of(metadata.op_name) if metadata is not None else ()
        if scope and inst.operands:
            named[inst] = scope
    found: dict[Instruction, Scope] = {}
    for inst in reversed(order):
        own = named.get(inst)
        found[inst] = _common(found[u] for u in inst.users) if own is None else own
    for inst in order:
        # What nobody in a scope reads is where its operands are, unless it is the result.
        if not found[inst] and not inst.is_root and not inst.users and inst.operands:
            found[inst] = _common(found[o] for o in inst.operands)
    return found


def _common(scopes: Iterable[Scope]) -> Scope:
    """Return the longest scope that all are in, () of none."""
    common: Scope | None = None
    for scope in scopes:
        if common is None:
            common = scope
            continue
        same = 0
        for a, b in zip(common, scope, strict=False):
            if a != b:
                break
            same += 1
        common = common[:same]
        if not common:
            break
    return common or ()


def _group_at(scope: Scope, by_scope: dict[Scope, Group]) -> Group:
    found = by_scope.get(scope)
    if found is None:
        missing = next(n for n in range(len(scope) - 1, -1, -1) if scope[:n] in by_scope)
        found = by_scope[scope[:missing]]
        for n in range(missing + 1, len(scope) + 1):
            inner = Group(scope[n - 1])
            found.parts.append(inner)
            found = by_scope[scope[:n]] = inner
    return found


def _simplify(root: Group) -> None:
    """Dissolve groups of one instruction; a group of one group takes over its parts."""
    for group in reversed(list(root.groups())):
        parts: list[Group | Instruction] = []
        for part in group.parts:
            alone = isinstance(part, Group) and len(part.parts) == 1
            parts.append(part.parts[0] if alone and isinstance(part, Group) else part)
        group.parts = parts
        if group is not root and len(parts) == 1 and isinstance(parts[0], Group):
            inner = parts[0]
            group.name, group.parts = f"{group.name}/{inner.name}", inner.parts


def _gather_parameters(group: Group) -> None:
    """Make a group of the parameters that several scopes in a group read."""
    several = [p for p in group.parts if isinstance(p, Instruction) and p.opcode == "parameter"]
    if len(several) > _FEW and any(isinstance(part, Group) for part in group.parts):
        rest = [part for part in group.parts if part not in set(several)]
        group.parts = [Group("parameters", [*several]), *rest]


# --- pieces -------------------------------------------------------------------------------------


def _beside_users(order: Sequence[Instruction]) -> list[Instruction]:
    """Return the instructions in order, those without operands right before their first user."""
    done: dict[Instruction, None] = {}
    for inst in order:
        if inst.operands:
            done.update((o, None) for o in inst.operands if not o.operands and o not in done)
            done[inst] = None
    done.update((inst, None) for inst in order if inst not in done)
    return list(done)


def _split(group: Group, place: Mapping[Instruction, int]) -> None:
    """Cut a group with too many parts into groups of consecutive ones, and those again."""
    if len(group.parts) <= MOST_PARTS:
        return
    inner = [part for part in group.parts if isinstance(part, Group)]
    if inner and len(inner) <= _PIECE:
        _gather_loose(group, inner, place)
        if len(group.parts) <= MOST_PARTS:
            return
    last = {part: max(place[i] for i in _members(part)) for part in group.parts}
    group.parts.sort(key=last.__getitem__)
    _cut(group, _live_after(group.parts))


def _gather_loose(group: Group, inner: list[Group], place: Mapping[Instruction, int]) -> None:
    """Make groups of the instructions of a group that are in none of its scopes, which stay whole.

    There is one for those that need none of the scopes, and one for those that need each scope
    and none after it.
    """
    middle = {g: sum(place[i] for i in g.instructions()) / _count(g) for g in inner}
    inner.sort(key=middle.__getitem__)
    number = {inst: n for n, scope in enumerate(inner) for inst in scope.instructions()}
    needs: dict[Instruction, int] = {}
    for inst in sorted(group.instructions(), key=place.__getitem__):
        before = max((needs.get(o, -1) for o in inst.operands), default=-1)
        needs[inst] = max(before, number.get(inst, -1))
    stages: list[list[Group | Instruction]] = [[] for _ in range(len(inner) + 1)]
    for part in group.parts:
        if isinstance(part, Instruction):
            # What needs nothing stands where its first user is.
            first = min((needs[u] for u in part.users if u in needs), default=-1)
            stages[1 + (needs[part] if part.operands else first)].append(part)
    parts: list[Group | Instruction] = []
    for n, loose in enumerate(stages):
        if len(loose) > _FEW:
            rest = Group(_span(loose), loose)
            _split(rest, place)
            parts.append(rest)
        else:
            parts += loose
        parts += inner[n : n + 1]
    group.parts = parts


def _cut(group: Group, live: Sequence[int]) -> None:
    parts = group.parts
    count = len(parts)
    if count <= MOST_PARTS:
        return
    pieces = min(_PIECE, -(-count // _PIECE))
    size = count / pieces
    functions = [_functions(list(_members(part))) for part in parts]
    begins = [True, *(a != b for a, b in pairwise(functions))]
    ends: list[int] = []
    for n in range(1, pieces):
        middle, reach = round(n * size), max(1, int(size * 0.35))
        near = range(max(middle - reach, (ends[-1] if ends else 0) + 1), middle + reach)
        ends.append(min(near, key=lambda at: (live[at - 1], not begins[at], abs(at - middle))))
    group.parts = []
    for start, end in pairwise([0, *ends, count]):
        piece = Group(_span(parts[start:end]), parts[start:end])
        _cut(piece, live[start:end])
        group.parts.append(piece)
    _number(group.parts)


def _number(parts: Sequence[Group | Instruction]) -> None:
    """Tell groups of one name apart by numbers from 1 on."""
    groups = [part for part in parts if isinstance(part, Group)]
    counts = Counter(group.name for group in groups)
    seen: Counter[str] = Counter()
    for group in groups:
        name = group.name
        if counts[name] > 1:
            seen[name] += 1
            group.name = f"{name} #{seen[name]}"


def _live_after(parts: Sequence[Group | Instruction]) -> list[int]:
    """Return for each part how many values of it and those before are read by those after it."""
    owner = {inst: n for n, part in enumerate(parts) for inst in _members(part)}
    change = [0] * (len(parts) + 1)
    for inst, at in owner.items():
        if inst.operands:
            last = max((owner.get(u, at) for u in inst.users), default=at)
            if last > at:
                change[at] += 1
                change[last] -= 1
    return list(accumulate(change[:-1]))


def _members(part: Group | Instruction) -> Iterator[Instruction]:
    return part.instructions() if isinstance(part, Group) else iter([part])


def _count(group: Group) -> int:
    return sum(1 for _ in group.instructions())


def _span(parts: Sequence[Group | Instruction]) -> str:
    """Return a name for consecutive parts: the functions of the program that made them.

    Without stack frames the first and the last, and what most of them are.
    """
    members = [inst for part in parts for inst in _members(part)]
    telling = [i for i in members if i.spec.category not in _PLAIN] or members
    if functions := _functions(telling):
        return ", ".join(functions)
    weights: Counter[str] = Counter()
    for inst in telling:
        weights[inst.opcode] += _weight(inst)
    opcodes = weights.most_common(2)
    ends = dict.fromkeys((telling[0].name, telling[-1].name))
    return f"{', '.join(opcode for opcode, _ in opcodes)}: {' … '.join(ends)}"


def _functions(instructions: Sequence[Instruction]) -> list[str]:
    """Return the functions that made most of some instructions, in the order of their calls."""
    weights: Counter[str] = Counter()
    for inst in instructions:
        if name := _function(inst):
            weights[name] += _weight(inst)
    most = {name for name, _ in weights.most_common(_FUNCTIONS)}
    return [name for name in weights if name in most]


def _function(inst: Instruction) -> str:
    """Return the innermost function of the program that made an instruction, "" if unknown."""
    names = (frame.function_name for frame in reversed(call_stack(inst)))
    return next(filter(None, names), "")


def _weight(inst: Instruction) -> int:
    return _WEIGHT_OF_DEAR if inst.spec.category in _DEAR else 1
