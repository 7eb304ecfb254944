"""HLO text: `parse` and the printer."""

from hlo.text.parser import parse

__all__ = ["parse"]
