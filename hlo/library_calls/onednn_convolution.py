"""Convolutions of oneDNN, with window and labels in the configuration.

Source: XLA's service/cpu/onednn_config.proto and onednn_convolution.cc.
"""

from __future__ import annotations

from hlo.ir import Computation
from hlo.library_calls.call import Call, library_call
from hlo.library_calls.config import Config
from hlo.library_calls.convolution import Forward, convolve
from hlo.library_calls.onednn import fused, need_known
from hlo.ops.attrs.dims import ConvDims, WindowDim


@library_call("__onednn$convolution", section="onednn_conv_config")
def _convolution(c: Call) -> Computation:
    c.need_operands(2, len(c.operands))
    need_known(c)
    parts = [
        c.config.section(name).section(kind)
        for name, kind in (("input", "data"), ("kernel", "filter"), ("output", "data"))
    ]
    rank = c.operands[0].array_shape.rank
    offset = _offset(c, parts, rank)
    data, kernel, result = parts
    spatial = [tuple(n - offset for n in p.integers("spatial_dims")) for p in parts]
    labels = ConvDims(
        data.integer("batch_dim"), data.integer("feature_dim"), spatial[0],
        kernel.integer("input_feature_dim"), kernel.integer("output_feature_dim"), spatial[1],
        result.integer("batch_dim"), result.integer("feature_dim"), spatial[2],
    )  # fmt: skip
    window = _window(c, labels, offset)
    forward = Forward(window, labels, max(1, c.config.integer("feature_groups", 1)))
    x = convolve(c, forward, c.operands[0], c.operands[1], c.wide)
    return c.done(fused(c, x, labels.output_feature))


def _offset(c: Call, parts: list[Config], rank: int) -> int:
    """Return what is added to each number of the window and to each spatial dimension.

    Until 2025 that was 1, so that no field was 0: then the dimensions are no permutation.
    """
    ends = ("batch_dim", "feature_dim")
    names = (ends, ("input_feature_dim", "output_feature_dim"), ends)

    def dims(part: Config, own: tuple[str, str], offset: int) -> list[int]:
        spatial = (n - offset for n in part.integers("spatial_dims"))
        return sorted([*map(part.integer, own), *spatial])

    for offset in (0, 1):
        if all(
            dims(p, own, offset) == list(range(rank)) for p, own in zip(parts, names, strict=True)
        ):
            return offset
    raise c.wrong("the dimensions of input, kernel and output are no permutations")


def _window(c: Call, labels: ConvDims, offset: int) -> tuple[WindowDim, ...]:
    found = c.config.section("window")
    count, kernel = len(labels.kernel_spatial), c.operands[1].array_shape.dims

    def numbers(key: str, default: int) -> list[int]:
        given = [n - offset for n in found.integers(key)] or [default] * count
        if len(given) != count:
            raise c.wrong(f"window.{key} has {len(given)} numbers for {count} dimensions")
        return given

    return tuple(
        WindowDim(size=kernel[at], stride=s, pad_low=low, pad_high=high, rhs_dilate=d)
        for at, s, low, high, d in zip(
            labels.kernel_spatial, numbers("strides", 1), numbers("pad_left", 0),
            numbers("pad_right", 0), numbers("window_dilations", 1), strict=True,
        )
    )  # fmt: skip
