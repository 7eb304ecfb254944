"""Work that a few threads share."""

from __future__ import annotations

import threading

import pytest

from hlo.support.threads import in_threads


@pytest.mark.parametrize("threads", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_results_are_in_the_order_of_the_items(count: int, threads: int) -> None:
    assert in_threads(str, range(count), threads) == [str(n) for n in range(count)]


def test_all_threads_work_at_the_same_time() -> None:
    meeting = threading.Barrier(3)
    assert len(set(in_threads(lambda _: meeting.wait(timeout=10), range(3), 3))) == 3


def test_what_a_call_raises_is_raised_when_no_thread_works_any_more() -> None:
    other = threading.Event()

    def work(n: int) -> None:
        if n == 0:
            other.wait(10)
            raise ValueError(n)
        other.set()

    before = threading.active_count()
    with pytest.raises(ValueError, match="0"):
        in_threads(work, range(2), 2)
    assert threading.active_count() == before
