"""How some operations are expressed by others, for passes and for code generation."""

# These register expansions.
from hlo.expansions import (  # noqa: F401
    batch_norm,
    dynamic,
    products,
    rng,
    scan,
    shuffle,
    starts,
)
from hlo.expansions.draft import Draft, Expansion, expand, expansion
from hlo.expansions.topk import sorted_topk

__all__ = ["Draft", "Expansion", "expand", "expansion", "sorted_topk"]


def __dir__() -> list[str]:
    return sorted(__all__)
