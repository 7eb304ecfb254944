"""One page with all there is to know of a module: `hlo-opt --report out.html`."""

from hlo.reports.html.report import report_page
from hlo.reports.html.times import read_profile

__all__ = ["read_profile", "report_page"]


def __dir__() -> list[str]:
    return sorted(__all__)
