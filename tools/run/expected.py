"""What `hlo-run --expect` compares results with, and what `--infeed` and `--outfeed` hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlo.errors import HloError, did_you_mean


def read_expected(path: str, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the array that a file has for each result. Raises HloError unless it has all.

    The file is an npy for one result, an npz or safetensors file whose keys are the names of
    results, or text: a literal for each, as `-o -` writes them.
    """
    from hlo.io.arguments import as_leaf
    from hlo.values.types import array, element_type_of

    found = _arrays(path, list(results))
    values = {}
    for name, result in results.items():
        if name not in found:
            hint = did_you_mean(name, found)
            raise HloError.at("unknown-input", f"{path} has nothing for {name}", hint=hint)
        shape = array(element_type_of(result.dtype), result.shape)
        values[name] = as_leaf(found[name], shape, f"{path}: {name}")
    for name in found:
        if name not in results:
            hint = did_you_mean(name, results)
            raise HloError.at("unknown-input", f"{path}: there is no result {name}", hint=hint)
    return values


def _arrays(path: str, names: Sequence[str]) -> dict[str, Any]:
    from hlo.io.archives import SAFETENSORS, read_archive
    from hlo.io.files import read_npy

    if path.endswith((".npz", SAFETENSORS)):
        return read_archive(path)
    values = [read_npy(path)] if path.endswith(".npy") else read_values(path)
    if len(values) != len(names):
        raise HloError.at(
            "shape-mismatch", f"{path} has {len(values)} values, there are {len(names)} results"
        )
    return dict(zip(names, values, strict=True))


def read_values(path: str) -> list[Any]:
    """Return the values in a text of literals, a line each, with their shapes."""
    from hlo.io.files import read_text
    from hlo.io.inputs import literal_with_shape

    lines = read_text(path).split("\n")
    # With the breaks in front of a line errors have its number.
    return [
        literal_with_shape("\n" * n + line, path) for n, line in enumerate(lines) if line.strip()
    ]


def read_queue(paths: Sequence[str]) -> list[Any]:
    """Return the values of a queue: those of the files, one after the other.

    An npy is one value, a text as many as it has literals. An npz has values by number, `0`, `1`,
    ..., those that are tuples by number and index, `1.0`, `1.1`, ... Raises HloError.
    """
    from hlo.io.archives import SAFETENSORS, read_archive
    from hlo.io.files import read_npy

    values: list[Any] = []
    for path in paths:
        if path.endswith((".npz", SAFETENSORS)):
            values += _numbered(path, read_archive(path))
        elif path.endswith(".npy"):
            values.append(read_npy(path))
        else:
            values += read_values(path)
    return values


def _numbered(path: str, arrays: Mapping[str, Any]) -> list[Any]:
    """Return the values whose leaves are arrays by number and index path."""
    tree: dict[int, Any] = {}
    for key, value in arrays.items():
        parts = key.split(".")
        if not all(part.isdecimal() and part.isascii() for part in parts):
            raise HloError.at(
                "unknown-input", f"{path}: {key!r} is not a position in a queue",
                hint="values are called 0, 1, ...; of a tuple 0.0, 0.1, ...",
            )  # fmt: skip
        *way, last = map(int, parts)
        at: Any = tree
        for n in way:
            at = at.setdefault(n, {})
            if not isinstance(at, dict):
                raise HloError.at("unknown-input", f"{path}: {key!r} is inside of an array")
        if last in at:
            raise HloError.at("unknown-input", f"{path}: {key!r} is a tuple and an array")
        at[last] = value
    return _in_order(path, tree)


def _in_order(path: str, tree: Mapping[int, Any]) -> list[Any]:
    if sorted(tree) != list(range(len(tree))):
        raise HloError.at("unknown-input", f"{path}: values are numbered from 0 on, without gaps")
    return [
        tuple(_in_order(path, v)) if isinstance(v, dict) else v for _, v in sorted(tree.items())
    ]


def queue_arrays(values: Sequence[Any], prefix: str = "") -> dict[str, Any]:
    """Return the arrays in the values of a queue, by number and index path: `0`, `1.0`, ..."""
    from hlo.values.arrays import TOKEN_VALUE, DynamicArray

    found: dict[str, Any] = {}
    for n, value in enumerate(values):
        name = f"{prefix}{n}"
        if isinstance(value, tuple):
            found |= queue_arrays(value, f"{name}.")
        elif value is not TOKEN_VALUE:
            found[name] = value.actual if isinstance(value, DynamicArray) else value
    return found
