"""Attributes with a part per dimension: windows, padding, slices, convolution labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hlo.ops.attrs.codec import Codec, enum, listed
from hlo.values.scan import Scanner

# --- windows, padding, slices -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowDim:
    """One dimension of a window (convolution, reduce-window, select-and-scatter)."""

    size: int = 1
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    lhs_dilate: int = 1  # base dilation: holes between elements of the operand
    rhs_dilate: int = 1  # window dilation: holes between elements of the window
    # None behind the flags that a text gives, where those are too few.
    reversal: bool | None = False

    def dilated_size(self) -> int:
        """Return the extent of the window with its holes; 0 for an empty window."""
        return 0 if self.size == 0 else (self.size - 1) * self.rhs_dilate + 1

    def padded_base(self, size: int) -> int:
        """Return the extent of an operand of `size` elements with its holes and padding."""
        base = 0 if size == 0 else (size - 1) * self.lhs_dilate + 1
        return base + self.pad_low + self.pad_high

    def output_size(self, size: int) -> int:
        """Return the number of window positions over an operand of `size` elements."""
        base, window = self.padded_base(size), self.dilated_size()
        return 0 if window > base or base <= 0 else (base - window) // self.stride + 1


Window = tuple[WindowDim, ...]


def _read_x_list(s: Scanner, read: Callable[[Scanner], Any]) -> list[Any]:
    values = [read(s)]
    while s.accept("x"):
        values.append(read(s))
    return values


def _read_lo_hi(s: Scanner) -> tuple[int, int]:
    low = s.integer()
    s.expect("_")
    return low, s.integer()


_WINDOW_FIELDS: dict[str, Callable[[Scanner], Any]] = {
    "size": Scanner.integer,
    "stride": Scanner.integer,
    "pad": _read_lo_hi,
    "lhs_dilate": Scanner.integer,
    "rhs_dilate": Scanner.integer,
    "rhs_reversal": lambda s: bool(s.integer(0, 1)),
}


def _read_window(s: Scanner) -> Window:
    fields: dict[str, list[Any]] = {}
    for key in s.fields("window", _WINDOW_FIELDS):
        fields[key] = _read_x_list(s, _WINDOW_FIELDS[key])
    sizes = fields.get("size")
    if sizes is None:
        if fields:
            s.fail("a window needs its size", code="bad-value")
        return ()
    flags = fields.get("rhs_reversal", [False] * len(sizes))
    flags += [None] * (len(sizes) - len(flags))
    for key, values in fields.items():
        if len(values) != len(sizes):
            s.fail(f"window {key} has {len(values)} dimensions, size has {len(sizes)}",
                   code="bad-value")  # fmt: skip
    ones, rank = [1] * len(sizes), len(sizes)
    return tuple(
        WindowDim(size, stride, low, high, ld, rd, rev)
        for size, stride, (low, high), ld, rd, rev in zip(
            sizes,
            fields.get("stride", ones),
            fields.get("pad", [(0, 0)] * rank),
            fields.get("lhs_dilate", ones),
            fields.get("rhs_dilate", ones),
            flags,
            strict=True,
        )
    )


def _write_window(window: Window) -> str:
    if not window:
        return "{}"
    parts = ["size=" + "x".join(str(d.size) for d in window)]
    if any(d.stride != 1 for d in window):
        parts.append("stride=" + "x".join(str(d.stride) for d in window))
    if any(d.pad_low or d.pad_high for d in window):
        parts.append("pad=" + "x".join(f"{d.pad_low}_{d.pad_high}" for d in window))
    if any(d.lhs_dilate != 1 for d in window):
        parts.append("lhs_dilate=" + "x".join(str(d.lhs_dilate) for d in window))
    if any(d.rhs_dilate != 1 for d in window):
        parts.append("rhs_dilate=" + "x".join(str(d.rhs_dilate) for d in window))
    flags = [d.reversal for d in window if d.reversal is not None]
    if any(flags) or len(flags) < len(window):
        parts.append("rhs_reversal=" + "x".join(str(int(flag)) for flag in flags))
    return "{" + " ".join(parts) + "}"


WINDOW = Codec("{size=.. stride=.. pad=..}", _read_window, _write_window)


@dataclass(frozen=True, slots=True)
class PadDim:
    """Padding of one dimension: before, after (negative: cut off), and between elements."""

    low: int
    high: int
    interior: int = 0


def _read_padding(s: Scanner) -> tuple[PadDim, ...]:
    if s.at_end():
        return ()

    def one(s: Scanner) -> PadDim:
        low, high = _read_lo_hi(s)
        return PadDim(low, high, s.integer() if s.accept("_") else 0)

    return tuple(_read_x_list(s, one))


def _write_padding(dims: tuple[PadDim, ...]) -> str:
    # XLA prints the interior of every dimension or of none.
    if any(d.interior for d in dims):
        return "x".join(f"{d.low}_{d.high}_{d.interior}" for d in dims)
    return "x".join(f"{d.low}_{d.high}" for d in dims)


PADDING = Codec("lo_hi[_interior]x..", _read_padding, _write_padding, may_be_empty=True)


@dataclass(frozen=True, slots=True)
class SliceDim:
    """Elements `start, start + stride, ...` below `limit`."""

    start: int
    limit: int
    stride: int = 1


def _read_slices(s: Scanner) -> tuple[SliceDim, ...]:
    dims: list[SliceDim] = []
    for _ in s.items():
        s.expect("[")
        start = s.integer()
        s.expect(":")
        limit = s.integer()
        stride = s.integer() if s.accept(":") else 1
        s.expect("]")
        dims.append(SliceDim(start, limit, stride))
    return tuple(dims)


def _write_slices(dims: tuple[SliceDim, ...]) -> str:
    # XLA prints the stride of every dimension or of none.
    strided = any(d.stride != 1 for d in dims)
    return (
        "{"
        + ", ".join(
            f"[{d.start}:{d.limit}:{d.stride}]" if strided else f"[{d.start}:{d.limit}]"
            for d in dims
        )
        + "}"
    )


SLICES = Codec("{[start:limit:stride],..}", _read_slices, _write_slices)

# --- convolution --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConvDims:
    """Which dimension of each array of a convolution plays which part (`b01f_01io->b01f`)."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input: int
    kernel_output: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]
    # Dimensions marked `?`: they take no part and are of size one.
    input_unknown: tuple[int, ...] = ()
    kernel_unknown: tuple[int, ...] = ()
    output_unknown: tuple[int, ...] = ()


