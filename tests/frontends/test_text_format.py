"""Formatting of HLO text: its canonical form, its comments, and that nothing else changes."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import hlo
from hlo.frontends.text.format import format_text
from hlo.frontends.text.structure import atoms_of
from tests.generators.modules import Generator
from tests.harness.paths import ROOT

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_PRINTED = (
    hlo.PrintOptions(),
    hlo.PrintOptions(operand_shapes=True, percent=False, program_layout=True),
    hlo.PrintOptions.short_parsable(),
    hlo.PrintOptions(bodies=True, signatures=False),
)


# Every so many of the file tests are tried: tests/sweeps/format_texts.py tries all.
_EACH = 10


@cache
def _cases() -> list[tuple[str, str]]:
    """Return valid texts of the file tests, by name."""
    found = []
    for path in sorted((ROOT / "tests" / "filetests").rglob("*.hlo"))[::3]:
        for number, text in enumerate(re.split(r"^//\s*-{5,}\s*$", path.read_text(), flags=re.M)):
            try:
                hlo.parse(text)
            except hlo.HloError:
                continue
            found.append((f"{path.stem}:{number}", text))
    return found


def _words(text: str) -> list[str]:
    return [atom.text for atom in atoms_of(text)]


def _comments(text: str) -> list[str]:
    """Return the comments between atoms, without the blanks at their ends."""
    ends = [0, *(a.end for a in atoms_of(text))]
    starts = [*(a.start for a in atoms_of(text)), len(text)]
    gaps = (text[end:start] for end, start in zip(ends, starts, strict=True))
    return [comment.rstrip() for gap in gaps for comment in _COMMENT.findall(gap)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("HloModule  m ENTRY e{ROOT c=s32[]  constant( 7 )}",
         "HloModule m\n\nENTRY e {\n  ROOT c = s32[] constant(7)\n}\n"),
        ("f32[2] add( f32[2]a,f32[2] %b )", "f32[2] add(f32[2] a, f32[2] %b)\n"),
        # Two shapes, an operand that is an operation, a shape that is left out.
        ("ENTRY e { x=f32[2]parameter(0)\n\n\n f32[2] %y = f32[2] negate(x) "
         "ROOT z=add( multiply(x,x),f32[2]negate(  y ) ) }",
         "ENTRY e {\n  x = f32[2] parameter(0)\n\n  f32[2] %y = f32[2] negate(x)\n"
         "  ROOT z = add(multiply(x, x), f32[2] negate(y))\n}\n"),
        # Shapes and literals.
        ("e{ROOT c=( f32[2,2]{ 1,0 :T(2,128)(2,1) },s32[]) constant( ( {{1,2},{3,4}}, 5 ))}",
         "e {\n  ROOT c = (f32[2,2]{1,0:T(2,128)(2,1)}, s32[]) constant(( {{1, 2}, {3, 4}}, 5 ))\n"
         "}\n"),
        ("e{ROOT c=c64[2,1] constant({{(1,2)},{(3,-0)}})}",
         "e {\n  ROOT c = c64[2,1] constant({ {(1, 2)}, {(3, -0)} })\n}\n"),
        ("e{ROOT c=c64[1,2] constant({{(1,2), (3,4)}})}",
         "e {\n  ROOT c = c64[1,2] constant({ { (1, 2), (3, 4) } })\n}\n"),
        # A called computation in place of its name.
        ("e { x=f32[4] parameter(0) z=f32[] constant(0) ROOT r=f32[] reduce(x,z),dimensions={0},\n"
         "to_apply={a =f32[] parameter(0) b = f32[]parameter(1)\n\n ROOT s=f32[] add(a,b)} }",
         "e {\n  x = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
         "  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=\n  {\n"
         "    a = f32[] parameter(0)\n    b = f32[] parameter(1)\n\n"
         "    ROOT s = f32[] add(a, b)\n  }\n}\n"),
        # Verbatim values and strings.
        ("e{ROOT x=f32[] parameter(0), backend_config={\"a\" :  [1,  2]},frontend_attributes="
         "{b={ c :  1 },d=\"x  y\"}  , metadata={op_name=\"a  b\"\n source_line=7}}",
         "e {\n  ROOT x = f32[] parameter(0), backend_config={\"a\" :  [1,  2]}, "
         "frontend_attributes={b={ c :  1 },d=\"x  y\"}, "
         "metadata={op_name=\"a  b\" source_line=7}\n}\n"),
    ],
)  # fmt: skip
def test_canonical_form(text: str, want: str) -> None:
    assert format_text(text) == want
    assert format_text(want) == want


def test_comments_stay_where_they_are() -> None:
    text = """\
// A model.


/* by
     hand */
HloModule m,   // a header
  num_partitions=2
