"""Pages that need no other file and no network: the frame of every HTML report."""

from hlo.reports.page.page import escaped, page, static

__all__ = ["escaped", "page", "static"]


def __dir__() -> list[str]:
    return sorted(__all__)
