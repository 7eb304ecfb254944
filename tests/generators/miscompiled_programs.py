"""Small programs with one instruction, `bad`, that is to go wrong, plainly or deep inside.

`PROGRAMS` has a case for each kind of miscompilation at each depth. `program` makes it a module,
`embed` puts it into a module of any size, on a value that this computes.
"""

from __future__ import annotations

from dataclasses import dataclass

import hlo
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.testing.compare import is_inexact
from hlo.values.types import F32, ArrayShape, array
from tests.generators.miscompilations import mark

# What each kind goes wrong in: from x, f32[4,4], to r, f32[4,4], by way of `bad`.
_SNIPPETS = {
    "swapped-operands": """
      y = f32[4,4] cosine(x)
      bad = f32[4,4] subtract(x, y)
      r = f32[4,4] multiply(bad, x)""",
    "other-operation": """
      y = f32[4,4] cosine(x)
      bad = f32[4,4] maximum(x, y)
      r = f32[4,4] add(bad, x)""",
    "other-direction": """
      y = f32[4,4] cosine(x)
      bad = pred[4,4] compare(x, y), direction=LT
      n = f32[4,4] negate(x)
      r = f32[4,4] select(bad, y, n)""",
    "corrupted-constant": """
      bad = f32[4,4] constant({{1,2,3,4},{5,6,7,8},{1,3,5,7},{2,4,6,8}})
      r = f32[4,4] multiply(bad, x)""",
    "wrong-padding": """
      z = f32[] constant(2)
      s = f32[3,4] slice(x), slice={[0:3], [0:4]}
      bad = f32[4,4] pad(s, z), padding=0_1x0_0
      r = f32[4,4] add(bad, x)""",
    "wrong-window-padding": """
      z = f32[] constant(-100)
      bad = f32[4,4] reduce-window(x, z), to_apply=largest, window={size=3x3 pad=1_1x1_1}
      r = f32[4,4] add(bad, x)""",
    "wrong-initial-value": """
      z = f32[] constant(0)
      bad = f32[4] reduce(x, z), dimensions={1}, to_apply=sum
      b = f32[4,4] broadcast(bad), dimensions={0}
      r = f32[4,4] add(b, x)""",
    "wrong-slice-start": """
      d = f32[4,6] concatenate(x, e), dimensions={1}
      bad = f32[4,4] slice(d), slice={[0:4], [1:5]}
      r = f32[4,4] tanh(bad)""",
    "wrong-index": """
      one = s32[] constant(1)
      none = s32[] constant(0)
      d = f32[4,6] concatenate(x, e), dimensions={1}
      bad = f32[4,4] dynamic-slice(d, none, one), dynamic_slice_sizes={4,4}
      r = f32[4,4] tanh(bad)""",
    "wrong-order": """
      y = f32[4,4] sine(x)
      bad = f32[4,4] transpose(y), dimensions={1,0}
      r = f32[4,4] add(bad, x)""",
    "wrong-dimensions": """
      z = f32[] constant(0)
      y = f32[4] reduce(x, z), dimensions={1}, to_apply=sum
      bad = f32[4,4] broadcast(y), dimensions={0}
      r = f32[4,4] add(bad, x)""",
    "wrong-iota-dimension": """
      bad = f32[4,4] iota(), iota_dimension=1
      r = f32[4,4] multiply(bad, x)""",
    "dropped": """
      y = f32[4,4] sine(x)
      bad = f32[4,4] reverse(y), dimensions={1}
      r = f32[4,4] add(bad, x)""",
    "lost-rounding": """
      h = f32[] constant(10)
      s = f32[4,4] broadcast(h), dimensions={}
      y = f32[4,4] multiply(x, s)
      bad = f32[4,4] floor(y)
      r = f32[4,4] add(bad, x)""",
    "lost-conversion": """
      y = f32[4,4] sine(x)
      h = bf16[4,4] convert(y)
      bad = f32[4,4] convert(h)
      r = f32[4,4] add(bad, x)""",
    "swapped-branches": """
      y = f32[4,4] cosine(x)
      c = pred[4,4] compare(x, y), direction=LT
      bad = f32[4,4] select(c, y, x)
      r = f32[4,4] sine(bad)""",
    "swapped-parts": """
      s = f32[4,2] slice(x), slice={[0:4], [0:2]}
      t = f32[4,2] slice(x), slice={[0:4], [2:4]}
      bad = f32[4,4] concatenate(s, t), dimensions={1}
      r = f32[4,4] add(bad, x)""",
    "wrong-contraction": """
      y = f32[4,4] cosine(x)
      bad = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      r = f32[4,4] sine(bad)""",
    "lost-update": """
      one = s32[] constant(1)
      u = f32[2,2] slice(x), slice={[1:3], [1:3]}
      v = f32[2,2] exponential(u)
      bad = f32[4,4] dynamic-update-slice(x, v, one, one)
      r = f32[4,4] sine(bad)""",
    "lost-bound": """
      low = f32[] constant(-0.125)
      high = f32[] constant(0.25)
      bad = f32[4,4] clamp(low, x, high)
      r = f32[4,4] add(bad, x)""",
    "lost-operand": """
      y = f32[4,4] cosine(x)
      bad = f32[4,4] add(x, y)
      r = f32[4,4] sine(bad)""",
}
_EXTRA = """
      k = f32[] constant(0.5)
      e = f32[4,2] broadcast(k), dimensions={}"""
