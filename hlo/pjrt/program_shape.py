"""What is known of a program without its module: what a device takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hlo.pjrt.devices import KIND_IDS
from hlo.pjrt.entries import PjrtError
from hlo.values.shape_text import parse_shape
from hlo.values.types import Shape

if TYPE_CHECKING:
    from hlo.ir import Module


@dataclass(frozen=True)
class ProgramShape:
    """The arguments and results of the program of a device: arrays and tokens.

    donated: the arguments that are gone after a run. aliases: by the number of a result, the
    argument whose memory it takes. argument_kinds, result_kinds: of memory. argument_shardings,
    result_shardings: as HLO's text has them, None for a program that is not partitioned.
    """

    name: str
    arguments: tuple[Shape, ...]
    results: tuple[Shape, ...]
    donated: tuple[int, ...]
    aliases: dict[int, int]
    argument_kinds: tuple[int, ...]
    result_kinds: tuple[int, ...]
    argument_shardings: tuple[str, ...] | None
    result_shardings: tuple[str, ...] | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        texts = {side: [s.to_string() for s in getattr(self, side)] for side in _SIDES}
        return {**vars(self), **texts, "aliases": list(self.aliases.items())}

    @staticmethod
    def from_json(fields: dict[str, Any]) -> ProgramShape:
        """Return what `to_json` was made of."""
        found: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()
        }
        shapes = {side: tuple(map(parse_shape, fields[side])) for side in _SIDES}
        return ProgramShape(**{**found, **shapes, "aliases": dict(fields["aliases"])})


_SIDES = ("arguments", "results")


def shape_of(module: Module, is_partitioned: bool) -> ProgramShape:
    """Return what a module for each device takes and gives. Raises PjrtError."""
    from hlo.spmd.contract import contract_of

    parameters, result = module.program_shapes
    places = [(n, path, s) for n, p in enumerate(parameters) for path, s in p.leaves()]
    numbers = {(n, path): number for number, (n, path, _) in enumerate(places)}
    outputs = {path: n for n, (path, _) in enumerate(result.leaves())}
    shared = module.attrs.get("input_output_alias", ())
    given = [(a.parameter, a.index) for a in shared]
    given += [(d.parameter, d.index) for d in module.attrs.get("buffer_donor", ())]
    contract = contract_of(module) if is_partitioned else None
    notes = module.attrs.get("frontend_attributes", {})
    return ProgramShape(
        module.name,
        tuple(s for _, _, s in places),
        tuple(s for _, s in result.leaves()),
        tuple(sorted({numbers[place] for place in given if place in numbers})),
        {outputs[a.output]: numbers[a.parameter, a.index] for a in shared},
        _kinds(notes.get("parameter_memory_kinds"), len(places)),
        _kinds(notes.get("result_memory_kinds"), len(outputs)),
        None if contract is None else tuple(map(str, contract.parameter_shardings)),
        None if contract is None else tuple(map(str, contract.result_shardings)),
    )


def _kinds(said: str | None, count: int) -> tuple[int, ...]:
    """Return the kinds of memory in an attribute of a module. Raises PjrtError."""
    names: Sequence[str] = said.split(",") if said else []
    unknown = [name for name in names if name not in KIND_IDS]
    if unknown:
        raise PjrtError("INVALID_ARGUMENT", f"there is no kind of memory {unknown[0]!r}")
    # Those of a program that JAX has not written are in the usual one.
    return tuple(KIND_IDS[n] for n in names) if len(names) == count else (0,) * count
