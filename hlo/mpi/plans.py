"""The steps of each collective: which functions of MPI, on which parts of operands and results.

This is for groups with one member on each rank, whose place in the group is their rank in the
communicator. Data moves from operands to results without copies; parts that are not contiguous have
derived types of MPI.

Integers are reduced by MPI itself. Where the order or the rounding shows (floats, functions of
users) members exchange parts and each combines its part in group order, with the program's own
function: `((m0 + m1) + m2) + ...`, bit by bit what one process computes. That is also how MPI
reduces large arrays: each member sends and receives 2 (n - 1) / n of the array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.mpi.records import CollectiveArray, CollectiveKind, CollectiveRecord, Reduction
from hlo.mpi.steps import Base, Functions, Plan, Step, StepKind
from hlo.ops.host.ffi_attributes import TYPE_NUMBERS

# Up to so many bytes of all members, each gets everything and combines all of it: one message less.
_SMALL_BYTES = 1 << 14
# Larger arrays are reduced in pieces of so many bytes, which stay in the cache.
_PIECE_BYTES = 1 << 23
# MPI counts in ints.
_MOST = (1 << 31) - 1

# Integers, by width and sign, that MPI reduces exactly as HLO does.
_INTEGERS = {
    TYPE_NUMBERS[name]: mpi_name
    for name, mpi_name in {
        "s8": "INT8_T", "s16": "INT16_T", "s32": "INT32_T", "s64": "INT64_T",
        "u8": "UINT8_T", "u16": "UINT16_T", "u32": "UINT32_T", "u64": "UINT64_T",
        "pred": "UINT8_T",
    }.items()
}  # fmt: skip
_OPERATIONS = {
    Reduction.SUM: "SUM", Reduction.PRODUCT: "PROD", Reduction.MIN: "MIN", Reduction.MAX: "MAX",
    Reduction.AND: "BAND", Reduction.OR: "BOR", Reduction.XOR: "BXOR",
}  # fmt: skip
# pred is a byte that is 0 or 1.
_OF_PRED = {"SUM": "BOR", "MAX": "BOR", "PROD": "BAND", "MIN": "BAND"}


# Base, index and offset.
_Address = tuple[int, int, int]


@dataclass(frozen=True)
class Prepared:
    """The steps of one collective on one device, with what has to live as long as they do."""

    plan: Plan
    keep: list[Any] = field(default_factory=list)

    @property
    def address(self) -> int:
        """Where the plan is in memory."""
        return ctypes.addressof(self.plan)


def zeros_only(op: CollectiveRecord) -> Prepared:
    """Return the steps of a device that is in no group: zeros for all results."""
    steps = [
        Step(StepKind.ZERO, target_base=Base.RESULT, target_index=k,
             count=array.count * array.element_bytes)
        for k, array in enumerate(op.arrays()[1])
    ]  # fmt: skip
    return _prepared(op, steps, len(steps), 0, np.zeros(1, np.uint8), np.zeros(1, np.uint8), [])


def _prepared(
    op: CollectiveRecord, steps: Sequence[Step], begun: int, num_requests: int,
    requests: np.ndarray, statuses: np.ndarray, keep: list[Any],
) -> Prepared:  # fmt: skip
    table = (Step * len(steps))(*steps)
    plan = Plan(
        ctypes.addressof(op), ctypes.addressof(table), len(steps), begun, num_requests,
        requests.ctypes.data, statuses.ctypes.data, 0,
    )  # fmt: skip
    return Prepared(plan, [table, requests, statuses, *keep])


class Planner:
    """Makes plans for groups of one communicator. begins: for calls of `start` and `wait`."""

    def __init__(self, mpi: Any, functions: Functions, comm: Any, *, begins: bool) -> None:
        self._mpi, self._functions, self._begins = mpi, functions, begins
        self._comm: int = mpi._handleof(comm)
        self._place: int = comm.rank
        self._n: int = comm.size
        self._byte: int = mpi._handleof(mpi.BYTE)
        self._keep: list[Any] = [comm]
        self._requests = 0

    def plan(self, op: CollectiveRecord) -> Prepared | None:
        """Return the steps of a collective; None where it has none, and is done in Python."""
        make = _MAKERS.get(CollectiveKind(op.kind))
        operands, results = op.arrays()
        sizes = [a.count * a.element_bytes for a in (*operands, *results)]
        if make is None or op.has_dynamic_root or max(sizes, default=0) > _MOST:
            return None
        begun: list[Step] = []
        rest: list[Step] = []
        for first, then in make(self, op, operands, results):
            begun += first
            rest += then
        handles = max(1, self._requests)
        requests = np.zeros(handles * self._functions.handle_bytes, np.uint8)
        null = self._mpi._handleof(self._mpi.REQUEST_NULL)
        requests.view(f"u{self._functions.handle_bytes}")[:] = null
        statuses = np.zeros(handles * self._mpi._sizeof(self._mpi.Status), np.uint8)
        return _prepared(
            op, begun + rest, len(begun), self._requests, requests, statuses, self._keep
        )

    # --- steps ----------------------------------------------------------------------------------

    def scratch(self, size_bytes: int) -> int:
        """Return the address of memory that lives as long as the plan, and is zero."""
        memory = np.zeros(max(1, size_bytes), np.uint8)
        self._keep.append(memory)
        return int(memory.ctypes.data)

    def _request(self, count: int = 1) -> int:
        self._requests += count
        return self._requests - count

    def _gather(self, name: str, **fields: int) -> Step:
        function = self._functions.address(f"MPI_{name}")
        begun = self._functions.address(f"MPI_I{name.lower()}")
        return Step(StepKind.GATHER, function=function, beginning=begun, comm=self._comm,
                    request=self._request(), **fields)  # fmt: skip

    def _reduce(
        self, name: str, kind: int, operation: int, count: int, source: _Address, target: _Address
    ) -> Step:
        return Step(
            StepKind.REDUCE, *source, *target, send_count=count, send_type=kind,
            operation=operation, comm=self._comm, request=self._request(),
            function=self._functions.address(f"MPI_{name}"),
            beginning=self._functions.address(f"MPI_I{name.lower()}"),
        )  # fmt: skip

    def _part_type(self, rows: int, part_bytes: int, row_bytes: int, step_bytes: int) -> int:
        """Return the type of one member's part of some rows; the next member's begins after
        `step_bytes`."""
        one = self._mpi.BYTE.Create_vector(rows, part_bytes, row_bytes)
        found = one.Create_resized(0, step_bytes).Commit()
        one.Free()
        self._keep.append(found)
        handle: int = self._mpi._handleof(found)
        return handle

    def exact(self, array: CollectiveArray) -> tuple[int, int] | None:
        """Return the type and operation of MPI that reduce an operand as its program does."""
        name = _INTEGERS.get(array.shape.type)
        operation = _OPERATIONS.get(Reduction(array.reduction))
        if name is None or operation is None:
            return None
        if array.shape.type == TYPE_NUMBERS["pred"]:
            operation = _OF_PRED.get(operation, operation)
        mpi = self._mpi
        return mpi._handleof(getattr(mpi, name)), mpi._handleof(getattr(mpi, operation))

    def everyone_combines(
        self, array: CollectiveArray, k: int, first: int, count: int
    ) -> tuple[list[Step], list[Step]]:
        """Steps that reduce `count` elements from `first` on: gather all, combine all.

        They are gathered by an all-reduce of bits, where every member's own slot has its data and
        the others are zero: libraries have their fastest paths for small all-reduces.
        """
        at, size = first * array.element_bytes, count * array.element_bytes
        slot = -(-size // 8) * 8
        sent, room = self.scratch(slot * self._n), self.scratch(slot * self._n)
        begun = [
            Step(StepKind.COPY, Base.OPERAND, k, at, Base.ADDRESS, 0, sent + self._place * slot,
                 count=size),
            self._reduce(
                "Allreduce", self._mpi._handleof(self._mpi.UINT64_T),
                self._mpi._handleof(self._mpi.BOR), slot * self._n // 8,
                (Base.ADDRESS, 0, sent), (Base.ADDRESS, 0, room),
            ),
        ]  # fmt: skip
        return begun, [self._chain(array, Base.ADDRESS, 0, room, slot, count, k, at)]

    def _chain(
        self, array: CollectiveArray, base: Base, index: int, offset: int, stride: int,
        count: int, k: int, at: int,
    ) -> Step:  # fmt: skip
        return Step(
            StepKind.CHAIN, base, index, offset, Base.RESULT, k, at, blocks=self._n, stride=stride,
            count=count, function=array.reduce or 0,
        )  # fmt: skip

    def each_combines(
        self, array: CollectiveArray, k: int, first: int, each: int
    ) -> tuple[list[Step], list[Step]]:
        """Steps that reduce n * each elements: each member combines a part, then all gather them.

        The parts of the others come into the result's memory, which is free until then; the sum
        replaces the first of them.
        """
        at, size = first * array.element_bytes, each * array.element_bytes
        scatter = self._gather(
            "Alltoall", source_base=Base.OPERAND, source_index=k, source_offset=at,
            target_base=Base.RESULT, target_index=k, target_offset=at, send_count=size,
            send_type=self._byte, receive_count=size, receive_type=self._byte,
        )  # fmt: skip
        then = [self._chain(array, Base.RESULT, k, at, size, each, k, at)]
        if self._place:
            mine = at + self._place * size
            then.append(Step(StepKind.COPY, Base.RESULT, k, at, Base.RESULT, k, mine, count=size))
        here = int(self._mpi.IN_PLACE)
        then.append(
            Step(
                StepKind.GATHER,
                Base.ADDRESS,
                0,
                here,
                Base.RESULT,
                k,
                at,
                0,
                self._byte,
                size,
                self._byte,
                comm=self._comm,
                function=self._functions.address("MPI_Allgather"),
            )
        )
        return [scatter], then

    # --- kinds ----------------------------------------------------------------------------------

    def all_reduce(
        self, op: CollectiveRecord, operands: Sequence[CollectiveArray],
        results: Sequence[CollectiveArray],
    ) -> _Parts:  # fmt: skip
        for k, array in enumerate(operands):
            if not array.count:
                continue
            exact = self.exact(array)
            if exact is not None:
                yield [self._reduce("Allreduce", *exact, array.count, *_whole(k))], []
                continue
            n, size = self._n, array.element_bytes
            if array.count * size * n <= _SMALL_BYTES:
                yield self.everyone_combines(array, k, 0, array.count)
                continue
            whole = array.count // n
            piece = whole if self._begins else max(1, _PIECE_BYTES // (size * n))
            for first in range(0, whole, piece):
                each = min(piece, whole - first)
                begun, then = self.each_combines(array, k, first * n, each)
                yield (begun, then) if self._begins else ([], begun + then)
            if rest := array.count - whole * n:
                yield self.everyone_combines(array, k, whole * n, rest)

    def collective_reduce(
        self, op: CollectiveRecord, operands: Sequence[CollectiveArray],
        results: Sequence[CollectiveArray],
    ) -> _Parts:  # fmt: skip
        """As an all-reduce; then all but the first have zeros."""
        yield from self.all_reduce(op, operands, results)
        if self._place:
            for k, array in enumerate(results):
                size = array.count * array.element_bytes
                yield [], [Step(StepKind.ZERO, target_base=Base.RESULT, target_index=k,
                                count=size)]  # fmt: skip

    def reduce_scatter(
        self, op: CollectiveRecord, operands: Sequence[CollectiveArray],
        results: Sequence[CollectiveArray],
    ) -> _Parts:  # fmt: skip
        n = self._n
        for k, array in enumerate(operands):
            if not array.count:
                continue
            exact, size = self.exact(array), array.element_bytes
            rows, part = array.rows, array.part
            if exact is not None and rows == 1:
                yield [self._reduce("Reduce_scatter_block", *exact, part, *_whole(k))], []
                continue
            width, height = part, rows
            if not self._begins:
                height = max(1, min(rows, _PIECE_BYTES // (part * n * size)))
                width = part if height > 1 else max(1, min(part, _PIECE_BYTES // (n * size)))
            room = self.scratch(width * height * n * size)
            for row in range(0, rows, height):
                for column in range(0, part, width):
                    high, wide = min(height, rows - row), min(width, part - column)
                    block = high * wide * size
                    kind = self._part_type(high, wide * size, n * part * size, part * size)
                    scatter = self._gather(
                        "Alltoall", source_base=Base.OPERAND, source_index=k,
                        source_offset=(row * n * part + column) * size, target_base=Base.ADDRESS,
                        target_offset=room, send_count=1, send_type=kind, receive_count=block,
                        receive_type=self._byte,
                    )  # fmt: skip
                    at = (row * part + column) * size
                    chain = self._chain(array, Base.ADDRESS, 0, room, block, high * wide, k, at)
                    yield ([scatter], [chain]) if self._begins else ([], [scatter, chain])

    def all_gather(
        self, op: CollectiveRecord, operands: Sequence[CollectiveArray],
        results: Sequence[CollectiveArray],
    ) -> _Parts:  # fmt: skip
        for k, array in enumerate(operands):
            size, step = array.count * array.element_bytes, array.part * array.element_bytes
            if not size:
                continue
            count, kind = size, self._byte
            if array.rows > 1:
                count, kind = 1, self._part_type(array.rows, step, self._n * step, step)
            yield [self._gather(
                "Allgather", source_base=Base.OPERAND, source_index=k, target_base=Base.RESULT,
                target_index=k, send_count=size, send_type=self._byte, receive_count=count,
                receive_type=kind,
            )], []  # fmt: skip

    def all_to_all(
        self, op: CollectiveRecord, operands: Sequence[CollectiveArray],
        results: Sequence[CollectiveArray],
    ) -> _Parts:  # fmt: skip
        if not op.has_parts:
            for distance in range(self._n):
                to, from_ = (self._place + distance) % self._n, (self._place - distance) % self._n
                yield [self._shift(operands[to], to, to, results[from_], from_, from_)], []
            return
        for k, array in enumerate(operands):
            step = array.part * array.element_bytes
            if not array.count:
                continue
            count, kind = step, self._byte
            if array.rows > 1:
                count, kind = 1, self._part_type(array.rows, step, self._n * step, step)
            yield [self._gather(
                "Alltoall", source_base=Base.OPERAND, source_index=k, target_base=Base.RESULT,
                target_index=k, send_count=count, send_type=kind, receive_count=count,
                receive_type=kind,
            )], []  # fmt: skip

    def _shift(
        self, sent: CollectiveArray, operand: int, to: int, received: CollectiveArray, result: int,
        from_: int,
    ) -> Step:  # fmt: skip
        """A step that sends an operand to a place and receives a result from one, or from none."""
        size = sent.count * sent.element_bytes
        if to == self._place == from_:
            return Step(StepKind.COPY, Base.OPERAND, operand, 0, Base.RESULT, result, 0,
                        count=size)  # fmt: skip
        return Step(
            StepKind.SHIFT, Base.OPERAND, operand, 0, Base.RESULT, result, 0, size, self._byte,
            received.count * received.element_bytes, self._byte, comm=self._comm, to=to,
            from_=from_, request=self._request(2),
        )  # fmt: skip

    def collective_permute(
        self, op: CollectiveRecord, operands: Sequence[CollectiveArray],
        results: Sequence[CollectiveArray],
    ) -> _Parts:  # fmt: skip
        sources, none = op.senders(self._n), self._mpi.PROC_NULL
        source = sources[self._place]
        # At the most one: a device is the source of one pair.
        targets = [place for place, sender in enumerate(sources) if sender == self._place]
        to, from_ = targets[0] if targets else none, none if source == -1 else source
        for k, (sent, received) in enumerate(zip(operands, results, strict=True)):
            steps = []
            if source == -1:
                size = received.count * received.element_bytes
                steps.append(Step(StepKind.ZERO, target_base=Base.RESULT, target_index=k,
                                  count=size))  # fmt: skip
            if (to, from_) != (none, none):
                steps.append(self._shift(sent, k, to, received, k, from_))
            yield steps, []

    def collective_broadcast(
        self, op: CollectiveRecord, operands: Sequence[CollectiveArray],
        results: Sequence[CollectiveArray],
    ) -> _Parts:  # fmt: skip
        for k, array in enumerate(operands):
            size = array.count * array.element_bytes
            steps = []
            if not self._place:
                steps.append(Step(StepKind.COPY, Base.OPERAND, k, 0, Base.RESULT, k, 0,
                                  count=size))  # fmt: skip
            steps.append(
                Step(
                    StepKind.BROADCAST,
                    target_base=Base.RESULT,
                    target_index=k,
                    receive_count=size,
                    receive_type=self._byte,
                    comm=self._comm,
                    to=0,
                    request=self._request(),
                    function=self._functions.address("MPI_Bcast"),
                    beginning=self._functions.address("MPI_Ibcast"),
                )
            )
            yield steps, []


def _whole(k: int) -> tuple[_Address, _Address]:
    """Return where operand k and result k are."""
    return (Base.OPERAND, k, 0), (Base.RESULT, k, 0)


_Parts = Iterator[tuple[list[Step], list[Step]]]
_Make = Callable[
    [Planner, CollectiveRecord, Sequence[CollectiveArray], Sequence[CollectiveArray]], _Parts
]
_MAKERS: dict[CollectiveKind, _Make] = {
    CollectiveKind.ALL_GATHER: Planner.all_gather,
    CollectiveKind.ALL_REDUCE: Planner.all_reduce,
    CollectiveKind.REDUCE_SCATTER: Planner.reduce_scatter,
    CollectiveKind.ALL_TO_ALL: Planner.all_to_all,
    CollectiveKind.COLLECTIVE_PERMUTE: Planner.collective_permute,
    CollectiveKind.COLLECTIVE_BROADCAST: Planner.collective_broadcast,
    CollectiveKind.COLLECTIVE_REDUCE: Planner.collective_reduce,
}
