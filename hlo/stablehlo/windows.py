"""Products, convolutions and windows."""

from __future__ import annotations

from typing import Any

from hlo.errors import InferError, TextError
from hlo.ir import Instruction
from hlo.ops.attrs import CONV_DIMS, WindowDim
from hlo.stablehlo.context import Context, integers
from hlo.stablehlo.cursor import Tagged


def _precision(c: Context) -> tuple[str, ...]:
    words = c.attr("precision", "precision_config", default=[])
    if not isinstance(words, list):
        raise InferError("precision is a list of words", code="bad-value")
    found = tuple(
        (w.text if isinstance(w, Tagged) else str(w)).rpartition(" ")[2].lower() for w in words
    )
    if not set(found) <= {"default", "high", "highest"}:
        raise InferError(f"precision is {', '.join(found)}", code="bad-value")
    return found or ("default", "default")


def dot_general(c: Context) -> Instruction:
    """Append a dot."""
    if "dot_dimension_numbers" in c.op.attrs:
        found = c.tagged("dot_dimension_numbers")
    else:
        batch, contracting = (c.attr(k, default=([], []))
                              for k in ("batching_dims", "contracting_dims"))  # fmt: skip
        if not all(isinstance(p, tuple) and len(p) == 2 for p in (batch, contracting)):
            raise InferError("dimensions are two lists, [..] x [..]", code="bad-value")
        found = {f"{side}_{kind}_dimensions": pair[i]
                 for kind, pair in (("batching", batch), ("contracting", contracting))
                 for i, side in enumerate(("lhs", "rhs"))}  # fmt: skip
    return c.make(
        "dot", operand_precision=_precision(c),
        **{f"{side}_{short}_dims": integers(found.get(f"{side}_{long}_dimensions", ()), long)
           for side in ("lhs", "rhs")
           for short, long in (("batch", "batching"), ("contracting", "contracting"))},
    )  # fmt: skip


def dot(c: Context) -> Instruction:
    """Append the dot of the last dimension with the first one."""
    rank = c.operand(0).array_shape.rank
    return c.make("dot", lhs_contracting_dims=(rank - 1,), rhs_contracting_dims=(0,),
                  operand_precision=_precision(c))  # fmt: skip


def _window(
    sizes: tuple[int, ...], strides: Any, pads: Any, base: Any, dilation: Any, reverse: Any
) -> tuple[WindowDim, ...]:
    rank = len(sizes)
    columns = [list(x) if x else [n] * rank
               for x, n in ((strides, 1), (base, 1), (dilation, 1), (reverse, False))]  # fmt: skip
    flat = [n for p in pads or () for n in (p if isinstance(p, list) else [p])] or [0] * 2 * rank
    if len(flat) != 2 * rank or any(len(x) != rank for x in columns):
        raise InferError(f"a window of {rank} dimensions has others in one of its attributes",
                         code="bad-value")  # fmt: skip
    flat = list(integers(flat, "padding"))
    stride, lhs, rhs = (integers(x, "window") for x in columns[:3])
    flipped = columns[3]
    return tuple(
        WindowDim(sizes[i], stride[i], flat[2 * i], flat[2 * i + 1], lhs[i], rhs[i],
                  bool(flipped[i]))
        for i in range(rank)
    )  # fmt: skip


def _labels(text: str) -> str:
    """Return `[b, 0, f]x[0, i, o]->[b, 0, f]` as HLO writes it."""
    return "".join(ch for ch in text.replace("]x[", "_") if ch not in "[] ,\n\t")


def convolution(c: Context) -> Instruction:
    """Append a convolution."""
    window = c.op.attrs.get("window", {})
    if not isinstance(window, dict):
        raise InferError("window is {..}", code="bad-value")
    if "dim_numbers" in c.op.attrs:
        text = c.op.attrs["dim_numbers"]
    else:
        value = c.attr("dimension_numbers")
        text = value.text if isinstance(value, Tagged) else ""
    try:
        dims = CONV_DIMS.parse(_labels(text))
    except TextError as e:
        raise InferError(e.message, code=e.code) from None
    if any(d >= c.operand(1).array_shape.rank for d in dims.kernel_spatial):
        raise InferError("the kernel has fewer dimensions than labels", code="bad-dimension")
    sizes = tuple(c.operand(1).array_shape.dims[d] for d in dims.kernel_spatial)

    def part(short: str, long: str) -> Any:
        value = window.get(short, c.op.attrs.get(long, []))
        return list(c.ints(long)) if isinstance(value, Tagged) else value

    return c.make(
        "convolution",
        window=_window(
            sizes, part("stride", "window_strides"), part("pad", "padding"),
            part("lhs_dilate", "lhs_dilation"), part("rhs_dilate", "rhs_dilation"),
            part("reverse", "window_reversal"),
        ),
        dim_labels=dims,
        feature_group_count=c.integer("feature_group_count", default=1),
        batch_group_count=c.integer("batch_group_count", default=1),
        operand_precision=_precision(c),
    )  # fmt: skip


def window_of(c: Context) -> tuple[WindowDim, ...]:
    """Return the window of a reduction or of select-and-scatter."""
    none: tuple[int, ...] = ()
    return _window(
        c.ints("window_dimensions"), c.ints("window_strides", default=none),
        c.ints("padding", default=none), c.ints("base_dilations", default=none),
        c.ints("window_dilations", default=none), none,
    )  # fmt: skip
