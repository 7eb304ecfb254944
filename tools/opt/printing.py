"""The flags of `hlo-opt` that say how a module is printed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hlo.frontends.text import PrintOptions

    from ..command_line.debug_options import DebugOptions

FORMS = ("default", "short", "canonical", "fingerprint", "xla")
# Flags and the fields of PrintOptions that they set.
_TOGGLES = {
    "operand_shapes": "operand shapes",
    "percent": "% before names",
    "signatures": "signatures of computations",
    "metadata": "metadata",
    "backend_config": "backend_config",
    "layouts": "layouts in shapes",
    "control_predecessors": "control predecessors",
    "index_comments": "/*index=5*/ comments",
    "compact_gte": "%t#1 for get-tuple-element",
    "bodies": "called computations in place",
}


def print_toggles(command: Any) -> Any:
    """Add a flag for each part of a print."""
    for field, what in reversed(_TOGGLES.items()):
        flag = field.replace("_", "-")
        option = click.option(f"--{flag}/--no-{flag}", field, default=None, help=f"Print {what}.")
        command = option(command)
    return command


def print_options(
    form: str, limit: int | None, toggles: dict[str, bool | None], debug_options: DebugOptions
) -> PrintOptions:
    """Return the options of a form with the changes that flags make to it.

    limit: of the elements of constants; None for the form's own.
    """
    from hlo.frontends.text import PrintOptions

    options = {
        "default": PrintOptions,
        "short": PrintOptions.short_parsable,
        "canonical": PrintOptions.canonical,
        "fingerprint": PrintOptions.fingerprint,
        "xla": PrintOptions.xla,
    }[form]()
    changes: dict[str, Any] = debug_options.print_changes() if form == "xla" else {}
    changes |= {field: toggles[field] for field in _TOGGLES if toggles[field] is not None}
    if limit is not None:
        changes["constant_limit"] = limit
    return replace(options, **changes)
