"""Parameters that become constants: by which names, of which values, and what is left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.compiler.weights import read_weights
from hlo.errors import HloError
from hlo.testing.compare import compare
from hlo.testing.sampling import random_value
from tests.harness.oracle import leaves

DENSE = """HloModule dense, input_output_alias={ {1}: (3, {}, may-alias), {0}: (1, {}, may-alias) }, entry_computation_layout={(f32[2,3]{0,1}, f32[2,4]{1,0}, f32[3,4]{1,0}, s64[2]{0})->(f32[2,4]{1,0}, s64[2]{0})}
ENTRY main {
  x = f32[2,3] parameter(0)
  bias.1 = f32[2,4] parameter(1)
  kernel = f32[3,4] parameter(2), metadata={op_name="params['kernel']"}
  step = s64[2] parameter(3)
  d = f32[2,4] dot(x, kernel), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[2,4] add(d, bias.1)
  n = s64[2] add(step, step)
  ROOT r = (f32[2,4], s64[2]) tuple(y, n)
}
"""  # noqa: E501
NESTED = """HloModule nested, input_output_alias={ {0}: (0, {1,1}, may-alias), {1}: (1, {}, may-alias) }, buffer_donor={ (0, {0}), (0, {1,0}) }
ENTRY main {
  p = (f32[2], (f32[3], f32[2]), token[], ()) parameter(0)
  q = f32[2] parameter(1)
  a = f32[2] get-tuple-element(p), index=0
  t = (f32[3], f32[2]) get-tuple-element(p), index=1
  b = f32[3] get-tuple-element(t), index=0
  c = f32[2] get-tuple-element(t), index=1
  s = f32[2] slice(b), slice={[1:3]}
  ac = f32[2] subtract(a, c)
  sq = f32[2] divide(s, q)
  ROOT r = (f32[2], f32[2], (f32[3], f32[2])) tuple(ac, sq, t)
}
"""  # noqa: E501


def baked(text: str, weights: Mapping[str, Any] | str | Path, count: int) -> hlo.Module:
    """Return a module with weights baked in, checked beside the one that gets them as arguments."""
    module = hlo.parse(text)
    assert hlo.bake_weights(module, weights) == count
    hlo.verify(module)
    # What is printed is the module.
    assert str(hlo.parse(str(module))) == str(module)
    return module


def same_results(text: str, module: hlo.Module, given: Mapping[str, Any]) -> None:
    """Check that a module computes of the other arguments what the first one computes of all."""
    whole = hlo.parse(text)
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {}

    def value(shape: Any, name: str) -> Any:
        if isinstance(shape, hlo.TupleShape):
            return tuple(value(s, f"{name}.{i}") for i, s in enumerate(shape.elements))
        values[name] = given[name] if name in given else random_value(rng, shape)
        return values[name]

    args = [value(p.shape, p.name) for p in whole.entry.parameters]
    rest = [v for name, v in values.items() if name not in given and isinstance(v, np.ndarray)]
    want = leaves(hlo.interpret(whole, *args))
    for got in (hlo.interpret(module, *rest), hlo.compile(module, cache=False)(*rest)):
        assert all(compare(g, np.asarray(w)).same for g, w in zip(leaves(got), want, strict=True))


KERNEL = np.arange(12, dtype=np.float32).reshape(3, 4)
BIAS = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])


@pytest.mark.parametrize(
    "name",
    ["kernel", "%kernel", "2", "arg2", "params['kernel']"],
)
def test_a_parameter_has_many_names(name: str) -> None:
    module = baked(DENSE, {name: KERNEL}, 1)
    assert [(p.name, p.attrs["number"]) for p in module.entry.parameters] == [
        ("x", 0), ("bias.1", 1), ("step", 2),
    ]  # fmt: skip
    assert np.array_equal(module.entry.get("kernel").attrs["literal"].array, KERNEL)
    header = str(module).split("\n")[0]
    assert "(f32[2,3]{0,1}, f32[2,4]{1,0}, s64[2]{0})->" in header
    assert "{1}: (2, {}, may-alias)" in header and "{0}: (1, {}, may-alias)" in header
    same_results(DENSE, module, {"kernel": KERNEL})


def test_memory_that_a_result_shared_is_its_own_then() -> None:
    module = baked(DENSE, {"kernel": KERNEL, "bias.1": BIAS}, 2)
    assert "input_output_alias={ {1}: (1, {}, may-alias) }" in str(module)
    same_results(DENSE, module, {"kernel": KERNEL, "bias.1": BIAS})


def test_all_parameters() -> None:
    given = {"x": BIAS[:, :3], "bias.1": BIAS, "kernel": KERNEL, "step": np.int64([1, 2])}
    module = baked(DENSE, given, 4)
    assert not module.entry.parameters and "alias" not in str(module)
    same_results(DENSE, module, given)


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        (["p.0"], "((f32[3]{0}, f32[2]{0}), token[], ())"),
        (["p.1.0"], "(f32[2]{0}, (f32[2]{0}), token[], ())"),
        (["p.1.0", "p.1.1"], "(f32[2]{0}, token[], ())"),
        (["p.0", "p.1.1", "q"], "((f32[3]{0}), token[], ())"),
        (["p.0", "p.1.0", "p.1.1"], "(token[], ())"),
        (["q"], "(f32[2]{0}, (f32[3]{0}, f32[2]{0}), token[], ())"),
    ],
)
def test_leaves_of_tuples(names: list[str], shape: str) -> None:
    values = {
        "p.0": [1, 2], "p.1.0": [3, 4, 5], "p.1.1": [6, 7], "q": [8, 9],
    }  # fmt: skip
    given = {n: np.float32(values[n]) for n in names}
    module = baked(NESTED, given, len(names))
    assert str(module.entry.parameters[0].shape) == shape
    same_results(NESTED, module, given)


def test_aliases_and_donors_in_tuples_move_up() -> None:
    module = baked(NESTED, {"p.0": np.float32([1, 2])}, 1)
    header = str(module).split("\n")[0]
    assert "{0}: (0, {0,1}, may-alias), {1}: (1, {}, may-alias)" in header
    assert "buffer_donor={ (0, {0,0}) }" in header


def test_a_parameter_that_is_the_result() -> None:
    text = "HloModule m\nENTRY e { ROOT x = f32[2] parameter(0) }\n"
    module = baked(text, {"x": np.float32([1, 2])}, 1)
    assert module.entry.root.opcode == "constant" and module.entry.root.name == "x"
    assert hlo.compile(module, cache=False)().tolist() == [1, 2]


def test_control_edges_and_schedules_stay_sound() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e {
  y = f32[2] parameter(1)
  x = f32[2] parameter(0)
  n = f32[2] negate(y), control-predecessors={x}
  ROOT r = f32[2] add(n, x) }"""
    module = baked(text, {"x": np.float32([1, 2])}, 1)
    assert [i.name for i in module.entry] == ["y", "x", "n", "r"]
    same_results(text, module, {"x": np.float32([1, 2])})


