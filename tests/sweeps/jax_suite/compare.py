"""Reads results files: counts one, or says in what one differs from another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.sweeps.jax_suite.runner import Outcome

_WIDTH = 160


def read_results(path: Path) -> dict[str, Outcome]:
    """Return outcomes by id, of a test that was run again the last one."""
    result = {}
    if path.exists():
        for line in path.read_text().splitlines():
            if "run" not in (fields := json.loads(line)):
                result[fields["id"]] = Outcome(**fields)
    return result


def summary(results: Mapping[str, Outcome]) -> str:
    tests = [x for id_, x in results.items() if not is_exit(id_)]
    counts = Counter(x.outcome for x in tests)
    words = [f"{count} {outcome}" for outcome, count in counts.most_common()]
    exits = len(results) - len(tests)
    words += [f"{exits} unclean exits"] if exits else []
    return f"{len(tests)} tests: {', '.join(words)}"


def is_exit(id_: str) -> bool:
    return id_.endswith("::exit")


def compare(base: Mapping[str, Outcome], other: Mapping[str, Outcome]) -> str:
    """Return how many of the tests that pass in `base` pass in `other`, and each difference."""
    both = [id_ for id_ in base if id_ in other and not is_exit(id_)]
    passing = [id_ for id_ in both if base[id_].outcome == "passed"]
    skipped = [id_ for id_ in passing if other[id_].outcome == "skipped"]
    ran = [id_ for id_ in passing if other[id_].outcome != "skipped"]
    worse = [id_ for id_ in ran if other[id_].outcome != "passed"]
    better = [
        id_
        for id_ in both
        if other[id_].outcome == "passed" and base[id_].outcome not in ("passed", "skipped")
    ]
    exits = [id_ for id_ in other if is_exit(id_) and id_ not in base]
    share = 100 * (len(ran) - len(worse)) / max(len(ran), 1)
    lines = [
        f"{len(both)} tests in both; of {len(passing)} that pass in the first, in the second "
        f"{len(ran) - len(worse)} pass, {len(worse)} do not, {len(skipped)} are skipped: "
        f"{share:.2f} % of those that ran"
    ]
    lines += _list("pass only in the first", worse, other)
    lines += _list("skipped only in the second", skipped, other)
    lines += _list("pass only in the second; in the first", better, base)
    lines += _list("processes that end uncleanly only in the second", exits, other)
    return "\n".join(lines)


def _list(title: str, ids: list[str], results: Mapping[str, Outcome]) -> list[str]:
    if not ids:
        return []
    lines = [f"\n{title}: {len(ids)}"]
    for id_ in sorted(ids):
        reason = " ".join(results[id_].reason.split())
        lines.append(f"  {id_}\n    {results[id_].outcome}: {reason[:_WIDTH]}")
    return lines
