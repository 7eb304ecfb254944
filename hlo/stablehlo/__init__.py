"""StableHLO as text, the form in which JAX and others write programs: to modules."""

from __future__ import annotations

import re

from hlo.errors import Diagnostic, HloError, Source, Span, TextError
from hlo.ir import Module
from hlo.memory import collector_paused
from hlo.signature import checked
from hlo.stablehlo.convert import convert

__all__ = ["from_stablehlo"]


_WORD = re.compile(r"%?[\w.$-]*")


def _word_end(text: str, start: int) -> int:
    m = _WORD.match(text, start)
    return max(m.end() if m else start, start + 1)


@checked
def from_stablehlo(text: str, name: str = "<string>") -> Module:
    """Return the module that a StableHLO program says: its function `main` is the entry.

    Operations of StableHLO that HLO has not, and dialects other than StableHLO, CHLO and func, are
    errors. name: stands for the text in errors. Raises HloError at the first error; the module may
    still break rules that `verify` checks.
    """
    source = Source(name, text)
    try:
        with collector_paused():
            return convert(source)
    except TextError as e:
        span = Span(source, e.offset, _word_end(text, e.offset))
        raise HloError([Diagnostic(e.code, e.message, span, e.hint)]) from None
