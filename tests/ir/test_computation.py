"""What a computation keeps up to date while it is edited: a valid order, call sites, opcodes."""

from __future__ import annotations

import pickle
import random

import pytest

import hlo
from hlo.ir import Computation, Instruction

TEXT = """HloModule m
f { ROOT p = f32[] parameter(0) }
ENTRY e {
  a = f32[] parameter(0)
  b = f32[] negate(a)
  c = f32[] call(b), to_apply=f
  d = f32[] add(c, b)
  ROOT r = f32[] subtract(d, a)
}"""


def _is_valid(order: list[Instruction]) -> bool:
    at = {inst: n for n, inst in enumerate(order)}
    return all(at[before] < at[inst] for inst in order for before in inst.predecessors())


def _check(comp: Computation) -> None:
    order = comp.in_order()
    assert sorted(i.name for i in order) == sorted(i.name for i in comp) and _is_valid(order)
    if _is_valid(list(comp)):
        assert order == list(comp)
    assert comp.call_sites == [i for i in comp if i.opcode == "call"]
    present = {i.opcode for i in comp}
    for opcode in ("parameter", "negate", "call", "add", "subtract", "while"):
        assert comp.has_opcode([opcode]) == (opcode in present)


@pytest.mark.parametrize("seed", range(20))
def test_any_edits_leave_a_valid_order_and_the_call_sites(seed: int) -> None:
    rng = random.Random(seed)
    module = hlo.parse(TEXT)
    comp, callee = module.entry, module["f"]
    for _ in range(30):
        values = list(comp)
        edit = rng.randrange(6)
        one = rng.choice(values)
        if edit == 0:
            comp.create("negate", one.shape, [one])
        elif edit == 1:
            comp.create("call", one.shape, [one], {"to_apply": callee})
        elif edit == 2 and not one.num_users and not one.is_root:
            comp.remove(one)
        elif edit == 3:
            # Uses of one go to a new value at the end: users now stand before it.
            one.replace_all_uses_with(comp.create("negate", one.shape, [one]))
        elif edit == 4:
            later = comp.in_order()
            first, second = sorted(rng.sample(range(len(later)), 2))
            later[second].add_control_predecessor(later[first])
        else:
            comp.sort()
            assert list(comp) == comp.in_order()
            independent = [i for i in comp if not list(i.predecessors())]
            rest = [i for i in comp if i not in independent]
            comp.reorder([*rng.sample(independent, len(independent)), *rest])
        _check(comp)


def test_an_instruction_may_be_added_before_its_operands() -> None:
    comp = Computation("c")
    shape = hlo.parse_shape("f32[]")
    operand = Instruction("x", "parameter", shape, (), {"number": 0})
    user = comp.add(Instruction("y", "negate", shape, [operand]), root=True)
    assert comp.add(operand) is operand
    assert comp.in_order() == [operand, user]
    comp.sort()
    assert list(comp) == [operand, user]


def test_a_computation_s_instructions_may_be_assigned_in_any_order() -> None:
    comp = hlo.parse(TEXT).entry
    root = comp.root
    comp.assign(list(comp)[::-1], root)
    _check(comp)
    assert [i.name for i in comp.call_sites] == ["c"]


def test_pickled_shapes_hash_as_equal_ones_do() -> None:
    for text in ("f32[2,3]{0,1}", "(f32[2], (s32[], token[]))"):
        shape = hlo.parse_shape(text)
        known = {shape: 1}
        copy = pickle.loads(pickle.dumps(shape))
        assert copy == shape and known[copy] == 1


def test_operands_of_a_large_tuple_are_replaced_one_after_another() -> None:
    names = [f"x{n}" for n in range(100)]
    lines = [f"{name} = f32[] parameter({n})" for n, name in enumerate(names)]
    shapes = ", ".join(["f32[]"] * 101)
    lines.append(f"y = f32[] add(x0, x1) ROOT t = ({shapes}) tuple({', '.join(names)}, x7)")
    entry = hlo.parse(f"HloModule m ENTRY e {{ {' '.join(lines)} }}").entry
    x = [entry[name] for name in names]
    x[3].replace_all_uses_with(entry["y"])
    x[7].replace_all_uses_with(entry["y"])
    assert [n for n, o in enumerate(entry.root.operands) if o is entry["y"]] == [3, 7, 100]
    entry.root.replace_operand(7, x[7])
    entry["y"].replace_all_uses_with(x[50])
    assert [n for n, o in enumerate(entry.root.operands) if o is x[50]] == [3, 50, 100]
    assert x[50].users == [entry.root] and x[7].users == [entry.root] and not entry["y"].users
