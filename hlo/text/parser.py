"""`parse`: HLO text to a module."""

from __future__ import annotations

from hlo.errors import Source
from hlo.ir import Module
from hlo.text.build import Builder
from hlo.text.syntax import read


def parse(text: str, name: str = "<string>") -> Module:
    """Return the module that `text` spells. `name` stands for the text in errors.

    Raises HloError with all errors that could be found.
    """
    source = Source(name, text)
    return Builder(source, read(source)).module()
