"""Control flow of a kernel: pieces of code, in the order in which the machine runs them.

The machine always runs the piece with the lowest number that a thread is at. So the order decides
where threads that took different ways meet again: a piece comes after all those that lead to it,
and those of a loop before what follows the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hlo.gpu.ptx.records import Function, Instruction

# Instructions of the opcodes `bar` and `barrier` at which no thread of the block waits.
_NOT_WAITING = frozenset(("warp", "arrive"))
BRANCHES = frozenset(("bra", "brx", "ret", "exit", "trap"))


@dataclass(frozen=True)
class Piece:
    """Instructions that run one after the other.

    end: a branch, an exit or a barrier after them, or nothing. targets: pieces that it may lead
    to; of a branch with a guard, the target and then the next piece.
    """

    body: tuple[Instruction, ...]
    end: Instruction | None
    targets: tuple[int, ...]


def is_barrier(inst: Instruction) -> bool:
    """Return whether threads of a block wait for each other here."""
    return inst.opcode in ("bar", "barrier") and _NOT_WAITING.isdisjoint(inst.modifiers)


def pieces_of(function: Function) -> list[Piece]:
    """Return the pieces of a kernel that it can reach, in the order in which they run."""
    pieces = _cut(function)
    order = _order([piece.targets for piece in pieces])
    numbers = {old: new for new, old in enumerate(order)}
    return [replace(pieces[n], targets=tuple(numbers[t] for t in pieces[n].targets)) for n in order]


def _cut(function: Function) -> list[Piece]:
    """Cut basic blocks after barriers."""
    runs: list[list[list[Instruction]]] = []
    for block in function.blocks:
        parts: list[list[Instruction]] = [[]]
        for inst in block.instructions:
            parts[-1].append(inst)
            if is_barrier(inst):
                parts.append([])
        runs.append(parts)
    firsts, count = [], 0
    for parts in runs:
        firsts.append(count)
        count += len(parts)
    pieces: list[Piece] = []
    for block, parts in zip(function.blocks, runs, strict=True):
        for part in parts[:-1]:
            pieces.append(Piece(tuple(part[:-1]), part[-1], (len(pieces) + 1,)))
        last = parts[-1]
        end = last[-1] if last and last[-1].opcode in BRANCHES else None
        body = tuple(last[:-1] if end is not None else last)
        pieces.append(Piece(body, end, tuple(firsts[n] for n in block.successors)))
    return pieces


def _order(targets: Sequence[Sequence[int]]) -> list[int]:
    """Return what can be reached from 0, so that loops are together and joins come last."""
    found: list[int] = []
    # Groups to put in order: their pieces, where they are entered, and edges that do not count.
    todo: list[tuple[frozenset[int], int]] = [(frozenset(range(len(targets))), 0)]
    headers: set[int] = set()
    while todo:
        group, entry = todo.pop()
        if len(group) == 1:
            found.append(entry)
            continue
        inner = {n: [t for t in targets[n] if t in group and t not in headers] for n in group}
        parts = _components(inner, entry)
        ranks = {n: rank for rank, n in enumerate(_reverse_postorder(inner, entry))}
        for part in reversed(parts):
            header = min(part, key=ranks.__getitem__)
            headers.add(header)
            todo.append((frozenset(part), header))
    return found


def _reverse_postorder(targets: dict[int, list[int]], entry: int) -> list[int]:
    order: list[int] = []
    seen = {entry}
    stack = [(entry, iter(targets[entry]))]
    while stack:
        node, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(targets[target])))
                break
        else:
            order.append(node)
            stack.pop()
    return order[::-1]


def _components(targets: dict[int, list[int]], entry: int) -> list[list[int]]:
    """Return the strongly connected components in a topological order (Kosaraju)."""
    order = _reverse_postorder(targets, entry)
    sources: dict[int, list[int]] = {n: [] for n in order}
    for node in order:
        for target in targets[node]:
            sources[target].append(node)
    done: set[int] = set()
    parts: list[list[int]] = []
    for root in order:
        if root in done:
            continue
        done.add(root)
        part, stack = [root], [root]
        while stack:
            for source in sources[stack.pop()]:
                if source not in done:
                    done.add(source)
                    part.append(source)
                    stack.append(source)
        parts.append(part)
    return parts
