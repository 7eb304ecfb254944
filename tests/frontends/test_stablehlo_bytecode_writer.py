"""Portable artifacts that are written: jaxlib reads them, and they are the module of the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.opt.command import main as opt
from hlo_tools.translate import main as translate

import hlo
from hlo.errors import HloError
from hlo.frontends.stablehlo.bytecode import bytecode_to_text
from hlo.frontends.stablehlo.bytecode.stream import Output, Stream
from hlo.ops import OPS
from hlo.testing.sampling import random_value
from tests.frontends.test_stablehlo_writer import PROGRAMS, REFUSED
from tests.harness.bytecode import composed, deserialized, newest
from tests.harness.paths import ROOT
from tests.sweeps.write_bytecode import check

ADD = "HloModule m\nENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] add(x, x) }"
# What VHLO has nothing for, although StableHLO has.
LACKING = {"compare-3": "no comparison_type WEAKORDER"}
EXAMPLES = [
    f"{name}-{i}"
    for name, spec in OPS.items()
    for i in range(len(spec.examples))
    if f"{name}-{i}" not in REFUSED
]


def parsed(text: str) -> hlo.Module:
    module = hlo.parse(text)
    hlo.verify(module)
    return module


def problem(module: hlo.Module, version: str | None = None) -> str:
    """Return what is wrong with the artifact of a module, or nothing."""
    return check(module, version, hlo.to_stablehlo(module))


@pytest.mark.parametrize("key", EXAMPLES)
def test_examples_of_operations(key: str) -> None:
    name, _, number = key.rpartition("-")
    module = parsed(OPS[name].examples[int(number)])
    if key in LACKING:
        with pytest.raises(HloError, match=f"{name}: a portable artifact has {LACKING[key]}"):
            hlo.to_portable_artifact(module)
    else:
        assert not problem(module)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_at_an_old_and_the_newest_version(name: str) -> None:
    module = parsed(PROGRAMS[name])
    assert not problem(module) and not problem(module, newest())


@pytest.mark.parametrize("name", ["gpt_block", "resnet20", "mlp_2x2", "rnn_scan"])
def test_models_come_back(name: str) -> None:
    module = hlo.load(ROOT / "examples" / f"{name}.hlo")
    assert not problem(module)
    again = hlo.from_stablehlo(hlo.to_portable_artifact(module))
    assert str(hlo.from_stablehlo(hlo.to_portable_artifact(again))) == str(again)


def test_what_is_said_besides_operations() -> None:
    module = parsed(
        "HloModule a.b-c, num_partitions=2, replica_count=3, "
        "input_output_alias={ {0}: (1, {}, may-alias) }, buffer_donor={ (0, {}) }, "
        "entry_computation_layout={(f32[4,2]{0,1}, f32[4])->(f32[4], f32[4,2]{0,1})}, "
        'frontend_attributes={k="v"}\n'
        "ENTRY e { x = f32[4,2]{0,1} parameter(0), sharding={devices=[2,1]<=[2]}\n"
        " y = f32[4] parameter(1)\n"
        ' z = f32[4] add(y, y), frontend_attributes={b="1\\"2", a="é"}, '
        'metadata={op_name="jit(f)/add" source_file="f.py" source_line=3 source_column=7}\n'
        ' u = f32[4] add(z, z), metadata={op_name="jit(f)/n"}\n'
        ' v = f32[4] add(u, z), metadata={source_file="g.py" source_line=4}\n'
        " ROOT t = (f32[4], f32[4,2]{0,1}) tuple(v, x), "
        "sharding={{replicated}, {devices=[2,1]<=[2]}} }"
    )
    assert not problem(module)
    text = bytecode_to_text(hlo.to_portable_artifact(module))
    assert 'loc("jit(f)/add"("f.py":3:7))' in text and 'loc("g.py":4:0)' in text


def test_constants_are_bytes() -> None:
    values = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    text = f"HloModule m\nENTRY e {{ ROOT c = f32[64,32] constant({values.tolist()}) }}"
    text = text.replace("[[", "{{").replace("]]", "}}").replace("[", "{").replace("]", "}")
    module = hlo.parse(text.replace("f32{64,32}", "f32[64,32]"))
    data = hlo.to_portable_artifact(module)
    assert values.tobytes() in data and len(data) < values.nbytes + 600
    assert not problem(module)


@pytest.mark.parametrize("kind", "pred s4 u8 s64 bf16 f8e4m3fn f64 c64".split())
def test_constants_of_one_value_are_one_value(kind: str) -> None:
    one = "(1,0)" if kind == "c64" else "1"
    text = f"HloModule m\nENTRY e {{ ROOT c = {kind}[900] constant({{{', '.join([one] * 900)}}}) }}"
    module = parsed(text)
    assert len(hlo.to_portable_artifact(module)) < 400 and not problem(module)


CALL = (
    "HloModule m\nENTRY e {{ x = f32[2] parameter(0)\n ROOT c = f32[2] custom-call(x), "
    'custom_call_target="t", api_version=API_VERSION_TYPED_FFI, backend_config={{{}}} }}'
)


def test_attributes_of_a_typed_call() -> None:
    said = (
        'a = -3 : i32, b = 250 : ui8, c = 1.5 : f32, d = "x", e = array<i64: 1, 2>, f = true, '
        'g = [1 : i64, "s"], h = {i = 7 : index}, j = dense<[3, 4]> : tensor<2xi32>, '
        "k = -0.1 : f64, l = 0x7F800000 : f32, m = -1 : i8, n = array<i1: true, false>"
    )
    data = hlo.to_portable_artifact(parsed(CALL.format(said)))
    (call,) = (i for i in hlo.from_stablehlo(data).instructions() if i.opcode == "custom-call")
    want = said.replace("array<i64: 1, 2>", "dense<[1, 2]> : tensor<2xi64>")
    want = want.replace("array<i1: true, false>", "dense<[true, false]> : tensor<2xi1>")
    assert call.annotations["backend_config"] == f"{{{want}}}"
    assert "backend_config = {a = -3 : i32, b = 250 : ui8" in deserialized(data)
    assert hlo.to_portable_artifact(hlo.from_stablehlo(data)) == data


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("a = array<i32: 1>", "lists of i64 and i1, not of i32"),
        ("a = array<f32: 1.0>", "lists of i64 and i1, not of f32"),
        ("a", "no attribute such as unit"),
        ("a = 1 : si32", "1 : si32 has no counterpart"),
        ("a = f32", "f32 has no counterpart"),
        ('a = "x" b', "expected ','"),
    ],
)
def test_attributes_that_an_artifact_lacks(said: str, message: str) -> None:
    with pytest.raises(HloError, match=f"c: custom-call: .*{message}"):
        hlo.to_portable_artifact(hlo.parse(CALL.format(said)))


@pytest.mark.parametrize("number", range(len(OPS["ragged-dot"].examples)))
def test_the_decomposition_of_a_composite_is_the_operation(number: int) -> None:
    module = parsed(OPS["ragged-dot"].examples[number])
    text = bytecode_to_text(hlo.to_portable_artifact(module))
    called = hlo.from_stablehlo(text.replace("version = 1 : i32", "version = 2 : i32"))
    assert "is_composite=true" in str(called) and "ragged-dot(" not in str(called)
    rng = np.random.default_rng(0)
    args = [random_value(rng, s) for s in module.entry.parameter_shapes]
    args[-1] = np.ones_like(args[-1])
    np.testing.assert_array_equal(hlo.interpret(called, *args), hlo.interpret(module, *args))


# --- versions -----------------------------------------------------------------------------------

DOT = (
    "HloModule m\nENTRY e { x = f32[2,2] parameter(0)\n ROOT d = f32[2,2] dot(x, x), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32 }"
)
NEEDED = {
    "1.0.0": ADD,
    "1.1.0": OPS["gather"].examples[2],
    "1.2.0": "HloModule m\nENTRY e { x = s2[2] parameter(0)\n ROOT r = s2[2] add(x, x) }",
    "1.3.0": CALL.format("a = 1 : i64"),
    "1.4.0": OPS["tan"].examples[0],
    "1.5.0": OPS["all-gather"].examples[1],
    "1.6.0": DOT,
    "1.7.0": "HloModule m\nENTRY e { x = f8e4m3[2] parameter(0)\n ROOT r = f8e4m3[2] copy(x) }",
    "1.9.0": "HloModule m\nENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] exponential(x), "
    "result_accuracy={mode=highest} }",
    "1.10.0": "HloModule m\nENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] tanh(x), "
    "result_accuracy={tolerance={atol=0.1,rtol=1e-30,ulps=2}} }",
    "1.19.0": OPS["collective-reduce"].examples[0],
}


@pytest.mark.parametrize("version", NEEDED)
def test_the_version_is_the_oldest_that_has_all(version: str) -> None:
    module = parsed(NEEDED[version])
    data = hlo.to_portable_artifact(module)
    assert data.startswith(b"ML\xefR\rStableHLO_v" + version.encode() + b"\0")
    assert not problem(module)
    if version != "1.0.0":
        older = f"1.{int(version.split('.')[1]) - 1}.0"
        message = f"needs StableHLO {version}, which is newer than {older}"
        with pytest.raises(HloError, match=message) as e:
            hlo.to_portable_artifact(module, older)
        assert e.value.code == "no-counterpart" and e.value.diagnostics[0].span is not None


def test_a_patch_release_has_what_its_version_has() -> None:
    data = hlo.to_portable_artifact(parsed(ADD), "1.13.7")
    assert data[4:].startswith(b"\rStableHLO_v1.13.7\0") and deserialized(data)


@pytest.mark.parametrize("version", ["", "1", "1.0", "0.20.0", "1.21.0", "2.0.0", "1.0.0.0", "v1"])
def test_versions_that_are_not_known(version: str) -> None:
    with pytest.raises(HloError, match=f"StableHLO version '{version}' is not known") as e:
        hlo.to_portable_artifact(parsed(ADD), version)
    assert e.value.code == "bad-version" and "1.0.0 to 1.20.0" in str(e.value)


# --- reading again ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*"acos acosh asin asinh atanh cosh erf mulhi sinh topk".split(),
                                  "ragged-dot"])  # fmt: skip
def test_composites_of_jaxlib_are_the_operations_of_chlo(name: str) -> None:
    module = parsed(OPS[name].examples[0])
    again = hlo.from_stablehlo(composed(hlo.to_stablehlo(module)))
    hlo.verify(again)
    assert [i.opcode for i in again.instructions()].count(name) == 1
    assert len(again.computations) == 1


def test_composites_of_another_version_are_calls() -> None:
    text = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.composite "chlo.erf" %a {decomposition = @f, version = 2 : i32} :
        (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }
    func.func private @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      return %a : tensor<2xf32>
    }"""
    assert "is_composite=true" in str(hlo.from_stablehlo(text))
    assert "erf(" in str(hlo.from_stablehlo(text.replace("version = 2", "version = 1")))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 1 << 14, (1 << 56) - 1, 1 << 56, (1 << 64) - 1])
