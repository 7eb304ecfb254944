"""CUDA devices, on a driver of ours: memory, launches, graphs, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.gpu.cuda.context import Context
from hlo.gpu.cuda.device import CudaDevice
from hlo.gpu.cuda.driver import Driver
from hlo.gpu.execute import LoadedProgram
from hlo.gpu.plan import Copy, HostCall, Launch, LaunchPlan, Place, Region, Switch, While
from hlo.gpu.sections import MOST_STEPS
from tests.gpu.fake_driver import CUresult, FakeDriver, memory

CODE = "// PTX"
X, Y = Place(Region.ARGUMENT), Place(Region.RESULT)
ARENA, SCALAR = Place(Region.ARENA), Place(Region.SCALARS)
CONSTANTS = Place(Region.CONSTANTS)


def double(x: int, y: int, grid: tuple[int, int, int]) -> None:
    memory(y, np.float32, 4)[:] = 2 * memory(x, np.float32, 4)


def increment(x: int, grid: tuple[int, int, int]) -> None:
    memory(x, np.float32, 4)[:] += 1


def is_small(x: int, flag: int, grid: tuple[int, int, int]) -> None:
    memory(flag, np.uint8, 1)[0] = memory(x, np.float32, 1)[0] < 40


def index_of(x: int, index: int, grid: tuple[int, int, int]) -> None:
    memory(index, np.int32, 1)[0] = int(memory(x, np.float32, 1)[0])


KERNELS: dict[str, Callable[..., None]] = {
    f.__name__: f for f in (double, increment, is_small, index_of)
}


def launch(kernel: str, *places: Place, shared: int = 0) -> Launch:
    return Launch(kernel, 1, 32, places, shared, f"{kernel}.of.hlo")


def plan_of(*steps: Any, **changes: Any) -> LaunchPlan:
    sizes = {"arena_bytes": 64, "scalar_bytes": 32, "constant_bytes": 0}
    return LaunchPlan(steps, (16,), (16,), **(sizes | changes))


class Machine:
    """A fake device, and programs on it."""

    def __init__(self, **options: Any) -> None:
        self.driver = FakeDriver(dict(KERNELS), **options)
        self.device = CudaDevice(Context(Driver(self.driver)))

    def load(self, *steps: Any, **changes: Any) -> LoadedProgram:
        return LoadedProgram(self.device, plan_of(*steps, **changes), CODE)

    def run(self, program: LoadedProgram, x: Any, **options: Any) -> list[float]:
        x, y = np.full(4, x, np.float32), np.zeros(4, np.float32)
        call_host = options.get("call_host", lambda number, operands: [])
        check = options.get("check", lambda: None)
        program.run([x.view(np.uint8)], [y.view(np.uint8)], call_host, check)
        return [float(value) for value in y]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_kernels_run_on_copies_of_arrays(machine: Machine) -> None:
    program = machine.load(launch("double", X, Y))
    assert machine.run(program, 3) == [6] * 4
    assert machine.run(program, 4) == [8] * 4


def test_large_arrays_go_through_pinned_memory_in_parts(machine: Machine) -> None:
    data = np.random.default_rng(0).integers(0, 256, (20 << 20) + 77, np.uint8)
    address = machine.device.allocate(data.size)
    machine.device.write(address, data)
    back = np.zeros_like(data)
    machine.device.read(address, back)
    assert np.array_equal(data, back)
    assert sum(len(block) for block in machine.driver.pinned.values()) <= 8 << 20


def test_the_second_run_is_recorded_and_then_replayed(machine: Machine) -> None:
    program = machine.load(launch("double", X, ARENA), launch("double", ARENA, Y))
    for n in range(5):
        assert machine.run(program, n) == [4 * n] * 4
    # Two launched, and two recorded.
    assert machine.driver.calls["cuLaunchKernel"] == 4
    assert machine.driver.calls["cuGraphLaunch"] == 4


def test_loops_of_few_turns_are_part_of_the_graph(machine: Machine) -> None:
    turns = While((), SCALAR, (launch("increment", Y),), trips=10)
    program = machine.load(launch("double", X, Y), turns, launch("increment", Y))
    for n in range(3):
        assert machine.run(program, n) == [2 * n + 11] * 4
    assert machine.driver.calls["cuStreamBeginCapture"] == 1


def test_loops_of_many_turns_repeat_a_graph_of_several(machine: Machine) -> None:
    turns = While((), SCALAR, (launch("increment", Y),), trips=5 * MOST_STEPS + 3)
    program = machine.load(launch("double", X, Y), turns)
    assert machine.run(program, 1) == [5 * MOST_STEPS + 5] * 4
    assert machine.driver.calls["cuGraphLaunch"] == 4


def test_loops_end_when_the_device_says_so(machine: Machine) -> None:
    condition = (launch("is_small", Y, SCALAR),)
    loop = While(condition, SCALAR, (launch("increment", Y),))
    program = machine.load(launch("double", X, Y), loop)
    assert machine.run(program, 3) == [40] * 4
    assert machine.run(program, 30) == [60] * 4
    # A graph of the body and the next condition, one launch a turn.
    assert machine.driver.calls["cuGraphLaunch"] == 33


def test_a_loop_that_never_ends_is_an_error(machine: Machine) -> None:
    loop = While((launch("is_small", Y, SCALAR),), SCALAR, (), never_ends="it never ends")
    program = machine.load(launch("double", X, Y), loop)
    with pytest.raises(hlo.HloError, match="it never ends"):
        machine.run(program, 1)
    assert machine.run(program, 21) == [42] * 4


def test_branches_are_chosen_by_the_device(machine: Machine) -> None:
    branches = tuple((launch("increment", Y),) * n for n in range(3))
    choice = Switch(SCALAR, branches)
    program = machine.load(launch("double", X, Y), launch("index_of", X, SCALAR), choice)
    assert [machine.run(program, n)[0] for n in (0, 1, 2, 7, -1)] == [0, 3, 6, 16, 0]


def test_the_host_is_called_between_sections(machine: Machine) -> None:
    def call(number: int, operands: Any) -> Any:
        assert number == 5
        return [(operands[0].view(np.float32) + 100).view(np.uint8)]

    host = HostCall(5, ((ARENA, 16),), ((ARENA, 16),))
    program = machine.load(launch("double", X, ARENA), host, launch("double", ARENA, Y))
    assert machine.run(program, 1, call_host=call) == [204] * 4


def test_constants_stay_and_copies_are_made(machine: Machine) -> None:
    constant = np.arange(4, dtype=np.float32)
    program = machine.load(
        Copy(ARENA, CONSTANTS.after(256), 16), launch("double", ARENA, Y),
        constant_bytes=512, constants=[(256, constant)],
    )  # fmt: skip
    for _ in range(3):
        assert machine.run(program, 0) == [0, 2, 4, 6]


def test_a_result_that_shares_memory_begins_with_the_argument(machine: Machine) -> None:
    program = machine.load(launch("increment", Y), aliases=((0, 0),))
    assert machine.run(program, 5) == [6] * 4
    assert machine.run(program, 7) == [8] * 4


def test_memory_of_the_device_is_used_in_place(machine: Machine) -> None:
    device = machine.device
    program = machine.load(launch("double", X, ARENA), launch("double", ARENA, Y))
    x, y = device.allocate(16), device.allocate(16)
    device.write(x, np.full(4, 3, np.float32).view(np.uint8))
    before = device.allocated_bytes
    for _ in range(3):
        program.run([x], [y], lambda n, o: [], lambda: None)
    assert memory(y, np.float32, 4).tolist() == [12] * 4
    # The work space and no copies of arguments.
    assert device.allocated_bytes == before + 64 + 32
    assert machine.driver.calls["cuGraphLaunch"] == 2
    # Other memory is another recording.
    z = device.allocate(16)
    program.run([x], [z], lambda n, o: [], lambda: None)
    assert memory(z, np.float32, 4).tolist() == [12] * 4
    assert machine.driver.calls["cuGraphLaunch"] == 2


@pytest.mark.parametrize("in_place", [False, True])
def test_shared_memory_of_the_device_is_copied_unless_it_is_the_same(in_place: bool) -> None:
    machine = Machine()
    device = machine.device
    program = machine.load(launch("increment", Y), aliases=((0, 0),))
    x = device.allocate(16)
    y = x if in_place else device.allocate(16)
    device.write(x, np.full(4, 3, np.float32).view(np.uint8))
    program.run([x], [y], lambda n, o: [], lambda: None)
    assert memory(x, np.float32, 1)[0] == (4 if in_place else 3)
    assert memory(y, np.float32, 1)[0] == 4


def test_nothing_is_left_on_the_device(machine: Machine) -> None:
    driver, device = machine.driver, machine.device
    program = machine.load(
        launch("double", X, Y), launch("increment", Y), constant_bytes=256,
        constants=[(0, np.zeros(4))],
    )  # fmt: skip
    for n in range(12):
        machine.run(program, n)
    assert device.allocated_bytes == 256 + 64 + 32 + 16 + 16
    program.close()
    assert not device.allocated_bytes
    assert not driver.blocks
    assert not driver.graphs
    assert not driver.modules
    assert driver.depth == 0
    device.close()
    assert not driver.streams
    assert not driver.events
    assert not driver.pinned


def test_the_end_of_a_program_gives_its_memory_back(machine: Machine) -> None:
    program = machine.load(launch("double", X, Y), constant_bytes=4096)
    machine.run(program, 1)
    assert machine.device.allocated_bytes
    del program
    assert not machine.device.allocated_bytes


def test_runs_of_several_threads_have_work_spaces_of_their_own(machine: Machine) -> None:
    inner: list[list[float]] = []

    def call(number: int, operands: Any) -> Any:
        if not inner:
            inner.append([])
            inner[0] = machine.run(program, 50, call_host=call)
        return operands

    host = HostCall(0, ((ARENA, 16),), ((ARENA, 16),))
    program = machine.load(launch("double", X, ARENA), host, launch("double", ARENA, Y))
    assert machine.run(program, 1, call_host=call) == [4] * 4
    assert inner == [[200] * 4]


def test_times_are_those_of_each_launch(machine: Machine) -> None:
    program = machine.load(launch("double", X, Y), launch("increment", Y))
    x, y = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    events = len(machine.driver.events)
    timings = program.time([x], [y], lambda n, o: [], lambda: None)
    assert [step for step, _ in timings] == list(program.plan.steps)
    assert all(seconds > 0 for _, seconds in timings)
    assert len(machine.driver.events) <= events + 2


def test_loops_are_timed_without_keeping_all_of_it(machine: Machine) -> None:
    turns = While((), SCALAR, (launch("increment", Y),), trips=5000)
    program = machine.load(launch("double", X, Y), turns)
    x, y = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    timings = program.time([x], [y], lambda n, o: [], lambda: None)
    assert len(timings) == 5001
    assert machine.driver.calls["cuEventDestroy"] == 2 * 5001
    assert machine.driver.most_events < 2100


# --- errors -------------------------------------------------------------------------------------


def test_a_launch_that_fails_names_kernel_and_instruction(machine: Machine) -> None:
    program = machine.load(launch("double", X, Y, shared=1 << 20))
    with pytest.raises(hlo.HloError) as error:
        machine.run(program, 1)
    assert error.value.code == "device-failed"
    assert "giving kernel double 1048576 bytes of shared memory" in str(error.value)
    assert "double of double.of.hlo" in str(error.value)


def test_what_fails_later_names_the_kernels_since_the_last_wait(machine: Machine) -> None:
    program = machine.load(launch("double", X, Y), launch("increment", Y))
    machine.driver.fail["cuStreamQuery"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(hlo.HloError) as error:
        machine.run(program, 1)
    text = str(error.value)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text
    assert "one of double of double.of.hlo, increment of increment.of.hlo" in text
    assert "CUDA_LAUNCH_BLOCKING=1" in text


def test_waiting_after_each_launch_names_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    machine = Machine()
    program = machine.load(launch("double", X, Y), launch("increment", Y))
    for _ in range(3):
        assert machine.run(program, 1) == [3] * 4
    assert "cuGraphLaunch" not in machine.driver.calls


def test_a_deadline_ends_the_wait(machine: Machine) -> None:
    program = machine.load(launch("double", X, Y))
    machine.driver.is_busy = True
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks > 100:
            raise hlo.HloError.at("timeout", "too late")

    with pytest.raises(hlo.HloError, match="too late"):
        machine.run(program, 1, check=check)
    machine.driver.is_busy = False
    assert machine.run(program, 4) == [8] * 4


def test_too_little_memory_is_an_error_that_says_how_much_there_is() -> None:
    machine = Machine(memory_bytes=1 << 16)
    with pytest.raises(hlo.HloError, match="1048576 bytes for arena 0 are not free") as error:
        machine.device.allocate(1 << 20, "arena 0")
    assert error.value.code == "too-large"


def test_work_spaces_that_nothing_uses_make_room_for_others() -> None:
    machine = Machine(memory_bytes=3000)
    first, second = (
        machine.load(launch("double", X, ARENA), launch("double", ARENA, Y), arena_bytes=1024)
        for _ in range(2)
    )
    for n in range(3):
        assert machine.run(first, n) == [4 * n] * 4
        assert machine.run(second, n) == [4 * n] * 4
    assert machine.device.allocated_bytes < 1500


def test_a_device_without_pools_allocates_anyway() -> None:
    machine = Machine(attributes=(8, 6, 82, 99 << 10, 0))
    assert machine.device.properties.cpu == "sm_86"
    assert machine.run(machine.load(launch("double", X, Y)), 2) == [4] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": 0}, "there is no device 0, the driver has 0"),
        ({"attributes": (7, 5, 40, 64 << 10, 1)}, "compute capability 7.5, kernels need 8.0"),
    ],
)
def test_devices_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hlo.HloError, match=message) as error:
        Machine(**options)
    assert error.value.code == "no-device"


def test_code_that_the_driver_refuses_is_an_error(machine: Machine) -> None:
    with pytest.raises(hlo.HloError, match="Fake H100: line 1: x: CUDA_ERROR_INVALID_PTX") as error:
        machine.device.load("nonsense")
    assert error.value.code == "bad-ptx"


@pytest.mark.parametrize("takes_binaries", [True, False])
def test_machine_code_is_loaded_where_the_driver_takes_it(takes_binaries: bool) -> None:
    machine = Machine()
    machine.driver.takes_binaries = takes_binaries
    machine.device.load(CODE, b"\x7fELF...")
    [image] = machine.driver.modules.values()
    assert image.startswith(b"\x7fELF" if takes_binaries else b"// PTX")
