"""GPUs as data: what the model of speed knows of them, and from where.

Rates are operations a clock of one multiprocessor, a multiplication with an addition counting as
two, and of dense tensor cores: what data sheets give with sparsity is halved. Where a maker says
nothing there is an estimate, and the sources say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from hlo.errors import HloError
from hlo.gpu.work import Unit

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class GpuModel:
    """A GPU.

    cpu: LLVM's name. memory_bytes: of the device. multiprocessors: SMs. clock_hz, tensor_clock_hz:
    boost, of tensor cores too. memory_bandwidth: bytes a second. l2_bytes_per_clock: of the whole
    device. threads, blocks, registers, shared_bytes: what a multiprocessor has room for.
    block_shared_bytes: the most of a block. rates: operations a clock of a multiprocessor.
    mma_share: which part of its tensor cores' rate `mma.sync` reaches, as others would need other
    instructions. launch_seconds: from the end of a kernel to the beginning of the next in a graph.
    latency_seconds: of an access to memory. sources: of each figure.
    """

    name: str
    cpu: str
    memory_bytes: int
    multiprocessors: int
    clock_hz: float
    tensor_clock_hz: float
    memory_bandwidth: float
    l2_bytes: int
    l2_bytes_per_clock: int
    threads: int
    blocks: int
    shared_bytes: int
    block_shared_bytes: int
    rates: Mapping[Unit, int] = field(hash=False)
    mma_share: float
    launch_seconds: float
    latency_seconds: float
    sources: Mapping[str, str] = field(hash=False, repr=False)
    registers: int = 65536
    shared_bytes_per_clock: int = 128

    def rate(self, unit: Unit) -> float:
        """Return the operations a second of a unit, in all multiprocessors; 0 if there is none."""
        clock = self.tensor_clock_hz if unit.is_tensor else self.clock_hz
        return self.multiprocessors * self.rates.get(unit, 0) * clock


_GUIDE = "CUDA C++ Programming Guide, Compute Capabilities: technical specifications"
_THROUGHPUT = "CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions"
_LAUNCH = (
    "NVIDIA Technical Blog, Getting Started with CUDA Graphs: 3.4 us for each kernel of 2.9 us in "
    "a graph on a V100; rounded up, an estimate for later ones"
)
_COMMON = {
    "threads, blocks, registers, shared_bytes": _GUIDE,
    "rates of special, integer": _THROUGHPUT,
    "shared_bytes_per_clock": "32 banks of 4 bytes; CUDA C++ Programming Guide, Shared Memory",
    "launch_seconds": _LAUNCH,
}
_AMPERE = "NVIDIA A100 Tensor Core GPU Architecture (white paper, 2020)"
_HOPPER = "NVIDIA H100 Tensor Core GPU Architecture (white paper, 2022) and data sheet"
_ADA = "NVIDIA Ada GPU Architecture (white paper, 2022)"

_A100 = GpuModel(
    "NVIDIA A100 SXM4 80GB", "sm_80", 80 * _GIB, 108, 1.41e9, 1.41e9, 2.039e12,
    40 * _MIB, 5120, 2048, 32, 164 * _KIB, 163 * _KIB,
    MappingProxyType({
        Unit.F32: 128, Unit.F64: 64, Unit.F16: 512, Unit.INTEGER: 64, Unit.SPECIAL: 16,
        Unit.TENSOR_F64: 128, Unit.TENSOR_TF32: 1024, Unit.TENSOR_F16: 2048, Unit.TENSOR_S8: 4096,
    }),
    1.0, 1.0e-6, 0.4e-6,
    MappingProxyType({
        **_COMMON,
        "multiprocessors, clocks, l2": _AMPERE,
        "rates": f"{_AMPERE}: 312 TFLOPS of f16 are 2048 a clock and multiprocessor",
        "memory_bytes, memory_bandwidth": "NVIDIA A100 data sheet, 80GB SXM",
        "mma_share": "1: mma.sync is what these tensor cores have",
        "latency_seconds": "an estimate: some 500 to 600 clocks",
    }),
)  # fmt: skip
_H100 = GpuModel(
    "NVIDIA H100 SXM5 80GB", "sm_90a", 80 * _GIB, 132, 1.98e9, 1.83e9, 3.35e12,
    50 * _MIB, 5120, 2048, 32, 228 * _KIB, 227 * _KIB,
    MappingProxyType({
        Unit.F32: 256, Unit.F64: 128, Unit.F16: 512, Unit.INTEGER: 64, Unit.SPECIAL: 16,
        Unit.TENSOR_F64: 256, Unit.TENSOR_TF32: 2048, Unit.TENSOR_F16: 4096, Unit.TENSOR_S8: 8192,
        Unit.TENSOR_F8: 8192,
    }),
    0.62, 1.0e-6, 0.5e-6,
    MappingProxyType({
        **_COMMON,
        "multiprocessors, clocks, l2_bytes": _HOPPER,
        "rates": f"{_HOPPER}: 989 TFLOPS of f16 at 1.83 GHz, 67 of f32 at 1.98 GHz",
        "memory_bytes, memory_bandwidth": "NVIDIA H100 data sheet, SXM",
        "l2_bytes_per_clock": "that of the A100: an estimate",
        "mma_share": "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture "
        "(2024): mma reaches some 62 % of what wgmma does",
        "latency_seconds": "an estimate: some 800 to 1000 clocks",
    }),
)  # fmt: skip
_H200 = replace(
    _H100, name="NVIDIA H200 SXM5 141GB", memory_bytes=141 * _GIB, memory_bandwidth=4.8e12,
    sources=MappingProxyType({
        **{what: source for what, source in _H100.sources.items() if "memory" not in what},
        "memory_bytes, memory_bandwidth": "NVIDIA H200 data sheet, SXM",
    }),
)  # fmt: skip
_RTX_4090 = GpuModel(
    "NVIDIA GeForce RTX 4090", "sm_89", 24 * _GIB, 128, 2.52e9, 2.52e9, 1.008e12,
    72 * _MIB, 2048, 1536, 24, 100 * _KIB, 99 * _KIB,
    MappingProxyType({
        Unit.F32: 256, Unit.F64: 4, Unit.F16: 256, Unit.INTEGER: 64, Unit.SPECIAL: 16,
        Unit.TENSOR_F64: 4, Unit.TENSOR_TF32: 256, Unit.TENSOR_F16: 512, Unit.TENSOR_S8: 2048,
        Unit.TENSOR_F8: 1024,
    }),
    1.0, 1.0e-6, 0.4e-6,
    MappingProxyType({
        **_COMMON,
        "memory_bytes, multiprocessors, clocks, l2_bytes, memory_bandwidth": _ADA,
        "rates": f"{_ADA}: 165 TFLOPS of f16 with sums in f32, 83 of tf32, 330 of f8 with sums in "
        "f32, 661 TOPS of s8",
        "rates of f64": f"{_THROUGHPUT}: 2 results a clock",
        "l2_bytes_per_clock": "an estimate: 16 bytes a clock and multiprocessor",
        "mma_share": "1: mma.sync is what these tensor cores have",
        "latency_seconds": "an estimate",
    }),
)  # fmt: skip

DEVICES: Mapping[str, GpuModel] = MappingProxyType(
    {"a100": _A100, "h100": _H100, "h200": _H200, "rtx4090": _RTX_4090}
)


def device_named(name: str) -> GpuModel:
    """Return the GPU of a name: `h100`, `rtx-4090`. Raises HloError for one that is not known."""
    found = DEVICES.get(name.lower().replace("-", "").replace(" ", "").replace("_", ""))
    if found is None:
        raise HloError.at(
            "bad-value", f"there is no device {name!r} in the model of speed",
            hint=f"one of {', '.join(DEVICES)}",
        )  # fmt: skip
    return found
