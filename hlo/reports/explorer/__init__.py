"""Layouts to look at: what one costs and where each element lies, as text and as a drawing."""

from hlo.reports.explorer.facts import LayoutFacts, layout_facts
from hlo.reports.explorer.svg import layout_svg
from hlo.reports.explorer.text import facts_text, layout_text
from hlo.reports.explorer.view import LayoutView, layout_view

__all__ = [
    "LayoutFacts",
    "LayoutView",
    "facts_text",
    "layout_facts",
    "layout_svg",
    "layout_text",
    "layout_view",
]


def __dir__() -> list[str]:
    return sorted(__all__)
