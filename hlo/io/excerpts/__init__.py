"""Modules inside of other text: Markdown fences, logs, strings of programs.

A module keeps its positions: errors have lines and columns of the file that it is in.
"""

from hlo.io.excerpts.excerpt import Excerpt
from hlo.io.excerpts.find import EmbeddedModule, listed, modules_in, modules_of, only, select

__all__ = ["EmbeddedModule", "Excerpt", "listed", "modules_in", "modules_of", "only", "select"]


def __dir__() -> list[str]:
    return sorted(__all__)
