"""The verifier on modules built by hand: what the parser would never let through."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.ir import Computation, Instruction, Module
from hlo.ops.attrs import OutputAlias
from hlo.values.types import BufferShape, Layout, TupleShape, array
from hlo.verifier import VerifyOptions, diagnose, verify

F2 = array("f32", (2,))
F3 = array("f32", (3,))


def small() -> tuple[Module, Computation]:
    """Return `negate(parameter(0))` of f32[2]."""
    comp = Computation("entry")
    p = comp.create("parameter", F2, (), {"number": 0}, name="p")
    comp.create("negate", F2, [p], name="n", root=True)
    module = Module("m")
    module.add(comp, entry=True)
    return module, comp


def codes(module: Module, options: VerifyOptions | None = None) -> list[str]:
    return [d.code for d in diagnose(module, options)]


def test_a_sound_module_has_no_errors() -> None:
    verify(small()[0])


def test_verify_raises_all_errors_at_once() -> None:
    module, comp = small()
    comp.create("abs", F3, [comp.parameters[0]])
    comp.create("sine", F3, [comp.parameters[0]])
    with pytest.raises(HloError) as e:
        verify(module)
    assert [d.code for d in e.value.diagnostics] == ["shape-mismatch", "shape-mismatch"]


def test_a_mismatch_names_the_instruction_and_both_shapes() -> None:
    module, comp = small()
    comp.create("abs", F3, [comp.parameters[0]], name="wrong")
    (found,) = diagnose(module)
    assert "wrong" in found.message and "f32[3]" in found.message and "f32[2]" in found.message


# --- structure ----------------------------------------------------------------------------------


def _no_entry(module: Module, comp: Computation) -> None:
    module._entry = None


def _no_root(module: Module, comp: Computation) -> None:
    comp._root = None


def _root_elsewhere(module: Module, comp: Computation) -> None:
    comp._root = Instruction("far", "after-all", F2)


def _foreign_operand(module: Module, comp: Computation) -> None:
    far = Instruction("far", "parameter", F2, (), {"number": 0})
    comp.create("abs", F2, [far])


def _lost_user(module: Module, comp: Computation) -> None:
    comp.parameters[0]._users.clear()


def _extra_user(module: Module, comp: Computation) -> None:
    comp.root._users[comp.parameters[0]] = 1


def _renamed_behind_its_back(module: Module, comp: Computation) -> None:
    comp.root.name = "other"


def _wrong_parent(module: Module, comp: Computation) -> None:
    comp.root._parent = Computation("elsewhere")


def _computation_of_another_module(module: Module, comp: Computation) -> None:
    comp.module = Module("elsewhere")


def _cycle(module: Module, comp: Computation) -> None:
    later = comp.create("abs", F2, [comp.root])
    comp.root.replace_operand(0, later)


def _control_cycle(module: Module, comp: Computation) -> None:
    comp.parameters[0].add_control_predecessor(comp.root)


def _one_sided_control_edge(module: Module, comp: Computation) -> None:
    comp.root.control_predecessors.append(comp.parameters[0])


def _parameter_gap(module: Module, comp: Computation) -> None:
    comp.create("parameter", F2, (), {"number": 2})


def _parameter_twice(module: Module, comp: Computation) -> None:
    comp.create("parameter", F2, (), {"number": 0})


def _callee_outside(module: Module, comp: Computation) -> None:
    callee = small()[1]
    comp.create("call", F2, [comp.root], {"to_apply": callee})


def _recursion(module: Module, comp: Computation) -> None:
    comp.create("call", F2, [comp.root], {"to_apply": comp})


def _missing_key(module: Module, comp: Computation) -> None:
    inst = comp.create("transpose", F2, [comp.root], {"dimensions": (0,)})
    del inst.attrs["dimensions"]


def _missing_value(module: Module, comp: Computation) -> None:
    comp.create("transpose", F2, [comp.root])


def _unknown_key(module: Module, comp: Computation) -> None:
    comp.root.attrs["colour"] = "red"


def _operand_count(module: Module, comp: Computation) -> None:
    comp.create("add", F2, [comp.root])


def _negative_dimension(module: Module, comp: Computation) -> None:
    comp.root.shape = array("f32", (-2,))


def _huge_shape(module: Module, comp: Computation) -> None:
    comp.root.shape = array("f32", (2**40, 2**40))


def _many_dimensions(module: Module, comp: Computation) -> None:
    comp.root.shape = array("f32", [1] * 33)


def _bad_layout(module: Module, comp: Computation) -> None:
    comp.root.shape = F2.with_layout(Layout((1,)))


def _unsound_tile(module: Module, comp: Computation) -> None:
    comp.root.shape = F2.with_layout(Layout((0,), tail_padding=0))


BREAKS: list[tuple[Callable[[Module, Computation], None], str]] = [
    (_no_entry, "no-entry"),
    (_no_root, "no-root"),
    (_root_elsewhere, "no-root"),
    (_foreign_operand, "foreign-operand"),
    (_lost_user, "bad-users"),
    (_extra_user, "bad-users"),
    (_renamed_behind_its_back, "duplicate-name"),
    (_wrong_parent, "bad-parent"),
    (_computation_of_another_module, "bad-parent"),
    (_cycle, "cycle"),
    (_control_cycle, "cycle"),
    (_one_sided_control_edge, "bad-users"),
    (_parameter_gap, "bad-parameter-number"),
    (_parameter_twice, "bad-parameter-number"),
    (_callee_outside, "foreign-computation"),
    (_recursion, "recursive-call"),
    (_missing_key, "missing-attribute"),
    (_missing_value, "missing-attribute"),
    (_unknown_key, "unknown-attribute"),
    (_operand_count, "operand-count"),
    (_negative_dimension, "bad-shape"),
    (_huge_shape, "bad-shape"),
    (_many_dimensions, "bad-shape"),
    (_bad_layout, "bad-layout"),
    (_unsound_tile, "bad-layout"),
]


@pytest.mark.parametrize(("break_it", "code"), BREAKS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_broken_module_is_rejected(
    break_it: Callable[[Module, Computation], None], code: str
) -> None:
    module, comp = small()
    break_it(module, comp)
    assert code in codes(module)


def test_mutual_recursion_is_reported_once_with_its_path() -> None:
    module, comp = small()
    other = Computation("other")
    p = other.create("parameter", F2, (), {"number": 0})
    other.create("call", F2, [p], {"to_apply": comp}, root=True)
    module.add(other)
    comp.create("call", F2, [comp.parameters[0]], {"to_apply": other})
    found = [d for d in diagnose(module) if d.code == "recursive-call"]
    assert len(found) == 1
    assert "entry -> other -> entry" in found[0].message


def test_an_empty_module_has_no_entry() -> None:
    assert codes(Module("m")) == ["no-entry"]


def test_a_module_may_be_out_of_order_unless_it_is_scheduled() -> None:
    module, comp = small()
    later = comp.create("abs", F2, [comp.parameters[0]])
    comp.root.replace_operand(0, later)
    assert codes(module) == []
    module.attrs["is_scheduled"] = True
    assert codes(module) == ["bad-schedule"]


# --- options ------------------------------------------------------------------------------------


def _mixed() -> Module:
    comp = Computation("entry")
    a = comp.create("parameter", F2, (), {"number": 0})
    b = comp.create("parameter", array("bf16", (2,)), (), {"number": 1})
    comp.create("add", F2, [a, b], root=True)
    module = Module("m")
    module.add(comp, entry=True)
    return module


def test_mixed_precision_is_an_option() -> None:
    assert codes(_mixed()) == ["type-mismatch"]
    assert codes(_mixed(), VerifyOptions(allow_mixed_precision=True)) == []


def test_a_narrower_result_is_mixed_precision_too() -> None:
    module, comp = small()
    comp.create("abs", array("bf16", (2,)), [comp.parameters[0]])
    assert codes(module) == ["type-mismatch"]
    assert codes(module, VerifyOptions(allow_mixed_precision=True)) == []


def test_layouts_matter_only_when_asked() -> None:
    comp = Computation("entry")
    across = array("f32", (2, 3)).with_layout(Layout((0, 1)))
    p = comp.create("parameter", array("f32", (2, 3)), (), {"number": 0})
    n = comp.create("negate", across, [p])
    comp.create("tuple", TupleShape((across,)), [p], root=True)
    module = Module("m")
    module.add(comp, entry=True)
    assert codes(module) == []
    assert codes(module, VerifyOptions(layout_sensitive=True)) == [
        "layout-mismatch",
        "layout-mismatch",
    ]
    n.shape = p.shape
    comp.root.shape = TupleShape((p.shape,))
    assert codes(module, VerifyOptions(layout_sensitive=True)) == []


def test_a_copy_may_change_the_layout() -> None:
    module, comp = small()
    comp.create("copy", F2.with_layout(Layout((0,), memory_space=1)), [comp.root])
    assert codes(module, VerifyOptions(layout_sensitive=True)) == []


def test_host_memory_and_unbounded_dimensions_can_be_excluded() -> None:
    module, comp = small()
    comp.create("copy", F2.with_layout(Layout((0,), memory_space=5)), [comp.root])
    assert codes(module) == []
    assert codes(module, VerifyOptions(allow_host_memory_space=False)) == ["host-memory"]
    unbounded = array("f32", (-1,), (True,))
    comp.create("parameter", unbounded, (), {"number": 1})
    assert codes(module) == []
    assert codes(module, VerifyOptions(allow_unbounded_dynamism=False)) == ["unbounded-dimension"]


def layout(*minor_to_major: int) -> Layout:
    return Layout(minor_to_major)


@pytest.mark.parametrize(
    ("dims", "order", "new_dims", "new_order", "is_bitcast"),
    [
        ((2, 3), (1, 0), (6,), (0,), True),
        ((2, 3), (0, 1), (6,), (0,), False),
        ((4, 6), (0, 1), (2, 2, 6), (1, 0, 2), True),
        ((4, 6), (0, 1), (2, 2, 6), (0, 1, 2), False),
        ((4, 6), (1, 0), (2, 2, 6), (0, 1, 2), False),
        ((1, 4, 1), (0, 1, 2), (4,), (0,), True),
        ((2, 6), (1, 0), (4, 3), (1, 0), True),
        ((2, 6), (0, 1), (4, 3), (0, 1), False),
        ((0, 3), (0, 1), (3, 0), (1, 0), True),
        ((), (), (1,), (0,), True),
    ],
)
def test_reshapes_can_be_held_to_bitcasts(
    dims: tuple[int, ...],
    order: tuple[int, ...],
    new_dims: tuple[int, ...],
    new_order: tuple[int, ...],
    is_bitcast: bool,
) -> None:
    comp = Computation("entry")
    p = comp.create("parameter", array("f32", dims).with_layout(layout(*order)), (), {"number": 0})
    comp.create("reshape", array("f32", new_dims).with_layout(layout(*new_order)), [p], root=True)
    module = Module("m")
    module.add(comp, entry=True)
    assert codes(module) == []
    wanted = [] if is_bitcast else ["layout-mismatch"]
    assert codes(module, VerifyOptions(reshapes_are_bitcasts=True)) == wanted


def test_broadcast_dimensions_can_be_held_to_ascend() -> None:
    comp = Computation("entry")
    p = comp.create("parameter", array("f32", (2, 3)), (), {"number": 0})
    comp.create("broadcast", array("f32", (3, 2)), [p], {"dimensions": (1, 0)}, root=True)
    module = Module("m")
    module.add(comp, entry=True)
    assert codes(module) == []
    assert codes(module, VerifyOptions(sorted_broadcasts=True)) == ["bad-dimension"]


def test_names_can_be_held_to_those_of_the_schedule() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[2] parameter(0), metadata={scheduling_name="a"}
  b.remat = f32[2] negate(a), metadata={scheduling_name="b"}
  ROOT c = f32[2] negate(b.remat), metadata={scheduling_name="b"}
}"""
    assert codes(parse(text)) == []
    assert codes(parse(text), VerifyOptions(names_unchanged=True)) == ["renamed"]


