"""How many devices a module runs on."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ops import Trait
from hlo.ops.collective.device_groups import exchanges, names_devices
from hlo.values.sharding import NamedSharding, TiledSharding, TupleSharding, WholeSharding


def devices_of(module: Module) -> tuple[int, int]:
    """Return the numbers of replicas and of partitions that a run of a module needs.

    Those of its header if the module communicates between devices or uses their ids. Otherwise
    one and one: a program that is only annotated for partitioning describes whole arrays, and
    replicas that never communicate are independent runs.
    """
    counts = module.device_counts
    if counts == (1, 1):
        return counts
    tells = any(_tells_devices_apart(inst, counts) for inst in module.instructions())
    return counts if tells else (1, 1)


def unused_devices(module: Module) -> str:
    """Return the device annotations of a module that runs on one device regardless, or ""."""
    replicas, partitions = module.device_counts
    if devices_of(module) != (1, 1):
        return ""
    said = [
        f"replica_count={replicas}" if replicas > 1 else "",
        f"num_partitions={partitions}" if partitions > 1 else "",
        "shardings" if any(map(_is_cut, module.instructions())) else "",
    ]
    return ", ".join(filter(None, said))


def needs_partitioning(module: Module) -> bool:
    """True for a module on whole arrays whose shardings distribute them over its partitions.

    Not for one that a compiler has partitioned and left shardings in, as XLA does.
    """
    if module.device_counts[1] == 1 or module.is_scheduled:
        return False
    says = any(_is_cut(inst) or _is_manual(inst) for inst in module.instructions())
    return says and partitioned_at(module) is None


def has_manual_computation(module: Module) -> bool:
    """True where some of a module is written per device: on one device alone it has no meaning."""
    return any(map(_is_manual, module.instructions()))


def partitioned_at(module: Module) -> Instruction | None:
    """Return an instruction by which a module is the program of one partition already.

    It exchanges data with other partitions, or is the number of its own, and no part of the program
    is said to be manual.
    """
    _, partitions = module.device_counts
    found = None
    for inst in module.instructions():
        if _is_manual(inst):
            return None
        if found is None and partitions > 1 and _tells_partitions_apart(inst, partitions):
            found = inst
    return found


def _is_manual(inst: Instruction) -> bool:
    """True where a program begins to be written per device: GSPMD's mark, or Shardy's."""
    target = inst.attrs.get("custom_call_target", "")
    return (
        target in ("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape")
        or "xla.sdy.manual_axes" in inst.annotations.get("frontend_attributes", ())
    )  # fmt: skip


def _tells_partitions_apart(inst: Instruction, partitions: int) -> bool:
    if inst.opcode == "partition-id":
        return True
    if not inst.spec.has(Trait.COLLECTIVE) or inst.channel_id is None:
        return False
    return _tells_devices_apart(inst, (1, partitions))


def _is_cut(inst: Instruction) -> bool:
    """True for a value that is distributed over several devices, or is a sum of what they have."""
    sharding = inst.annotations.get("sharding")
    parts = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
    return any(
        (
            isinstance(part, TiledSharding)
            and (max(part.tiles, default=1) > 1 or "unreduced" in part.subgroups)
        )
        or (isinstance(part, NamedSharding) and (part.unreduced or any(d.axes for d in part.dims)))
        or (isinstance(part, WholeSharding) and part.kind == "unreduced")
        for part in parts
    )


def _tells_devices_apart(inst: Instruction, counts: tuple[int, int]) -> bool:
    if inst.spec.has(Trait.DEVICE_ID) or names_devices(inst):
        return True
    has_groups = "replica_groups" in inst.attrs or "source_target_pairs" in inst.attrs
    return inst.spec.has(Trait.COLLECTIVE) and has_groups and exchanges(inst, counts)
