"""The examples in docstrings of what `import hlo` offers print what they say."""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
import hlo.client
import hlo.jax
import hlo.passes
import hlo.runtime.executable

# `OPS` is data. The others are covered by the examples of what makes them.
_WITHOUT = {"OPS"}
_OTHERS = [hlo.client.LoadedExecutable, hlo.runtime.executable.Executable, hlo.passes.module_pass]


def _public() -> Iterator[tuple[str, Any]]:
    for name in hlo.__all__:
        if name not in _WITHOUT:
            yield name, getattr(hlo, name)
    for name in hlo.jax.__all__:
        yield f"jax.{name}", getattr(hlo.jax, name)
    for thing in _OTHERS:
        yield thing.__qualname__, thing


def _members(name: str, thing: Any) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of a function, or of a class and its public members."""
    yield name, inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        for key in dir(thing):
            if not key.startswith("_") and (doc := inspect.getdoc(getattr(thing, key))):
                yield f"{name}.{key}", doc


DOCS = {key: doc for name, thing in _public() for key, doc in _members(name, thing)}
PUBLIC = [name for name, _ in _public()]
_CALLS = [
    f"{thing.__name__}.{key}"
    for thing in (hlo.Client, hlo.XlaBuilder)
    for key in dir(thing)
    if not key.startswith("_")
]


@pytest.mark.parametrize("name", [*PUBLIC, *_CALLS])
def test_what_is_public_has_an_example(name: str) -> None:
    assert ">>> " in DOCS[name]


@pytest.mark.parametrize("name", [name for name, doc in DOCS.items() if ">>> " in doc])
def test_an_example_prints_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ".so" in DOCS[name] and not any(map(shutil.which, ("cc", "gcc", "clang", "ld.lld"))):
        pytest.skip("there is no linker here")
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(DOCS[name], {"hlo": hlo, "np": np}, name, None, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)
