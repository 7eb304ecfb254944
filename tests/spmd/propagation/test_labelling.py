"""Labels of least cost, beside those of an exhaustive search."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from hlo.spmd.propagation import labelling
from hlo.spmd.propagation.labelling import Table, least_labels, total_cost


def _problem(seed: int) -> tuple[list[int], list[Table]]:
    draw = random.Random(seed)
    counts = [draw.randint(1, 3) for _ in range(draw.randint(1, 7))]
    tables: list[Table] = []
    for _ in range(draw.randint(0, 9)):
        size = draw.randint(1, min(3, len(counts)))
        names = tuple(sorted(draw.sample(range(len(counts)), size)))
        shape = [counts[v] for v in names]
        values = [float(draw.randint(0, 9)) for _ in range(int(np.prod(shape)))]
        tables.append((names, np.array(values).reshape(shape)))
    return counts, tables


@pytest.mark.parametrize("seed", range(60))
def test_no_labels_cost_less(seed: int) -> None:
    counts, tables = _problem(seed)
    found = total_cost(tables, least_labels(counts, tables))
    assert found == min(total_cost(tables, at) for at in product(*map(range, counts)))


@pytest.mark.parametrize("seed", range(30))
def test_without_room_for_tables_the_first_labels_do_not_cost_less(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelling, "_LARGEST", 4)
    counts, tables = _problem(seed)
    found = least_labels(counts, tables)
    assert total_cost(tables, found) <= total_cost(tables, [0] * len(counts))


def test_the_first_label_is_taken_where_others_are_no_better() -> None:
    assert least_labels([3, 2], [((0, 1), np.ones((3, 2)))]) == [0, 0]
