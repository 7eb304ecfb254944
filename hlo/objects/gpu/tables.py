"""A launch plan as tables in C, which `hlo/include/hlo_gpu_launcher.c` interprets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo.gpu.plan import (
    Copy,
    HostCall,
    Launch,
    LaunchPlan,
    Place,
    Region,
    Step,
    Switch,
    While,
)
from hlo.objects.gpu.calls import DeviceId, FunctionCall, HostStep, OperationText, SizeCheck
from hlo.objects.gpu.header import FIRST_MESSAGE
from hlo.objects.header import c_string

_REGIONS = {Region.CONSTANTS: 0, Region.ARENA: 1, Region.SCALARS: 2, Region.COUNTERS: 3}
_ARRAYS = len(_REGIONS)
# Kernels may have so much dynamic shared memory without asking for it.
_USUAL_SHARED_BYTES = 48 << 10
# Memory of the host for arrays of functions: each begins at a multiple, after a word for scalars.
_HOST_ALIGNMENT = 64

Row = tuple[str, ...]


@dataclass
class Tables:
    """The rows of each table, as C initializers, in the order of the struct's members.

    host_steps: what the calls of the host are, by number. kernels: the dynamic shared memory of
    each. branches: first and last step of each. operations: of the functions that are called.
    host_bytes: memory of the host that copies take.
    """

    plan: LaunchPlan
    host_steps: Sequence[HostStep]
    steps: list[Row] = field(default_factory=list)
    launches: list[Row] = field(default_factory=list)
    places: list[Row] = field(default_factory=list)
    copies: list[Row] = field(default_factory=list)
    loops: list[Row] = field(default_factory=list)
    switches: list[Row] = field(default_factory=list)
    branches: list[Row] = field(default_factory=list)
    checks: list[Row] = field(default_factory=list)
    ids: list[Row] = field(default_factory=list)
    calls: list[Row] = field(default_factory=list)
    call_arrays: list[Row] = field(default_factory=list)
    operations: OperationText = field(default_factory=OperationText)
    messages: list[str] = field(default_factory=list)
    kernels: dict[str, int] = field(default_factory=dict)
    main: Row = ("0", "0")
    most_parameters: int = 0
    most_call_arrays: int = 0
    host_bytes: int = _HOST_ALIGNMENT
    _parameters: dict[tuple[Place, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for launch in self.plan.launches:
            self.kernels[launch.kernel] = max(
                self.kernels.get(launch.kernel, 0), launch.shared_bytes
            )
            self.most_parameters = max(self.most_parameters, len(launch.places))
        self._numbers: Mapping[str, int] = {name: n for n, name in enumerate(self.kernels)}
        self.main = self._range(self.plan.steps)

    def kernel_rows(self) -> list[Row]:
        """Return the kernels, each with the shared memory that it has to ask for."""
        return [
            (c_string(name), str(size if size > _USUAL_SHARED_BYTES else 0))
            for name, size in self.kernels.items()
        ]

    def _range(self, steps: Sequence[Step]) -> Row:
        """Write steps one after the other; returns the first, and the one after the last."""
        rows = [self._row(step) for step in steps]
        first = len(self.steps)
        self.steps += rows
        return str(first), str(len(self.steps))

    def _row(self, step: Step) -> Row:
        match step:
            case Launch():
                return _added(self.launches, "HLO_LAUNCH", self._launch(step))
            case Copy():
                row = (self._place(step.target), self._place(step.source), str(step.size))
                return _added(self.copies, "HLO_COPY", row)
            case While():
                return _added(self.loops, "HLO_LOOP", self._loop(step))
            case Switch():
                branches = [self._range(branch) for branch in step.branches]
                first = len(self.branches)
                self.branches += branches
                row = (self._place(step.index), str(first), str(len(branches)))
                return _added(self.switches, "HLO_SWITCH", row)
            case HostCall():
                return self._host(step)

    def _launch(self, launch: Launch) -> Row:
        first = self._parameters.get(launch.places)
        if first is None:
            first = self._parameters[launch.places] = len(self.places)
            self.places += [self._place_row(place) for place in launch.places]
        numbers = (
            self._numbers[launch.kernel], launch.blocks, launch.threads, launch.shared_bytes,
            first, len(launch.places),
        )  # fmt: skip
        return (*map(str, numbers), c_string(launch.instruction or "scalars"))

    def _loop(self, loop: While) -> Row:
        condition, body = self._range(loop.condition), self._range(loop.body)
        trips = -1 if loop.trips is None else loop.trips
        status = self._message(loop.never_ends) if loop.never_ends else 0
        return (_braces(condition), _braces(body), self._place(loop.flag), str(trips), str(status))

    def _host(self, step: HostCall) -> Row:
        match self.host_steps[step.number]:
            case SizeCheck(message):
                return _added(self.checks, "HLO_CHECK", self._check(step, message))
            case DeviceId(is_partition):
                [(place, size)] = step.results
                assert size == 4, step
                return _added(self.ids, "HLO_ID", (self._place(place), str(int(is_partition))))
            case FunctionCall() as call:
                return _added(self.calls, "HLO_CALL", self._call(step, call))

    def _check(self, step: HostCall, message: str) -> Row:
        (size, size_bytes), (bound, bound_bytes) = step.operands
        assert size_bytes == bound_bytes and size_bytes in (4, 8), step
        status = self._message(message)
        return self._place(size), self._place(bound), str(size_bytes), str(status)

    def _call(self, step: HostCall, call: FunctionCall) -> Row:
        """Write a call, whose arrays lie one after the other in the host's memory meanwhile."""
        first, at = len(self.call_arrays), _HOST_ALIGNMENT
        offsets: list[int] = []
        for place, size in step.operands:
            offsets.append(at)
            self.call_arrays.append((self._place(place), str(size), str(at)))
            at += -(-size // _HOST_ALIGNMENT) * _HOST_ALIGNMENT
        for number, (place, size) in enumerate(step.results):
            operand = call.in_place.get(number)
            self.call_arrays.append(
                (self._place(place), str(size), str(at if operand is None else offsets[operand]))
            )
            if operand is None:
                at += -(-size // _HOST_ALIGNMENT) * _HOST_ALIGNMENT
        count = len(step.operands) + len(step.results)
        self.most_call_arrays = max(self.most_call_arrays, count)
        self.host_bytes = max(self.host_bytes, at)
        numbers = (call.function, first, len(step.operands), len(step.results))
        return (self.operations.address(call.operation), *map(str, numbers))

    def _message(self, text: str) -> int:
        """Return the status that stands for a message."""
        if text not in self.messages:
            self.messages.append(text)
        return FIRST_MESSAGE - self.messages.index(text)

    def _place_row(self, place: Place) -> Row:
        return str(self._region(place)), str(place.offset)

    def _place(self, place: Place) -> str:
        return _braces(self._place_row(place))

    def _region(self, place: Place) -> int:
        match place.region:
            case Region.ARGUMENT:
                return _ARRAYS + place.number
            case Region.RESULT:
                return _ARRAYS + len(self.plan.arguments) + place.number
        return _REGIONS[place.region]


def _added(table: list[Row], kind: str, row: Row) -> Row:
    """Add a row to a table; returns the step that it is."""
    table.append(row)
    return kind, str(len(table) - 1)


def _braces(row: Row) -> str:
    return "{" + ", ".join(row) + "}"


def table_text(type_: str, name: str, rows: Sequence[Row]) -> list[str]:
    """Return the definition of a table; C has none without rows."""
    if not rows:
        return []
    return [f"static const {type_} {name}[] = {{", *(f"    {_braces(r)}," for r in rows), "};"]
