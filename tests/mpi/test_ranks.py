"""Runs on several ranks: results beside those of one process, and how runs end that fail."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hlo.mpi.board import deadlock
from tests.harness.mpi import mpiexec, needs_mpi

SUM = """HloModule m, replica_count={count}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), replica_groups={{}}, to_apply=add
}}
"""
# Only the first device comes to the collective.
BRANCH = """HloModule m, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
yes { x = f32[2] parameter(0)  ROOT r = f32[2] all-reduce(x), replica_groups={}, to_apply=add }
no { ROOT x = f32[2] parameter(0) }
ENTRY e {
  x = f32[2] parameter(0)  i = u32[] replica-id()  z = u32[] constant(0)
  p = pred[] compare(i, z), direction=EQ
  ROOT r = f32[2] conditional(p, x, x), true_computation=yes, false_computation=no
}
"""
# The one device that has a value in its infeed goes on.
QUEUE = """HloModule m, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  t = token[] after-all()
  i = (f32[2], token[]) infeed(t)
  x = f32[2] get-tuple-element(i), index=0
  ROOT r = f32[2] all-reduce(x), replica_groups={}, to_apply=add
}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "sum.hlo"
    path.write_text(SUM.format(count=2))
    return path


@needs_mpi
@pytest.mark.parametrize("ranks, devices", [(2, 1), (4, 1), (2, 2)])
def test_results_have_the_bits_of_a_run_in_one_process(ranks: int, devices: int) -> None:
    done = mpiexec(ranks, "-m", "tests.mpi.compare", str(devices))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "different" not in done.stdout, done.stdout
    counts = re.findall(r"(\d+) compared", done.stdout)
    assert len(counts) == ranks and min(map(int, counts)) > 100


@needs_mpi
def test_each_rank_reads_its_own_inputs_and_the_first_writes_all_results(
    tmp_path: Path, module: Path
) -> None:
    for device in range(2):
        np.savez(tmp_path / f"in{device}.npz", x=np.float32([device + 1, 10]))
    inputs = [f"--inputs={tmp_path / f'in{device}.npz'}" for device in range(2)]
    out = tmp_path / "out.npz"
    done = mpiexec(2, "-m", "hlo", "run", str(module), *inputs, "-o", str(out), "--check")
    assert done.returncode == 0, done.stderr
    assert "device0.out0" in done.stderr and "device1.out0" in done.stderr
    with np.load(out) as found:
        assert {k: v.tolist() for k, v in found.items()} == {
            "device0.out0": [3, 20], "device1.out0": [3, 20],
        }  # fmt: skip


def _error(done: object) -> str:
    """Return the one error of a run that has failed."""
    assert done.returncode == 1, done  # type: ignore[attr-defined]
    errors = re.findall(r"^error: .*", done.stderr, re.M)  # type: ignore[attr-defined]
    assert len(errors) == 1, done.stderr  # type: ignore[attr-defined]
    return errors[0]


@needs_mpi
def test_devices_that_do_not_fit_are_one_error(module: Path) -> None:
    error = _error(mpiexec(3, "-m", "hlo", "run", str(module)))
    assert "2 devices (2 replicas, 1 partitions), 3 ranks of 1 have 3 [bad-device]" in error


@needs_mpi
def test_ranks_with_other_modules_are_an_error_before_they_meet(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(
        "import os, sys\nfrom hlo_tools.run.command import main\n"
        f"main(['{tmp_path}/' + os.environ['PMI_RANK'] + '.hlo'])\n"
    )
    (tmp_path / "0.hlo").write_text(SUM.format(count=2))
    (tmp_path / "1.hlo").write_text(SUM.format(count=2).replace("add(a, b)", "multiply(a, b)"))
    error = _error(mpiexec(2, str(script)))
    assert "they differ in module [mismatched-programs]" in error


@needs_mpi
@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_a_wait_that_cannot_end_names_the_instruction(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "branch.hlo"
    path.write_text(BRANCH)
    error = _error(mpiexec(2, "-m", "hlo", "run", str(path), "--backend", backend))
    assert "deadlock: device 0 in r (all-reduce) for device 1; device 1 came to the end" in error


@needs_mpi
def test_a_device_that_fails_ends_all_ranks_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "queue.hlo"
    path.write_text(QUEUE)
    error = _error(mpiexec(2, "-m", "hlo", "run", str(path)))
    assert "device 0: i: infeed: the queue is empty" in error


@needs_mpi
def test_a_missing_mpi4py_is_one_error(tmp_path: Path, module: Path) -> None:
    (tmp_path / "mpi4py.py").write_text("raise ImportError('No module named mpi4py')")
    script = tmp_path / "without.py"
    script.write_text("import sys\nfrom hlo_tools.run.command import main\nmain(sys.argv[1:])\n")
    done = mpiexec(2, str(script), str(module))
    assert "pip install 'hlo-tools[mpi]'" in done.stderr
    assert "missing-extra" in _error(done)


def test_who_waits_for_whom() -> None:
    def device(place: str | None, ended: bool = False, **met: int) -> dict[str, object]:
        return {"place": place, "what": "r", "members": [0, 1], "met": met, "ended": ended}

    assert deadlock({0: device("g", g=1), 1: device(None, g=1)}) == ""
    assert deadlock({0: device("g", g=1), 1: device(None)}) == ""
    assert deadlock({0: device("g", g=2), 1: device("g", g=2)}) == ""
    assert deadlock({0: device("g", g=2), 1: device(None, ended=True, g=1)}) == (
        "deadlock: device 0 in r for device 1; device 1 came to the end"
    )
    assert deadlock({0: device("g", g=1), 1: device("h", h=1)}) == (
        "deadlock: device 0 in r for device 1; device 1 in r for device 0"
    )


@needs_mpi
def test_whole_arrays_are_cut_on_every_rank_and_put_together_by_the_first(tmp_path: Path) -> None:
    path = tmp_path / "cut.hlo"
    path.write_text(
        "HloModule m, num_partitions=2\nENTRY e {\n"
        "  x = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}\n"
        "  ROOT y = f32[2,4] transpose(x), dimensions={1,0}, sharding={devices=[2,1]<=[2]}\n}\n"
    )
    x, out = tmp_path / "x.npy", tmp_path / "out.npy"
    np.save(x, np.arange(8, dtype=np.float32).reshape(4, 2))
    done = mpiexec(2, "-m", "hlo", "run", str(path), "--input", str(x), "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert np.load(out).tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]


@needs_mpi
def test_a_client_has_the_devices_of_all_ranks(tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(
        "import sys\nimport numpy as np\nimport hlo\nfrom hlo.mpi import World\n"
        "client = hlo.Client(world=World(2))\n"
        "b = hlo.XlaBuilder('sums')\n"
        "program = b.build(b.cross_replica_sum(b.parameter(0, 's32[]')))\n"
        "module = program.module()\nmodule.attrs['replica_count'] = client.device_count\n"
        "loaded = client.compile(module)\n"
        "sums = client.execute_replicated(loaded, [[np.int32(10**d)] for d in client.devices])\n"
        # At once: print writes piece by piece where output has no buffer, and ranks take turns.
        "line = f'{client.devices} {[int(np.asarray(x)) for x in sums]}'\n"
        "sys.stdout.write(line + '\\n')\n"
    )
    done = mpiexec(2, str(script))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "range(0, 2) [1111, 1111]", "range(2, 4) [1111, 1111]",
    ]  # fmt: skip
