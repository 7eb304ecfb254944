"""Matching of two modules: by structure, whatever their names and order are."""

from __future__ import annotations

import pytest

import hlo
from hlo.analysis.matching import Matching, match_modules
from hlo.ir import Module
from tests.generators.modules import generate
from tests.generators.shuffled import shuffled

# Four equal layers, of which each writes its broadcasts anew.
_LAYER = """
  one{n} = f32[] constant(1)
  ones{n} = f32[8]{{0}} broadcast(one{n}), dimensions={{}}
  a{n} = f32[8]{{0}} add(x{n}, ones{n})
  t{n} = f32[8]{{0}} tanh(a{n})
  x{next} = f32[8]{{0}} multiply(t{n}, ones{n})"""


def layers() -> Module:
    """Return a chain of equal layers."""
    text = "".join(_LAYER.format(n=n, next=n + 1) for n in range(4))
    root = "ROOT r = f32[8]{0} copy(x4)"
    return hlo.parse(f"HloModule m\nENTRY e {{ x0 = f32[8]{{0}} parameter(0){text}\n{root} }}")


def names(matching: Matching) -> dict[str, str]:
    return {a.name: b.name for a, b in matching.pairs}


@pytest.mark.parametrize("seed", range(20))
def test_renamed_and_reordered_modules_are_equal(seed):
    module = generate(seed)
    matching = match_modules(module, shuffled(module, seed))
    assert len(matching.exact) == sum(len(c) for c in module)
    assert not matching.only_left and not matching.only_right


def test_equal_layers_are_told_apart_by_what_surrounds_them():
    left, right = layers(), shuffled(layers(), 1)
    matching = match_modules(left, right)
    assert len(matching.exact) == len(left.entry)


@pytest.mark.parametrize("layer", range(4))
def test_one_edited_layer_leaves_the_others_alone(layer):
    edited = layers()
    target = edited.entry[f"t{layer}"]
    new = edited.entry.create("exponential", target.shape, target.operands, name="new")
    target.replace_all_uses_with(new)
    edited.entry.remove(target)
    edited.entry.sort()
    matching = match_modules(layers(), edited)
    assert names(matching) == {
        i.name: "new" if i is target or i.name == target.name else i.name for i in layers().entry
    }


def test_a_removed_instruction_has_no_partner():
    edited = layers()
    target = edited.entry["t2"]
    target.replace_all_uses_with(target.operands[0])
    edited.entry.remove(target)
    matching = match_modules(layers(), edited)
    assert [i.name for i in matching.only_left] == ["t2"]
    assert not matching.only_right
    assert all(a.name == b.name for a, b in matching.pairs)


def test_bodies_are_matched_by_the_instructions_that_call_them():
    text = """HloModule m
f {{ p = f32[] parameter(0)  ROOT y = f32[] {f}(p) }}
g {{ p = f32[] parameter(0)  ROOT y = f32[] tanh(p) }}
ENTRY e {{
  x = f32[] parameter(0)
  a = f32[] call(x), to_apply=f
  ROOT b = f32[] call(a), to_apply={g}
}}"""
    left = hlo.parse(text.format(f="tanh", g="f"))
    right = hlo.parse(text.format(f="tanh", g="g"))
    # A body that is shared there and copied here is no difference.
    matching = match_modules(left, right)
    assert len(matching.exact) == 5
    changed = match_modules(left, hlo.parse(text.format(f="sine", g="f")))
    assert [(a.opcode, b.opcode) for a, b in changed.pairs if a.opcode != b.opcode] == [
        ("tanh", "sine")
    ]


def test_instructions_inside_a_fusion_are_matched_with_those_outside():
    plain = hlo.parse("""HloModule m ENTRY e {
      x = f32[8] parameter(0)  w = f32[8] parameter(1)
      a = f32[8] multiply(x, w)  b = f32[8] tanh(a)  c = f32[8] sine(a)
      ROOT r = (f32[8], f32[8]) tuple(b, c) }""")
    fused = hlo.parse("""HloModule m
      body { q = f32[8] parameter(1)  p = f32[8] parameter(0)
        m = f32[8] multiply(q, p)  t = f32[8] tanh(m)  s = f32[8] sine(m)
        ROOT both = (f32[8], f32[8]) tuple(t, s) }
      ENTRY e { x = f32[8] parameter(0)  w = f32[8] parameter(1)
        f = (f32[8], f32[8]) fusion(w, x), kind=kLoop, calls=body
        f0 = f32[8] get-tuple-element(f), index=0
        f1 = f32[8] get-tuple-element(f), index=1
        ROOT r = (f32[8], f32[8]) tuple(f0, f1) }""")
    assert names(match_modules(plain, fused)) == {
        "x": "x", "w": "w", "a": "m", "b": "t", "c": "s", "r": "r",
    }  # fmt: skip


def test_parameters_are_aligned_where_one_was_added():
    text = "HloModule m ENTRY e {{ {params} ROOT r = f32[2] add(x, y) }}"
    types = {"x": "f32[2]", "y": "f32[2]", "z": "s8[]", "n": "s32[]"}

    def module(order: str) -> Module:
        params = [f"{name} = {types[name]} parameter({n})" for n, name in enumerate(order)]
        return hlo.parse(text.format(params="  ".join(params)))

    left, right = module("xyz"), module("nxyz")
    assert names(match_modules(left, right)) == {n: n for n in "xyzr"}


def test_optimized_modules_are_matched_with_their_source():
    left = hlo.parse("""HloModule m ENTRY e {
      x = f32[4,8] parameter(0)
      one = f32[] constant(1)  ones = f32[4,8] broadcast(one), dimensions={}
      a = f32[4,8] multiply(x, ones)  t = f32[8,4] transpose(a), dimensions={1,0}
      b = f32[8,4] tanh(t)  ROOT r = f32[8,4] exponential(b) }""")
    right = hlo.optimize(left.clone())
    matching = match_modules(left, right, by_name=True)
    found = {a.name: b.opcode for a, b in matching.pairs}
    assert found["b"] == "tanh" and found["r"] == "exponential"
