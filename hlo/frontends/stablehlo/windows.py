"""Products, convolutions and windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo.context import Context, integers
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.ir import Instruction
from hlo.ir.builder import build_computation
from hlo.ops.attrs import CONV_DIMS, WindowDim
from hlo.ops.contract.contraction import ALGORITHM
from hlo.values.types import array


def precision(c: Context) -> tuple[str, ...]:
    words = c.attr("precision", "precision_config", default=[])
    if not isinstance(words, list):
        raise InferError("precision is a list of words", code="bad-value")
    found = tuple(
        (w.text if isinstance(w, Tagged) else str(w)).rpartition(" ")[2].lower() for w in words
    )
    if not set(found) <= {"default", "high", "highest"} or len(found) > 2:
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
        "dot", operand_precision=precision(c), algorithm=_algorithm(c),
        **{f"{side}_{short}_dims": integers(found.get(f"{side}_{long}_dimensions", ()), long)
           for side in ("lhs", "rhs")
           for short, long in (("batch", "batching"), ("contracting", "contracting"))},
    )  # fmt: skip


def _algorithm(c: Context) -> str:
    """Return HLO's name of an algorithm given by its properties."""
    value = c.op.attrs.get("algorithm")
    if value is None:
        return "unset"
    if not isinstance(value, Tagged):
        raise InferError("algorithm is #stablehlo.dot_algorithm<..>", code="bad-value")
    # A type among them is parsed as a scalar's shape.
    found = {key: str(x).lower().partition("[")[0] for key, x in value.pairs().items()}
    types = [found.get(f"{part}_type", "") for part in ("lhs_precision", "rhs_precision",
                                                        "accumulation")]  # fmt: skip
    if types[0].startswith("f8") and types[1].startswith("f8"):
        types[:2] = ["any_f8"] * 2
    primitives = found.get("num_primitive_operations", "1")
    name = "_".join(["dot", *types, *([f"x{primitives}"] if primitives != "1" else [])])
    if found.get("allow_imprecise_accumulation") == "true":
        name += "_fast_accum"
    components = {found.get(f"{side}_component_count", "1") for side in ("lhs", "rhs")}
    if name not in ALGORITHM.words or components != {"1"}:
        raise InferError(f"algorithm <{value.text.strip()}> has no counterpart in HLO",
                         code="bad-value")  # fmt: skip
    return name


def einsum(c: Context) -> Instruction:
    """Append a dot of two operands, whose result has its dimensions in the order of the formula."""
    formula = str(c.attr("einsum_config")).replace(" ", "")
    inputs, arrow, out = formula.partition("->")
    sides = inputs.split(",")
    shapes = [c.operand(i).array_shape for i in range(2)]
    if (
        not arrow
        or len(sides) != 2
        or not all(side.isalpha() and len(set(side)) == len(side) for side in (*sides, out or "a"))
    ):
        raise InferError(f"einsum_config {formula!r} is not of the form 'ij,jk->ik'",
                         code="bad-value")  # fmt: skip
    if any(len(side) != s.rank for side, s in zip(sides, shapes, strict=True)):
        raise InferError(f"einsum_config {formula!r} names other dimensions than there are",
                         code="bad-value")  # fmt: skip
    lhs, rhs = sides
    if set(out) - set(lhs + rhs):
        raise InferError(f"einsum_config {formula!r} has a result of other dimensions",
                         code="bad-value")  # fmt: skip
    x, lhs = _summed(c, c.operand(0), lhs, rhs + out)
    y, rhs = _summed(c, c.operand(1), rhs, lhs + out)
    shared = [label for label in lhs if label in rhs]
    batch = [label for label in shared if label in out]
    summed = [label for label in shared if label not in out]
    dims: dict[str, Any] = {
        f"{name}_{kind}_dims": tuple(map(side.index, labels))
        for name, side in (("lhs", lhs), ("rhs", rhs))
        for kind, labels in (("batch", batch), ("contracting", summed))
    }
    y = c.b.op("dot", x, y, operand_precision=precision(c), **dims)
    have = [*batch, *(label for label in lhs + rhs if label not in shared)]
    order = tuple(map(have.index, out))
    return y if order == tuple(range(len(out))) else c.b.op("transpose", y, dimensions=order)


