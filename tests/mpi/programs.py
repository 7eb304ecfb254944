"""Programs of all collectives, element types and groups, for 2 and 4 devices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.harness.devices import program
from tests.harness.replicas import Program
from tests.ops.test_devices import XLA

# What rounds, so that the order of a sum shows; and NaN and zeros of both signs.
_TYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "c64": np.complex64,
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "s32": np.int32, "u32": np.uint32,
    "s64": np.int64, "pred": np.bool_,
}  # fmt: skip


_SWAP = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}'
# Of these types, all collectives and more reductions.
_REDUCTIONS = {
    "f32": ("add", "multiply", "maximum"), "bf16": ("add", "maximum"), "s32": ("add", "or"),
    "pred": ("or", "and"),
}  # fmt: skip


def _values(dtype: Any, devices: int, *dims: int) -> np.ndarray:
    rng = np.random.default_rng([devices, *dims])
    if dtype is np.bool_:
        return rng.random((devices, *dims)) > 0.5
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, (devices, *dims), dtype, endpoint=True)
    found = rng.normal(0, 10, (devices, *dims))
    found.flat[:3] = np.nan, -0.0, 0.0
    return found.astype(dtype)


def _made() -> dict[str, Program]:
    found: dict[str, Program] = {}
    for devices in (2, 4):
        counts = (devices, 1)
        pairs = "{" + ",".join(f"{{{n},{(n + 1) % devices}}}" for n in range(devices)) + "}"
        for et, dtype in _TYPES.items():
            x = [_values(dtype, devices, 4, 6)]
            for op in _REDUCTIONS.get(et, ("add",)):
                line = f"{et}[4,6] all-reduce(x0), replica_groups={{}}, to_apply={op}"
                found[f"{devices}: {op} of {et}"] = program(line, counts, x)
            if et not in _REDUCTIONS:
                continue
            reduction = "or" if et == "pred" else "add"
            lines = [
                f"{et}[{4 // devices},6] reduce-scatter(x0), replica_groups={{}}, "
                f"dimensions={{0}}, to_apply={reduction}",
                f"{et}[4,{6 * devices}] all-gather(x0), replica_groups={{}}, dimensions={{1}}",
                f"{et}[{4 * devices},6] all-gather(x0), replica_groups={{}}, dimensions={{0}}",
                f"{et}[4,6] all-to-all(x0), replica_groups={{}}, dimensions={{0}}",
                f"{et}[4,6] collective-permute(x0), source_target_pairs={pairs}",
                f"{et}[4,6] collective-broadcast(x0), replica_groups={{{{1,0}}}}",
            ]
            for line in lines:
                opcode = line.split()[1].partition("(")[0]
                key = f"{devices}: {opcode} of {et}"
                found[key + " again" if key in found else key] = program(line, counts, x)
    return found


def _awkward() -> dict[str, Program]:
    f32 = np.float32
    return {
        "no elements": program(
            "f32[0,6] all-reduce(x0), replica_groups={}, to_apply=add", (4, 1),
            [_values(f32, 4, 1, 6)[:, :0]]),
        "a scalar": program(
            "f32[] all-reduce(x0), replica_groups={{3,1,0,2}}, to_apply=add", (4, 1),
            [np.array([1e8, 1, -1e8, 3], f32)]),
        "many elements": program(
            "f32[100003] all-reduce(x0), replica_groups={}, to_apply=add", (4, 1),
            [_values(f32, 4, 100003)]),
        "many elements of two": program(
            "f32[100003] all-reduce(x0), replica_groups={}, to_apply=add", (2, 1),
            [_values(f32, 2, 100003)]),
        "send and receive": program(
            "(f32[6], token[]) recv-done(got), channel_id=1", (1, 2), [_values(f32, 2, 6)],
            before=f"""t = token[] after-all()
got = (f32[6], u32[], token[]) recv(t), channel_id=1, {_SWAP}
s = (f32[6], u32[], token[]) send(x0, t), channel_id=1, {_SWAP}
d = token[] send-done(s), channel_id=1"""),
        "started": program(
            "f32[6] all-reduce-done(s)", (4, 1), [_values(f32, 4, 6)],
            before="s = f32[6] all-reduce-start(x0), replica_groups={}, to_apply=sum",
            more="sum { a = f32[] parameter(0)  b = f32[] parameter(1)  "
            "ROOT r = f32[] add(a, b) }"),
        "gathering started": program(
            "f32[24] all-gather-done(s)", (4, 1), [_values(f32, 4, 6)],
            before="s = (f32[6], f32[24]) all-gather-start(x0), replica_groups={}, dimensions={0}"),
        "permutation started": program(
            "f32[6] collective-permute-done(s)", (4, 1), [_values(f32, 4, 6)],
            before="s = (f32[6], f32[6]) collective-permute-start(x0), "
            "source_target_pairs={{0,1},{3,2},{1,3}}"),
        "reduced to one": program(
            "f32[6] collective-reduce(x0), replica_groups={{2,0},{1,3}}, to_apply=add", (4, 1),
            [_values(f32, 4, 6)]),
        "broadcast in groups": program(
            "f32[6] collective-broadcast(x0), replica_groups={{2,0}}", (4, 1),
            [_values(f32, 4, 6)]),
    }  # fmt: skip


PROGRAMS: dict[str, Program] = XLA | _made() | _awkward()
