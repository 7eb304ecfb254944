"""What partitioned programs do on the host: on each device, or on the one that a sharding names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import hlo
from tests.harness.devices import BACKENDS

X = np.arange(8, dtype=np.float32)


def run(
    text: str, backend: str, *arguments: Any, host: hlo.Host | None = None,
    fed: Mapping[int, Sequence[Any]] | None = None,
) -> tuple[Any, list[list[Any]]]:  # fmt: skip
    """Return the whole result of a module with shardings, and what each device has fed out."""
    found = hlo.partition(hlo.parse(text))
    client = hlo.Client(found.mesh.size, backend=backend, cache=False, host=host)
    for device, values in (fed or {}).items():
        for value in values:
            client.transfer_to_infeed(value, device)
    shards = [found.contract.split(arguments, d) for d in range(found.mesh.size)]
    results = client.execute_replicated(found.module, shards, timeout=60)
    values = {d: client.transfer(r).value for d, r in enumerate(results)}
    return found.contract.join(values), [list(h.outfeed) for h in client.hosts]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("sharding", "times"), [
    ("{maximal device=1}", 1), ("{replicated}", 4), ("{devices=[4]<=[4]}", 4),
])  # fmt: skip
def test_a_call_with_effects_runs_where_it_says(backend: str, sharding: str, times: int) -> None:
    calls = []

    def twice(op: Any, args: Sequence[Any]) -> np.ndarray:
        calls.append(args)
        return 2 * np.asarray(args[0])

    text = f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[8] parameter(0), sharding={{devices=[4]<=[4]}}
  y = f32[8] custom-call(x), custom_call_target="twice", custom_call_has_side_effect=true, \
sharding={sharding}
  ROOT r = f32[8] negate(y), sharding={{devices=[4]<=[4]}}
}}"""
    result, _ = run(text, backend, X, host=hlo.Host({"twice": twice}))
    assert result.tolist() == (-2 * X).tolist()
    assert len(calls) == times
    assert all(args[0].tolist() == X.tolist() for args in calls)


QUEUES = """HloModule m, num_partitions=2
ENTRY e {{
  t = token[] after-all()
  i = ((f32[8], s32[]), token[]) infeed(t){infeed}
  d = (f32[8], s32[]) get-tuple-element(i), index=0
  k = token[] get-tuple-element(i), index=1
  x = f32[8] get-tuple-element(d), index=0, sharding={{devices=[2]<=[2]}}
  o = token[] outfeed(x, k), outfeed_shape=f32[8]{outfeed}
  ROOT r = f32[8] negate(x), sharding={{devices=[2]<=[2]}}
}}"""
ONE = "{maximal device=1}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_queues_of_one_device(backend: str) -> None:
    text = QUEUES.format(infeed=f", sharding={{{ONE}, {ONE}, {ONE}}}", outfeed=f", sharding={ONE}")
    result, out = run(text, backend, fed={1: [(X, np.int32(3))]})
    assert result.tolist() == (-X).tolist()
    assert [len(queue) for queue in out] == [0, 1]
    assert out[1][0].tolist() == X.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_queues_of_each_device_hold_whole_values(backend: str) -> None:
    fed = {device: [(X, np.int32(3))] for device in range(2)}
    result, out = run(QUEUES.format(infeed="", outfeed=""), backend, fed=fed)
    assert result.tolist() == (-X).tolist()
    assert [queue[0].tolist() for queue in out] == [X.tolist()] * 2


# As JAX has them: a function that is called once, and the same for what returns nothing; with
# the shardings of a whole tuple at its elements, as XLA writes them; and on each device's shards.
MESHES = (
    'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["d"=4]>, '
    "one = #sdy.mesh<[], device_ids=[0]>}}"
)
CUT = r'frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"d\"}]>"}'
ON_ONE = 'frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[%s]>"}'
CALL = (
    "api_version=API_VERSION_TYPED_FFI, backend_config={index = 3 : ui64}, "
    'custom_call_target="xla_ffi_%spython_cpu_callback"'
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        (f"y = f32[8] custom-call(x), {CALL % ''}, {ON_ONE % '<@one, []>'}", [8]),
        (f"c = () custom-call(x), {CALL % ''}, custom_call_has_side_effect=true, "
         f"{ON_ONE % '<@one, []>'}  y = f32[8] negate(x)", [8]),
        (f"t = token[] after-all()  c = (token[], f32[8]) custom-call(t, x), {CALL % ''}, "
         f"custom_call_has_side_effect=true, {ON_ONE % '<@one, []>, <@one, []>'}  "
         f"y = f32[8] get-tuple-element(c), index=1, {ON_ONE % '<@one, []>, <@one, []>'}", [8]),
        (f"c = () custom-call(x), {CALL % 'partitioned_'}, custom_call_has_side_effect=true  "
         "y = f32[8] negate(x)", [2, 2, 2, 2]),
    ],
)  # fmt: skip
def test_callbacks_of_jax_run_where_they_say(backend: str, body: str, sizes: list[int]) -> None:
    seen = []

    def function(x: np.ndarray) -> np.ndarray | None:
        seen.append(len(x))
        return None if " = ()" in body else -x

    target = "partitioned_" * (sizes[0] == 2) + "python_cpu_callback"
    text = f"""HloModule m, num_partitions=4, {MESHES}
ENTRY e {{
  x = f32[8] parameter(0), {CUT}
  {body}
  ROOT r = f32[8] negate(y)
}}"""
    result, _ = run(text, backend, X, host=hlo.Host({f"xla_ffi_{target}": {3: function}}))
    assert result.tolist() == X.tolist()
    assert seen == sizes


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_pass_into_and_out_of_manual_regions(backend: str) -> None:
    """As of an ordered `io_callback` in JAX's `shard_map`."""
    notes = (
        r'xla.sdy.%s_shardings="#sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{\"d\"}]>]>",'
        r'xla.sdy.manual_axes="#sdy<manual_axes{\"d\"}>"'
    )
    text = f"""HloModule m, num_partitions=4, {MESHES}
ENTRY e {{
  t = token[] after-all()
  x = f32[8] parameter(0), {CUT}
  i = (token[], f32[2]) custom-call(t, x), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true, frontend_attributes={{{notes % "in"}}}
  u = token[] get-tuple-element(i), index=0
  y = f32[2] get-tuple-element(i), index=1
  c = (token[], f32[2]) custom-call(u, y), {CALL % ""}, custom_call_has_side_effect=true
  v = token[] get-tuple-element(c), index=0
  z = f32[2] get-tuple-element(c), index=1
  o = (token[], f32[8]) custom-call(v, z), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true, frontend_attributes={{{notes % "out"}}}
  ROOT r = f32[8] get-tuple-element(o), index=1
}}"""
    seen = []

    def function(x: np.ndarray) -> np.ndarray:
        seen.append(len(x))
        return -x

    host = hlo.Host({"xla_ffi_python_cpu_callback": {3: function}})
    result, _ = run(text, backend, X, host=host)
    assert result.tolist() == (-X).tolist()
    assert seen == [2, 2, 2, 2]
