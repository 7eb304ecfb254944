"""What changed from one module to another: `diff(left, right)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.analysis.cost import Cost
from hlo.analysis.matching import Matching, match_modules
from hlo.analysis.simulation.machine import Machine
from hlo.debug.difference.changes import Change, changes_of, header_details
from hlo.debug.difference.clusters import clusters
from hlo.debug.difference.costs import Costs
from hlo.debug.difference.data import difference_data
from hlo.debug.difference.page import fragment, page_of
from hlo.debug.difference.record import Pattern, Record
from hlo.debug.difference.sites import Sites
from hlo.debug.difference.text import report
from hlo.debug.difference.words import words
from hlo.frontends.programs import module_of
from hlo.ir import Module
from hlo.ir.module import need_module
from hlo.lenient import verified
from hlo.support.memory import collector_paused


class Difference(Record):
    """What changed from one module to another. False if nothing did; `str()` is a report."""

    def __str__(self) -> str:
        return report(self)

    def __repr__(self) -> str:
        return f"<Difference of {self.left.name} and {self.right.name}: {self.summary}>"

    def _repr_html_(self) -> str:
        return fragment(self)

    def page(self) -> str:
        """Return an HTML page, both modules side by side, that needs no other file."""
        return page_of(self)

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON data, as docs/schemas/hlo-diff.schema.json says."""
        return difference_data(self)


def diff(
    left: Any, right: Any, *, metadata: bool = False, by_name: bool = False,
    machine: Machine | None = None, names: tuple[str, str] | None = None,
) -> Difference:  # fmt: skip
    """Return what changed from one module to another, matched by structure and not by names.

    Args:
        left, right: the modules, which stay as they are; names of files, as of `hlo.load`; or
            programs of JAX that have their arguments, as of `hlo.from_jax`.
        metadata: whether where instructions come from counts: framework operations, source lines.
        by_name: whether names are evidence of which instructions are the same, as they are where
            passes made one module of the other.
        machine: what times are estimated for; by default 100 TFLOP/s and 2 TB/s.
        names: what reports call both modules; by default their files.

    Returns:
        The differences, sorted by cost; false if there are none. `str()` is a report, `page()` an
        HTML page, `to_json()` data.

    Raises:
        HloError: for an invalid module.

    >>> left = hlo.parse("HloModule a ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] tanh(x) }")
    >>> right = hlo.parse("HloModule b ENTRY f { p = f32[2] parameter(0) ROOT q = f32[2] sine(p) }")
    >>> found = hlo.diff(left, right)
    >>> found.summary, [pattern.words for pattern in found.patterns]
    ('1 changed', ['tanh: now sine'])
    >>> bool(hlo.diff(left, hlo.parse(str(left))))
    False
    """
    left, right = module_of(left), module_of(right)
    for module in (left, right):
        need_module(module)
    left, right = verified(left, "lenient"), verified(right, "lenient")
    with collector_paused():
        matching = match_modules(left, right, by_name=by_name)
        sites = Sites(matching)
        costs = Costs(left, right, machine or Machine())
        changes = changes_of(matching, sites, costs, metadata=metadata)
        header = header_details(left, right, metadata=metadata)
        patterns = _patterns(matching, sites, changes)
    shown = names or (_name(left), _name(right))
    return Difference(left, right, shown, matching, header, changes, patterns, costs)


def _name(module: Module) -> str:
    """Return what a module is called: its file, or its own name."""
    name = module.source.name if module.source is not None else ""
    return name if name and not name.startswith("<") else f"module {module.name}"


def _patterns(matching: Matching, sites: Sites, changes: Sequence[Change]) -> list[Pattern]:
    places: dict[str, list[Sequence[Change]]] = {}
    for group in clusters(matching, sites, changes):
        places.setdefault(words(matching, sites, group), []).append(group)
    found = []
    for text, groups in places.items():
        cost = sum((c.cost for g in groups for c in g), Cost())
        seconds = sum(c.seconds for g in groups for c in g)
        found.append(Pattern(text, groups, cost, seconds))
    return sorted(found, key=lambda p: p.weight, reverse=True)
