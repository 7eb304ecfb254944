"""The backends for GPUs as users meet them: calls, clients, commands, and what is missing."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run import command

import hlo
from hlo.compiler.backends import LoadedModule, machine_of
from hlo.errors import HloError
from hlo.gpu.arrays import DeviceArray
from hlo.gpu.cuda.driver import load_driver
from hlo.runtime.executable import Executable

SUMS = """HloModule sums
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[3,40] parameter(0)
  zero = f32[] constant(0)
  s = f32[3] reduce(x, zero), dimensions={1}, to_apply=add
  b = f32[3,40] broadcast(s), dimensions={0}
  y = f32[3,40] divide(x, b)
  ROOT r = (f32[3,40], f32[3]) tuple(y, s)
}"""
TURNED = """HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}
ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,3] negate(x) }"""


def allocated() -> int:
    gc.collect()
    machine = machine_of("gpu-emulated")
    assert machine is not None
    return machine.device.allocated_bytes


def here(array: np.ndarray) -> DeviceArray:
    machine = machine_of("gpu-emulated")
    assert machine is not None
    found = machine.put(array)
    assert isinstance(found, DeviceArray)
    return found


def hlo_run(*args: str) -> Result:
    return CliRunner().invoke(command.main, [*args, "--no-cache"])


def inputs() -> np.ndarray:
    return np.random.default_rng(0).random((3, 40), np.float32) + 1


def test_arrays_of_the_host_give_arrays_of_the_host() -> None:
    before = allocated()
    run = hlo.compile(hlo.parse(SUMS), backend="gpu-emulated", cache=False)
    x = inputs()
    for _ in range(3):
        y, s = run(x)
        assert isinstance(y, np.ndarray)
        np.testing.assert_allclose(y, x / x.sum(1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(s, x.sum(1), rtol=1e-5)
    del run
    assert allocated() == before


def test_arrays_on_the_device_stay_there() -> None:
    before = allocated()
    run = hlo.compile(hlo.parse(SUMS), backend="gpu-emulated", cache=False)
    x = inputs()
    y, s = run(here(x))
    assert isinstance(y, DeviceArray)
    z, t = run(y)
    np.testing.assert_allclose(np.asarray(s), x.sum(1), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(z), np.asarray(y), rtol=1e-5)
    del run, y, s, z, t
    assert allocated() == before


def test_results_stay_on_the_device_where_that_is_asked_for() -> None:
    run = hlo.compile(
        hlo.parse(SUMS), backend="gpu-emulated", cache=False, device_results=True
    )  # fmt: skip
    y, s = run(inputs())
    assert isinstance(y, DeviceArray)
    assert isinstance(s, DeviceArray)


def test_other_layouts_are_in_the_memory_of_the_device_too() -> None:
    run = hlo.compile(
        hlo.parse(TURNED), backend="gpu-emulated", cache=False, device_results=True
    )  # fmt: skip
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = run(x)
    assert y.strides == (4, 8)
    assert np.array_equal(np.asarray(y), -x)
    # In place if it lies as the program says, else through the host.
    assert np.array_equal(np.asarray(run(y)), x)
    assert np.array_equal(np.asarray(run(here(x))), -x)


def test_arrays_that_do_not_fit_are_refused_wherever_they_are() -> None:
    run = hlo.compile(hlo.parse(SUMS), backend="gpu-emulated", cache=False)
    with pytest.raises(hlo.HloError, match="shape-mismatch"):
        run(here(np.zeros((3, 41), np.float32)))
    with pytest.raises(hlo.HloError, match="type-mismatch"):
        run(here(np.zeros((3, 40), np.float64)))


def test_bits_of_a_type_are_taken_as_that() -> None:
    text = "HloModule m ENTRY e { x = bf16[4] parameter(0) ROOT y = bf16[4] negate(x) }"
    run = hlo.compile(hlo.parse(text), backend="gpu-emulated", cache=False)
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    assert np.array_equal(np.asarray(run(here(x.view(np.uint16)))), -x)


def test_native_programs_take_arrays_of_a_device() -> None:
    x = inputs()
    y, _ = hlo.compile(hlo.parse(SUMS))(here(x))
    np.testing.assert_allclose(y, x / x.sum(1, keepdims=True), rtol=1e-5)


def test_clients_keep_data_on_the_device() -> None:
    before = allocated()
    client = hlo.Client(backend="gpu-emulated")
    x = inputs()
    data = client.transfer_to_server(x)
    assert isinstance(data._value, DeviceArray)
    both = client.execute(hlo.parse(SUMS), [data])
    y, s = client.deconstruct_tuple(both)
    assert isinstance(y._value, DeviceArray)
    np.testing.assert_allclose(np.asarray(s), x.sum(1), rtol=1e-5)
    assert client.transfer(y).shape == y.shape
    del client, data, both, y, s
    assert allocated() == before


def test_replicas_meet_on_the_device() -> None:
    client = hlo.Client(device_count=2, backend="gpu-emulated")
    b = hlo.XlaBuilder("sums")
    program = b.build(b.cross_replica_sum(b.parameter(0, "f32[2]")))
    x = client.transfer_to_server(np.array([1, 2], np.float32))
    y = client.transfer_to_server(np.array([3, 4], np.float32), device=1)
    for result in client.execute_replicated(program, [[x], [y]]):
        assert np.asarray(result).tolist() == [4, 6]


def test_errors_of_calls_of_the_host_name_the_instruction() -> None:
    text = """HloModule m ENTRY e { t = token[] after-all() x = (f32[2], token[]) infeed(t)
      ROOT y = f32[2] get-tuple-element(x), index=0 }"""
    run = hlo.compile(hlo.parse(text), backend="gpu-emulated", cache=False)
    with pytest.raises(hlo.HloError, match=r"1:47: error: x: infeed: the queue is empty"):
        run()


def test_the_command_compares_with_the_interpreter(tmp_path: Path) -> None:
    file = tmp_path / "sums.hlo"
    file.write_text(SUMS)
    done = hlo_run(str(file), "--backend=gpu-emulated", "--check", "--seed=1")
    assert done.exit_code == 0, done.stderr
    assert "2 of 2 results match the interpreter" in done.stderr


def test_the_command_shows_the_time_of_kernels(tmp_path: Path) -> None:
    file = tmp_path / "sums.hlo"
    file.write_text(SUMS)
    done = hlo_run(str(file), "--backend=gpu-emulated", "--profile", "--repeat=2", "--seed=1")
    assert done.exit_code == 0, done.stderr
    assert "2 runs" in done.stdout
    assert "y = divide" in done.stdout


def test_where_there_is_no_gpu_one_error_says_so(tmp_path: Path) -> None:
    try:
        load_driver()
    except hlo.HloError as e:
        assert e.code == "no-device"
    else:
        pytest.skip("there is a GPU")
    file = tmp_path / "sums.hlo"
    file.write_text(SUMS)
    done = hlo_run(str(file), "--backend=gpu")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: there is no CUDA driver on this machine")
    assert "[no-device]" in done.stderr
    assert "--backend gpu-emulated" in done.stderr
    assert "Traceback" not in done.stderr
    done = hlo_run(str(file), "--backend=gpu", "--isolate-instructions")
    assert done.exit_code == 1 and done.stderr.count("error:") == 1


# --- machines by name ---------------------------------------------------------------------------


def test_a_target_is_the_machine_that_code_runs_on() -> None:
    module = hlo.parse(TURNED)
    emulated = hlo.compile(module, target="gpu-emulated")
    with pytest.raises(TypeError, match="is loaded on gpu-emulated by this process"):
        pickle.dumps(emulated)
    assert isinstance(emulated, LoadedModule) and emulated.backend == "gpu-emulated"
    assert isinstance(hlo.compile(module, target="cpu"), Executable)
    both = hlo.compile(module, target="gpu-emulated", backend="gpu-emulated")
    assert isinstance(both, LoadedModule)


@pytest.mark.parametrize(
    ("target", "backend", "words"),
    [
        ("nvptx64", None, "'nvptx64' is not a machine that code runs on here"),
        ("reference", None, "hint: one of cpu, gpu, gpu-emulated"),
        ("gpu", "compiled", "target 'gpu' is backend 'gpu', but backend is 'compiled'"),
        ("cpu", "gpu-emulated", "target 'cpu' is backend 'compiled'"),
    ],
)
def test_targets_that_are_refused(target: str, backend: str | None, words: str) -> None:
    with pytest.raises(HloError) as caught:
        hlo.compile(hlo.parse(TURNED), target=target, backend=backend)
    assert caught.value.code == "bad-value" and words in str(caught.value)
