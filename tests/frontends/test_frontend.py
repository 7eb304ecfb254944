"""Programs of JAX as modules."""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.errors import HloError

jax = pytest.importorskip("jax")
pytest.importorskip("jax.export")


def layer(params: dict[str, Any], x: Any, unused: Any = 0) -> Any:
    return jax.nn.relu(x @ params["w"] + params["b"]), x.sum()


PARAMS = {"b": np.float32([1, -1, 0]), "w": np.eye(4, 3, dtype=np.float32)}
X = np.ones((2, 4), np.float32)


def test_a_function_becomes_a_module() -> None:
    module = hlo.from_jax(layer, PARAMS, X, 3)
    names = [p.name for p in module.entry.parameters]
    assert [n.strip("_") for n in names] == ["params__b", "params__w", "x", "unused"]
    hlo.verify(module)
    y, total = hlo.interpret(module, PARAMS["b"], PARAMS["w"], X, 3)
    np.testing.assert_array_equal(y, layer(PARAMS, X)[0])
    assert total == 8


@pytest.mark.parametrize("lowered", [False, True])
def test_jitted_and_lowered_ones_too(lowered: bool) -> None:
    jitted = jax.jit(lambda x: jax.lax.scan(lambda c, e: (c + e, c * e), 0.0, x))
    spec = jax.ShapeDtypeStruct((5,), np.float32)
    module = hlo.from_jax(jitted.lower(spec)) if lowered else hlo.from_jax(jitted, spec)
    assert any(i.opcode == "while" for i in module.instructions())
    x = np.arange(5, dtype=np.float32)
    got = hlo.interpret(module, x)
    want = jitted(x)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def _custom() -> Any:
    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def f(x: Any) -> Any:
        return jax.numpy.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 7))
    return jax.grad(lambda x: f(x).sum())


class Doubling:
    def __call__(self, x: Any) -> Any:
        return x * 2


