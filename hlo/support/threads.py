"""Work that a few threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return what a function returns for each item, called by so many threads, this one included.

    They take the items in order. Raises what a call has raised; items that no thread had taken by
    then are left out. Python's own pools take a millisecond to import, and leave this thread idle.
    """
    left = list(enumerate(items))[::-1]
    done: dict[int, R] = {}
    failed: list[BaseException] = []

    def work() -> None:
        while left and not failed:
            try:
                number, item = left.pop()
            except IndexError:  # another thread was faster
                return
            try:
                done[number] = function(item)
            except BaseException as e:  # it is raised where all are waited for
                failed.append(e)

    others = [threading.Thread(target=work) for _ in range(min(threads, len(items)) - 1)]
    for thread in others:
        thread.start()
    work()
    for thread in others:
        thread.join()
    if failed:
        raise failed[0]
    return [done[number] for number in range(len(items))]
