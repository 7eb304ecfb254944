"""The model of speed: occupancy, what bounds a kernel, what a program takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main

import hlo
from hlo.compiler.gpu_cost import gpu_cost
from hlo.gpu.model import DEVICES, Residents, device_named, estimate, occupancy
from hlo.gpu.model.registers import blocks_of, live_registers
from hlo.gpu.plan import Copy, HostCall, Launch, LaunchPlan, Place, Region, Step, Switch, While
from hlo.gpu.ptx import parse_ptx
from hlo.gpu.ptxas import Resources
from hlo.gpu.work import Unit, Work
from hlo.reports.gpu import GpuReport, gpu_report

H100 = DEVICES["h100"]
_SCALARS = Place(Region.SCALARS)


def _plan(*steps: Step) -> LaunchPlan:
    return LaunchPlan(steps, (), (), 0, 0, 0)


def _launch(work: Work, blocks: int = 1 << 16, threads: int = 256, shared: int = 0) -> Launch:
    return Launch("k", blocks, threads, (), shared, "k", work)


def _one(launch: Launch, registers: int = 32):  # type: ignore[no-untyped-def]
    found = estimate(_plan(launch), H100, {"k": Residents(launch.threads, registers)})
    return found.kernels[0]


@pytest.mark.parametrize(
    ("block", "blocks", "limit"),
    [
        (Residents(256, 32), 8, "threads"),
        (Residents(256, 64), 4, "registers"),
        (Residents(256, 65), 3, "registers"),
        (Residents(32, 16), 32, "blocks"),
        (Residents(128, 168), 3, "registers"),
        (Residents(128, 32, 100 << 10), 2, "shared memory"),
        (Residents(33, 16), 32, "threads"),
        (Residents(1024, 255), 0, "registers"),
        (Residents(32, 16, 228 << 10), 0, "shared memory"),
    ],
)
def test_occupancy_of_an_h100(block: Residents, blocks: int, limit: str) -> None:
    found = occupancy(block, H100)
    assert (found.blocks, found.limit) == (blocks, limit)


def test_devices_have_the_peaks_of_their_data_sheets() -> None:
    tera = {
        "a100": {Unit.F32: 19.5, Unit.TENSOR_F16: 312, Unit.TENSOR_TF32: 156, Unit.TENSOR_S8: 624},
        "h100": {Unit.F32: 67, Unit.TENSOR_F16: 989, Unit.TENSOR_TF32: 495, Unit.TENSOR_F8: 1979},
        "h200": {Unit.F32: 67, Unit.TENSOR_F16: 989, Unit.TENSOR_TF32: 495, Unit.TENSOR_F8: 1979},
        "rtx4090": {Unit.F32: 82.6, Unit.TENSOR_F16: 165, Unit.TENSOR_S8: 661},
    }
    for name, rates in tera.items():
        for unit, expected in rates.items():
            assert DEVICES[name].rate(unit) / 1e12 == pytest.approx(expected, rel=0.01)
    assert all(device.sources for device in DEVICES.values())


def test_devices_by_name() -> None:
    assert device_named("RTX-4090") is DEVICES["rtx4090"]
    with pytest.raises(hlo.HloError, match="there is no device 'h10'"):
        device_named("h10")


@pytest.mark.parametrize(
    ("work", "bound"),
    [
        (Work(global_bytes=1 << 30), "memory"),
        (Work(global_bytes=1 << 20, cached_bytes=1 << 32), "L2"),
        (Work(shared_bytes=1 << 36), "shared memory"),
        (Work(((Unit.F32, 1 << 40),)), "f32"),
        (Work(((Unit.TENSOR_F16, 1 << 40),)), "tensor f16"),
        (Work(global_bytes=1000), "launch"),
    ],
)
def test_what_bounds_a_kernel(work: Work, bound: str) -> None:
    kernel = _one(_launch(work))
    assert kernel.bound == bound
    assert kernel.seconds >= kernel.roof_seconds


def test_one_thread_is_slow() -> None:
    kernel = _one(_launch(Work(((Unit.F32, 1 << 20),)), 1, 1))
    assert kernel.bound == "f32, few threads"
    assert kernel.seconds > 1000 * kernel.roof_seconds


def test_blocks_that_leave_multiprocessors_idle_take_longer() -> None:
    work = Work(((Unit.TENSOR_F16, 1 << 40),))
    even, uneven = _one(_launch(work, 132)), _one(_launch(work, 133))
    assert even.tensor_peak_share == pytest.approx(H100.mma_share)
    assert uneven.tensor_peak_share == pytest.approx(H100.mma_share * 133 / 264)


def test_tensor_share_is_of_operations_in_rows_as_in_the_sum() -> None:
    few = _launch(Work(((Unit.TENSOR_F16, 300), (Unit.F32, 100)), 1 << 30), 132)
    kernel = _one(few)
    assert kernel.tensor_share == 0.75
    assert 0 < kernel.tensor_peak_share < 1e-6
    text = "f16[256,256] dot(f16[256,256] x, f16[256,256] y), lhs_contracting_dims={1}, " + (
        "rhs_contracting_dims={0}"
    )
    report = gpu_report(hlo.parse(text), "h100")
    found = report.as_dict()
    assert found["tensor_share"] == found["kernels"][0]["tensor_share"] > 0.5
    head, row = str(report).splitlines()[1:3]
    ops, peak = head.index("tensor ops"), head.index("tensor peak")
    shown = row[ops : peak - 2].strip()
    assert shown == f"{100 * found['tensor_share']:.0f} %"
    assert f", {shown} on tensor cores" in str(report)


def test_loops_branches_and_copies_count_by_how_often_they_run() -> None:
    launch = _launch(Work(global_bytes=1000))
    copy = Copy(_SCALARS, _SCALARS, 100)
    steps = (
        While((launch,), _SCALARS, (launch, copy), trips=10),
        Switch(_SCALARS, ((), (launch, launch))),
        HostCall(0, (), ()),
    )
    found = estimate(_plan(*steps), H100, {"k": Residents(256, 32)})
    assert (found.launches, found.copies, found.host_calls) == (12, 10, 1)
    assert found.global_bytes == 12 * 1000 + 2 * 10 * 100
    assert not found.is_exact
    unknown = estimate(_plan(replace(steps[0], trips=None)), H100, {"k": Residents(256, 32)})  # type: ignore[type-var]
    assert unknown.launches == 3


_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) .maxntid 128 {
  .reg .pred %p<2>; .reg .f32 %f<6>; .reg .b64 %rd<4>;
  .shared .align 16 .b8 tile[512];
  mov.u64 %rd3, tile;
  ld.param.u64 %rd1, [p];
  ld.global.f32 %f1, [%rd1];
  ld.global.f32 %f2, [%rd1+4];
  setp.lt.f32 %p1, %f1, %f2;
  @%p1 bra LAST;
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd1], %f3;
LAST:
  st.shared.f32 [%rd3], %f1;
  ret;
}
"""