def test_what_metadata_say_of_two_parameters_names_neither() -> None:
    text = DENSE.replace("step = s64[2] parameter(3)", "step = s64[2] parameter(3), "
                         "metadata={op_name=\"params['kernel']\"}")  # fmt: skip
    with pytest.raises(HloError, match="no parameter is called params"):
        hlo.bake_weights(hlo.parse(text), {"params['kernel']": KERNEL})


# --- files --------------------------------------------------------------------------------------


def safetensors(path: Path, arrays: Mapping[str, np.ndarray], types: Mapping[str, str]) -> None:
    """Write a file as the format is described."""
    import json

    header, at = {}, 0
    for name, a in arrays.items():
        ends = [at, at := at + a.nbytes]
        header[name] = {"dtype": types[name], "shape": a.shape, "data_offsets": ends}
    text = json.dumps(header).encode()
    data = b"".join(a.tobytes() for a in arrays.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_files_of_each_kind(tmp_path: Path) -> None:
    given = {"kernel": KERNEL, "bias.1": BIAS}
    np.savez(tmp_path / "w.npz", **given)
    safetensors(tmp_path / "w.safetensors", given, dict.fromkeys(given, "F32"))
    (tmp_path / "w").mkdir()
    for name, value in given.items():
        np.save(tmp_path / "w" / f"{name}.npy", value)
    texts = {str(baked(DENSE, tmp_path / f, 2)) for f in ("w.npz", "w.safetensors", "w")}
    assert texts == {str(baked(DENSE, given, 2))}


def test_types_that_numpy_lacks(tmp_path: Path) -> None:
    text = "HloModule m\nENTRY e { x = bf16[3] parameter(0)\n  ROOT y = bf16[3] add(x, x) }\n"
    value = np.array([1, 2, 3], ml_dtypes.bfloat16)
    safetensors(tmp_path / "w.safetensors", {"x": value}, {"x": "BF16"})
    np.savez(tmp_path / "w.npz", x=value.view(np.uint16))
    for file in ("w.safetensors", "w.npz"):
        assert hlo.interpret(baked(text, tmp_path / file, 1)).astype(float).tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"kernal": KERNEL}, "no parameter is called kernal"),
        ({"kernal": KERNEL}, "did you mean 'kernel'"),
        ({"a": KERNEL, "b": KERNEL}, "no parameter is called a, b"),
        ({"zzzzzz": KERNEL}, "the parameters are x, bias.1, kernel, step"),
        ({"kernel": KERNEL.T}, "weights: kernel has dimensions [4, 3], f32[3,4] is needed"),
        ({"2": KERNEL.T}, "weights: 2 (parameter kernel) has dimensions [4, 3], f32[3,4] is"),
        ({"kernel": KERNEL.astype(np.float64)}, "kernel has dtype numpy.float64, f32[3,4] is"),
        ({"kernel": KERNEL, "2": KERNEL}, "2 (parameter kernel) is given twice"),
    ],
)
def test_weights_that_do_not_fit(weights: dict[str, Any], words: str) -> None:
    module = hlo.parse(DENSE)
    with pytest.raises(HloError) as e:
        hlo.bake_weights(module, weights)
    assert words in str(e.value)
    assert str(module) == str(hlo.parse(DENSE))


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", kernel=KERNEL)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.npz").write_bytes(b"PK")
    np.save(tmp_path / "one.npy", KERNEL)
    for name, words in {
        "none.npz": "no such file",
        "broken.npz": "broken.npz",
        "empty": "no .npy files",
        "one.npy": "holds one array, without a name",
    }.items():
        with pytest.raises(HloError, match=words):
            hlo.bake_weights(hlo.parse(DENSE), tmp_path / name)


