"""Arrays of which devices have parts of a sum, in and out of manual computations; device numbers
in functions that are called from there."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.analysis.devices import needs_partitioning
from hlo.values.scan import Scanner
from hlo.values.sharding.shards import assembled, shard_of
from hlo.values.sharding.text import read_sharding

MODULE = """
module @m attributes {{mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  {0}
}}
"""
X = np.arange(4, dtype=np.float32)


def run(text: str, *args: np.ndarray) -> list[np.ndarray]:
    """Return the whole results of a module that is partitioned and interpreted on four devices."""
    module = hlo.from_stablehlo(MODULE.format(text))
    assert needs_partitioning(module)
    found = hlo.partition(module)
    client = hlo.Client(4, backend="reference", cache=False)
    shards = [found.contract.split(args, device) for device in range(4)]
    results = client.execute_replicated(found.module, shards, timeout=60)
    values = {d: client.transfer(r).value for d, r in enumerate(results)}
    joined = found.contract.join(values)
    return [np.asarray(v) for v in (joined if isinstance(joined, tuple) else (joined,))]


def test_a_parameter_and_a_result_are_sums_of_what_devices_have() -> None:
    argument = '%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}], unreduced={"x"}>}'
    for result in ("[{}]", '[{"x"}]', '[{}], unreduced={"y"}', '[{"y"}], unreduced={"x"}'):
        (found,) = run(
            f"func.func @main({argument}) -> (tensor<4xf32> {{sdy.sharding = "
            f"#sdy.sharding<@mesh, {result}>}}) {{\n  %0 = stablehlo.add %a, %a : tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>\n}",
            X,
        )
        np.testing.assert_array_equal(found, 2 * X)


def test_a_manual_computation_has_the_parts_of_a_sum() -> None:
    """Its all-reduce makes the sum; what was one value before is that value after it."""
    (found,) = run(
        """
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{"y"}], unreduced={"x"}> : tensor<4xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"y"}], unreduced={"x"}>] out_shardings=[<@mesh, [{"y"}]>] manual_axes={"x", "y"} (%b: tensor<2xf32>) {
      %2 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%c: tensor<f32>, %d: tensor<f32>):
        %3 = stablehlo.add %c, %d : tensor<f32>
        stablehlo.return %3 : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %2 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }""",  # noqa: E501
        X,
    )
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("result", ["[{}]", '[{}], unreduced={"x"}'])
def test_what_leaves_a_manual_computation_may_be_parts_of_a_sum(result: str) -> None:
    (found,) = run(
        f"""
  func.func @main(%a: tensor<4xf32>) -> (tensor<2xf32> {{sdy.sharding = #sdy.sharding<@mesh, {result}>}}) {{
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}]>] out_shardings=[<@mesh, [{{}}], unreduced={{"x"}}>] manual_axes={{"x", "y"}} (%b: tensor<2xf32>) {{
      sdy.return %b : tensor<2xf32>
    }} : (tensor<4xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }}""",  # noqa: E501
        X,
    )
    np.testing.assert_array_equal(found, X[:2] + X[2:])


def test_a_function_called_from_a_manual_computation_belongs_to_it() -> None:
    """It has no operands, several results, and calls another one."""
    found = run(
        """
  func.func @main() -> (tensor<4xui32>, tensor<4xui32>) {
    %0:2 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{"x", "y"}]>, <@mesh, [{"x", "y"}]>] manual_axes={"x", "y"} () {
      %1:2 = func.call @f() : () -> (tensor<1xui32>, tensor<1xui32>)
      sdy.return %1#0, %1#1 : tensor<1xui32>, tensor<1xui32>
    } : () -> (tensor<4xui32>, tensor<4xui32>)
    return %0#0, %0#1 : tensor<4xui32>, tensor<4xui32>
  }
  func.func private @f() -> (tensor<1xui32>, tensor<1xui32>) {
    %0 = func.call @g() : () -> tensor<1xui32>
    %1 = stablehlo.add %0, %0 : tensor<1xui32>
    return %0, %1 : tensor<1xui32>, tensor<1xui32>
  }
  func.func private @g() -> tensor<1xui32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.reshape %0 : (tensor<ui32>) -> tensor<1xui32>
    return %1 : tensor<1xui32>
  }""",  # noqa: E501
    )
    assert [v.tolist() for v in found] == [[0, 1, 2, 3], [0, 2, 4, 6]]


@pytest.mark.parametrize(
    "text",
    [
        "{unreduced}", "{devices=[1,2,2]<=[4] last_tile_dims={unreduced, replicated}}",
        "{devices=[2,2]<=[4] last_tile_dims={unreduced}}",
        "{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={unreduced}}",
    ],
)  # fmt: skip
def test_one_device_has_the_value_of_a_sum(text: str) -> None:
    sharding = read_sharding(Scanner(text))
    parts = {device: shard_of(X, sharding, device) for device in range(4)}
    np.testing.assert_array_equal(assembled(parts, sharding, X.shape), X)
    assert sum(float(p.sum()) for p in parts.values()) in (6.0, 12.0)
