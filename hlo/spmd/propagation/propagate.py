"""Sharding propagation as a whole: read what is annotated, propagate, annotate everything."""

from __future__ import annotations

from types import MappingProxyType

from hlo.ir import Instruction, Module
from hlo.spmd.mesh import mesh_for
from hlo.spmd.propagation.annotations import RESULTS, read_annotations, shardings_of
from hlo.spmd.propagation.choose import choose_shardings
from hlo.spmd.propagation.graph import build_graph
from hlo.spmd.propagation.manual import mark_manual
from hlo.spmd.propagation.result import Allow, PropagationResult, write
from hlo.spmd.propagation.rounds import propagate_shardings
from hlo.spmd.propagation.shardy import MESHES, ShardyReader, has_meshes


def _always(rule: str, inst: Instruction) -> bool:
    return True


def propagate(module: Module, allow: Allow = _always, *, by_cost: bool = True) -> PropagationResult:
    """Give each instruction of a module a sharding: its annotation, or one that follows from those.

    by_cost: choose what is not annotated by what it costs, where that is less than what propagates.

    Custom calls that only annotate are replaced by their operands. Afterwards the text of Shardy's
    shardings is gone: all of them are in the form of GSPMD.

    Raises HloError (`bad-sharding`, ...) for annotations that do not fit the devices or arrays.
    """
    replicas, partitions = module.device_counts
    if has_meshes(module):
        # Shardy leaves to propagation what has no sharding; closed results have one.
        module.attrs.setdefault(RESULTS, (True,))
        reader = ShardyReader(module)
        mesh = mesh_for(reader.shardings(), partitions, replicas)
        annotations = reader.annotations(mesh)
        _forget_meshes(module)
    else:
        mesh = mesh_for(shardings_of(module), partitions, replicas)
        annotations = read_annotations(module, mesh)
    graph = build_graph(module, mesh, annotations)
    mark_manual(module, graph)
    propagate_shardings(graph)
    if by_cost:
        choose_shardings(module, graph)
    return write(module, graph, allow)


def _forget_meshes(module: Module) -> None:
    notes = {k: v for k, v in module.attrs["frontend_attributes"].items() if k != MESHES}
    if notes:
        module.attrs["frontend_attributes"] = MappingProxyType(notes)
    else:
        del module.attrs["frontend_attributes"]
