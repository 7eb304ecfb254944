"""Which instructions of two modules are the same one: `match_modules(left, right)`.

Names and the order of the text do not count. `values.py` compares values of attributes, `labels.py`
describes an instruction by itself, `contents.py` whole computations, `colours.py` an instruction by
all that surrounds it; `graphs.py` has the graphs that are matched, `matcher.py` matches two of
them, `modules.py` two modules.
"""

from hlo.analysis.matching.labels import Labels, is_note
from hlo.analysis.matching.matching import Matching
from hlo.analysis.matching.modules import match_modules
from hlo.analysis.matching.values import comparable, comparable_annotation, comparable_config

__all__ = [
    "Labels",
    "Matching",
    "comparable",
    "comparable_annotation",
    "comparable_config",
    "is_note",
    "match_modules",
]


def __dir__() -> list[str]:
    return sorted(__all__)
