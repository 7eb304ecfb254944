"""A module as one HTML page: its graph, with groups that open and close, and search."""

from __future__ import annotations

from hlo.ir import Module
from hlo.reports.graph.data import graph_data
from hlo.reports.page import escaped, page

GRAPH_SCRIPTS = (
    "dagre/dagre.min.js", "numbers.js", "graph/module.js", "graph/tree.js", "graph/labels.js",
    "graph/straighten.js", "graph/layout.js", "graph/viewport.js", "graph/view.js",
    "graph/details.js", "graph/search.js", "graph/panel.js",
)  # fmt: skip
GRAPH_STYLES = ("graph/graph.css",)


def to_html(module: Module) -> str:
    """Return a page that shows a module: values flow downwards, dotted lines are order only."""
    return page(
        module.name,
        '<header class="page">'
        f'<h1>{escaped(module.name)}</h1><span class="space"></span>'
        '<button type="button" class="theme">Toggle theme</button></header>\n'
        '<div id="graph" class="graph-panel"></div>',
        data={"module": graph_data(module)},
        scripts=(*GRAPH_SCRIPTS, "graph/page.js"),
        styles=GRAPH_STYLES,
        whole=True,
    )
