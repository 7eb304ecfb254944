"""How long a module takes on a GPU that need not be here: planned, written as PTX, estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo.codegen.launches.program import GpuProgram, write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.lowering import Clock, plan
from hlo.gpu.model import Estimate, GpuModel, Residents, estimate
from hlo.gpu.model.registers import blocks_of
from hlo.gpu.ptxas import Resources, assemble, find_ptxas
from hlo.ir import Module
from hlo.runtime.assembly import assembly_of


@dataclass(frozen=True)
class GpuCost:
    """A run of a module on a GPU, estimated.

    memory_bytes: of the device that it takes, for arguments and results, too. resources: what ptxas
    says of each kernel; None where there is no ptxas, and registers are estimated by what is live
    in the PTX.
    """

    module: str
    estimate: Estimate
    memory_bytes: int
    resources: Mapping[str, Resources] | None

    @property
    def spills(self) -> dict[str, int]:
        """Bytes of registers that are spilled to memory, of the kernels with any."""
        found = {
            name: taken.spill_store_bytes + taken.spill_load_bytes
            for name, taken in (self.resources or {}).items()
        }
        return {name: size for name, size in found.items() if size}


def gpu_cost(
    module: Module, device: GpuModel, *, passes: str = "default", verify: str = "strict",
    asks_ptxas: bool = True,
) -> GpuCost:  # fmt: skip
    """Return what a run of a module takes on a GPU, by the model of speed.

    passes, verify: as for `hlo.compile`. asks_ptxas: for registers, where there is one. Raises
    HloError for what the GPU cannot run.
    """
    gpu = Nvptx(device.cpu)
    planned = plan(module, gpu, Clock(), passes=passes, verify=verify)
    return cost_of_program(module.name, write_launches(planned, gpu), device, asks_ptxas=asks_ptxas)


def cost_of_program(
    name: str, program: GpuProgram, device: GpuModel, *, asks_ptxas: bool = True
) -> GpuCost:
    """Return what a run of a program takes on the GPU that it was written for, as `gpu_cost`."""
    code = assembly_of(program.module, device.cpu) if program.plan.launches else ""
    resources: Mapping[str, Resources] | None = None
    if not code:
        blocks: Mapping[str, Residents] = {}
    elif asks_ptxas and find_ptxas() is not None:
        resources = assemble(code, device.cpu).resources
        blocks = {n: Residents(1, r.registers, r.shared_bytes) for n, r in resources.items()}
    else:
        blocks = blocks_of(code)
    return GpuCost(
        name, estimate(program.plan, device, blocks), program.plan.memory_bytes, resources
    )
