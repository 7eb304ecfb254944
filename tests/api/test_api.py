"""`import hlo`: names, arguments in every form, results, errors."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.values.types import F32

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  t = (f32[2], (s32[], token[])) parameter(1)
  a = f32[2] get-tuple-element(t), index=0
  s = f32[2] add(x, a)
  n = (s32[], token[]) get-tuple-element(t), index=1
  i = s32[] get-tuple-element(n), index=0
  u = (s32[]) tuple(i)
  ROOT r = (f32[2], (s32[])) tuple(s, u)
}
"""
X = np.array([1, 2], np.float32)


def call(*args: Any) -> Any:
    return hlo.interpret(hlo.parse(TEXT), *args)


@pytest.mark.parametrize(
    "args",
    [
        (X, (X, (np.int32(3), None))),
        (X, [X, [3, None]]),
        (X, X, 3),
        ([1.0, 2], [1, 2], True + 2),
        (X[::-1][::-1], X.astype(">f4"), np.array(3, np.int32)),
    ],
)
def test_arguments_nested_or_flat(args: tuple[Any, ...]) -> None:
    total, (number,) = call(*args)
    assert total.tolist() == [2, 4] and total.dtype == np.float32
    assert number == 3 and isinstance(number, np.ndarray) and number.shape == ()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ((X,), "argument-count", "1 arguments for 2 parameters (3 arrays in all)"),
        ((X, X), "argument-count", "2 arguments"),
        ((X, (X, 3)), "type-mismatch", "a tuple of 2 is needed"),
        ((X, (X,)), "type-mismatch", "it has 1 elements"),
        ((X.astype(np.float64), X, 3), "type-mismatch", "argument x has dtype numpy.float64"),
        ((X[:1], X, 3), "shape-mismatch", "argument x has dimensions [1], f32[2] is needed"),
        (([1, 2, 3], X, 3), "shape-mismatch", "dimensions [3]"),
        (([[1], [2, 3]], X, 3), "shape-mismatch", "differ in length"),
        ((X, X, 2**40), "type-mismatch", "outside s32"),
        ((X, X, 2**70), "type-mismatch", "do not convert"),
        ((X, X, 1.5), "type-mismatch", "do not convert to s32[]"),
        (("ab", X, 3), "type-mismatch", "do not convert"),
        ((None, X, 3), "type-mismatch", "do not convert"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[Any, ...], code: str, words: str) -> None:
    with pytest.raises(hlo.HloError) as e:
        call(*args)
    assert e.value.code == code and words in str(e.value)


def test_parameters_by_name() -> None:
    module = hlo.parse(TEXT)
    run = hlo.compile(module)
    whole = (X, (np.int32(3), None))
    for call in (run, lambda *args, **named: hlo.interpret(module, *args, **named)):
        for got in (
            call(X, t=whole), call(t=whole, x=X), call(x=X, **{"t.0": X, "t.1.0": 3}),
            call(X, **{"t.1.0": 3, "t.0": [1, 2]}),
        ):  # fmt: skip
            assert got[0].tolist() == [2, 4] and got[1][0] == 3


@pytest.mark.parametrize(
    ("args", "named", "error", "words"),
    [
        ((X,), {"u": 3}, TypeError, "no parameter called 'u'; parameters are x, t"),
        ((X,), {"t.2": 3}, TypeError, "no parameter called 't.2'"),
        ((X,), {"x": X}, TypeError, "'x' is given by position and by name"),
        ((), {"x": X}, hlo.HloError, "no value for t"),
        ((X,), {"t.0": X}, hlo.HloError, "no value for t"),
        ((X,), {"t": 3}, hlo.HloError, "argument 1 (t): a tuple of 2 is needed"),
        ((X, X, 3), {"x": X}, hlo.HloError, "3 arguments by position for 2 parameters"),
    ],
)
def test_names_that_do_not_fit(
    args: tuple[Any, ...], named: dict[str, Any], error: type[Exception], words: str
) -> None:
    module = hlo.parse(TEXT)
    with pytest.raises(error, match=re.escape(words)):
        hlo.compile(module)(*args, **named)
    with pytest.raises(error, match=re.escape(words)):
        hlo.interpret(module, *args, **named)


def test_interpret_verifies_first() -> None:
    module = hlo.parse("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[3] negate(x) }")
    with pytest.raises(hlo.HloError, match="<string>:2:"):
        hlo.interpret(module, X)


def test_dynamic_results_have_their_actual_size() -> None:
    module = hlo.parse("HloModule m\nENTRY e { ROOT x = f32[<=4] parameter(0) }")
    assert hlo.interpret(module, X).tolist() == [1, 2]


def test_instructions_are_renamed_in_their_place() -> None:
    entry = hlo.parse(TEXT).entry
    order = list(entry)
    for inst in order[3], order[5]:
        entry.rename(inst, "sum")
    assert list(entry) == order and entry.get("sum") is order[3] and entry.get("i") is None
    assert entry.get(order[5].name) is order[5] and order[5].name.startswith("sum.")


def test_bits_for_types_that_numpy_does_not_know() -> None:
    module = hlo.parse(
        "HloModule m\nENTRY e { x = bf16[2] parameter(0) ROOT y = bf16[2] negate(x) }"
    )
    values = X.astype(ml_dtypes.bfloat16)
    for given in (values, values.view(np.uint16), values.view("V2")):
        assert hlo.interpret(module, given).tolist() == [-1, -2]