def test_a_name_that_two_files_have(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        np.savez(tmp_path / name, kernel=KERNEL)
    with pytest.raises(HloError, match=r"b.npz: 'kernel' is also in an earlier file"):
        read_weights([tmp_path / "a.npz", tmp_path / "b.npz"])
    with pytest.raises(HloError, match="is not a valid file name"):
        read_weights([""])


def test_sizes_that_vary_are_no_constants() -> None:
    text = "HloModule m\nENTRY e { ROOT x = f32[<=4] parameter(0) }\n"
    with pytest.raises(HloError, match="no fixed size"):
        hlo.bake_weights(hlo.parse(text), {"x": np.float32([1, 2])})


# --- compiling ----------------------------------------------------------------------------------


def test_compile_with_weights(tmp_path: Path) -> None:
    from hlo.runtime.cache import Cache

    module, cache = hlo.parse(DENSE), Cache(tmp_path)
    before = str(module)
    x, step = BIAS[:, :3], np.int64([1, 2])
    for kernel in (KERNEL, KERNEL + 1, KERNEL):
        exe = hlo.compile(module, weights={"kernel": kernel, "bias.1": BIAS}, cache=cache)
        y, n = exe(x, step)
        assert np.allclose(y, x @ kernel + BIAS) and n.tolist() == [2, 4]
    assert str(module) == before
    # Other numbers are another program, the same ones are not.
    assert len(list(tmp_path.glob("*.program"))) == 2
    with pytest.raises(TypeError, match="weights"):
        hlo.compile(module, weights=3)  # type: ignore[arg-type]
