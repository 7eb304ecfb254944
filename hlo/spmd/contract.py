"""What a partitioned module takes and gives as a whole: global shapes and their shardings.

They are kept in the module's `frontend_attributes`, so that its text says them: per leaf of the
parameters and of the result a sharding, as HLO writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.errors import HloError, TextError
from hlo.ir import Module
from hlo.values.arrays import DynamicArray, actual
from hlo.values.scan import Scanner
from hlo.values.shape_text import read_shape
from hlo.values.sharding import Sharding, TupleSharding, WholeSharding
from hlo.values.sharding.shards import assembled, shard_dims, shard_of
from hlo.values.sharding.text import read_sharding
from hlo.values.types import ArrayShape, Shape, TupleShape

_SHAPES = "spmd_global_shapes"
_PARAMETERS = "spmd_parameters_shardings"
_RESULT = "spmd_output_sharding"
REPLICATED = WholeSharding("replicated")


@dataclass(frozen=True)
class Contract:
    """The global parameters and result of a partitioned module.

    Attributes:
        parameters: shapes of the whole parameters.
        parameter_shardings: of the leaves of all parameters, in order.
        result: shape of the whole result.
        result_shardings: of its leaves.
    """

    parameters: tuple[Shape, ...]
    parameter_shardings: tuple[Sharding, ...]
    result: Shape
    result_shardings: tuple[Sharding, ...]

    def record(self, module: Module) -> None:
        """Write the contract into a module's header."""
        attributes = dict(module.attrs.get("frontend_attributes", {}))
        shapes = ", ".join(str(s) for s in self.parameters)
        attributes[_SHAPES] = f"({shapes})->{self.result}"
        attributes[_PARAMETERS] = _text(self.parameter_shardings)
        attributes[_RESULT] = _text(self.result_shardings)
        module.attrs["frontend_attributes"] = attributes

    def named_results(self) -> dict[str, tuple[Shape, Sharding]]:
        """Return shape and sharding of each array of the result, by its name, `out0`, ..."""
        leaves = [s for _, s in self.result.leaves()]
        pairs = zip(leaves, self.result_shardings, strict=True)
        arrays = [pair for pair in pairs if not pair[0].is_token]
        return {f"out{n}": pair for n, pair in enumerate(arrays)}

    def split(self, values: Sequence[Any], device: int) -> list[Any]:
        """Return what a device, by its partition's number, has of global arguments."""
        shardings = iter(self.parameter_shardings)
        return [
            _map_leaves(shape, value, lambda s, v: _shard(v, next(shardings), device))
            for shape, value in zip(self.parameters, values, strict=True)
        ]

    def join(self, results: Mapping[int, Any]) -> Any:
        """Return the global result from those of devices, by their partition's numbers."""
        leaves = {d: list(_leaves(self.result, r)) for d, r in results.items()}
        number = iter(range(len(self.result_shardings)))

        def join_leaf(shape: Shape, value: Any) -> Any:
            n = next(number)
            shards = {d: parts[n] for d, parts in leaves.items()}
            return join_shards(shape, self.result_shardings[n], shards)

        return _map_leaves(self.result, results[min(results)], join_leaf)


def join_shards(shape: Shape, sharding: Sharding, shards: Mapping[int, Any]) -> Any:
    """Return one leaf of a result from the shards of devices; of what is no array, any one.

    shape: of the whole leaf.
    """
    first = shards[min(shards)]
    if not isinstance(shape, ArrayShape):
        return first
    # What is not cut may be smaller than the shape says: its size is known when it runs.
    local, sizes = shard_dims(sharding, shape.dims), actual(first).shape
    dims = tuple(
        size if cut != size else found
        for size, cut, found in zip(shape.dims, local, sizes, strict=True)
    )
    return assembled({d: actual(shard) for d, shard in shards.items()}, sharding, dims)


def _map_leaves(shape: Shape, value: Any, f: Callable[[Shape, Any], Any]) -> Any:
    if isinstance(shape, TupleShape):
        parts = zip(shape.elements, value, strict=True)
        return tuple(_map_leaves(s, v, f) for s, v in parts)
    return f(shape, value)


def _leaves(shape: Shape, value: Any) -> Iterator[Any]:
    if isinstance(shape, TupleShape):
        for s, v in zip(shape.elements, value, strict=True):
            yield from _leaves(s, v)
    else:
        yield value


def _shard(value: Any, sharding: Sharding, device: int) -> Any:
    if not isinstance(value, np.ndarray | DynamicArray):
        return value
    return shard_of(actual(value), sharding, device)


def contract_of(module: Module) -> Contract | None:
    """Return the contract in a module's header; None of a module that is not partitioned.

    Raises HloError for one that cannot be read.
    """
    attributes = module.attrs.get("frontend_attributes", {})
    if any(key not in attributes for key in (_SHAPES, _PARAMETERS, _RESULT)):
        return None
    try:
        s = Scanner(attributes[_SHAPES])
        parameters = tuple(read_shape(s) for _ in s.items("(", ")"))
        s.expect("->")
        result = read_shape(s)
        shardings = [_read(attributes[key]) for key in (_PARAMETERS, _RESULT)]
    except TextError as e:
        raise HloError.at(
            "bad-sharding", f"the header's spmd attributes cannot be read: {e.message}"
        ) from None
    contract = Contract(parameters, shardings[0], result, shardings[1])
    counts = [sum(sum(1 for _ in p.leaves()) for p in parameters), sum(1 for _ in result.leaves())]
    if counts != [len(contract.parameter_shardings), len(contract.result_shardings)]:
        raise HloError.at("bad-sharding", "the header's spmd attributes contradict each other")
    return contract


def drop_contract(module: Module) -> None:
    """Remove the contract from a module's header, if it has one."""
    notes = module.attrs.get("frontend_attributes", {})
    left = {k: v for k, v in notes.items() if k not in (_SHAPES, _PARAMETERS, _RESULT)}
    if left:
        module.attrs["frontend_attributes"] = left
    else:
        module.attrs.pop("frontend_attributes", None)


def _text(shardings: Sequence[Sharding]) -> str:
    return "{" + ", ".join(map(str, shardings)) + "}"


def _read(text: str) -> tuple[Sharding, ...]:
    found = read_sharding(Scanner(text))
    return found.elements if isinstance(found, TupleSharding) else (found,)
