"""PTX text to records.

The records are in `hlo.gpu.ptx.records`; `parse_ptx` reads a text.
"""

from hlo.gpu.ptx.parser import parse_ptx

__all__ = ["parse_ptx"]


def __dir__() -> list[str]:
    return sorted(__all__)
