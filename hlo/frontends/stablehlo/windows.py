"""Products, convolutions and windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo.collective import pairs_of
from hlo.frontends.stablehlo.constants import dense_array
from hlo.frontends.stablehlo.context import Context, integers
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.ir import Instruction
from hlo.ops.attrs import CONV_DIMS, WindowDim
from hlo.ops.contract.contraction import ALGORITHM


def precision(c: Context) -> tuple[str, ...]:
    words = c.attr("precision_config", default=[])
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
    found = c.tagged("dot_dimension_numbers")
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
    if set(precision(c)) - {"default"}:
        raise InferError("precision is DEFAULT where there is an algorithm", code="bad-value")
    name = "_".join(["dot", *types, *([f"x{primitives}"] if primitives != "1" else [])])
    if found.get("allow_imprecise_accumulation") == "true":
        name += "_fast_accum"
    components = {found.get(f"{side}_component_count", "1") for side in ("lhs", "rhs")}
    imprecise = found.get("allow_imprecise_accumulation", "false")
    is_known = name in ALGORITHM.words and imprecise in ("true", "false")
    if not is_known or components != {"1"}:
        raise InferError(f"algorithm <{value.text.strip()}> has no counterpart in HLO",
                         code="bad-value")  # fmt: skip
    return name


def ragged_dot(c: Context) -> Instruction:
    """Append a ragged dot."""
    names = {
        **{f"{side}_{short}_dims": f"{side}_{long}_dimensions"
           for short, long in (("batch", "batching"), ("contracting", "contracting"))
           for side in ("lhs", "rhs")},
        "lhs_ragged_dims": "lhs_ragged_dimensions", "rhs_group_dims": "rhs_group_dimensions",
    }  # fmt: skip
    numbers = c.attr("ragged_dot_dimension_numbers")
    if isinstance(numbers, list):
        # A composite has the fields in order.
        found = dict(zip(names.values(), map(_dense_integers, numbers), strict=False))
    else:
        found = c.tagged("ragged_dot_dimension_numbers")
    return c.make("ragged-dot", operand_precision=precision(c),
                  **{k: integers(found.get(v, ()), v) for k, v in names.items()})  # fmt: skip


def _dense_integers(value: Any) -> list[int]:
    if not isinstance(value, Tagged) or value.type is None:
        raise InferError("the dimensions of a ragged dot are lists of integers", code="bad-value")
    try:
        numbers: list[int] = dense_array(value.text, value.type, value.start).reshape(-1).tolist()
    except TextError as e:
        raise InferError(e.message, code=e.code) from None
    return numbers


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
    for given in (strides, pads, base, dilation, reverse):
        if given and not isinstance(given, list | tuple):
            raise InferError(f"{given!r} is not a list, as the attributes of a window are",
                             code="bad-value")  # fmt: skip
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


def _raw_labels(value: Tagged) -> str:
    """Return `raw input_batch_dimension = 0, ..` as labels. Raises InferError."""
    found = value.pairs()
    sides = []
    for side, letters in (("input", "bf"), ("kernel", "io"), ("output", "bf")):
        names = ("input_feature", "output_feature") if side == "kernel" else ("batch", "feature")
        spatial = found.get(f"{side}_spatial_dimensions", ())
        at = {d: str(i) for i, d in enumerate(integers(spatial, f"{side}_spatial_dimensions"))}
        for name, letter in zip(names, letters, strict=True):
            (d,) = integers([found.get(f"{side}_{name}_dimension")], f"{side}_{name}_dimension")
            at[d] = letter
        if sorted(at) != list(range(len(spatial) + 2)):
            raise InferError(f"the dimensions of the {side} are not different ones",
                             code="bad-dimension")  # fmt: skip
        sides.append("".join(at[d] for d in sorted(at)))
    return f"[{sides[0]}]x[{sides[1]}]->[{sides[2]}]"


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
    value = c.attr("dimension_numbers")
    text = value.text if isinstance(value, Tagged) else ""
    if text.split()[:1] == ["raw"]:
        text = _raw_labels(Tagged(value.name, text.strip().removeprefix("raw"), value.start))
    try:
        dims = CONV_DIMS.parse(_labels(text))
    except TextError as e:
        raise InferError(e.message, code=e.code) from None
    types = [c.operand(i).array_shape.element_type for i in range(2)]
    if types[0] is not types[1]:
        raise InferError(f"its operands are of {types[0]} and {types[1]}", code="type-mismatch")
    if any(d >= c.operand(1).array_shape.rank for d in dims.kernel_spatial):
        raise InferError("the kernel has fewer dimensions than labels", code="bad-dimension")
    sizes = tuple(c.operand(1).array_shape.dims[d] for d in dims.kernel_spatial)

    return c.make(
        "convolution",
        window=_window(
            sizes, c.op.attrs.get("window_strides"),
            _pads(c) if padding is None else padding,
            c.op.attrs.get("lhs_dilation"), c.op.attrs.get("rhs_dilation"),
            c.op.attrs.get("window_reversal"),
        ),
        dim_labels=dims,
        feature_group_count=c.integer("feature_group_count", default=1),
        batch_group_count=c.integer("batch_group_count", default=1),
        operand_precision=precision(c),
    )  # fmt: skip


def _pads(c: Context) -> Any:
    """Return the padding: a list of pairs, or None."""
    value = c.op.attrs.get("padding")
    return pairs_of(c, "padding") if isinstance(value, Tagged) else value


def window_of(c: Context) -> tuple[WindowDim, ...]:
    """Return the window of a reduction or of select-and-scatter."""
    none: tuple[int, ...] = ()
    return _window(
        c.ints("window_dimensions"), c.ints("window_strides", default=none),
        _pads(c), c.ints("base_dilations", default=none),
        c.ints("window_dilations", default=none), none,
    )  # fmt: skip
