"""Compare simulated runs with measured ones of 2 to 8 devices, threads of this process.

    python bench/scaling.py [--devices 2,4,8] [--repeat N] [--json FILE]

What the simulator needs to know of this machine is measured first, with programs of one kind: a
chain of products on all devices at once (operations per second of each), a chain of elementwise
operations (bytes per second), and all-reduces of few and of many bytes (latency and bandwidth).
Then whole programs run, and are simulated with those numbers. Devices share the cores: with more of
them than cores, each computes at a part of the speed, which the measured peaks include.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hlo
from hlo.analysis.simulation.machine import Machine
from hlo.analysis.simulation.simulator import Simulation, simulate
from hlo.analysis.simulation.topology import Links, topology_named

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
ITERATIONS = 8


def looped(devices: int, state: str, body: str, parameters: str, others: str = "") -> str:
    """Return a module that runs a body ITERATIONS times on a value `x`, and on `others`.

    state: the shape of x. body: ends in the instruction `y`, the next x. parameters: shapes of w0,
    w1, ..., separated by blanks, which stay the same.
    """
    weights = parameters.split()
    shapes = ", ".join(["s32[]", state, *weights])
    given = "\n".join(f"  w{n} = {w} get-tuple-element(s), index={n + 2}"
                      for n, w in enumerate(weights))  # fmt: skip
    names = "".join(f", w{n}" for n in range(len(weights)))
    arguments = "\n".join(f"  w{n} = {w} parameter({n + 1})" for n, w in enumerate(weights))
    return f"""HloModule bench, num_partitions={devices}
{ADD}
{others}
body {{
  s = ({shapes}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {state} get-tuple-element(s), index=1
{given}
  one = s32[] constant(1)
  j = s32[] add(i, one)
{body}
  ROOT t = ({shapes}) tuple(j, y{names})
}}
test {{
  s = ({shapes}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({ITERATIONS})
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY main {{
  x = {state} parameter(0)
{arguments}
  zero = s32[] constant(0)
  t = ({shapes}) tuple(zero, x{names})
  w = ({shapes}) while(t), condition=test, body=body
  ROOT r = {state} get-tuple-element(w), index=1
}}
"""


def _all(devices: int, channel: int = 1) -> str:
    group = ",".join(map(str, range(devices)))
    return f"channel_id={channel}, replica_groups={{{{{group}}}}}, use_global_device_ids=true"


def products() -> str:
    return looped(1, "f32[256,256]", f"  y = f32[256,256] dot(x, w0), {DOT}", "f32[256,256]")


def elementwise() -> str:
    return looped(1, "f32[1048576]", "  y = f32[1048576] add(x, w0)", "f32[1048576]")


def reduced(devices: int, elements: int) -> str:
    shape = f"f32[{elements}]"
    return looped(devices, shape, f"  y = {shape} all-reduce(x), {_all(devices)}, to_apply=add", "")


def tensor_parallel(devices: int) -> str:
    """Layers of two products whose weights are cut between the devices."""
    inner = 1024 // devices
    body = f"""  h = f32[128,{inner}] dot(x, w0), {DOT}
  zero = f32[] constant(0)
  zeros = f32[128,{inner}] broadcast(zero), dimensions={{}}
  a = f32[128,{inner}] maximum(h, zeros)
  p = f32[128,256] dot(a, w1), {DOT}
  y = f32[128,256] all-reduce(p), {_all(devices)}, to_apply=add"""
    return looped(devices, "f32[128,256]", body, f"f32[256,{inner}] f32[{inner},256]")


def data_parallel(devices: int) -> str:
    """Gradients of a batch that is cut between the devices, added up on all."""
    batch = 512 // devices
    body = f"""  h = f32[{batch},256] dot(w0, x), {DOT}
  a = f32[{batch},256] tanh(h)
  g = f32[256,256] dot(w0, a), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  r = f32[256,256] all-reduce(g), {_all(devices)}, to_apply=add
  y = f32[256,256] subtract(x, r)"""
    return looped(devices, "f32[256,256]", body, f"f32[{batch},256]")


def fully_sharded(devices: int) -> str:
    """An array that each device has a part of, gathered for each use."""
    rows = 256 // devices
    body = f"""  w = f32[256,256] all-gather(x), {_all(devices)}, dimensions={{0}}
  h = f32[{rows},256] dot(x, w), {DOT}
  p = f32[{rows},256] dot(h, w0), {DOT}
  y = f32[{rows},256] tanh(p)"""
    return looped(devices, f"f32[{rows},256]", body, "f32[256,256]")


def ring(devices: int) -> str:
    """Blocks that go around while each device multiplies the one that it has."""
    pairs = ",".join(f"{{{n},{(n + 1) % devices}}}" for n in range(devices))
    body = f"""  h = f32[256,256] dot(x, w0), {DOT}
  y = f32[256,256] collective-permute(h), channel_id=1, source_target_pairs={{{pairs}}}"""
    return looped(devices, "f32[256,256]", body, "f32[256,256]")


def experts(devices: int) -> str:
    """Tokens that change to the devices of their experts, and back."""
    group = ",".join(map(str, range(devices)))
    swap = f"replica_groups={{{{{group}}}}}, dimensions={{0}}"
    body = f"""  d = f32[512,128] all-to-all(x), channel_id=1, {swap}
  h = f32[512,128] dot(d, w0), {DOT}
  y = f32[512,128] all-to-all(h), channel_id=2, {swap}"""
    return looped(devices, "f32[512,128]", body, "f32[128,128]")


PROGRAMS = {
    "tensor parallel": tensor_parallel,
    "data parallel": data_parallel,
    "fully sharded": fully_sharded,
    "ring": ring,
    "experts": experts,
}


def runner(text: str, devices: int) -> Callable[[], None]:
    """Return a function that runs a program on devices at the same time."""
    module = hlo.parse(text)
    counts = module.device_counts
    client = hlo.Client(device_count=devices, threads=1)
    random = np.random.default_rng(0)
    arguments = [
        [(random.standard_normal(p.array_shape.dims) * 0.01).astype(np.float32)
         for p in module.entry.parameters]
        for _ in range(devices)
    ]  # fmt: skip
    program = client.compile(module)

    def run() -> None:
        if counts == (1, 1):  # independent runs, at the same time
            client.execute_parallel([(program, args) for args in arguments])
        else:
            client.execute_replicated(program, arguments)

    run()
    return run


def measured(texts: Mapping[str, str], devices: int, repeat: int) -> dict[str, float]:
    """Return the median seconds of each program.

    They run in turns, so that whatever else the machine does hits all alike.
    """
    runs = {name: runner(text, devices) for name, text in texts.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: median(some) for name, some in times.items()}


FEW, MANY = 16, 1 << 20


def probes(devices: int) -> dict[str, str]:
    """Return the programs that show what a device reaches here."""
    return {
        "nothing": looped(1, "f32[4]", "  y = f32[4] negate(x)", ""),
        "products": products(),
        "elementwise": elementwise(),
        "few bytes": reduced(devices, FEW),
        "many bytes": reduced(devices, MANY),
    }


def peaks(devices: int, took: Mapping[str, float]) -> tuple[Machine, Links]:
    """Return what a device of so many reaches here, by the seconds that the probes took."""
    start = took["nothing"]
    machine = Machine(
        flops=ITERATIONS * 2 * 256**3 / max(took["products"] - start, 1e-9),
        memory_bandwidth=ITERATIONS * 12 * 2**20 / max(took["elementwise"] - start, 1e-9),
    )
    small, large = ((took[n] - start) / ITERATIONS for n in ("few bytes", "many bytes"))
    # Either half of an all-reduce has as many rounds as it takes to double up to all devices.
    rounds = 2 * (devices - 1).bit_length()
    sent = 2 * (devices - 1) / devices * 4 * MANY
    links = Links(bandwidth=sent / max(large - small, 1e-9), latency=max(small, 0.0) / rounds)
    return machine, links


def simulated(text: str, devices: int, machine: Machine, links: Links) -> Simulation:
    module = hlo.optimize(hlo.parse(text))
    return simulate(module, topology_named("switch", devices, links), machine)


def main() -> None:
    """Print measured and simulated times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="2,4,8")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for devices in map(int, options.devices.split(",")):
        texts = {name: make(devices) for name, make in PROGRAMS.items()}
        took = measured(probes(devices) | texts, devices, options.repeat)
        machine, links = peaks(devices, took)
        print(f"{devices} devices: {machine}, {topology_named('switch', devices, links)}")
        for name, text in texts.items():
            run = simulated(text, devices, machine, links)
            rows.append({"devices": devices, "program": name, "measured": took[name],
                         "simulated": run.seconds, "communicating": run.communicating})  # fmt: skip
            print(
                f"  {name:16} measured {took[name] * 1e3:8.2f} ms  simulated "
                f"{run.seconds * 1e3:8.2f} ms, {run.communicating * 1e3:.2f} ms of it communicating"
                f"  ratio {run.seconds / took[name]:.2f}",
                flush=True,
            )
    ratios = [row["simulated"] / row["measured"] for row in rows]
    print(f"geometric mean of the ratios {np.exp(np.mean(np.log(ratios))):.2f}, "
          f"from {min(ratios):.2f} to {max(ratios):.2f}")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
