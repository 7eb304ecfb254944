"""Modules like those of frameworks, of any size: layers with scopes, a loop, calls, weights."""

from __future__ import annotations

from collections.abc import Iterator

_LAYER = 15
_REDUCER = """add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT sum = f32[] add(p, q)
}
"""
_LOOP = """halve {
  s = (s32[], f32[16,64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  v = f32[16,64] get-tuple-element(s), index=1
  half = f32[] constant(0.5)
  halves = f32[16,64] broadcast(half), dimensions={}
  w = f32[16,64] multiply(v, halves)
  ROOT t = (s32[], f32[16,64]) tuple(m, w)
}
unfinished {
  s = (s32[], f32[16,64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  all = s32[] constant(4)
  ROOT go = pred[] compare(n, all), direction=LT
}
scaled {
  a = f32[16,64] parameter(0)
  b = f32[16,64] parameter(1)
  c = f32[16,64] multiply(a, b)
  ROOT d = f32[16,64] tanh(c)
}
"""


def layered_module(size: int, *, scopes: bool = True) -> str:
    """Return the text of a module with at least `size` instructions.

    scopes: with an `op_name` for each instruction, as JAX writes them.
    """
    layers = max(1, (size - 20) // _LAYER)
    lines = ["  x = f32[16,64] parameter(0)"]
    for n in range(layers):
        lines.append(f"  w{n} = f32[64,64] parameter({n + 1})")
    lines += ["  zero = f32[] constant(0)", "  h0 = f32[16,64] tanh(x)"]
    for n in range(layers):
        lines += _layer(n, f"h{n}", scopes)
    last = f"h{layers}"
    lines += [
        "  none = s32[] constant(0)", f"  start = (s32[], f32[16,64]) tuple(none, {last})",
        "  loop = (s32[], f32[16,64]) while(start), condition=unfinished, body=halve",
        "  ROOT out = f32[16,64] get-tuple-element(loop), index=1",
    ]  # fmt: skip
    body = "\n".join(lines)
    return f"HloModule layered\n{_REDUCER}{_LOOP}ENTRY main {{\n{body}\n}}\n"


def _layer(n: int, x: str, scopes: bool) -> Iterator[str]:
    def line(name: str, text: str, scope: str) -> str:
        path = f"jit(step)/Model/layer_{n}/{scope}"
        metadata = f', metadata={{op_name="{path}" source_file="/src/model.py" source_line={n}}}'
        return f"  {name}{n} = {text}{metadata if scopes else ''}"

    yield line("sq", f"f32[16,64] multiply({x}, {x})", "norm/mul")
    yield line("sm", f"f32[16] reduce(sq{n}, zero), dimensions={{1}}, to_apply=add", "norm/sum")
    yield line("rs", f"f32[16] rsqrt(sm{n})", "norm/rsqrt")
    yield line("rb", f"f32[16,64] broadcast(rs{n}), dimensions={{0}}", "norm/broadcast")
    yield line("nm", f"f32[16,64] multiply({x}, rb{n})", "norm/mul")
    contracting = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    yield line("up", f"f32[16,64] dot(nm{n}, w{n}), {contracting}", "mlp/dot_general")
    yield line("ca", f"f32[16,64] call(up{n}, nm{n}), to_apply=scaled", "mlp/act")
    yield line("dn", f"f32[16,64] dot(ca{n}, w{n}), {contracting}", "mlp/dot_general")
    yield line("tw", f"f32[] constant({n})", "mlp/scale")
    yield line("tb", f"f32[16,64] broadcast(tw{n}), dimensions={{}}", "mlp/scale")
    yield line("sc", f"f32[16,64] multiply(dn{n}, tb{n})", "mlp/mul")
    yield line("cp", f"f32[16,64] copy(sc{n})", "mlp/copy")
    yield line("ab", f"f32[16,64] abs(cp{n})", "mlp/abs")
    metadata = f', metadata={{op_name="jit(step)/Model/layer_{n}/add"}}' if scopes else ""
    yield f"  h{n + 1} = f32[16,64] add({x}, ab{n}){metadata}"
