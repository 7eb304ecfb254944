"""Programs built by calls: `hlo.frontends.builder` under its public name."""

from hlo.frontends import builder
from hlo.frontends.builder import *  # noqa: F403

__all__ = builder.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
