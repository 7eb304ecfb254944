"""Chrome trace events, held against what Perfetto makes of them."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.schemas import check_schema


def check_trace_events(data: dict[str, Any]) -> None:
    """Fail where Perfetto would complain of events in the object form, or drop some.

    It takes times as nanoseconds, each rounded by itself, and sorts events by their begin, those
    of the same one as in the file. A complete event of a thread has to end before the one around
    it does.
    """
    data = json.loads(json.dumps(data, allow_nan=False))
    check_schema("trace-events", data)
    events = data["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    names = [(e["name"], e["pid"], e["tid"]) for e in events if e["ph"] == "M"]
    assert len(set(names)) == len(names)
    assert all(e["args"]["name"] for e in events if e["ph"] == "M")
    threads = {(e["pid"], e["tid"]) for e in complete}
    assert {(pid, tid) for name, pid, tid in names if name == "thread_name"} >= threads
    assert {pid for name, pid, _ in names if name == "process_name"} >= {p for p, _ in threads}
    for thread in threads:
        own = [e for e in complete if (e["pid"], e["tid"]) == thread]
        ends: list[int] = []
        for e in sorted(own, key=lambda e: round(e["ts"] * 1000)):
            begin = round(e["ts"] * 1000)
            end = begin + round(e["dur"] * 1000)
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or end <= ends[-1], e
            ends.append(end)
