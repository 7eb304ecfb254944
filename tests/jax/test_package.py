"""`import hlo.jax`: what it loads, and its names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hlo.jax
from hlo.errors import HloError
from hlo.jax.private import need_jax
from tests.harness.paths import ROOT


def test_the_import_loads_neither_jax_nor_numpy() -> None:
    code = "import sys, hlo.jax; print({'jax', 'jaxlib', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_no_file_is_called_like_a_public_name() -> None:
    folder = Path(hlo.jax.__file__).parent
    assert not {p.stem for p in folder.glob("*.py")} & set(hlo.jax.__all__)


@pytest.mark.parametrize("name", hlo.jax.__all__)
def test_public_names_have_descriptions(name: str) -> None:
    assert getattr(hlo.jax, name).__doc__


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "jax.rst").read_text()
    listed = re.findall(r"^\.\. auto\w+:: (?:hlo\.jax\.)?(\w+)$", page, re.M)
    assert sorted(listed) == sorted(hlo.jax.__all__)


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hlo.jax.nothing


def test_without_jax_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(HloError, match=r"hlo\.jax\.name needs JAX") as e:
        need_jax("hlo.jax.name")
    assert e.value.code == "missing-extra"
