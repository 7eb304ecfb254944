"""Wrong Python arguments for functions of `hlo`: an `HloError`, or a `TypeError` that says what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_builder_nonsense import NONSENSE

import hlo

TEXT = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }"
MODULE, X = hlo.parse(TEXT), np.float32([1, 2])

CALLS: dict[str, Callable[[Any], object]] = {
    "interpret": lambda v: hlo.interpret(MODULE, v),
    "interpret host": lambda v: hlo.interpret(MODULE, X, host=v),
    "run": hlo.compile(MODULE),
    "parse name": lambda v: hlo.parse(TEXT, v),
    "from_proto": hlo.from_proto, "to_proto": hlo.to_proto, "verify": hlo.verify,
    "optimize passes": lambda v: hlo.optimize(hlo.parse(TEXT), v),
    "optimize validate": lambda v: hlo.optimize(hlo.parse(TEXT), validate=v),
    "compile": hlo.compile,
    "compile cache": lambda v: hlo.compile(MODULE, cache=v),
    "compile features": lambda v: hlo.compile(MODULE, features=v),
    "compile host": lambda v: hlo.compile(MODULE, host=v),
    "compile passes": lambda v: hlo.compile(MODULE, passes=v),
    "from_stablehlo": hlo.from_stablehlo, "parse_shape": hlo.parse_shape,
    "print_module": hlo.print_module, "Literal.of": hlo.Literal.of,
    "pack": lambda v: hlo.pack(v, "f32[2]"), "pack shape": lambda v: hlo.pack(X, v),
    "unpack": lambda v: hlo.unpack(v, "f32[2]"), "unpack shape": lambda v: hlo.unpack(X, v),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_an_error_with_words(name: str) -> None:
    for value in NONSENSE:
        try:
            CALLS[name](value)
        except hlo.HloError as e:
            assert str(e)
        except TypeError as e:
            assert "needed" in str(e)
