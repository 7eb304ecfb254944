"""Options of the plug-in: of a client, from the environment or its creator; of one compilation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hlo.errors import HloError

_WORDS = {"1": True, "true": True, "0": False, "false": False}
_MAX_DEVICES = 1024


@dataclass(frozen=True)
class Options:
    """How a client runs programs.

    Each field can be given to `Client_Create` by its name, or in the environment, as
    `HLO_PJRT_THREADS=1`; the number of devices as `HLO_PJRT_DEVICES`.

    platform: the client's name; `cpu` has JAX lower programs as it does for XLA:CPU. num_devices:
    of the client, threads of this process. threads: how many work on a run, 0 for one a processor.
    passes: the pipeline, as of `hlo.compile`. cache: keep native code on disk; a folder says where.
    tune: seconds to measure equivalent kernels before a program runs, 0 for none. strict: strict
    arithmetic, as of `hlo.compile`.
    """

    platform: str = "hlo"
    num_devices: int = 1
    threads: int = 0
    passes: str = "default"
    cache: bool | str = True
    tune: float = 0.0
    strict: bool = False


# Of one compilation: `jit(f, compiler_options={"hlo_threads": 1})`.
COMPILER_OPTIONS = {
    f"hlo_{name}": name for name in ("threads", "passes", "cache", "tune", "strict")
}


def client_options(given: Mapping[str, Any]) -> Options:
    """Return a client's options: those given, else the environment's. Raises HloError."""
    names = [f.name for f in fields(Options)]
    options = Options()
    for name in names:
        variable = f"HLO_PJRT_{name.removeprefix('num_').upper()}"
        text = os.environ.get(variable, "")
        if text:
            options = with_option(options, name, text, variable)
    for name, value in given.items():
        if name not in names:
            raise HloError.at(
                "bad-value", f"the client has no option {name!r}",
                hint=f"there are {', '.join(names)}",
            )  # fmt: skip
        options = with_option(options, name, value, f"option {name}")
    return options


def with_option(options: Options, name: str, value: Any, called: str) -> Options:
    """Return options with another value, which may be text. Raises HloError.

    called: names the option in errors.
    """
    return replace(options, **{name: _CHECKS[name](value, called)})


def _bad(called: str, value: Any, what: str) -> HloError:
    return HloError.at("bad-value", f"{called} is {what}, not {value!r}")


def _number(low: int, high: int) -> Any:
    def check(value: Any, called: str) -> int:
        try:
            found = int(value)
        except (TypeError, ValueError):
            found = low - 1
        if not low <= found <= high:
            raise _bad(called, value, f"a number from {low} to {high}")
        return found

    return check


def _seconds(value: Any, called: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found < 1e6:
        raise _bad(called, value, "a number of seconds")
    return found


def _flag(value: Any, called: str) -> bool:
    found = _WORDS.get(str(value).lower())
    if found is None:
        raise _bad(called, value, "true or false")
    return found


def _text(value: Any, called: str) -> str:
    if not isinstance(value, str):
        raise _bad(called, value, "text")
    return value


def _platform(value: Any, called: str) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise _bad(called, value, "a name of letters and digits")
    return value


def _cache(value: Any, called: str) -> bool | str:
    found = _WORDS.get(str(value).lower())
    return _text(value, called) if found is None else found


_CHECKS = {
    "platform": _platform,
    "num_devices": _number(1, _MAX_DEVICES),
    "threads": _number(0, 1 << 16),
    "passes": _text,
    "cache": _cache,
    "tune": _seconds,
    "strict": _flag,
}
