"""What is rounded: elementwise operations always, all others with strict arithmetic."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.run.command import main as hlo_run

import hlo
from hlo.compiler.backends import Interpreter
from hlo.runtime.cache import Cache

# Differences of a large product and the same value, rounded elsewhere: all have to be 0 or finite.
MAX = """mx { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
"""
HEAD = """ENTRY e { x = f32[3,5] parameter(0)  k = f32[] constant(0.44721359)
  kb = f32[3,5] broadcast(k), dimensions={}  y = f32[3,5] multiply(x, kb)
  ninf = f32[] constant(-inf)  zero = f32[] constant(0)
"""
DIFFERENCES = {
    "maximum of the row": """m = f32[3] reduce(y, ninf), dimensions={1}, to_apply=mx
  mb = f32[3,5] broadcast(m), dimensions={0}  ROOT d = f32[3,5] subtract(y, mb)""",
    "maximum of the column": """m = f32[5] reduce(y, ninf), dimensions={0}, to_apply=mx
  mb = f32[3,5] broadcast(m), dimensions={1}  ROOT d = f32[3,5] subtract(y, mb)""",
    "maximum of all, and the product is a result": """
  m = f32[] reduce(y, ninf), dimensions={0,1}, to_apply=mx
      mb = f32[3,5] broadcast(m), dimensions={}
  d = f32[3,5] subtract(y, mb)  ROOT t = (f32[3,5], f32[3,5]) tuple(d, y)""",
    "a product that is computed again": """z = f32[3,5] multiply(kb, x)
  m = f32[3] reduce(z, ninf), dimensions={1}, to_apply=mx
  mb = f32[3,5] broadcast(m), dimensions={0}  ROOT d = f32[3,5] subtract(y, mb)""",
    "the negative of the maximum is added": """
  m = f32[3] reduce(y, ninf), dimensions={1}, to_apply=mx
  n = f32[3] negate(m)  nb = f32[3,5] broadcast(n), dimensions={0}  ROOT d = f32[3,5] add(y, nb)""",
    "the product is subtracted": """m = f32[3] reduce(y, ninf), dimensions={1}, to_apply=mx
  mb = f32[3,5] broadcast(m), dimensions={0}  s = f32[3,5] subtract(mb, y)
  ROOT d = f32[3,5] negate(s)""",
    "a selected element": """one = f32[3,1] slice(y), slice={[0:3], [2:3]}  r = f32[3] reshape(one)
  mb = f32[3,5] broadcast(r), dimensions={0}  p = pred[3,5] compare(y, mb), direction=GT
  c = f32[3,5] select(p, mb, y)  ROOT d = f32[3,5] subtract(c, mb)""",
    "the maximum of a loop": """i = s32[] constant(0)
      s = (s32[], f32[3,5], f32[]) tuple(i, x, ninf)
  w = (s32[], f32[3,5], f32[]) while(s), condition=go, body=body
  m = f32[] get-tuple-element(w), index=2  mb = f32[3,5] broadcast(m), dimensions={}
  ROOT d = f32[3,5] subtract(y, mb)""",
    "the greatest factor times the other": """
  m = f32[3] reduce(x, ninf), dimensions={1}, to_apply=mx
  k3 = f32[3] broadcast(k), dimensions={}  q = f32[3] multiply(m, k3)
  mb = f32[3,5] broadcast(q), dimensions={0}  ROOT d = f32[3,5] subtract(y, mb)""",
    "in two dimensions of a transpose": """t = f32[5,3] transpose(y), dimensions={1,0}
  m = f32[3] reduce(t, ninf), dimensions={0}, to_apply=mx
  mb = f32[5,3] broadcast(m), dimensions={1}  ROOT d = f32[5,3] subtract(t, mb)""",
}
LOOP = """go { s = (s32[], f32[3,5], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3,5], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[3,5] get-tuple-element(s), index=1  h = f32[] get-tuple-element(s), index=2
  k = f32[] constant(0.44721359)  kb = f32[3,5] broadcast(k), dimensions={}
  y = f32[3,5] multiply(x, kb)  m = f32[] reduce(y, h), dimensions={0,1}, to_apply=mx
  one = s32[] constant(1)  j = s32[] add(i, one)
  ROOT t = (s32[], f32[3,5], f32[]) tuple(j, x, m) }
"""
LARGE = (np.arange(15, dtype=np.float32).reshape(3, 5) % 7 + 1) * np.float32(1.7e30)


def _same_bits(got: object, want: object) -> bool:
    pairs = zip(_leaves(got), _leaves(want), strict=True)
    return all(np.array_equal(g, w, equal_nan=True) for g, w in pairs)


def _leaves(value: object) -> list[np.ndarray]:
    return list(map(np.asarray, value)) if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.parametrize("passes", ["default", ""])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_products_are_rounded_before_they_are_subtracted(name: str, passes: str) -> None:
    module = hlo.parse(f"HloModule m\n{MAX}{LOOP}{HEAD}{DIFFERENCES[name]} }}")
    got = hlo.compile(module, passes=passes, cache=False)(LARGE)
    assert _same_bits(got, hlo.interpret(module, LARGE))


@pytest.mark.parametrize("name", ["maximum of the row", "a product that is computed again"])
def test_products_are_rounded_on_gpus(name: str) -> None:
    module = hlo.parse(f"HloModule m\n{MAX}{LOOP}{HEAD}{DIFFERENCES[name]} }}")
    got = hlo.compile(module, backend="gpu-emulated", cache=False)(LARGE)
    assert _same_bits(got, hlo.interpret(module, LARGE))


def test_a_complex_quotient_of_equal_numbers_is_real() -> None:
    module = hlo.parse(
        "HloModule m ENTRY e { x = c128[4] parameter(0)  y = c128[4] parameter(1) "
        "q = c128[4] divide(x, y)  ROOT i = f64[4] imag(q) }"
    )
    z = np.array([1.1 + 2.3j, 0.7 - 0.3j, 3.3 + 1.7j, -5.9 + 7.1j])
    assert not hlo.compile(module, cache=False)(z, z).any()


# --- strict arithmetic --------------------------------------------------------------------------

SUM = "add { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] add(a, b) }\n"
GE = """ge { a = T[] parameter(0)  b = T[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE }
"""
STRICT = {
    "functions": """x = T[40] parameter(0)  p = T[40] abs(x)  e = T[40] exponential(x)
      l = T[40] log(p)
      h = T[40] tanh(x)  r = T[40] rsqrt(p)  s = T[40] sine(x)  g = T[40] logistic(x)
      w = T[40] power(p, x)  a = T[40] atan2(x, p)
      ROOT u = (T[40], T[40], T[40], T[40], T[40], T[40], T[40], T[40])
        tuple(e, l, h, r, s, g, w, a)""",
    "dot": """x = T[9,33] parameter(0)  y = T[33,7] parameter(1)
      ROOT d = T[9,7] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "convolution": """x = T[2,8,8,3] parameter(0)  y = T[3,3,3,4] parameter(1)
      ROOT c = T[2,8,8,4] convolution(x, y), window={size=3x3 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f""",
    "sums of products": """x = T[9,33] parameter(0)  y = T[9,33] parameter(1)
      p = T[9,33] multiply(x, y)
      z = T[] constant(0)  ROOT s = T[9] reduce(p, z), dimensions={1}, to_apply=add""",
    "windows": """x = T[6,40] parameter(0)  z = T[] constant(0)
      ROOT s = T[6,40] reduce-window(x, z), window={size=1x40 pad=0_0x39_0}, to_apply=add""",
    "gradient of pooling": """x = T[1,8] parameter(0)  y = T[1,4] parameter(1)  z = T[] constant(0)
      ROOT s = T[1,8] select-and-scatter(x, y, z), window={size=1x5 stride=1x2 pad=0_0x2_1},
        select=ge, scatter=add""",
    "a normalization": """x = T[9,33] parameter(0)  z = T[] constant(0)  n = T[] constant(33)
      s = T[9] reduce(x, z), dimensions={1}, to_apply=add  nb = T[9] broadcast(n), dimensions={}
      m = T[9] divide(s, nb)  mb = T[9,33] broadcast(m), dimensions={0}  c = T[9,33] subtract(x, mb)
      q = T[9,33] multiply(c, c)  v = T[9] reduce(q, z), dimensions={1}, to_apply=add
      r = T[9] rsqrt(v)  rb = T[9,33] broadcast(r), dimensions={0}
      ROOT o = T[9,33] multiply(c, rb)""",
}


def _module(name: str, et: str) -> hlo.Module:
    return hlo.parse(f"HloModule m\n{SUM}{GE}ENTRY e {{ {STRICT[name]} }}".replace("T[", f"{et}["))


@pytest.mark.parametrize("et", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", STRICT)
def test_strict_arithmetic_is_that_of_the_interpreter(name: str, et: str) -> None:
    module = _module(name, et)
    inputs = hlo.random_inputs(module, seed=1)
    got = hlo.compile(module, strict=True, cache=False)(*inputs)
    assert _same_bits(got, hlo.interpret(module, *inputs))


@pytest.mark.parametrize("name", ["functions", "dot", "a normalization"])
def test_strict_arithmetic_on_gpus(name: str) -> None:
    module = _module(name, "f32")
    inputs = hlo.random_inputs(module, seed=1)
    got = hlo.compile(module, strict=True, backend="gpu-emulated", cache=False)(*inputs)
    assert _same_bits(got, hlo.interpret(module, *inputs))


@pytest.mark.parametrize("op", ["fft(x), fft_type=FFT, fft_length={30}", "divide(x, x)", "tanh(x)"])
def test_strict_arithmetic_of_complex_numbers(op: str) -> None:
    module = hlo.parse(
        f"HloModule m ENTRY e {{ x = c64[3,30] parameter(0) ROOT y = c64[3,30] {op} }}"
    )
    (x,) = hlo.random_inputs(module, seed=2)
    got = hlo.compile(module, strict=True, cache=False)(x)
    assert np.array_equal(got, hlo.interpret(module, x))


def test_the_cache_tells_strict_programs_from_others(tmp_path: Path) -> None:
    module, cache = _module("dot", "f32"), Cache(tmp_path)
    inputs = hlo.random_inputs(module, seed=1)
    usual, strict, again = (
        hlo.compile(module, strict=s, cache=cache)(*inputs) for s in (False, True, False)
    )
    assert np.array_equal(usual, again) and not np.array_equal(usual, strict)


def test_a_module_asks_for_strict_arithmetic_itself() -> None:
    text = str(_module("dot", "f32")).replace(
        "HloModule m", 'HloModule m, frontend_attributes={hlo.strict_math="true"}', 1
    )
    module = hlo.parse(text)
    inputs = hlo.random_inputs(module, seed=1)
    want = hlo.interpret(module, *inputs)
    assert np.array_equal(hlo.compile(module, cache=False)(*inputs), want)
    client = hlo.Client(strict=True)
    data = [client.transfer_to_server(x) for x in inputs]
    assert np.array_equal(client.transfer(client.execute(_module("dot", "f32"), data)).array, want)


def test_an_odd_value_is_refused() -> None:
    text = """HloModule m, frontend_attributes={hlo.strict_math="yes"}
ENTRY e { ROOT x = f32[] parameter(0) }"""
    with pytest.raises(hlo.HloError, match=r"hlo\.strict_math in frontend_attributes is 'yes'"):
        hlo.compile(hlo.parse(text))


def test_approximate_rewrites_are_not_made() -> None:
    text = "ENTRY e { x = f32[9] parameter(0)  s = f32[9] sqrt(x)  ROOT y = f32[9] divide(x, s) }"
    usual, asked = (
        hlo.parse(f"HloModule m{note}\n{text}")
        for note in ("", ', frontend_attributes={hlo.strict_math="true"}')
    )
    opcodes = [{i.opcode for i in hlo.optimize(m).instructions()} for m in (usual, asked)]
    assert "rsqrt" in opcodes[0] and "rsqrt" not in opcodes[1]


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "riscv64-linux-gnu", "nvptx64"])
def test_objects_with_strict_arithmetic_have_no_fused_instruction(
    triple: str, tmp_path: Path
) -> None:
    module, name = _module("a normalization", "f64"), "f.ptx" if triple == "nvptx64" else "f.s"
    text = []
    for strict in (False, True):
        hlo.compile(module, strict=strict).save(str(tmp_path / name), target=triple)
        text.append((tmp_path / name).read_text())
    fused = re.compile(r"\b(fmadd|fmla|fmadd\.d|fma\.rn)\b")
    assert fused.search(text[0]) and not fused.search(text[1])


def test_the_commands_have_strict_arithmetic(tmp_path: Path) -> None:
    module = _module("dot", "f32")
    file, inputs = tmp_path / "m.hlo", tmp_path / "in.npz"
    file.write_text(str(module))
    x, y = hlo.random_inputs(module, seed=1)
    np.savez(inputs, x=x, y=y)
    for backend in ("compiled", "gpu-emulated"):
        given = [str(file), "--inputs", str(inputs), "--rtol=0", "--atol=0", "--check"]
        given += ["--backend", backend, "--no-cache"]
        runner = CliRunner()
        assert runner.invoke(hlo_run, given).exit_code == 1
        assert runner.invoke(hlo_run, [*given, "--strict-math"]).exit_code == 0


def test_a_backend_without_strict_arithmetic_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interpreter, "has_strict_math", False)
    with pytest.raises(hlo.HloError, match="backend 'reference' has no strict arithmetic"):
        hlo.compile(_module("dot", "f32"), strict=True, backend="reference")