_FUNCTIONS = """
    sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    largest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }"""
_LOOP = """
    more {{ state = (s32[], f32[4,4]) parameter(0)
      i = s32[] get-tuple-element(state), index=0
      limit = s32[] constant({trips})
      {more} = pred[] compare(i, limit), direction=LT }}
    step {{ state = (s32[], f32[4,4]) parameter(0)
      i = s32[] get-tuple-element(state), index=0
      unit = s32[] constant(1)
      j = s32[] add(i, unit)
      x = f32[4,4] get-tuple-element(state), index=1 {lines}
      turn = f32[] convert(j)
      turns = f32[4,4] broadcast(turn), dimensions={{}}
      row = f32[4,4] iota(), iota_dimension=0
      place = f32[4,4] constant({{{{0,3,1,7}},{{2,6,5,4}},{{8,1,0,2}},{{9,5,3,6}}}})
      rows = f32[4,4] multiply(row, place)
      angle = f32[4,4] add(rows, turns)
      phases = f32[4,4] cosine(angle)
      bent = f32[4,4] tanh(r)
      q = f32[4,4] add(bent, phases)
      ROOT next = (s32[], f32[4,4]) tuple(j, q) }}
    ENTRY main {{ a = f32[4,4] parameter(0)
      g = f32[4,4] sine(a)
      start = s32[] constant(0)
      t = (s32[], f32[4,4]) tuple(start, g)
      w = (s32[], f32[4,4]) while(t), condition=more, body=step
      ROOT result = f32[4,4] get-tuple-element(w), index=1 }}"""
_DEPTHS = {
    "entry": """
    ENTRY main {{ a = f32[4,4] parameter(0)
      x = f32[4,4] sine(a) {lines}
      ROOT result = f32[4,4] exponential(r) }}""",
    "call": """
    f {{ x = f32[4,4] parameter(0) {lines}
      ROOT last = f32[4,4] copy(r) }}
    ENTRY main {{ a = f32[4,4] parameter(0)
      g = f32[4,4] sine(a)
      h = f32[4,4] call(g), to_apply=f
      k = f32[4,4] call(h), to_apply=f
      ROOT result = f32[4,4] exponential(k) }}""",
    "fusion": """
    f {{ x = f32[4,4] parameter(0) {lines}
      ROOT last = f32[4,4] copy(r) }}
    ENTRY main {{ a = f32[4,4] parameter(0)
      g = f32[4,4] sine(a)
      h = f32[4,4] fusion(g), kind=kLoop, calls=f
      ROOT result = f32[4,4] exponential(h) }}""",
    "branch": """
    f {{ x = f32[4,4] parameter(0) {lines}
      ROOT last = f32[4,4] copy(r) }}
    n {{ x = f32[4,4] parameter(0)
      ROOT last = f32[4,4] negate(x) }}
    ENTRY main {{ a = f32[4,4] parameter(0)
      g = f32[4,4] sine(a)
      p = f32[1,1] slice(a), slice={{[0:1], [0:1]}}
      q = f32[] reshape(p)
      o = pred[] compare(q, q), direction=EQ
      h = f32[4,4] conditional(o, g, g), true_computation=f, false_computation=n
      ROOT result = f32[4,4] exponential(h) }}""",
    "loop": _LOOP.replace("{more}", "ROOT more").replace("{trips}", "5"),
    "long loop": _LOOP.replace("{more}", "ROOT more").replace("{trips}", "40"),
}


