"""Whether a module asks for strict arithmetic: a note in its text, which any frontend keeps."""

from __future__ import annotations

from types import MappingProxyType

from hlo.errors import HloError
from hlo.ir import Module

STRICT_MATH = "hlo.strict_math"
"""The name of the module's frontend attribute: `frontend_attributes={hlo.strict_math="true"}`."""


def has_strict_math(module: Module) -> bool:
    """Return whether a module asks for strict arithmetic. Raises HloError for an odd value."""
    said = module.attrs.get("frontend_attributes", {}).get(STRICT_MATH, "false")
    if said not in ("true", "false"):
        raise HloError.at(
            "bad-value", f"{module.name}: {STRICT_MATH} in frontend_attributes is {said!r}",
            hint='"true" or "false"',
        )  # fmt: skip
    return bool(said == "true")


def ask_for_strict_math(module: Module) -> None:
    """Have a module ask for strict arithmetic."""
    known = module.attrs.get("frontend_attributes", {})
    module.attrs["frontend_attributes"] = MappingProxyType({**known, STRICT_MATH: "true"})
