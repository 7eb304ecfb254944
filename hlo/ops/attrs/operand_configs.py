"""Auxiliary operands of contractions: `block_scaling_config`, `sparsity_config`.

Operands after the first two are scales, zero points, or the indices of stored elements; a config
refers to them by number. Source: XLA's `xla_data.proto`, and the text that its parser and printer
exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hlo.errors import TextError
from hlo.ops.attrs.codec import Codec
from hlo.values.scan import Scanner

_T = TypeVar("_T")
_SIDES = ("lhs", "rhs")


def _read_x(s: Scanner) -> tuple[int, ...]:
    values = [s.integer(0)]
    while s.accept("x"):
        values.append(s.integer(0))
    return tuple(values)


def _write_x(values: tuple[int, ...]) -> str:
    return "x".join(map(str, values))


# --- sparsity -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorSparsity:
    """Of each block of `block_size` elements along `dimension`, `num_non_zero` are stored.

    index: the operand that says which; None where the sparse one is a tuple with it.
    """

    num_non_zero: int = 0
    block_size: int = 0
    dimension: int = 0
    stride: int = 0
    index: int | None = None

    def __str__(self) -> str:
        index = "" if self.index is None else f" idx={self.index}"
        return (
            f"{{sparsity={self.num_non_zero}x{self.block_size} dimension={self.dimension} "
            f"stride={self.stride}{index}}}"
        )


@dataclass(frozen=True, slots=True)
class SparsityConfig:
    """The sparsity of the operands of a contraction; a dense operand has none."""

    lhs: TensorSparsity | None = None
    rhs: TensorSparsity | None = None


def _read_tensor_sparsity(s: Scanner) -> TensorSparsity:
    fields: dict[str, int] = {}
    for key in s.fields("sparsity", ("sparsity", "dimension", "stride", "idx")):
        if key == "sparsity":
            fields["num_non_zero"] = s.integer(0)
            s.expect("x")
            fields["block_size"] = s.integer(0)
        else:
            fields["index" if key == "idx" else key] = s.integer(0)
    return TensorSparsity(**fields)


# --- scales -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorScaling:
    """Operand `scale` has a factor for each block of elements, operand `zero` its zero point.

    strides: the size of a block in each dimension, steps: how far apart in the scales the factors
    of neighbouring blocks are; where they are not given, the shapes say it.
    """

    scale: int = 0
    zero: int | None = None
    strides: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [f"scale_idx={self.scale}"]
        if self.zero is not None:
            parts.append(f"zero_idx={self.zero}")
        if self.strides:
            parts.append(f"strides={_write_x(self.strides)}")
        if self.steps:
            parts.append(f"steps={_write_x(self.steps)}")
        return "{" + " ".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class BlockScalingConfig:
    """The scaling of the operands of a contraction; None for an unscaled one."""

    lhs: TensorScaling | None = None
    rhs: TensorScaling | None = None


_SCALING_FIELDS: dict[str, tuple[str, Callable[[Scanner], Any]]] = {
    "scale_idx": ("scale", lambda s: s.integer(0)),
    "zero_idx": ("zero", lambda s: s.integer(0)),
    "strides": ("strides", _read_x),
    "steps": ("steps", _read_x),
}


def _read_tensor_scaling(s: Scanner) -> TensorScaling:
    start = s.pos
    fields: dict[str, Any] = {}
    for key in s.fields("scaling", _SCALING_FIELDS):
        name, read = _SCALING_FIELDS[key]
        fields[name] = read(s)
    if "scale" not in fields:
        raise TextError("a scaling needs its scale_idx", start, code="bad-value")
    return TensorScaling(**fields)


# --- both ---------------------------------------------------------------------------------------


def _config(kind: Callable[..., _T], read: Callable[[Scanner], Any], form: str) -> Codec:
    """Return the codec of a config: what `read` reads for lhs, for rhs, or for both."""

    def read_sides(s: Scanner) -> _T | None:
        sides = {side: read(s) for side in s.fields("operand", _SIDES)}
        return kind(**sides) if sides else None

    def write(config: _T) -> str:
        sides = ((side, getattr(config, side)) for side in _SIDES)
        return "{" + " ".join(f"{name}={side}" for name, side in sides if side is not None) + "}"

    return Codec(f"{{lhs={form} rhs={{..}}}}", read_sides, write)


SPARSITY_CONFIG = _config(
    SparsityConfig, _read_tensor_sparsity, "{sparsity=NxM dimension=D stride=S}"
)
BLOCK_SCALING_CONFIG = _config(BlockScalingConfig, _read_tensor_scaling, "{scale_idx=N}")
