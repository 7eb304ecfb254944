"""Partitioning as a step of compilation: a module with shardings to the program of each device."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.analysis.devices import partitioned_at
from hlo.errors import HloError, InferError
from hlo.frontends.programs import takes_programs
from hlo.io.arguments import Parameter
from hlo.ir import Module
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.spmd.builder import Note, Reshard
from hlo.spmd.contract import Contract, contract_of
from hlo.spmd.custom_partitioning import expand_custom_partitioning
from hlo.spmd.mesh import DeviceMesh
from hlo.spmd.partitioner import partition_module
from hlo.spmd.propagation import propagate
from hlo.spmd.report import Report, entries_of, report_of
from hlo.support.signature import checked
from hlo.verifier import verify as verify_module

# Each call and loop has computations of its own, so that shardings of different uses do not meet.
# Sums of batches, and random numbers, are operations of their own, which can be cut.
_BEFORE = "defuser,flatten-call-graph,batchnorm-expander,rng-expander,dce"
_AFTER = "call-inliner,tuple-simplifier,cse,algsimp,dce"


@dataclass(frozen=True)
class Partition:
    """A partitioned module, and how it came about.

    Attributes:
        module: the program of each device, on shards.
        contract: the global parameters and result, and their shardings.
        mesh: the devices.
        notes: replications that could not be avoided.
        reshards: all changes of distribution.
        report: what was done for each instruction, as text (`str`) or JSON.

    >>> module = hlo.parse('''HloModule m, num_partitions=2 ENTRY e {
    ...   x = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}
    ...   ROOT y = f32[2,4] transpose(x), dimensions={1,0}, sharding={devices=[2,1]<=[2]} }''')
    >>> [(x.user, str(x.shape)) for x in hlo.partition(module).reshards]
    [('y', 'f32[4,2]{1,0}')]
    """

    module: Module
    contract: Contract
    mesh: DeviceMesh
    notes: tuple[Note, ...]
    reshards: tuple[Reshard, ...]
    report: Report

    @property
    def parameters(self) -> list[Parameter]:
        """The whole parameters, as input files and specs address them."""
        own = self.module.entry.parameters
        shapes = zip(own, self.contract.parameters, strict=True)
        return [Parameter(p.parameter_number, p.name, shape) for p, shape in shapes]


@takes_programs
@checked
def partition(module: Module, devices: int | None = None) -> Partition:
    """Partition a module by its shardings.

    Args:
        module: a valid module with shardings; it stays as it is.
        devices: how many it is for, all replicas together; by default as many as its header says.

    Raises:
        HloError: for an invalid module, and shardings that do not fit its partitions.

    >>> module = hlo.parse('''HloModule m, num_partitions=2 ENTRY e {
    ...   x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
    ...   ROOT y = f32[4] negate(x), sharding={devices=[2]<=[2]} }''')
    >>> hlo.partition(module).module.entry.root.shape
    <ArrayShape f32[2]{0}>
    """
    verify_module(module)
    module = module.clone()
    if devices is not None:
        _set_devices(module, devices)
    if (inst := partitioned_at(module)) is not None:
        raise HloError.at(
            "bad-sharding", f"{module.name} is partitioned already: {inst.name} is {inst.opcode} "
            "between partitions, outside of a manual computation",
            inst.span,
            "hlo-run --per-device runs it on shards",
        )  # fmt: skip
    run_pipeline(module, pipeline_of(_BEFORE))
    propagation = propagate(module)
    try:
        expand_custom_partitioning(module, lambda m: run_pipeline(m, pipeline_of(_BEFORE)))
        entries = entries_of(module, propagation.origins)
        program = partition_module(module)
    except InferError as e:
        raise HloError.at(e.code, e.message, hint=e.hint) from None
    run_pipeline(module, pipeline_of(_AFTER))
    contract = contract_of(module)
    assert contract is not None
    return Partition(
        module, contract, program.mesh, tuple(program.notes), tuple(program.reshards),
        report_of(program, entries),
    )  # fmt: skip


def _set_devices(module: Module, devices: int) -> None:
    """Make the partitions of a module so many that all its replicas take a number of devices.

    Raises HloError where the header has another number of partitions.
    """
    replicas, partitions = module.device_counts
    if devices < 1 or devices % replicas or partitions not in (1, devices // replicas):
        raise HloError.at(
            "bad-device", f"{module.name} is for {replicas} x {partitions} devices (replicas, "
            f"partitions), not for {devices}",
        )  # fmt: skip
    module.attrs["num_partitions"] = devices // replicas