# --- speed and buffers --------------------------------------------------------------------------


def test_a_long_chain_is_walked_without_recursion() -> None:
    module, comp = small()
    inst = comp.root
    for _ in range(20_000):
        inst = comp.create("negate", F2, [inst])
    comp.set_root(inst)
    verify(module)


def test_a_buffer_has_one_writer() -> None:
    comp = Computation("entry")
    aliases = {"output_to_operand_aliasing": (OutputAlias((), 0, ()),)}
    p = comp.create("parameter", F2, (), {"number": 0})
    pin = comp.create(
        "custom-call", BufferShape(F2), [p], {"custom_call_target": "Pin", **aliases}, name="pin"
    )
    for _ in range(2):
        out = comp.create("custom-call", F2, [pin], {"custom_call_target": "Unpin", **aliases})
    comp.set_root(out)
    module = Module("m")
    module.add(comp, entry=True)
    assert codes(module) == ["bad-buffer"]
    comp.set_root(next(i for i in comp if i.name == "custom-call"))
    comp.remove(out)
    assert codes(module) == []


def test_a_mismatch_of_long_tuples_names_the_element() -> None:
    comp = Computation("entry")
    p = comp.create("parameter", F2, (), {"number": 0})
    shape = TupleShape((*[F2] * 40, F3, *[F2] * 40))
    comp.create("tuple", shape, [p] * 81, root=True)
    module = Module("m")
    module.add(comp, entry=True)
    (found,) = diagnose(module)
    assert "the result at {40} is f32[3], the operands and attributes give f32[2]" in found.message


