"""Draws tests: from each file about the square root of what it has, so that no file is left out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def draw(tests: Mapping[str, Sequence[str]], count: int, seed: int) -> list[str]:
    """Return `count` ids out of the tests of each file; a larger sample contains a smaller one."""
    ranked = []
    for file, ids in sorted(tests.items()):
        shuffled = sorted(ids)
        random.Random(f"{seed} {file}").shuffle(shuffled)
        # Of n tests, sqrt(n) have a key below 1, so each file gives in proportion to that.
        ranked += [(rank / len(ids) ** 0.5, id_) for rank, id_ in enumerate(shuffled)]
    return [id_ for _, id_ in sorted(ranked)[:count]]


def chunks(ids: Sequence[str], size: int, seed: int) -> list[list[str]]:
    """Return the ids in lists of one file each, the lists in random order."""
    by_file: dict[str, list[str]] = {}
    for id_ in sorted(ids):
        by_file.setdefault(file_of(id_), []).append(id_)
    result = [xs[i : i + size] for xs in by_file.values() for i in range(0, len(xs), size)]
    random.Random(seed).shuffle(result)
    return result


def file_of(id_: str) -> str:
    return id_.partition("::")[0]