// The sum.
sum { a = f32[] parameter(0) // left
    b = f32[] parameter(1)
  // Of both:

      ROOT s = f32[] add( /*lhs*/a,
        b) // done
        // last words
} // of sum
/* the entry */ ENTRY e (x: f32[4] /* data */) -> f32[] {
 x = f32[4] parameter(0) zero = f32[] constant(/* none */ 0)
 ROOT r = f32[] reduce(x, // what
    // and from where
    zero), dimensions={0}, to_apply=sum }
// The end.
"""
    want = """\
// A model.

/* by
     hand */
HloModule m, // a header
    num_partitions=2

// The sum.
sum {
  a = f32[] parameter(0) // left
  b = f32[] parameter(1)
  // Of both:

  ROOT s = f32[] add(/*lhs*/a, b) // done
  // last words
} // of sum

/* the entry */ ENTRY e (x: f32[4] /* data */) -> f32[] {
  x = f32[4] parameter(0)
  zero = f32[] constant(/* none */ 0)
  ROOT r = f32[] reduce(x, // what
      // and from where
      zero), dimensions={0}, to_apply=sum
}
// The end.
"""
    assert format_text(text) == want
    assert format_text(want) == want


def test_the_texts_of_this_repository() -> None:
    for name, text in _cases()[::_EACH]:
        result = format_text(text, name)
        assert format_text(result) == result, name
        assert _comments(result) == _comments(text), name


@pytest.mark.parametrize("which", range(len(_PRINTED)))
def test_what_is_printed_is_canonical(which: int) -> None:
    options = _PRINTED[which]
    for name, text in _cases()[which :: 3 * _EACH]:
        printed = hlo.print_module(hlo.parse(text), options)
        if options.bodies and re.search(r"\b(reduce-scatter|scan)\(", printed):
            continue  # whose printed bodies only XLA's fingerprints know
        assert format_text(printed) == printed, name


def _scrambled(text: str, rng: random.Random, *, comments: bool) -> str:
    """Return a text with other white space where it has some, and maybe with comments there."""
    out, end, squares = [], 0, 0
    for atom in atoms_of(text):
        if end < atom.start or (atom.text == "}" and rng.random() < 0.1):
            # In dimensions the grammar takes no brackets, not even in comments.
            out.append(_gap(rng, comments and not squares))
        squares += {"[": 1, "]": -1}.get(atom.text, 0)
        out.append(atom.text)
        end = atom.end
    return "".join(out)


def _gap(rng: random.Random, comments: bool) -> str:
    gap = rng.choice((" ", "  ", "\n", "\t ", "\n    ", " \n"))
    while comments and rng.random() < 0.3:
        words = rng.choice(("", "x", "ROOT y = f32[] add(", "*", '"', "{", " CHECK: }"))
        gap += rng.choice(
            (f"// {words}\n", f"/*{words}*/", f"/* {words}\n  * 2 */\n", f"//{words}\r\n")
        )
        gap += rng.choice(("", "", " ", "\n", "\n\n\n"))
    return gap


@pytest.mark.parametrize("seed", range(20))
def test_scrambled_modules(seed: int) -> None:
    rng = random.Random(seed)
    options = replace(rng.choice(_PRINTED), index_comments=False)
    text = hlo.print_module(Generator(seed).build(12), options)
    plain = _scrambled(text, rng, comments=False)
    # Blank lines between instructions are kept.
    assert [x for x in format_text(plain).splitlines() if x] == [x for x in text.splitlines() if x]
    noisy = _scrambled(text, rng, comments=True)
    result = format_text(noisy)
    assert (_words(result), _comments(result)) == (_words(noisy), _comments(noisy))
    assert format_text(result) == result


def test_modules_in_one_text() -> None:
    one, two = "ENTRY a{ROOT x=f32[]parameter(0)}\n", "// two\nENTRY b{ROOT x=f32[]parameter(0)}\n"
    got = format_text(f"{one}// -----\n{two}")
    assert got == f"{format_text(one)}// -----\n{format_text(two)}"
    with pytest.raises(hlo.HloError, match=r"two\.hlo:4:21: error: unknown opcode"):
        format_text(f"{one}// -----\n{two.replace('parameter', 'krameter')}", "two.hlo")


def test_strings_of_several_lines() -> None:
    text = 'e{ROOT c=f32[] custom-call(),custom_call_target="a\n  b" ,  opaque="c\n\nd" }'
    assert '"a\n  b", opaque="c\n\nd"\n}' in format_text(text)


def test_errors() -> None:
    with pytest.raises(hlo.HloError, match=r"m\.hlo:1:\d: error"):
        format_text("ENTRY", "m.hlo")


def test_deep_nesting(tmp_path: Path) -> None:
    shape = "(" * 40 + "f32[  ]" + ")" * 40
    text = f"ENTRY e {{ROOT x={shape}  parameter( 0 ),  sharding={{ {{replicated}}  }} }}"
    assert f"ROOT x = {'(' * 40}f32[]{')' * 40} parameter(0), sharding={{{{replicated}}}}" in (
        format_text(text)
    )