def test_integers_are_read_as_they_are_written(value: int) -> None:
    out = Output()
    out.varint(value)
    out.signed(-(value >> 1) - 1)
    out.wide(-1, 32)
    data = b"".join(out.pieces())
    s = Stream(data, 0, len(data))
    assert (s.varint(), s.signed(), s.wide(32)) == (value, -(value >> 1) - 1, (1 << 32) - 1)
    assert s.at_end


# --- files and commands -------------------------------------------------------------------------


def run(command: Any, *args: str, text: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(command, [*args], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("extension", ["mlirbc", "mlir.bc"])
def test_files_are_artifacts_by_their_extension(extension: str, tmp_path: Path) -> None:
    module, path = parsed(ADD), tmp_path / f"a.{extension}"
    want = hlo.to_portable_artifact(module)
    hlo.save(module, path)
    assert path.read_bytes() == want
    again = tmp_path / f"b.{extension}"
    assert run(translate, str(path), "-o", str(again)).exit_code == 0
    assert str(hlo.load(again)) == str(hlo.load(path))
    assert run(opt, str(path), "--passes=dce", "-o", str(again)).exit_code == 0
    assert hlo.load(again).entry.root.opcode == "add"
    two = run(translate, "--split-input-file", "-o", str(again), text=f"{ADD}\n// -----\n{ADD}")
    assert two.exit_code == 2 and "has one module" in two.stderr


def test_the_direction_of_stablehlos_tool() -> None:
    module = parsed(ADD)
    data = run(translate, "--serialize", "--target=1.9.0", text=ADD).stdout_bytes
    assert data == hlo.to_portable_artifact(module, "1.9.0")
    text = run(translate, "--deserialize", text=data).stdout
    assert text == hlo.to_stablehlo(hlo.from_stablehlo(data))
    assert (
        "error: StableHLO version '3.0.0'"
        in run(translate, "--serialize", "--target=3.0.0", text=ADD).stderr
    )
    assert run(translate, "--target=1.9.0", text=ADD).exit_code == 2


def test_nothing_is_written_of_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mlirbc"
    refused = "HloModule m\nENTRY e { ROOT x = u64[2] rng-get-and-update-state(), delta=1 }"
    result = run(opt, "-", "-o", str(path), text=refused)
    assert result.exit_code == 1 and "no such operation" in result.stderr and not path.exists()
