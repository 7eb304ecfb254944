"""Pictures of modules: DOT for Graphviz, and a page that needs nothing else."""

from hlo.reports.graph.dot import to_dot
from hlo.reports.graph.html import to_html

__all__ = ["to_dot", "to_html"]


def __dir__() -> list[str]:
    return sorted(__all__)
