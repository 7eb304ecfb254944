"""Values for elided constants, `constant({...})`: from files, or at random."""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hlo.analysis.domains import domains_of_constants
from hlo.analysis.elided import elided_constants, is_elided
from hlo.errors import ElidedConstantsWarning, HloError, did_you_mean
from hlo.frontends.sources import read_module
from hlo.io.archives import SAFETENSORS, read_archive
from hlo.io.arguments import as_leaf, need_size
from hlo.io.files import read_bytes
from hlo.io.module_files import read_file
from hlo.io.random import Distributions, Domain, random_array
from hlo.ir import Instruction, Module
from hlo.support.memory import enough_memory
from hlo.values.arrays import DynamicArray
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, Shape, TupleShape, compatible
from hlo.verifier import verify

RANDOM = "random"
_NAMED = 6
# Separates the seeds of constants from those of parameters, which have their number here.
_CONSTANTS = 1 << 32
Index = tuple[int, ...]
# Returns the value of an instruction's leaf at a path, None if there is none.
Leaf = Callable[[Instruction, Index, ArrayShape], Any]


def need_constants(module: Module) -> None:
    """Raise HloError if a result depends on elided constants."""
    elided = elided_constants(module)
    if elided:
        raise HloError.at(
            "elided-constants", f"{elided_text([i.name for i in elided])}: their values are needed",
            elided[0].span, hint="--constants FILE, or --constants random, fills them; in Python "
            "hlo.fill_constants does",
        )  # fmt: skip


def elided_text(names: Sequence[str]) -> str:
    """Return a text that names the elided constants."""
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    plural = "s are" if len(names) > 1 else " is"
    return f"{len(names)} constant{plural} elided, {{...}}: {shown}"


def warn_of_elided(names: Sequence[str]) -> None:
    """Warn that results are not meaningful: they depend on elided constants.

    The warning is for the first caller outside of this package.
    """
    message = f"{elided_text(names)}; placeholders are used, hlo.fill_constants sets them"
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ElidedConstantsWarning, level)


_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True)
class Constants:
    """The source of values of elided constants; see `fill`."""

    source: str
    seed: int = 0
    random: tuple[str, ...] = ()

    def key(self) -> bytes:
        """Return a key that changes with the values."""
        if self.source == RANDOM:
            return repr((self.seed, self.random)).encode()
        return hashlib.sha256(read_bytes(self.source)).digest()

    def fill(self, module: Module) -> None:
        """Fill elided constants of a module, in place. Raises HloError."""
        fill(module, self.source, self.seed, self.random)


def fill(module: Module, source: str | Path, seed: int = 0, random: Sequence[str] = ()) -> int:
    """Fill elided constants of a module, in place; returns how many.

    source: `random`, or a file: npz or safetensors with a key for each instruction's name (`c`, of
    a tuple `c.0`, ..), or the module in any form in which the constants are whole. Those not in it
    stay elided. random: distributions, as for inputs. Raises HloError, for an invalid module too.
    """
    verify(module)
    elided = [i for i in module.instructions() if is_elided(i)]
    if not elided:
        return 0
    if source == RANDOM:
        leaf = _at_random(module, elided, seed, Distributions(random))
    elif str(source).endswith((".npz", SAFETENSORS)):
        leaf = _from_archive(str(source), elided)
    else:
        leaf = _from_module(str(source), elided)
    filled = 0
    for inst in elided:
        literal = _filled(inst.literal, inst, (), leaf)
        filled += literal is not inst.literal
        inst.attrs["literal"] = literal
    return filled


def _filled(literal: Literal, inst: Instruction, path: Index, leaf: Leaf) -> Literal:
    """Return a literal with elided parts filled if there are values for them."""
    shape = literal.shape
    if isinstance(shape, TupleShape):
        if not literal.is_elided_in_part:
            return literal
        before = literal.elements
        parts = [_filled(e, inst, (*path, n), leaf) for n, e in enumerate(before)]
        changed = any(a is not b for a, b in zip(parts, before, strict=True))
        return Literal(shape, parts) if changed else literal
    if not literal.elided or not isinstance(shape, ArrayShape):
        return literal
    value = leaf(inst, path, shape)
    return literal if value is None else Literal(shape, value)


def _name(inst: Instruction, path: Index) -> str:
    return ".".join([inst.name, *map(str, path)])


def _at_random(
    module: Module, elided: list[Instruction], seed: int, distributions: Distributions
) -> Leaf:
    domains: Mapping[tuple[Instruction, Index], Domain] = domains_of_constants(module)
    numbers = {inst: n for n, inst in enumerate(elided)}

    def leaf(inst: Instruction, path: Index, shape: ArrayShape) -> Any:
        what = f"constant {_name(inst, path)}"
        with enough_memory(what):
            return random_array(
                need_size(shape, what), [seed, _CONSTANTS, numbers[inst], *path],
                distributions.of(_name(inst, path)), domains.get((inst, path)),
            )  # fmt: skip

    return leaf


def _from_archive(path: str, elided: list[Instruction]) -> Leaf:
    arrays = {name.removeprefix("%"): value for name, value in read_archive(path).items()}
    names = [_name(i, p) for i in elided for p, _ in i.shape.leaves()]
    _need_any(path, arrays, names)

    def leaf(inst: Instruction, path_: Index, shape: ArrayShape) -> Any:
        name = _name(inst, path_)
        if name not in arrays:
            return None
        value = as_leaf(arrays[name], shape, f"{path}: {name}")
        return value.data if isinstance(value, DynamicArray) else value

    return leaf


def _from_module(path: str, elided: list[Instruction]) -> Leaf:
    found: dict[tuple[str, str], Literal] = {}
    for inst in read_module(*read_file(path)).instructions():
        if inst.opcode == "constant" and not is_elided(inst):
            assert inst.parent is not None
            # Qualified by its computation first; XLA prints names that are unique in the module.
            found[inst.parent.name, inst.name] = inst.literal
            found.setdefault(("", inst.name), inst.literal)
    _need_any(path, {name for _, name in found}, [i.name for i in elided])

    def leaf(inst: Instruction, index: Index, shape: ArrayShape) -> Any:
        assert inst.parent is not None
        literal = found.get((inst.parent.name, inst.name)) or found.get(("", inst.name))
        if literal is None:
            return None
        _need_shape(path, inst, literal.shape)
        for i in index:
            literal = literal.elements[i]
        return literal.array

    return leaf


def _need_shape(path: str, inst: Instruction, shape: Shape) -> None:
    if not compatible(shape, inst.shape):
        raise HloError.at(
            "shape-mismatch", f"{path}: {inst.name} is {shape.to_string(False)}, "
            f"{inst.shape.to_string(False)} is needed",
            inst.span,
        )  # fmt: skip


def _need_any(path: str, have: Any, names: list[str]) -> None:
    if not any(name in have for name in names):
        raise HloError.at(
            "unknown-input",
            f"{path} has none of the elided constants: {', '.join(names[:_NAMED])}",
            hint=did_you_mean(names[0], have),
        )  # fmt: skip
