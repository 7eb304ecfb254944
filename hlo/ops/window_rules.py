"""Shape inference over windows, for convolution, reduce-window and select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.ops.attrs import Window
from hlo.ops.spec import OpView
from hlo.types import UNBOUNDED


def need_window(op: OpView, window: Window, rank: int, attr: str = "window") -> None:
    """Check that a window has `rank` dimensions of positive size, stride and dilation."""
    if len(window) != rank:
        raise InferError(
            f"{op.opcode}: {attr} has {len(window)} dimensions, {rank} are needed",
            attr=attr, code="bad-dimension",
        )  # fmt: skip
    for i, d in enumerate(window):
        for what, value in (
            ("size", d.size),
            ("stride", d.stride),
            ("lhs_dilate", d.lhs_dilate),
            ("rhs_dilate", d.rhs_dilate),
        ):
            if value < 1:
                raise InferError(
                    f"{op.opcode}: {attr} dimension {i} has {what}={value}, at least 1 is needed",
                    attr=attr, code="bad-value",
                )  # fmt: skip


def infer_window(
    op: OpView, sizes: Sequence[int], window: Window, attr: str = "window"
) -> tuple[int, ...]:
    """Return the number of window positions along each dimension of an operand of `sizes`.

    An unbounded dimension stays unbounded. Raises InferError where `need_window` does.
    """
    need_window(op, window, len(sizes), attr)
    return tuple(
        UNBOUNDED if n == UNBOUNDED else d.output_size(n)
        for n, d in zip(sizes, window, strict=True)
    )
