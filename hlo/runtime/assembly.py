"""LLVM IR to assembly text: PTX, and what else GPUs are programmed in."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from hlo.errors import HloError
from hlo.llvm import LlvmModule


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _target_machine(triple: str, cpu: str, level: int) -> llvm.TargetMachine:
    _initialize()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=level)


def assembly_of(module: LlvmModule, cpu: str) -> str:
    """Return the assembly of a module for a GPU. cpu: LLVM's name of the model.

    Raises HloError for what LLVM does not accept.
    """
    machine = _target_machine(module.target_triple, cpu, 2)
    return str(machine.emit_assembly(_optimized(module, machine)))


def optimized_text(module: LlvmModule, cpu: str) -> str:
    """Return the LLVM IR that `assembly_of` makes assembly of. Raises HloError as it does."""
    return str(_optimized(module, _target_machine(module.target_triple, cpu, 2)))


def _optimized(module: LlvmModule, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        parsed = llvm.parse_assembly(module.to_text())
    except RuntimeError as e:
        raise HloError.at("internal", f"LLVM rejects the kernels: {e}") from e
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(parsed, builder)
    return parsed
