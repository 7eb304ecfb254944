"""Passes by name: a function on a module, and its typed options.

    @module_pass
    def dce(module: Module, rewrites: Rewrites) -> None:
        '''Remove what no result and no side effect needs.'''

The name is the function's, the one-line description its docstring's first line, and the options its
keyword-only parameters, by annotation and default. Dashes and underscores are the same in names,
and so are capitals inside words: XLA spells a few `LikeThis`.
Each file of this package with a pass is called like it, so that only what runs is imported.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from keyword import iskeyword
from pathlib import Path
from types import FunctionType
from typing import Any

from hlo.errors import HloError, Span, did_you_mean
from hlo.io.files import read_bytes
from hlo.ir import Module
from hlo.passes.pass_aliases import hint_of
from hlo.passes.rewrites import Rewrites
from hlo.support.signature import checked, need
from hlo.support.user_code import located

_TYPES: Mapping[type, str] = {bool: "true|false", int: "N", float: "X", str: "WORD"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a pass, of type bool, int, float or str."""

    name: str
    type: builtins.type  # not the field itself, where annotations are looked up
    default: Any

    def __str__(self) -> str:
        default = str(self.default).lower() if self.type is bool else self.default
        return f"{self.name.replace('_', '-')}={default}"


@dataclass(frozen=True, slots=True)
class Pass:
    """A registered pass.

    is_idempotent: a second run right after the first one finds nothing to do.
    """

    name: str
    summary: str
    options: Mapping[str, Option]
    function: Callable[..., None]
    is_idempotent: bool = False

    def __repr__(self) -> str:
        return f"<Pass {self.name}: {self.summary}>"

    @property
    def is_of_user(self) -> bool:
        """True for a pass that is not part of this package."""
        # Functions that a text defines may have no module.
        return (self.function.__module__ or "").partition(".")[0] != "hlo"

    def run(self, module: Module, options: Mapping[str, Any], rewrites: Rewrites) -> None:
        """Change the module. Raises HloError where the module has what the pass cannot handle."""
        if options:
            options = {f"{k}_" if iskeyword(k) else k: v for k, v in options.items()}
        self.function(module, rewrites, **options)


_PASSES: dict[str, Pass] = {}
_IDEMPOTENT: set[Callable[..., None]] = set()
# The names of the Python modules that files of passes become begin with this.
PLUGIN_PREFIX = "hlo_pass_plugin_"
_CAPITAL = re.compile("(?<=[a-z0-9])(?=[A-Z])")


# Passes that XLA has renamed, by their newer names.
_RENAMED = {
    "all_reduce_simplifier": "all_reduce_simp",
    "sub_byte_size_removal": "int4_size_removal",
    "sub_byte_size_setter": "int4_size_setter",
}


def _key(name: str) -> str:
    """Return what the spellings of a pass's name, and its other name, have in common."""
    key = _CAPITAL.sub("_", name).replace("-", "_").lower()
    return _RENAMED.get(key, key)


def idempotent(function: Callable[..., None]) -> Callable[..., None]:
    """Say of a function below `module_pass` that a second run right after one finds nothing.

    In a group that is repeated, the pass does not run again for its own changes alone.
    """
    _IDEMPOTENT.add(function)
    return function


def module_pass(function: Callable[..., None]) -> Callable[..., None]:
    """Register a function as the pass of its name.

    The name is the function's, the summary its docstring's first line, the options its keyword-only
    parameters. Defined again, as in a notebook, it takes the place of the one before.

    Raises:
        TypeError: for what is no function.
        ValueError: where the name is another pass's, where the docstring is missing, and for
            options without a type that options have.

    >>> from hlo.passes import Rewrites, module_pass
    >>> @module_pass
    ... def drop_metadata(module: hlo.Module, rewrites: Rewrites) -> None:
    ...     '''Forget where instructions come from.'''
    ...     for inst in module.instructions():
    ...         inst.annotations.pop("metadata", None)
    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   ROOT c = s32[] constant(7), metadata={op_name="f"} }''')
    >>> hlo.optimize(module, [drop_metadata]).entry.root.annotations
    {}
    """
    need(function, FunctionType, "module_pass: function")
    name = function.__name__.strip("_")
    hints = typing.get_type_hints(function)
    options = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            kind = hints.get(parameter.name)
            if kind is None or kind not in _TYPES or parameter.default is parameter.empty:
                raise ValueError(
                    f"{name}: option {parameter.name} has to be bool, int, float or str, and to "
                    "have a default"
                )
            # As `from_`, an option can have the name of a Python keyword.
            option = parameter.name.rstrip("_")
            options[option] = Option(option, kind, parameter.default)
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    if not summary:
        raise ValueError(f"{name}: a pass needs a docstring that describes it")
    key = _key(name)
    taken = _PASSES.get(key)
    if taken is None and key in _files() and _files()[key] != function.__module__:
        taken = find_pass(name)
    if taken is not None and _place(taken.function) != _place(function):
        raise ValueError(f"there is a pass called {name} already, in {_place(taken.function)[0]}")
    _PASSES[key] = Pass(name, summary, options, function, function in _IDEMPOTENT)
    return function


def _place(function: Callable[..., None]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def registered(function: object) -> Pass | None:
    """Return the pass of a function that `module_pass` has registered."""
    return next((p for p in _PASSES.values() if p.function is function), None)


def find_pass(name: str, span: Span | None = None) -> Pass:
    """Return the pass of a name, dashes and underscores alike.

    span: where the name stands. Raises HloError (`unknown-pass`) for a name that no pass has.
    """
    need(name, str, "find_pass: name")
    key = _key(name)
    if key not in _PASSES and key in _files():
        importlib.import_module(_files()[key])
    if key not in _PASSES:
        names = [n.replace("_", "-") for n in sorted({*_PASSES, *_files(), *_RENAMED})]
        hint = hint_of(key) or did_you_mean(name, names)
        raise HloError.at("unknown-pass", f"there is no pass called {name}", span, hint)
    return _PASSES[key]


def all_passes() -> list[Pass]:
    """Return every pass, those of plug-ins that were loaded included, by name."""
    for name in _files():
        find_pass(name)
    return [p for _, p in sorted(_PASSES.items())]


@checked
def load_plugin(path: str) -> None:
    """Run a Python file that registers passes with `module_pass`.

    Raises HloError if it cannot be read, or fails.
    """
    read_bytes(path)  # what cannot be read is an error in our words
    spec = importlib.util.spec_from_file_location(f"{PLUGIN_PREFIX}{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise HloError.at("bad-plugin", f"{path}: not a Python file")
    # Dataclasses look the module of their fields up there.
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as e:  # whatever a user's file raises is that file's error
        del sys.modules[spec.name]
        if isinstance(e, MemoryError):
            raise
        raise HloError.at("bad-plugin", located(e)) from e


@cache
def _files() -> dict[str, str]:
    """Return the names of the modules that hold passes, by name of the pass."""
    found = {}
    root = Path(__file__).parent
    for family in pkgutil.iter_modules([str(root)]):
        if family.ispkg:
            for info in pkgutil.iter_modules([str(root / family.name)]):
                if not info.name.startswith("_"):
                    found[info.name] = f"{__package__}.{family.name}.{info.name}"
    return found