# --- what XLA takes -----------------------------------------------------------------------------

TOLERATED = {
    "dimensions of a map": "ROOT r = f32[2,3] map(p), dimensions={1}, "
    "to_apply={ x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }",
    "an alias of no operand": 'ROOT r = f32[2,3] custom-call(p), custom_call_target="Sharding", '
    "output_to_operand_aliasing={{}: (-1, {})}",
    "a call to another thread": "ROOT r = f32[2,3] call(p), to_apply=side",
    "a channel below 1": "ROOT r = f32[2,3] all-gather(p), channel_id=-1, replica_groups={}, "
    "dimensions={0}",
    "a channel of a permutation below 1": "ROOT r = f32[2,3] collective-permute(p), channel_id=0, "
    "source_target_pairs={{0,0}}",
}


@pytest.mark.parametrize("name", TOLERATED)
def test_lenient_takes_what_xla_takes_and_the_error_says_so(name: str) -> None:
    text = (
        'HloModule m\nside { ROOT q = f32[2,3] parameter(0) }, execution_thread="side"\n'
        f"ENTRY e {{\n  p = f32[2,3] parameter(0)\n  {TOLERATED[name]}\n}}\n"
    )
    module = hlo.parse(text)
    with pytest.raises(HloError, match=r"hint: XLA .*; --verify=lenient accepts it"):
        hlo.verify(module)
    hlo.verify(module, "lenient")
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    want = hlo.interpret(module, x, verify="lenient")
    assert np.array_equal(hlo.compile(module, cache=False, verify="lenient")(x), want)
    with pytest.raises(HloError):
        hlo.compile(module, cache=False)