def test_registers_are_estimated_by_what_is_live() -> None:
    kernel = parse_ptx(_PTX, "k").kernels["k"]
    assert live_registers(kernel) == 2 + 2 + 1 + 1
    assert blocks_of(_PTX)["k"] == Residents(128, 16, 512)


_TANH = "HloModule m ENTRY e { x = f32[1048576] parameter(0) ROOT y = f32[1048576] tanh(x) }"


def test_an_elementwise_module_reads_and_writes_memory_once() -> None:
    found = gpu_cost(hlo.parse(_TANH), H100).estimate
    assert (found.launches, found.global_bytes) == (1, 8 << 20)
    assert found.kernels[0].bound == "memory"
    assert 0.5 < found.roof_seconds / found.seconds < 1


def test_estimates_are_close_without_ptxas() -> None:
    with_, without = (gpu_cost(hlo.parse(_TANH), H100, asks_ptxas=a) for a in (True, False))
    assert without.resources is None
    assert without.estimate.seconds == pytest.approx(with_.estimate.seconds, rel=0.2)


def test_spills_are_warnings() -> None:
    cost = gpu_cost(hlo.parse(_TANH), H100, asks_ptxas=False)
    kernel = cost.estimate.kernels[0].launch.kernel
    spilled = replace(cost, resources={kernel: Resources(255, 64, 48, 16)})
    assert GpuReport(spilled).warnings == [f"{kernel}: 64 bytes of spilled registers"]


def test_modules_that_the_memory_has_no_room_for() -> None:
    text = "HloModule m ENTRY e {{ x = f32[{0}] parameter(0) ROOT y = f32[{0}] tanh(x) }}"
    small, large = (gpu_report(hlo.parse(text.format(n)), "a100") for n in (1 << 30, 12 << 30))
    assert (small.as_dict()["memory_bytes"], small.warnings) == (8 << 30, [])
    assert large.warnings == ["the module needs 96 GiB of memory, and the device has 80 GiB"]


def test_a_module_without_kernels_takes_no_time() -> None:
    found = gpu_report(hlo.parse("f32[0] sqrt(f32[0] x)"), "a100").as_dict()
    assert (found["launches"], found["seconds"], found["kernels"]) == (0, 0, [])


def test_the_command_prints_kernels_beside_instructions(tmp_path: Path) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(_TANH)
    flags = [str(file), "--cost", "--device", "h200"]
    told = CliRunner().invoke(main, flags)
    assert told.exit_code == 0, told.output
    assert " tanh" in told.output and "launches       1" in told.output
    assert "warning" not in told.output
    assert "NVIDIA H200 SXM5 141GB, estimated" in told.output
    found = json.loads(CliRunner().invoke(main, [*flags, "--json"]).output)
    assert found["device"]["kernels"][0]["bytes"] == 8 << 20
    told = CliRunner().invoke(main, [str(file), "--device", "h200"])
    assert told.exit_code == 2 and "--device requires --cost or --report FILE.html." in told.output


_SUM = "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"


def test_launches_of_one_instruction_share_its_work_by_their_threads() -> None:
    module = hlo.parse(
        f"HloModule m {_SUM} ENTRY e {{ x = f32[1048576] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[1048576] reduce-window(x, z), window={size=1048576 pad=1048575_0}, "
        "to_apply=s }"
    )
    found = gpu_cost(module, H100, asks_ptxas=False).estimate
    launches = [k.launch for k in found.kernels]
    assert len(launches) == 2
    threads = [x.blocks * x.threads for x in launches]
    for launch, own in zip(launches, threads, strict=True):
        share = launch.work.global_bytes / (8 << 20)
        assert share == pytest.approx(own / sum(threads), rel=0.01)
    assert found.roof_seconds == pytest.approx((8 << 20) / H100.memory_bandwidth, rel=0.05)


def test_prefix_sums_take_linear_time() -> None:
    module = hlo.parse(
        f"HloModule m {_SUM} ENTRY e {{ x = f32[65536] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[65536] reduce-window(x, z), window={size=65536 pad=65535_0}, to_apply=s }"
    )
    found = gpu_cost(module, H100, asks_ptxas=False).estimate
    assert sum(found.operations.values()) < 4 * 65536
