"""hlo-run on modules with shardings: whole arrays in and out, on several devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

import hlo
from tests.harness.paths import ROOT

MATMUL = """HloModule matmul, num_partitions=4
ENTRY e {
  x = f32[6,8] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[8,10] parameter(1), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  ROOT y = f32[6,10] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[1,4]3,1,2,0}
}
"""
PLAIN = """HloModule plain
ENTRY e {
  x = f32[4,6] parameter(0)
  y = f32[6,4] parameter(1)
  z = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[4,4], f32[4,6]) tuple(z, x)
}
"""


def run(*args: str, text: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, ["-", *args], input=text)
    assert result.exit_code == status, result.output
    return result


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.integers(-4, 5, (6, 8)).astype(np.float32),
        "w": rng.integers(-4, 5, (8, 10)).astype(np.float32),
    }
    np.savez(tmp_path / "in.npz", **arrays)
    return arrays


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_whole_arrays(backend: str, inputs: dict[str, np.ndarray], tmp_path: Path) -> None:
    archive, out = str(tmp_path / "in.npz"), str(tmp_path / "out.npz")
    run("--backend", backend, "--inputs", archive, "-o", out, text=MATMUL)
    # 10 columns on 4 devices: the last one has one column, and padding that is no result.
    np.testing.assert_array_equal(np.load(out)["out0"], inputs["x"] @ inputs["w"])


def test_it_is_checked_against_the_module_on_one_device() -> None:
    told = run("--check", text=MATMUL).stderr
    assert "out0: 60 elements" in told
    assert "1 of 1 results match the interpreter" in told


def test_per_device(inputs: dict[str, np.ndarray]) -> None:
    told = run("--per-device", "--json", text=MATMUL)
    # As it was written: each device has whole arrays, and shardings say nothing.
    (result,) = json.loads(told.stdout)["results"]
    assert result["shape"] == "f32[6,10]"


def test_shardings_from_flags(tmp_path: Path) -> None:
    flags = ["--partition", "devices=2,2", "--shard", "x=0", "--shard", "arg1=-,1"]
    told = run(*flags, "--shard", "out1=0+1", "--check", text=PLAIN)
    assert "2 of 2 results match the interpreter" in told.stderr
    shards = tmp_path / "shards.json"
    shards.write_text('{"x": [0, null], "y": [null, 1], "out1": [[0, 1]]}')
    told = run("--partition", "devices=2,2", "--shard", str(shards), "--check", text=PLAIN)
    assert "2 of 2 results match the interpreter" in told.stderr


@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        (["--shard", "x=0"], 2, "--shard requires --partition."),
        (
            ["--partition", "4", "--shard", "x=0"],
            2,
            "--partition 4 is not of the form devices=N or devices=N,M,...",
        ),
        (["--partition", "devices=2", "--shard", "x=1"], 1, "each of the 1 axes"),
        (["--partition", "devices=2", "--shard", "x=0,0"], 1, "can be used once"),
        (["--partition", "devices=2", "--shard", "x=-,-,0"], 1, "3 dimensions are cut"),
        (
            ["--partition", "devices=2", "--shard", "q=0"],
            1,
            "'q' is not an instruction of the entry",
        ),
        (["--partition", "devices=2", "--shard", "x=a"], 1, "'a' is not an axis"),
        (["--partition", "devices=2", "--shard", "no.json"], 1, "no.json"),
    ],
)
def test_flags_that_do_not_fit(flags: list[str], status: int, said: str) -> None:
    assert said in run(*flags, text=PLAIN, status=status).stderr


def test_a_sharding_over_other_devices_is_an_error() -> None:
    told = run(text=MATMUL.replace("num_partitions=4", "num_partitions=2"), status=1)
    assert "over 4 devices, there are 2" in told.stderr
    assert told.stdout == ""


def test_the_example_of_the_page() -> None:
    told = CliRunner().invoke(main, [str(ROOT / "examples" / "mlp_2x2.hlo"), "--check"])
    assert told.exit_code == 0
    assert "3 of 3 results match the interpreter" in told.stderr


# As XLA leaves it: scheduled or not, the parameters' shardings are those of the whole arrays.
PARTITIONED = """HloModule done, num_partitions=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    to_apply=add
}
"""


def test_a_module_that_was_partitioned_elsewhere_runs_per_device() -> None:
    assert "device1.out0 = f32[4] {2, 4, 6, 8}" in run("-i", "{1,2,3,4}", text=PARTITIONED).stdout
    with pytest.raises(hlo.HloError, match="partitioned already: y is all-reduce"):
        hlo.partition(hlo.parse(PARTITIONED))


# What JAX's `shard_map` becomes: nothing else of the program has a sharding.
MANUAL = r"""HloModule manual, num_partitions=2,
  frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=2]>}}
xla.sdy.manual_computation_body {
  x = f32[2] parameter(0)
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[2] broadcast(f), dimensions={}
  ROOT y = f32[2] add(x, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  part = f32[2] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true, frontend_attributes={
    xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"a\"}]>]>",
    xla.sdy.manual_axes="#sdy<manual_axes{\"a\"}>"}
  y = f32[2] call(part), to_apply=xla.sdy.manual_computation_body
  ROOT r = f32[4] custom-call(y), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true, frontend_attributes={
    xla.sdy.manual_axes="#sdy<manual_axes{\"a\"}>",
    xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"a\"}]>]>"}
}
"""


def test_a_manual_computation_is_partitioned() -> None:
    assert "out0 = f32[4] {1, 2, 4, 5}" in run("-i", "{1,2,3,4}", text=MANUAL).stdout
