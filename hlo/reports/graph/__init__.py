"""Pictures of modules: DOT for Graphviz, a page that needs nothing else, and for Model Explorer."""

from hlo.reports.graph.dot import to_dot
from hlo.reports.graph.html import to_html
from hlo.reports.graph.model_explorer import to_model_explorer

__all__ = ["to_dot", "to_html", "to_model_explorer"]


def __dir__() -> list[str]:
    return sorted(__all__)
