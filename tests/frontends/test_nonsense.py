"""Wrong Python arguments for functions of `hlo`: an `HloError`, or a `TypeError` that says what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.passes import Fix, Step, find_pass, load_plugin, parse_pipeline, run_pipeline, step
from hlo.reports import explorer
from tests.frontends.test_builder_nonsense import NONSENSE

TEXT = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }"
MODULE, X = hlo.parse(TEXT), np.float32([1, 2])
RUN, CLIENT = hlo.compile(MODULE), hlo.Client(backend="reference")

CALLS: dict[str, Callable[[Any], object]] = {
    "interpret": lambda v: hlo.interpret(MODULE, v),
    "interpret host": lambda v: hlo.interpret(MODULE, X, host=v),
    "run": RUN,
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
    "Literal shape": hlo.Literal, "Literal shape of array": lambda v: hlo.Literal(v, X),
    "Literal array": lambda v: hlo.Literal(hlo.parse_shape("f32[7]"), v),
    "Literal tuple": lambda v: hlo.Literal(hlo.parse_shape("(f32[7])"), v),
    "Literal token": lambda v: hlo.Literal(hlo.parse_shape("token[]"), v),
    "Literal.with_shape": hlo.Literal.of(X).with_shape,
    "pack": lambda v: hlo.pack(v, "f32[2]"), "pack shape": lambda v: hlo.pack(X, v),
    "load": hlo.load, "save": lambda v: hlo.save(MODULE, v), "load_library": hlo.load_library,
    "Executable.save": RUN.save,
    **{
        f"Executable.save {name}": lambda v, name=name: RUN.save("unwritten/x.o", **{name: v})
        for name in "name header target cpu features debug_info linker passes".split()
    },
    "layout_facts": explorer.layout_facts, "layout_view": explorer.layout_view,
    "layout_view limit": lambda v: explorer.layout_view("f32[2]", v),
    "layout_view padding": lambda v: explorer.layout_view("f32[2]", padding=v),
    "facts_text": explorer.facts_text, "layout_text": explorer.layout_text,
    "layout_svg": explorer.layout_svg,
    "run_pipeline": lambda v: run_pipeline(MODULE.clone(), v),
    "run_pipeline module": lambda v: run_pipeline(v, []),
    "run_pipeline observers": lambda v: run_pipeline(MODULE.clone(), [step("dce")], v),
    "parse_pipeline": parse_pipeline, "find_pass": find_pass, "load_plugin": load_plugin,
    "step option": lambda v: step("cse", nearby_bytes=v),
    "Step": Step, "Step options": lambda v: Step(find_pass("cse"), v),
    "Fix": Fix, "Fix max_iters": lambda v: Fix([step("dce")], v),
    "Client": hlo.Client, "Client backend": lambda v: hlo.Client(backend=v),
    "Client host": lambda v: hlo.Client(host=v),
    "transfer_to_server": CLIENT.transfer_to_server,
    "transfer_to_server device": lambda v: CLIENT.transfer_to_server(X, v),
    "transfer_in_process": CLIENT.transfer_in_process, "transfer": CLIENT.transfer,
    "deconstruct_tuple": CLIENT.deconstruct_tuple,
    "transfer_to_infeed": CLIENT.transfer_to_infeed,
    "transfer_from_outfeed": CLIENT.transfer_from_outfeed,
    "Client.compile": CLIENT.compile,
    "Client.compile replicas": lambda v: CLIENT.compile(MODULE, num_replicas=v),
    "execute": CLIENT.execute, "execute arguments": lambda v: CLIENT.execute(MODULE, v),
    "execute device": lambda v: CLIENT.execute(MODULE, [X], v),
    "execute_replicated": lambda v: CLIENT.execute_replicated(v, [[X]]),
    "execute_replicated arguments": lambda v: CLIENT.execute_replicated(MODULE, v),
    "execute_parallel": CLIENT.execute_parallel,
    "execute_parallel instance": lambda v: CLIENT.execute_parallel([v]),
    "execute_parallel arguments": lambda v: CLIENT.execute_parallel([(MODULE, v)]),
    "compute_constant": CLIENT.compute_constant,
    "unpack": lambda v: hlo.unpack(v, "f32[2]"), "unpack shape": lambda v: hlo.unpack(X, v),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_an_error_with_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in NONSENSE:
        try:
            CALLS[name](value)
        except hlo.HloError as e:
            assert str(e)
        except TypeError as e:
            # A function is a program of JAX, which says itself what is wrong with it.
            assert "needed" in str(e) or (name == "compile" and callable(value))


@pytest.mark.parametrize(
    "path", ["", "\0", "a/\0.so", "/", ".", "x" * 5000, "\ud800", "nowhere/x.so"]
)
def test_a_path_that_is_no_file_is_an_error_with_its_name(path: str) -> None:
    doors: list[Callable[[str], object]] = [
        hlo.load, hlo.load_library, lambda p: hlo.save(MODULE, p), RUN.save, load_plugin,
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(hlo.HloError) as e:
            door(path)
        assert path in str(e.value) or repr(path) in str(e.value)


@pytest.mark.parametrize("name", ["", "1x", "int", "a b", "a\nb", "é", "\0"])
def test_the_name_of_a_saved_function_is_one_of_c(name: str, tmp_path: Path) -> None:
    with pytest.raises(hlo.HloError, match="is not a valid C identifier"):
        RUN.save(tmp_path / "x.o", name=name)