def test_load_and_errors_of_files(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    assert str(hlo.parse(str(hlo.load(path)))) == str(hlo.load(path))
    path.write_text("HloModule m\nENTRY e {\n  ROOT x = f32[2 parameter(0)\n}\n")
    with pytest.raises(hlo.HloError) as e:
        hlo.load(path)
    assert str(e.value).startswith(f"{path}:3:")
    with pytest.raises(hlo.HloError, match="no such file"):
        hlo.load(tmp_path / "none.hlo")


@pytest.mark.parametrize(
    "use", [hlo.verify, hlo.optimize, hlo.compile, hlo.interpret, hlo.print_module]
)
@pytest.mark.parametrize("value", ["HloModule m", None])
def test_what_is_no_module(use: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(TypeError, match="a Module is needed"):
        use(value)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda m: hlo.print_module(m, 3), "print_module: options is 3"),
        (lambda m: hlo.Module(3), "Module: name is 3"),
        (lambda m: hlo.ArrayShape("f32", (2,)), "an ElementType and a tuple are needed, not 'f32'"),
        (lambda m: hlo.ArrayShape(F32, [2]), "a tuple are needed"),
        (lambda m: hlo.optimize(m, 3), "optimize: passes is 3"),
        (lambda m: hlo.optimize(m, [3]), "3 is not a pass"),
        (lambda m: hlo.compile(m, features=3), "compile: features is 3, a string is needed"),
        (lambda m: hlo.load(3), "load: path is 3"),
    ],
)
def test_arguments_of_other_types_are_type_errors(
    use: Callable[[hlo.Module], Any], words: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        use(hlo.parse(TEXT))


def test_errors_of_functions_of_custom_calls_are_their_own() -> None:
    module = hlo.parse(
        "HloModule m\nENTRY e { x = f32[2] parameter(0)\n"
        'ROOT y = f32[2] custom-call(x), custom_call_target="boom" }'
    )

    def boom(op: Any, args: Any) -> Any:
        raise ZeroDivisionError("mine")

    host = hlo.Host({"boom": boom})
    for call in (
        lambda: hlo.interpret(module, X, host=host),
        lambda: hlo.compile(module, host=host)(X),
    ):
        with pytest.raises(ZeroDivisionError, match="mine"):
            call()


def test_what_is_no_text() -> None:
    for value in (None, b"HloModule m", 3):
        with pytest.raises(TypeError, match="parse: source is"):
            hlo.parse(value)  # type: ignore[arg-type]


def test_copies_of_modules() -> None:
    steps = "".join(f"  x{n} = f32[] sine(x{n - 1})\n" for n in range(1, 2000))
    module = hlo.parse(f"HloModule m\nENTRY e {{\n  x0 = f32[] parameter(0)\n{steps}}}\n")
    for made in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert str(made) == str(module) and made.entry is not module.entry
        hlo.verify(made)


def test_native_code_is_not_copied() -> None:
    run = hlo.compile(hlo.parse(TEXT))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="pickle its module"):
            copied(run)


def test_every_public_name_is_there() -> None:
    for name in hlo.__all__:
        assert getattr(hlo, name) is not None
    assert set(hlo.__all__) <= set(dir(hlo))
    with pytest.raises(AttributeError):
        _ = hlo.nothing


def test_importing_costs_nothing() -> None:
    code = "import sys, hlo; print({'numpy', 'lark', 'ml_dtypes'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"set()\n"


# --- editing ------------------------------------------------------------------------------------


def _sum(module: hlo.Module) -> hlo.Instruction:
    return module.entry["s"]


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda m: m.entry.remove(m.entry["s"]), ValueError, "s still has users: r"),
        (lambda m: m.entry.remove(m.entry.root), ValueError, "r is the root of e"),
        (lambda m: m.entry.remove(hlo.parse(TEXT).entry["s"]), ValueError, "not in computation e"),
        (lambda m: m.entry.add(m.entry["s"]), ValueError, "s is in computation e already"),
        (lambda m: m.entry.set_root(hlo.parse(TEXT).entry["s"]), ValueError, "not in computation"),
        (lambda m: m.entry.rename(hlo.parse(TEXT).entry["s"], "t"), ValueError, "not in comp"),
        (lambda m: m.entry.reorder(list(m.entry)[1:]), ValueError, "each of its instructions once"),
        (lambda m: m.entry.reorder([*list(m.entry)[1:], m.entry["s"]]), ValueError, "once"),
        (lambda m: m.remove(m.entry), ValueError, "e is the entry of module m"),
        (lambda m: m.add(m.entry), ValueError, "e is in module m already"),
        (lambda m: m.set_entry(hlo.parse(TEXT).entry), ValueError, "e is not in module m"),
        (lambda m: hlo.Module("empty").entry, ValueError, "empty has no entry yet"),
        (lambda m: hlo.Computation("empty").root, ValueError, "empty has no root yet"),
        (lambda m: hlo.Instruction("x", "ad", _sum(m).shape), ValueError, "did you mean 'add'?"),
        (lambda m: m.entry.create("add", _sum(m).shape, [_sum(m), 3]), TypeError, "operand is 3"),
    ],
)
def test_edits_that_cannot_be(
    use: Callable[[hlo.Module], Any], error: type[Exception], words: str
) -> None:
    module = hlo.parse(TEXT)
    with pytest.raises(error, match=re.escape(words)):
        use(module)
    assert str(module) == str(hlo.parse(TEXT))
