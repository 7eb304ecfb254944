"""Results of the entry: where they are written, and memory that one shares with an argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hlo.codegen.buffers import Buffer, Path, Place, Storage
from hlo.ir import Computation
from hlo.types import ArrayShape

if TYPE_CHECKING:
    from hlo.codegen.entry import EntryEmitter


def shared_parameter(
    comp: Computation, alias: tuple[int, Path] | None, leaf: ArrayShape
) -> Storage | None:
    """Return the parameter leaf that lies in the memory of an output of this shape, if one does."""
    if alias is None or not leaf.dims:
        return None
    number, path = alias
    parameter = comp.parameters[number]
    return (parameter, path) if parameter.shape.at(path) == leaf else None


def set_output_targets(
    e: EntryEmitter,
    comp: Computation,
    outputs: Mapping[Path, Buffer],
    shared: Mapping[Path, Storage],
) -> None:
    """Note which results are written where they belong as soon as they are computed.

    shared: the arguments that are in the memory of some outputs to begin with.
    """
    e.set_targets(comp, {p: buffer for p, buffer in outputs.items() if p not in shared})
    last = e.live.last_reads(comp) if shared else {}
    results = [e.live.of(comp.root, path) for path in outputs]
    for path, old in shared.items():
        stored = e.live.of(comp.root, path)
        maker, last_read = stored[0], last.get(old, 0)
        if (
            maker.parent is comp
            and old not in results
            and stored not in e.targets
            and (
                e.live.may_overwrite(maker, old, last_read)
                or e.live.begins_as(stored, old, last_read)
            )
        ):
            e.targets[stored] = outputs[path]


def deliver_outputs(e: EntryEmitter, comp: Computation, outputs: Mapping[Path, Buffer]) -> None:
    """Bring what is elsewhere to the outputs, as if all at once: some still hold arguments."""
    moves = []
    for path, buffer in outputs.items():
        leaf, value = comp.root.shape.at(path), e.value(comp.root, path)
        assert isinstance(leaf, ArrayShape)
        if not isinstance(value, Place):
            e.deliver(comp.root, path, leaf, buffer)
        elif value.buffer is not buffer:
            moves.append((value.buffer, buffer, leaf))
    e.assign(moves, e.live.body_end[comp])
