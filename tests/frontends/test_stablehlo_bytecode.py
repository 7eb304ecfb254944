"""Portable artifacts of StableHLO, and serialized exports of JAX, beside the text of the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import hlo
from hlo.errors import HloError, TextError
from hlo.frontends.stablehlo.bytecode import bytecode_to_text, vhlo
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.discardable import read_float, read_list
from hlo.frontends.stablehlo.bytecode.stream import Stream
from tests.harness.bytecode import VERSIONS, artifact
from tests.harness.jax_programs import PROGRAMS
from tests.sweeps.compare_bytecode import check, read
from tests.sweeps.fuzz_stablehlo import corpus

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
ADD = """func.func @main(%arg0: tensor<2xf32> loc("x")) -> tensor<2xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32> loc("sum"("f.py":3:4))
  return %0 : tensor<2xf32>
}"""


def bytecode_of(text: str) -> bytes:
    """Return a module as bytecode of the newest version."""
    made = artifact(text, ())
    assert made is not None
    (data,) = made.bytecode.values()
    return data


@pytest.mark.parametrize("number", range(0, len(corpus()), 4))
def test_an_artifact_is_the_module_of_its_text(number: int) -> None:
    assert not check(corpus()[number])[1]


@pytest.mark.parametrize("name", ["qr", "tri"])
def test_rules_of_shardy_are_read(name: str) -> None:
    function, argument = PROGRAMS[name]
    text = jax.jit(function).lower(argument).as_text()
    assert "sdy.sharding_rule" in text and check(text) == (4, "")


def test_constants_of_shardy_are_read() -> None:
    text = """module @m {
      sdy.mesh @mesh = <["x"=2]>
      func.func @main() -> (tensor<4xf32>, tensor<3xi1>) {
        %0 = sdy.constant dense<[1.0, 2.0, -0.0, 4.0]> : tensor<4xf32>
        %1 = sdy.constant dense<[true, false, true]> : tensor<3xi1>
        return %0, %1 : tensor<4xf32>, tensor<3xi1>
      }
    }"""
    assert check(text) == (4, "")


def test_old_versions_are_read() -> None:
    made = artifact(ADD)
    assert made is not None and {*VERSIONS} < {*made.bytecode}
    for data in made.bytecode.values():
        assert read(data) == read(ADD)


def test_the_callers_of_locations_are_shared_and_nest_deeply() -> None:
    calls = "".join(f'callsite("f{n}"("f.py":{n}:1) at ' for n in range(2, 200))
    caller = f'{calls}"main"("main.py":1:1){")" * 198}'
    text = f"""func.func @main(%arg0: tensor<f32>) -> tensor<f32> {{
      %y = stablehlo.tanh %arg0 : tensor<f32> loc("a"(callsite("f"("f.py":1:1) at {caller})))
      %z = stablehlo.sine %y : tensor<f32> loc("b"(callsite("f"("f.py":1:2) at {caller})))
      return %z : tensor<f32>
    }}"""
    data = bytecode_of(text)
    assert bytecode_to_text(data).count("f199") == 1
    assert read(data) == read(text)


def test_an_export_of_jax_runs(tmp_path: Path) -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, jnp.sort(x, axis=1), x @ x.T @ x)

    path = tmp_path / "exported.bin"
    path.write_bytes(export.export(jax.jit(f))(X).serialize())
    module = hlo.load(path)
    hlo.verify(module)
    np.testing.assert_allclose(hlo.compile(module)(X), f(jnp.asarray(X)), rtol=1e-6)


def test_shardings_of_shardy_are_read() -> None:
    text = """module @m attributes {mhlo.num_partitions = 4 : i32} {
      sdy.mesh @mesh = <["x"=2, "y"=2]>
      func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
          -> tensor<8x8xf32> {
        %0 = sdy.sharding_constraint %a <@mesh, [{"y"}, {}]> : tensor<8x8xf32>
        %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {}]>]
            out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
          %2 = stablehlo.tanh %b : tensor<4x8xf32>
          sdy.return %2 : tensor<4x8xf32>
        } : (tensor<8x8xf32>) -> tensor<8x8xf32>
        return %1 : tensor<8x8xf32>
      }
    }"""
    assert "xla.sdy.meshes" in read(bytecode_of(text))
    assert not check(text)[1]


@pytest.mark.parametrize(
    "rule",
    [
        "([i, j], [k])->([l, m], []) {i=4, j=4, k=2, l=4, m=4}",
        "([i, jk], [l])->([i, jk], []) {i=4, j=2, k=2, l=2} reduction={l} need_replication={i}"
        " permutation={k}, custom",
        "([i, j], [k])->([i, l], []) {i=4, j=4, k=2, l=4} blocked_propagation={i}",
    ],
)
def test_sharding_rules_of_custom_calls_are_read(rule: str) -> None:
    """JAX writes one for each call of LAPACK."""
    attribute = f"sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>"
    text = """module {
      sdy.mesh @mesh = <["x"=2]>
      func.func @main(%a: tensor<4x4xf32>, %b: tensor<2xf32>) -> tensor<4x4xf32> {
        %0:2 = stablehlo.custom_call @f(%a, %b) {RULE}
            : (tensor<4x4xf32>, tensor<2xf32>) -> (tensor<4x4xf32>, tensor<f32>)
        return %0#0 : tensor<4x4xf32>
      }
    }""".replace("RULE", attribute)
    data = bytecode_of(text)
    assert attribute in bytecode_to_text(data)
    hlo.verify(hlo.from_stablehlo(data))


@pytest.mark.parametrize(
    "value",
    [
        "dense<0> : tensor<1xi64>", "dense<[true, false, true]> : tensor<3xi1>",
        "dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>", "dense<> : tensor<0xi64>",
        "dense<[1.5, 2.5]> : tensor<2xf32>", "dense<3> : tensor<4xindex>", "1.5 : f32",
        "-2.5 : bf16", "array<i64: 1, -2>", "array<i1: true, false>", "array<f32: 1.5, -0.0>",
        "array<f64>",
    ],
)  # fmt: skip
def test_discardable_attributes_of_mlir_are_read(value: str) -> None:
    text = f"""module @m attributes {{some.dialect = {{key = {value}}}}} {{
      func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {{
        return %arg0 : tensor<f32> }} }}"""
    assert str(hlo.from_stablehlo(bytecode_of(text))) == str(hlo.from_stablehlo(text))


@pytest.mark.parametrize(
    ("read", "data"),
    [(read_list, b"\x02\x05\x01"), (read_list, b"\x09\x05\x01\x02"), (read_float, b"\x01")],
)
def test_a_list_of_another_size_is_refused(read: Any, data: bytes) -> None:
    class Types:
        def type(self, s: Stream) -> Value:
            return Value("i4" if read is read_float else "f32")

    with pytest.raises(TextError) as e:
        read(cast("Reader", Types()), Stream(data, 0, len(data)))
    assert e.value.code == "bad-bytecode"


def test_functions_number_their_values_on_their_own() -> None:
    """The operand of a constraint is cast: to a value that is another one in the next function."""
    text = """module {
      sdy.mesh @mesh = <["x"=2]>
      func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
        %0 = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<8xf32>
        %1 = func.call @inner(%0) : (tensor<8xf32>) -> tensor<8xf32>
        return %1 : tensor<8xf32>
      }
      func.func private @inner(%a: tensor<8xf32>) -> tensor<8xf32> {
        %0 = stablehlo.negate %a : tensor<8xf32>
        %1 = stablehlo.exponential %0 : tensor<8xf32>
        %2 = stablehlo.add %0, %1 : tensor<8xf32>
        return %2 : tensor<8xf32>
      }
    }"""
    x = np.arange(8, dtype=np.float32)
    result = hlo.interpret(hlo.from_stablehlo(bytecode_of(text)), x)
    np.testing.assert_allclose(result, np.exp(-x) - x, rtol=1e-6)


def test_truth_values_are_bits_or_bytes() -> None:
    values = ", ".join(["true", "false", "true"] * 5)
    text = f"""func.func @main() -> (tensor<15xi1>, tensor<2xi1>, tensor<8xi1>) {{
      %0 = stablehlo.constant dense<[{values}]> : tensor<15xi1>
      %1 = stablehlo.constant dense<false> : tensor<2xi1>
      %2 = stablehlo.constant dense<true> : tensor<8xi1>
      return %0, %1, %2 : tensor<15xi1>, tensor<2xi1>, tensor<8xi1>
    }}"""
    assert not check(text)[1]


@pytest.mark.parametrize(
    ("data", "value"),
    [("03", 1), ("ff", 127), ("0204", 256), ("04" + "0080", 1 << 20), ("00" + "ff" * 8, 2**64 - 1)],
)
def test_variable_width_integers(data: str, value: int) -> None:
    raw = bytes.fromhex(data)
    assert Stream(raw, 0, len(raw)).varint() == value


def test_errors_name_a_byte(tmp_path: Path) -> None:
    path = tmp_path / "m.mlirbc"
    data = bytecode_of(ADD)
    path.write_bytes(data[:-20])
    with pytest.raises(HloError, match=r"m\.mlirbc: byte \d+: ") as e:
        hlo.load(path)
    assert e.value.code == "bad-bytecode"
    with pytest.raises(HloError, match=r"byte 4: version 7 of MLIR's bytecode is newer than 6"):
        hlo.from_stablehlo(data[:4] + b"\x0f" + data[5:])
    with pytest.raises(HloError, match="byte 18: section 0 is missing"):
        hlo.from_stablehlo(b"ML\xefR\rStableHLO_v1\0")


def test_errors_in_a_module_name_a_line_of_its_text() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @f(%x) {called_computations = [@gone]} :
        (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    with pytest.raises(HloError, match=r"x\.mlirbc, as text:4:10: error: .*@gone"):
        hlo.from_stablehlo(bytecode_of(text), "x.mlirbc")


@pytest.mark.parametrize("kind", [Value("i32", 32), Value("tensor<2xf32>", ("f32", (2,)))])
def test_a_number_of_another_type_is_refused(kind: Value) -> None:
    class TypeAlone:
        def type(self, stream: Stream) -> Value:
            return kind

    reader = cast("Reader", TypeAlone())
    with pytest.raises(TextError, match="is not the type of a number"):
        vhlo.decode_attribute(reader, Stream(bytes([8 << 1 | 1, 0]), 0, 2))


def test_bytecode_of_other_dialects_is_refused() -> None:
    from jaxlib.mlir import ir

    from tests.harness import bytecode

    with bytecode._context():
        module = ir.Module.parse(ADD)
        import io

        file = io.BytesIO()
        module.operation.write_bytecode(file)
    with pytest.raises(HloError, match=r"no portable artifact.*stablehlo") as e:
        hlo.from_stablehlo(file.getvalue())
    assert "serialize_portable_artifact" in str(e.value)


def test_types_of_shardys_operations_are_stablehlos_own() -> None:
    text = """module @m {
      sdy.mesh @mesh = <["i"=2]>
      func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.create_token : !stablehlo.token
        %1:2 = sdy.manual_computation(%arg0, %0) in_shardings=[<@mesh, [{"i"}]>, <@mesh, []>]
            out_shardings=[<@mesh, [{"i"}]>, <@mesh, []>] manual_axes={"i"}
            (%arg1: tensor<2xf32>, %arg2: !stablehlo.token) {
          %2 = stablehlo.add %arg1, %arg1 : tensor<2xf32>
          sdy.return %2, %arg2 : tensor<2xf32>, !stablehlo.token
        } : (tensor<4xf32>, !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
        return %1#0 : tensor<4xf32>
      }
    }"""
    data = bytecode_of(text)
    assert "!stablehlo.token" in bytecode_to_text(data)
    assert not check(text)[1]


def test_names_and_locations_are_kept() -> None:
    text = bytecode_to_text(bytecode_of(ADD))
    assert "%arg0: tensor<2xf32> loc(#loc0)" in text and '#loc1 = loc("sum"("f.py":3:4))' in text


def test_arrays_in_attributes_that_are_not_of_stablehlo_are_read() -> None:
    """As JAX has one in the mesh of a callback's device."""
    mesh = (
        "sdy.mesh @one = <[], device_ids=[0]> {stablehlo.mesh = "
        "{axes = [], device_ids = dense<0> : tensor<1xi64>, masks = dense<true> : tensor<9xi1>}}\n"
    )
    assert read(bytecode_of(mesh + ADD)) == read(mesh + ADD) != "error"