def _with_groups(line: str) -> Module:
    return hlo.parse(
        "HloModule m, replica_count=2\n"
        "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
        f"ENTRY e {{\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] {line} }}\n"
    )


def test_ids_below_0_are_taken_where_xla_does_not_look_at_them_and_are_nobodys() -> None:
    module = _with_groups("collective-broadcast(p), replica_groups={{0,-1}}")
    with pytest.raises(HloError, match=r"hint: XLA .*; --verify=lenient accepts it"):
        hlo.verify(module)
    hlo.verify(module, "lenient")
    with pytest.raises(HloError, match="between devices 0, -1") as e:
        hlo.interpret(module, np.float32([1, 2]), verify="lenient")
    assert e.value.code == "unsupported-participants"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("all-reduce(p), replica_groups={{0,-1}}, to_apply=add", "its verifier refuses them"),
        ("all-reduce(p), channel_id=-1, replica_groups={}, to_apply=add", "XLA refuses it"),
    ],
)
def test_lenient_is_as_strict_as_xla(line: str, hint: str) -> None:
    for mode in ("strict", "lenient"):
        with pytest.raises(HloError, match=f"hint: .*{hint}"):
            hlo.verify(_with_groups(line), mode)


def test_an_unknown_way_to_verify_is_an_error() -> None:
    with pytest.raises(HloError, match="unknown mode to verify: 'lenent'"):
        hlo.verify(hlo.parse("f32[] negate(f32[] x)"), "lenent")
