"""The scripts of pages, as far as they need no page: run by node."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from hlo.reports.page import static

SCRIPTS = (
    "page.js", "numbers.js", "graph/module.js", "graph/tree.js", "graph/labels.js",
    "graph/straighten.js", "graph/layout.js", "report/charts.js", "report/passes.js",
)  # fmt: skip


def _value(expression: str) -> Any:
    """Return the value of an expression in JavaScript."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    source = "\n".join(map(static, SCRIPTS))
    script = f"{source}\nconst hlo = globalThis.hlo;\nconsole.log(JSON.stringify({expression}))"
    done = subprocess.run([node, "-"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_differs_is_whole_words() -> None:
    assert _value(
        """[["add(max.749, b)", "add(max.7490, b)"], ["f(a)", "f(a, b)"], ["x.1", "y.1"], ["", "a"]]
        .map(([a, b]) => hlo.differing(a, b).map((t) => [t.same, t.differs, t.rest].join("|")))"""
    ) == [
        ["add(|max.749|, b)", "add(|max.7490|, b)"], ["f(a||)", "f(a|, b|)"],
        ["|x.1|", "|y.1|"], ["||", "|a|"],
    ]  # fmt: skip


def test_numbers() -> None:
    assert _value(
        """[hlo.countText(0), hlo.countText(999), hlo.countText(25165824), hlo.flopsText(8),
        hlo.bytesText(4096), hlo.bytesText(1.5 * 2 ** 30), hlo.secondsText(0),
        hlo.secondsText(4.2e-8), hlo.secondsText(0.0123), hlo.counted(1, "step"),
        hlo.counted(1200, "step"), hlo.percentText(0.034), hlo.percentText(0.5)]"""
    ) == [
        "0", "999", "25.2 M", "8 FLOP", "4 KiB", "1.50 GiB", "0 s", "42 ns", "12.3 ms", "1 step",
        "1,200 steps", "3.4 %", "50 %",
    ]  # fmt: skip


def test_long_labels_are_wrapped_at_marks_and_long_tuples_counted() -> None:
    wrapped = _value('hlo.wrapped("a".repeat(30) + "/" + "b".repeat(30) + "/" + "c".repeat(300))')
    assert wrapped[0] == "a" * 30 + "/" and len(wrapped) == 4 and wrapped[3].endswith("…")
    assert _value('hlo.wrapped("short")') == ["short"]
    shapes = "(" + ", ".join(["f32[2,3]{1,0}"] * 20) + ")"
    assert _value(f'hlo.shortShape("{shapes}")') == "(f32[2,3]{1,0}, … 20 elements)"


def test_paths_end_in_a_piece_with_a_direction() -> None:
    path = "hlo.pathThrough([{x: 0, y: 0}, {x: 0, y: 9}, {x: 5, y: 19}, {x: 5, y: 19}])"
    assert _value(path) == "M0 0V9C0 14 5 14 5 19"


def test_rows_are_straightened_without_changing_their_order() -> None:
    # Two chains of three, crossing in no row, that start far apart.
    found = _value(
        """(() => {
        const at = (x, row) => ({ x, half: 5, row, links: [] });
        const rows = [[at(0, 0), at(300, 0)], [at(90, 1), at(100, 1)], [at(10, 2), at(400, 2)]];
        for (const k of [0, 1]) for (const r of [1, 2]) {
          const [a, b] = [rows[r - 1][k], rows[r][k]];
          a.links.push({ to: b, weight: 1, shift: 0 });
          b.links.push({ to: a, weight: 1, shift: 0 });
        }
        hlo.straighten(rows, 10);
        return rows.map((row) => row.map((e) => e.x));
        })()"""
    )
    for left, right in found:
        assert right - left >= 20 - 1e-6
    lefts, rights = zip(*found, strict=True)
    assert max(lefts) - min(lefts) < 5 and max(rights) - min(rights) < 5


def test_ticks_are_round() -> None:
    assert _value("hlo.ticks(0, 97, 5)") == [0, 20, 40, 60, 80]
    assert _value("hlo.decades(0.02, 3e5, 4)") == [0.1, 10, 1000, 100000]
    assert _value("[hlo.logScale(1, 100, 0, 50)(10), hlo.linearScale(0, 4, 10, 0)(1)]") == [25, 7.5]


def test_sorting_puts_numbers_first_and_reads_numbers_in_names() -> None:
    assert _value('["a10", 3, "a9", 12].sort(hlo.compare)') == [3, 12, "a9", "a10"]
