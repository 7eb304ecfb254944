"""Shape inference over windows, for convolution, reduce-window and select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.ops.attrs import Window
from hlo.ops.spec import OpView
from hlo.values.types import UNBOUNDED

# Positions in a padded and dilated operand, and differences of two, fit in 64 bits.
_MAX_EXTENT = 2**62


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
    for i, (n, d) in enumerate(zip(sizes, window, strict=True)):
        base = max(n, 0) * d.lhs_dilate + abs(d.pad_low) + abs(d.pad_high)
        if max(base, d.dilated_size(), d.stride) > _MAX_EXTENT:
            raise InferError(
                f"{op.opcode}: {attr} dimension {i} reaches over more than 2^62 elements",
                attr=attr, code="bad-value",
            )  # fmt: skip
    return tuple(
        UNBOUNDED if n == UNBOUNDED else d.output_size(n)
        for n, d in zip(sizes, window, strict=True)
    )