def unary_einsum(c: Context) -> Instruction:
    """Append a sum over the dimensions that are not in the result, and a transpose."""
    formula = str(c.attr("einsum_config")).replace(" ", "")
    have, arrow, out = formula.partition("->")
    x = c.operand(0)
    shape = x.array_shape
    if (
        not arrow
        or len(set(have)) != len(have)
        or len(have) != shape.rank
        or (len(set(out)) != len(out) or not set(out) <= set(have))
    ):
        raise InferError(f"einsum_config {formula!r} is not of the form 'ij->i'", code="bad-value")
    x, kept = _summed(c, x, have, out)
    order = tuple(map(kept.index, out))
    return x if order == tuple(range(len(out))) else c.b.op("transpose", x, dimensions=order)


def _summed(c: Context, x: Instruction, labels: str, kept: str) -> tuple[Instruction, str]:
    """Return the sum over the dimensions that are not kept, and the labels of the others."""
    dims = tuple(i for i, label in enumerate(labels) if label not in kept)
    if dims:
        et = x.array_shape.element_type
        add = build_computation("add", [array(et, ())] * 2, lambda b, p, q: b.op("add", p, q))
        x = c.b.op("reduce", x, c.b.constant(et, 0), dimensions=dims,
                   to_apply=c.converter.adopt(add))  # fmt: skip
    return x, "".join(label for label in labels if label in kept)


def ragged_dot(c: Context) -> Instruction:
    """Append a ragged dot."""
    found = c.tagged("ragged_dot_dimension_numbers")
    names = {
        **{f"{side}_{short}_dims": f"{side}_{long}_dimensions"
           for side in ("lhs", "rhs")
           for short, long in (("batch", "batching"), ("contracting", "contracting"))},
        "lhs_ragged_dims": "lhs_ragged_dimensions", "rhs_group_dims": "rhs_group_dimensions",
    }  # fmt: skip
    return c.make("ragged-dot", operand_precision=precision(c),
                  **{k: integers(found.get(v, ()), v) for k, v in names.items()})  # fmt: skip


def dot(c: Context) -> Instruction:
    """Append the dot of the last dimension with the first one."""
    c.operand(1)
    rank = c.operand(0).array_shape.rank
    return c.make("dot", lhs_contracting_dims=(rank - 1,), rhs_contracting_dims=(0,),
                  operand_precision=precision(c))  # fmt: skip


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
    """Return `[b, 0, f]x[0, i, o]->[b, 0, f]` in HLO's syntax."""
    return "".join(ch for ch in text.replace("]x[", "_") if ch not in "[] ,\n\t")


def convolution(c: Context) -> Instruction:
    """Append a convolution."""
    return _convolution(c, None)


def dynamic_conv(c: Context) -> Instruction:
    """Append a convolution whose padding is an operand, which has to be constant."""
    value = c.constant(2)
    if value is None or value.ndim != 2:
        raise InferError("its padding is not a constant, and HLO has no convolution whose "
                         "padding is known when it runs", code="not-constant")  # fmt: skip
    return _convolution(c.on(c.operands[:2]), value.astype(np.int64).tolist())


def _convolution(c: Context, padding: list[list[int]] | None) -> Instruction:
    """Append a convolution. padding: overrides the attributes."""
    window = c.op.attrs.get("window", {})
    if not isinstance(window, dict):
        raise InferError("window is {..}", code="bad-value")
    if "dim_numbers" in c.op.attrs:
        text = str(c.op.attrs["dim_numbers"])
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
            sizes, part("stride", "window_strides"),
            part("pad", "padding") if padding is None else padding,
            part("lhs_dilate", "lhs_dilation"), part("rhs_dilate", "rhs_dilation"),
            part("reverse", "window_reversal"),
        ),
        dim_labels=dims,
        feature_group_count=c.integer("feature_group_count", default=1),
        batch_group_count=c.integer("batch_group_count", default=1),
        operand_precision=precision(c),
    )  # fmt: skip


def window_of(c: Context) -> tuple[WindowDim, ...]:
    """Return the window of a reduction or of select-and-scatter."""
    none: tuple[int, ...] = ()
    return _window(
        c.ints("window_dimensions"), c.ints("window_strides", default=none),
        c.ints("padding", default=none), c.ints("base_dilations", default=none),
        c.ints("window_dilations", default=none), none,
    )  # fmt: skip
