"""The ends of what is kept for ever: clients, topologies and layouts are few and small."""

from __future__ import annotations

from hlo.pjrt.native.writer import Code


def write(code: Code) -> None:
    """Write the entries, which do nothing: Python, to which these belong, may have ended."""
    for name in ("Client_Destroy", "TopologyDescription_Destroy", "Layouts_MemoryLayout_Destroy"):
        with code.entry(name):
            pass
