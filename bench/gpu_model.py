"""Print what the timed programs take on a GPU by the model of speed, and check what is expected.

    python bench/gpu_model.py [CASE ...] [--device h100]

For each case: launches and copies of a run, bytes of memory, the share of the operations that
tensor cores do, the estimated time, the roof (the device at its full rates, without launches), and
what bounds the kernel that takes longest. Then the exceptions to two rules:

- Elementwise chains and reductions need no more launches than their data forces: a kernel for each
  value that other blocks wait for. So an elementwise kernel that only such kernels read is one too
  many, a reduction takes one launch, and no launch computes scalars.
- Products of 1024 and more in each dimension keep tensor cores busy for 60 % of the time, at the
  rate that the instructions that are used have.

Exits with 1 if a case does not compile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from cases import CASES, export

import hlo
from hlo.analysis.fusion.operations import is_multi_output, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.codegen.launches.program import GpuProgram, write_launches
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.gpu_cost import GpuCost, cost_of_program
from hlo.compiler.lowering import Clock, plan
from hlo.gpu.model import Estimate, GpuModel, device_named
from hlo.gpu.plan import Launch
from hlo.ir import Instruction

LEAST_SHARE, LARGE = 0.6, 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--device", default="h100")
    options = parser.parse_args()
    device = device_named(options.device)
    print(f"{device.name}, estimated")
    print(
        f"{'case':28}{'launches':>9}{'copies':>7}{'MB':>10}{'tensor':>8}{'us':>10}{'roof us':>10}"
        "  bound by"
    )
    exceptions: list[str] = []
    failed = 0
    for name in options.cases or CASES:
        try:
            exceptions += report(name, device)
        except hlo.HloError as e:
            failed += 1
            print(f"{name:28}  {e.diagnostics[0].message[:90]}", flush=True)
    print(f"\n{len(exceptions)} exceptions" + "".join(f"\n  {line}" for line in exceptions))
    return 1 if failed else 0


def report(name: str, device: GpuModel) -> list[str]:
    """Print the line of a case; returns where it is not as expected."""
    gpu = Nvptx(device.cpu)
    planned = plan(hlo.parse(export(name)[0]), gpu, Clock())
    program = write_launches(planned, gpu)
    cost = cost_of_program(name, program, device)
    total = cost.estimate
    longest = max(total.kernels, key=lambda k: k.runs * k.seconds, default=None)
    more = " " if total.is_exact else "+"
    print(
        f"{name:28}{total.launches:8}{more}{total.copies:7}{total.global_bytes / 1e6:10.2f}"
        f"{100 * total.tensor_share:7.0f}%{1e6 * total.seconds:10.1f}"
        f"{1e6 * total.roof_seconds:10.1f}  {longest.bound if longest else ''}",
        flush=True,
    )
    found = [*spilled(cost), *unforced(planned, program), *slow_products(program, total)]
    return [f"{name}: {line}" for line in found]


def spilled(cost: GpuCost) -> Iterator[str]:
    for kernel, size in cost.spills.items():
        yield f"{kernel} spills {size} bytes"


# --- launches -----------------------------------------------------------------------------------


def unforced(planned: PlannedProgram, program: GpuProgram) -> Iterator[str]:
    """Yield the launches of elementwise chains and reductions that no dependence forces."""
    kernels = [i for i, role in planned.roles.items() if role is Role.KERNEL]
    counts: dict[str, int] = {}
    for launch in program.plan.launches:
        counts[launch.instruction] = counts.get(launch.instruction, 0) + 1
    simple = {k for k in kernels if is_simple(k) and not has_product(k, planned)}
    for kernel in kernels:
        launches = counts.get(kernel.name, 0)
        if kernel not in simple:
            continue
        if launches > 1:
            yield f"{kernel.name} ({kernel.opcode}) takes {launches} launches, not 1"
        readers = readers_of(kernel, planned)
        if is_on_demand(kernel) and readers and readers <= simple:
            names = ", ".join(sorted(r.name for r in readers))
            yield f"{kernel.name} ({kernel.opcode}) is stored for {names}"
    if len(simple) == len(kernels) and counts.get("", 0):
        yield f"{counts['']} launches compute scalars"


def is_simple(inst: Instruction) -> bool:
    """True for kernels that are elementwise, or reduce what is."""
    return is_multi_output(inst) or is_on_demand(inst) or inst.opcode == "reduce"


def has_product(inst: Instruction, planned: PlannedProgram) -> bool:
    """True for kernels that end a product, which is fused into them."""
    stack = [*inst.operands]
    seen = set(stack)
    while stack:
        operand = stack.pop()
        if planned.roles.get(operand) is Role.FUSED:
            if operand.opcode in ("dot", "convolution"):
                return True
            stack += [x for x in operand.operands if x not in seen]
            seen.update(operand.operands)
    return False


def readers_of(inst: Instruction, planned: PlannedProgram) -> set[Instruction]:
    """Return the kernels that read a value, by what is fused into them.

    None if something else does: the result of a computation, a loop or a branch.
    """
    found: set[Instruction] = set()
    stack = [inst]
    while stack:
        value = stack.pop()
        if value.is_root:
            return set()
        for user in value.users:
            role = planned.roles.get(user)
            if role is Role.KERNEL:
                found.add(user)
            elif role is Role.FUSED:
                stack.append(user)
            else:
                return set()
    return found


# --- products -----------------------------------------------------------------------------------


def slow_products(program: GpuProgram, total: Estimate) -> Iterator[str]:
    """Yield large products that do not keep tensor cores busy."""
    seen = set()
    for kernel in total.kernels:
        launch = kernel.launch
        inst = program.instructions.get(launch.kernel)
        if inst is None or not is_large_product(inst) or is_minor(launch):
            continue
        if launch.kernel in seen:
            continue
        seen.add(launch.kernel)
        share = kernel.tensor_peak_share / total.device.mma_share
        if share < LEAST_SHARE:
            yield (
                f"{inst.name} {inst.shape}: {100 * share:.0f} % of the tensor cores' rate, "
                f"{kernel.bound}, {launch.blocks} blocks of {launch.threads}"
            )


def is_minor(launch: Launch) -> bool:
    """True for a launch that only moves operands of a product."""
    return not launch.work.all_operations


def is_large_product(inst: Instruction) -> bool:
    if inst.opcode != "dot":
        return False
    lhs, rhs = (x.array_shape for x in inst.operands[:2])
    batch, over = set(inst.lhs_batch_dims), set(inst.lhs_contracting_dims)
    m = n = k = 1
    for d, size in enumerate(lhs.dims):
        if d in over:
            k *= size
        elif d not in batch:
            m *= size
    for d, size in enumerate(rhs.dims):
        if d not in inst.rhs_batch_dims and d not in inst.rhs_contracting_dims:
            n *= size
    return min(m, n, k) >= LARGE


if __name__ == "__main__":
    sys.exit(main())