_SPATIAL = "0123456789"


def _decode_labels(
    s: Scanner, labels: str, named: str, what: str
) -> tuple[list[int], list[int], list[int]]:
    """Return the positions of the named letters, of the spatial digits in order, and of `?`."""
    spatial = sorted(c for c in labels if c in _SPATIAL)
    for c in labels:
        if c not in named and c not in _SPATIAL and c != "?":
            s.fail(f"{what} labels {labels!r}: {c!r} is not one of {named}, a digit or ?",
                   code="bad-value")  # fmt: skip
        if c != "?" and labels.count(c) > 1:
            s.fail(f"{what} labels {labels!r}: {c!r} is repeated", code="bad-value")
    for c in named:
        if c not in labels:
            s.fail(f"{what} labels {labels!r}: {c!r} is missing", code="bad-value")
    if spatial != list(_SPATIAL[: len(spatial)]):
        s.fail(f"{what} labels {labels!r}: spatial dimensions are not 0,1,..", code="bad-value")
    return (
        [labels.index(c) for c in named],
        [labels.index(c) for c in spatial],
        [i for i, c in enumerate(labels) if c == "?"],
    )


def _read_conv_dims(s: Scanner) -> ConvDims:
    text = s.text[s.pos :].strip()
    left, arrow, out = text.partition("->")
    lhs, bar, rhs = left.partition("_")
    if not arrow or not bar:
        s.fail("expected dimension labels such as b01f_01io->b01f")
    (ib, if_), isp, iu = _decode_labels(s, lhs, "bf", "input")
    (ki, ko), ksp, ku = _decode_labels(s, rhs, "io", "kernel")
    (ob, of), osp, ou = _decode_labels(s, out, "bf", "output")
    if not len(isp) == len(ksp) == len(osp):
        s.fail(f"{text}: input, kernel and output differ in spatial rank", code="bad-value")
    s.pos = len(s.text)
    return ConvDims(ib, if_, tuple(isp), ki, ko, tuple(ksp), ob, of, tuple(osp),
                    tuple(iu), tuple(ku), tuple(ou))  # fmt: skip


def _write_conv_dims(d: ConvDims) -> str:
    def one(named: dict[int, str], spatial: tuple[int, ...], unknown: tuple[int, ...]) -> str:
        letters = named | {at: str(i) for i, at in enumerate(spatial)} | dict.fromkeys(unknown, "?")
        return "".join(letters[i] for i in sorted(letters))

    lhs = one({d.input_batch: "b", d.input_feature: "f"}, d.input_spatial, d.input_unknown)
    rhs = one({d.kernel_input: "i", d.kernel_output: "o"}, d.kernel_spatial, d.kernel_unknown)
    out = one({d.output_batch: "b", d.output_feature: "f"}, d.output_spatial, d.output_unknown)
    return f"{lhs}_{rhs}->{out}"


CONV_DIMS = Codec("dim labels", _read_conv_dims, _write_conv_dims)

PACKED_NIBBLE = "packed_nibble"
"""A precision that XLA had once, and that is none: bytes are two numbers of 4 bits each."""

PRECISIONS = listed(enum("default", "high", "highest", PACKED_NIBBLE, any_case=True))