Y = np.arange(6, dtype=np.float32).reshape(2, 3)
TABLE = np.arange(300, dtype=np.float32)
# Functions, arguments by position and by name, and the names of the parameters, by what is special.
FORMS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], list[str]]] = {
    "unused": (lambda a, b: a * 2, (Y, Y), {}, ["a", "b"]),
    "names": (lambda a, *, b: a - b, (Y,), {"b": Y + 1}, ["a", "b"]),
    "trees": (
        lambda t: {"s": t["a"] + t["b"][0], "z": (t["b"][1], None)},
        ({"a": Y, "b": [Y, 2 * Y]},), {}, ["t__a__", "t__b___0_", "t__b___1_"],
    ),
    "keys that end in numbers": (lambda p: p["x.1"] + p["x.2"], ({"x.1": Y, "x.2": Y},), {},
                                 ["p__x_1__", "p__x_2__"]),
    "constants": (lambda a: a + TABLE[:3], (Y,), {}, ["a"]),
    "vmap": (jax.vmap(lambda a: a.sum()), (Y,), {}, ["a"]),
    "grad": (jax.value_and_grad(lambda a: (a**2).sum()), (Y,), {}, ["a"]),
    "while": (lambda a: jax.lax.while_loop(lambda v: v.sum() < 99, lambda v: v * 2, a), (Y,), {},
              ["a"]),
    "cond": (lambda p, a: jax.lax.cond(p, lambda v: v + 1, lambda v: v - 1, a),
             (np.bool_(True), Y), {}, ["p", "a"]),
    "custom rule": (_custom(), (Y,), {}, ["x"]),
    "callable object": (Doubling(), (Y,), {}, ["x"]),
    "partial": (functools.partial(lambda a, b: a + b, Y), (Y,), {}, ["b"]),
    "one device": (
        jax.shard_map(
            lambda a: a + jax.lax.psum(a, "d"),
            mesh=jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",)),
            in_specs=jax.P("d"), out_specs=jax.P("d"),
        ),
        (Y,), {}, ["a"],
    ),
    "no arguments": (lambda: jax.numpy.ones(3), (), {}, []),
    "no results": (lambda a: (), (Y,), {}, ["a"]),
    "narrow types": (lambda a, b: (a + 1, b), (np.ones(3, ml_dtypes.bfloat16),
                     np.ones(2, ml_dtypes.int4)), {}, ["a", "b"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_functions(name: str) -> None:
    function, args, kwargs, names = FORMS[name]
    module = hlo.from_jax(function, *args, **kwargs)
    hlo.verify(module)
    assert [p.name for p in module.entry.parameters] == names
    want = function(*args, **kwargs)
    for got in (
        hlo.interpret(module, *args, **kwargs),
        hlo.interpret(module, *jax.tree.leaves((args, kwargs))),
    ):
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert isinstance(g, np.ndarray) and g.dtype == w.dtype
            np.testing.assert_allclose(g, np.asarray(w), rtol=1e-6)


def test_static_arguments_are_no_parameters_and_donated_ones_are_aliases() -> None:
    static = jax.jit(lambda a, n: a * n, static_argnums=1)
    assert len(hlo.from_jax(static, Y, 3).entry.parameters) == 1
    donated = jax.jit(lambda a: a + 1, donate_argnums=0)
    (alias,) = hlo.from_jax(donated, jax.ShapeDtypeStruct((2, 3), np.float32)).attrs[
        "input_output_alias"
    ]
    assert (alias.parameter, alias.output) == (0, ())


def test_wide_types_are_kept_where_jax_has_them() -> None:
    assert hlo.from_jax(lambda a: a, np.ones(3)).entry.root.shape == hlo.parse_shape("f32[3]")
    with jax.enable_x64(True):
        assert hlo.from_jax(lambda a: a, np.ones(3)).entry.root.shape == hlo.parse_shape("f64[3]")


@pytest.mark.parametrize("stage", ["trace", "lower", "compile", "export", "export, given"])
def test_programs_at_every_stage(stage: str) -> None:
    jitted = jax.jit(lambda a, *, b: jax.numpy.sin(a) + b)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    program: Any
    if stage.startswith("export"):
        program = jax.export.export(jitted)(Y, b=Y)
        args, kwargs = ((Y,), {"b": Y}) if "given" in stage else ((), {})
    else:
        program = getattr(jitted, "trace" if stage == "trace" else "lower")(Y, b=Y)
        program = program.compile() if stage == "compile" else program
    module = hlo.from_jax(program, *args, **kwargs)
    np.testing.assert_allclose(hlo.interpret(module, Y, 2 * Y), np.sin(Y) + 2 * Y, rtol=1e-6)
    if not stage.startswith("export"):
        with pytest.raises(TypeError, match="has its arguments already"):
            hlo.from_jax(program, Y)


@pytest.mark.parametrize("wrong", [3, None, "f", Y])
def test_what_is_no_function(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"takes a function, not {type(wrong).__name__}"):
        hlo.from_jax(wrong, Y)


def test_sizes_that_are_not_known_are_no_hlo() -> None:
    shape = jax.export.symbolic_shape("b,3")
    with pytest.raises(HloError, match=r"not valid HLO: .*dynamic_broadcast_in_dim") as e:
        hlo.from_jax(lambda a: a + 1, jax.ShapeDtypeStruct(shape, np.float32))
    assert e.value.code == "unsupported"


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(HloError, match=r"hlo-tools\[jax\]") as e:
        hlo.from_jax(lambda x: x, 1.0)
    assert e.value.code == "missing-extra"


def test_arguments_that_jax_cannot_hold_are_one_error() -> None:
    with pytest.raises(hlo.HloError, match="JAX rejects the arguments"):
        hlo.from_jax(lambda x: x, 2**70)


def test_arguments_that_are_nested_deep() -> None:
    deep: Any = np.float32(2)
    for _ in range(20_000):
        deep = [deep]
    try:
        module = hlo.from_jax(lambda x: jax.tree.leaves(x)[0] + 1, deep)
    except hlo.HloError as e:  # where Python has no room for calls so deep
        assert "JAX rejects the arguments" in str(e)
    else:
        assert hlo.interpret(module, 2.0) == 3


def test_an_overflow_in_the_function_is_its_own() -> None:
    with pytest.raises(OverflowError):
        hlo.from_jax(lambda x: x * math.exp(1000), 1.0)


# --- trees --------------------------------------------------------------------------------------


def same(got: Any, want: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, np.asarray(w), rtol=1e-6)


def step(state: dict[str, Any], x: Any, rate: Any = 0.5) -> Any:
    w = state["w"] - rate * x.sum()
    return {"w": w, "seen": [state["seen"][0] + 1, None]}, x.mean()


STATE = {"w": np.float32([1, 2]), "seen": [np.int32(0), None]}


@pytest.mark.parametrize("stage", ["function", "jit", "trace", "lower", "compile", "export"])
def test_trees_are_kept_at_every_stage(stage: str) -> None:
    jitted = jax.jit(step)
    program: Any = {"function": step, "jit": jitted}.get(stage)
    args: tuple[Any, ...] = (STATE, Y)
    if stage == "export":
        program, args = jax.export.export(jitted)(STATE, Y), ()
    elif program is None:
        program, args = jitted.trace(STATE, Y) if stage == "trace" else jitted.lower(STATE, Y), ()
        program = program.compile() if stage == "compile" else program
    module = hlo.from_jax(program, *args)
    run = hlo.compile(hlo.optimize(module.clone()))
    state, mean = run(STATE, Y)
    same((state, mean), step(STATE, Y))
    same(run(state, Y), step(state, Y))  # what a step gives the next one takes
    same(run(0, STATE["w"], Y), step(STATE, Y))


def test_arguments_of_functions_by_name() -> None:
    run = hlo.compile(hlo.from_jax(step, STATE, Y, rate=0.25))
    want = step(STATE, Y, 0.25)
    for got in (
        run(STATE, Y, rate=0.25), run(STATE, Y, 0.25), run(rate=0.25, x=Y, state=STATE),
        run(STATE, rate=0.25, x=jax.numpy.asarray(Y)),
    ):  # fmt: skip
        same(got, want)


def test_arguments_that_are_not_nested_like_the_function_s() -> None:
    run = hlo.compile(hlo.from_jax(step, STATE, Y))
    with pytest.raises(HloError, match=r"state is a dictionary of 'w', .* 'w' is needed") as e:
        run({"w": STATE["w"]}, Y)
    assert e.value.code == "type-mismatch"
    with pytest.raises(HloError, match="2 arguments for 3 parameters"):
        run(STATE["w"], Y)
    with pytest.raises(TypeError, match="no parameter called 'rate'"):
        run(1, STATE["w"], rate=3.0)


def test_a_jitted_function_takes_what_it_does_not_use() -> None:
    jitted = jax.jit(lambda t, n, unused: t["a"] * n, static_argnums=1)
    tree = {"a": Y, "b": Y}
    module = hlo.from_jax(jitted, tree, 3, unused=Y)
    assert len(module.entry.parameters) == 1
    same(hlo.interpret(module, tree, unused=None or Y), 3 * Y)
    same(hlo.interpret(module, Y), 3 * Y)


def test_keys_and_derivatives_of_integers_come_back_as_jax_has_them() -> None:
    @jax.jit
    def draw(key: Any) -> Any:
        key, own = jax.random.split(key)
        return key, jax.random.normal(own, (2,))

    run = hlo.compile(hlo.from_jax(draw, jax.random.key(3, impl="rbg")))
    key = jax.random.key(3, impl="rbg")
    got, want = run(key)[0], draw(key)[0]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(jax.random.key_data(got), jax.random.key_data(want))
    gradient = jax.grad(lambda n: 1.0 * n.sum(), allow_int=True)
    got = hlo.interpret(hlo.from_jax(gradient, np.int32([1, 2])), np.int32([1, 2]))
    assert got.dtype == jax.dtypes.float0 and got.shape == (2,)


def test_a_module_that_changed_its_parameters_has_no_trees() -> None:
    module = hlo.from_jax(lambda t: {"s": t["a"] + t["b"]}, {"a": Y, "b": Y})
    assert module.clone().trees is module.trees is not None
    assert hlo.parse(str(module)).trees is None
    add = module.entry.root
    add.replace_operand(1, add.operands[0])
    module.entry.remove(module.entry.parameters[1])
    del module.attrs["entry_computation_layout"]
    same(hlo.interpret(module, Y), {"s": 2 * Y})  # what it gives is the same still
    module.entry.set_root(module.entry.create("tuple", hlo.parse_shape("()")))
    assert module.usable_trees is None and hlo.interpret(module, Y) == ()


def test_baked_weights_are_no_arguments_and_results_stay_as_they_are() -> None:
    module = hlo.from_jax(step, STATE, Y)
    name = module.entry.parameters[1].name
    run = hlo.compile(module, weights={name: STATE["w"]})
    same(run(0, Y), step(STATE, Y))
