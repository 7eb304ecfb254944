"""What changed between two modules, matched by structure: `diff(left, right)`.

`details.py` says what differs between two matched instructions, `changes.py` finds all that differ,
`costs.py` what that costs; `clusters.py` finds those that belong together, `words.py` says what
happened to them; `record.py` is all of it as data, which `text.py`, `page.py` and `data.py` show.
"""

from hlo.debug.difference.changes import Change
from hlo.debug.difference.details import Detail
from hlo.debug.difference.difference import Difference, diff
from hlo.debug.difference.record import Pattern

__all__ = ["Change", "Detail", "Difference", "Pattern", "diff"]


def __dir__() -> list[str]:
    return sorted(__all__)