@dataclass(frozen=True)
class Program:
    """A miscompilation of one kind at one depth, of the instruction `bad`."""

    kind: str
    depth: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.depth}"


# Those of one kind are at all depths, so that any forty in a row are mixed.
PROGRAMS = [Program(kind, depth) for depth in _DEPTHS for kind in _SNIPPETS]
PROGRAMS += [Program("one-more-iteration", depth) for depth in ("loop", "long loop")]
PROGRAMS = PROGRAMS[::5] + PROGRAMS[1::5] + PROGRAMS[2::5] + PROGRAMS[3::5] + PROGRAMS[4::5]


def program(which: Program) -> tuple[Module, Instruction]:
    """Return the module of a program, which is right, and the instruction that is to go wrong."""
    text = _DEPTHS[which.depth]
    if which.kind == "one-more-iteration":
        lines = "r = f32[4,4] cosine(x)"
        text = text.replace("ROOT more", "ROOT bad")
    else:
        lines = _SNIPPETS[which.kind]
        lines = (_EXTRA if ", e)" in lines else "") + lines
    module = hlo.parse(f"HloModule m\n{_FUNCTIONS}\n{text.format(lines=lines)}")
    used = {c for i in module.instructions() for c in i.called_computations}
    for comp in module.computations:
        if comp not in used and comp is not module.entry:
            module.remove(comp)
    [bad] = [i for i in module.instructions() if i.name == "bad"]
    return module, bad


def embed(module: Module, which: Program, number: int = 0) -> tuple[Module, Instruction]:
    """Return a copy of a module with a program in it that the pass `miscompile` gets wrong.

    The program's argument is elements of a float that the entry computes: in the order of the
    entry the one at `number` of those with 16 elements, from the last on. Its result is one more
    result, in a tuple with the others.
    """
    small, bad = program(which)
    assert bad.parent is not None
    home = bad.parent.name
    small = mark(small, which.kind, bad)
    copy = module.clone()
    for old in ("entry_computation_layout", "input_output_alias", "buffer_donor"):
        copy.attrs.pop(old, None)
    copy.trees = None
    comp = copy.entry
    values = [i for i in comp.in_order() if _gives_floats(i)]
    value = values[-1 - number % len(values)]
    made = {c: c.clone(f"planted.{c.name}") for c in small.callees_first()}
    for new in made.values():
        for inst in new:
            inst.replace_called(made)
        copy.add(new)
    b = Builder(comp)
    dims = value.array_shape.dims
    flat = b.reshape(value, (value.array_shape.num_elements,)) if len(dims) != 1 else value
    part = b.op("slice", flat, slice=_first(16))
    x = b.reshape(b.convert(part, F32), (4, 4))
    result = b.op("call", x, shape=array(F32, (4, 4)), to_apply=made[small.entry])
    root = comp.root
    parts = root.operands if root.opcode == "tuple" else [root]
    comp.set_root(b.tuple(*parts, result))
    if root.opcode == "tuple" and not root.num_users:
        comp.remove(root)
    planted = {c.name: n for c, n in made.items()}
    return copy, planted[home][bad.name]


def _gives_floats(inst: Instruction) -> bool:
    shape = inst.shape
    return (
        isinstance(shape, ArrayShape)
        and inst.opcode not in ("parameter", "constant", "broadcast", "iota")
        and shape.num_elements >= 16
        and not shape.is_dynamic
        and is_inexact(shape.element_type.dtype)
        and shape.element_type.dtype.kind != "c"
    )


def _first(count: int) -> tuple[object, ...]:
    from hlo.ops.attrs import SliceDim

    return (SliceDim(0, count),)
