"""Some of the forms of StableHLO operations that `make sweep` has all of, beside MLIR's parser."""

from __future__ import annotations

from tests.generators.stablehlo_forms import forms
from tests.generators.stablehlo_modules import modules
from tests.sweeps.compare_stablehlo_forms import disagreements, ours

FORMS = dict(forms())
MODULES = dict(modules())


def test_forms_are_read_or_refused_as_by_mlir() -> None:
    """One of forty: some three hundred."""
    chosen = dict(list(FORMS.items())[::40])
    assert len(chosen) > 300
    assert disagreements(chosen) == {}


def test_what_surrounds_operations_is_read_or_refused_as_by_mlir() -> None:
    """Constants, types, functions, locations, modules; one in two."""
    assert disagreements(dict(list(MODULES.items())[::2])) == {}


def test_the_newest_configuration_is_beside_an_empty_string() -> None:
    """As JAX prints custom calls with typed attributes."""
    (text,) = (t for t in MODULES.values() if "mhlo.backend_config" in t)
    assert ours(text) == ""


def test_right_forms_are_read() -> None:
    """The first form of each example: the generic one."""
    chosen = [text for name, text in FORMS.items() if name.endswith(": properties")]
    assert len(chosen) > 150
    assert [ours(text) for text in chosen if ours(text)] == []
