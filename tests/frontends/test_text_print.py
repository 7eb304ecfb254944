"""The printer's options."""

from __future__ import annotations

from dataclasses import replace

from hlo.frontends.text import (
    PrintOptions,
    parse,
    print_computation,
    print_instruction,
    print_module,
)

TEXT = """HloModule m

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}

ENTRY e {
  p = f32[2,3]{0,1} parameter(0), sharding={replicated metadata={op_name="q"}}
  c = f32[] constant(1)
  k = s32[12] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  t = (f32[2,3]{0,1}, f32[]) tuple(p, c), metadata={op_name="n"}, backend_config="b"
  g = f32[2,3]{0,1} get-tuple-element(t), index=0
  ROOT r = f32[2] reduce(g, c), dimensions={1}, to_apply=add, control-predecessors={k}
}
"""
MODULE = parse(TEXT)
DEFAULT = PrintOptions()


def line(name: str, options: PrintOptions) -> str:
    inst = MODULE.entry.get(name)
    assert inst is not None
    return print_instruction(inst, options)


def test_default() -> None:
    assert line("r", DEFAULT) == (
        "ROOT %r = f32[2]{0} reduce(%g, %c), dimensions={1}, to_apply=%add, "
        "control-predecessors={%k}"
    )


def test_short_form() -> None:
    short = PrintOptions.short_parsable()
    assert line("r", short) == "ROOT r = f32[2]{0} reduce(g, c), dimensions={1}, to_apply=add"
    assert "ENTRY e {" in print_module(MODULE, short)
    assert "metadata" not in print_module(MODULE, short)


def test_each_switch() -> None:
    assert "add(f32[] %x, f32[] %y)" in print_module(MODULE, PrintOptions(operand_shapes=True))
    assert line("p", PrintOptions(layouts=False)).startswith("%p = f32[2,3] parameter(0)")
    assert line("k", PrintOptions(constant_limit=11)).endswith("constant({...})")
    assert line("c", PrintOptions(constant_limit=0)) == "%c = f32[] constant(1)"
    assert "backend_config" not in line("t", PrintOptions(backend_config=False))
    assert line("p", PrintOptions(metadata=False)).endswith("sharding={replicated}")
    assert "%e {" in print_module(MODULE, PrintOptions(signatures=False))
    assert line("r", PrintOptions(control_predecessors=False)).endswith("to_apply=%add")
    layout = "entry_computation_layout={(f32[2,3]{0,1})->f32[2]{0}}"
    assert layout in print_module(MODULE, PrintOptions(program_layout=True))


def test_compact_elements_parse_back() -> None:
    compact = PrintOptions(compact_gte=True)
    text = print_module(MODULE, compact)
    assert "reduce(%t#0, %c)" in text and "get-tuple-element" not in text
    assert print_module(parse(text), compact) == text


def test_bodies_stand_in_place_of_names() -> None:
    assert line("r", PrintOptions(bodies=True, percent=False, control_predecessors=False)) == (
        "ROOT r = f32[2]{0} reduce(g, c), dimensions={1}, to_apply=\n"
        "{\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}"
    )


def test_canonical_text_does_not_depend_on_names_or_on_the_order_of_the_text() -> None:
    a = (
        "ENTRY e { a = f32[] parameter(0)\n b = f32[] negate(a)\n c = f32[] abs(a)\n "
        "ROOT d = f32[] add(b, c) }"
    )
    b = (
        "ENTRY e { y = f32[] parameter(0)\n u = f32[] abs(y)\n v = f32[] negate(y)\n "
        "ROOT w = f32[] add(v, u) }"
    )
    canonical = PrintOptions.canonical()
    assert print_module(parse(a), canonical) == print_module(parse(b), canonical)
    assert print_module(parse(a)) != print_module(parse(b))


def test_fingerprint_leaves_out_names_of_computations() -> None:
    renamed = parse(TEXT.replace("add {", "sum {").replace("=add", "=sum").replace(" m\n", " n\n"))
    finger = PrintOptions.fingerprint()
    assert print_module(MODULE, finger) == print_module(renamed, finger)
    assert print_module(MODULE, DEFAULT) != print_module(renamed, DEFAULT)


def test_computations_are_printed_callees_first() -> None:
    late = parse("ENTRY e { p = f32[] parameter(0)\n ROOT q = f32[] call(p), to_apply=c }\n"
                 "c { p = f32[] parameter(0) }")  # fmt: skip
    text = print_module(late)
    assert text.index("%c (") < text.index("ENTRY")


def test_one_computation() -> None:
    add = MODULE.get("add")
    assert add is not None
    assert print_computation(add, PrintOptions(percent=False)) == (
        "add (x: f32[], y: f32[]) -> f32[] {\n  x = f32[] parameter(0)\n"
        "  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}"
    )


def test_keywords_keep_their_percent_sign() -> None:
    module = parse("ENTRY e { %inf = f32[] parameter(0)\n ROOT %ROOT = f32[] negate(%inf) }")
    text = print_module(module, PrintOptions.short_parsable())
    assert "ROOT %ROOT = f32[] negate(%inf)" in text
    assert print_module(parse(text)) == print_module(module)


def test_async_sugar_only_where_it_says_all() -> None:
    text = ("HloModule m\n\n%w (a: f32[2]) -> f32[2] {\n  %a = f32[2]{0} parameter(0)\n"
            "  ROOT %b = f32[2]{0} negate(%a)\n}\n\nENTRY %e (p: f32[2]) -> f32[2] {\n"
            "  %p = f32[2]{0} parameter(0)\n  %s = ((f32[2]{0}), f32[2]{0}, u32[]) "
            "async-start(%p), calls=%w\n  ROOT %d = f32[2]{0} async-done(%s)\n}\n")  # fmt: skip
    assert print_module(parse(text)) == text
    sugar = text.replace("async-start(%p), calls=%w", "negate-start(%p)").replace(
        "async-done", "negate-done"
    )
    sugar = "HloModule m\n\n" + sugar[sugar.index("ENTRY") :]
    module = parse(sugar)
    assert print_module(module) == sugar
    plain = print_module(module, replace(DEFAULT, async_sugar=False))
    assert "async-start(%p), calls=%async_wrapped" in plain
    assert print_module(parse(plain)) == sugar
