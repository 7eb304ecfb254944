"""Forms of StableHLO operations, right and wrong ones, made from one example of each.

Whether a form is right is not said here: MLIR's own parser, with the verifiers of the dialects,
decides it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tests.generators.stablehlo_operations import EXAMPLES, Example

# Values of attributes that are of another kind than those of any one attribute.
_OTHER_VALUES = (
    "1 : i64", "1 : i32", "1.000000e+00 : f32", "true", "unit", '"word"', "array<i64: 1>",
    "array<i32: 1>", "[1]", "dense<1> : tensor<1xi64>", "#stablehlo<precision HIGH>", "@f",
    "-1 : i64",
)  # fmt: skip
_REGION_CHANGES = (
    ("f32", "f64"), ("stablehlo.return", "stablehlo.returns"), ("%z", "%x"),
    ("^bb0(", "^bb0(%more: tensor<f32>, "), ("^bb0", "^bb1"),
    ("  stablehlo.return", "  // stablehlo.return"), ("%y", "%a0"),
)  # fmt: skip
_OTHER_TYPES = ("tensor<7x5xf32>", "tensor<2x3xf16>", "tensor<i1>", "!stablehlo.token", "f32")


def _module(e: Example, operation: str, *, head: str = "", tail: str = "") -> str:
    """Return a text whose function has the operation on its arguments and constants."""
    arguments = ", ".join(
        f"%a{i}: {kind}" for i, kind in enumerate(e.operands) if i not in e.constants
    )
    constants = "".join(
        f"  %a{i} = stablehlo.constant {value}\n" for i, value in e.constants.items()
    )
    count = len(e.results)
    names = ", ".join(f"%r#{i}" for i in range(count)) if count > 1 else "%r"
    types = ", ".join(e.results)
    result = f"%r:{count}" if count > 1 else "%r"
    return (
        f"{head}{e.before}\nfunc.func @main({arguments}) -> ({types}) {{\n{constants}"
        f"  {result} = {operation}\n  return {names} : {types}\n}}\n{tail}"
    )


def _dictionary(attrs: dict[str, str]) -> str:
    return "{" + ", ".join(k if v == "unit" else f"{k} = {v}" for k, v in attrs.items()) + "}"


def _types(e: Example) -> str:
    operands = _operands(e)
    result = e.results[0] if len(e.results) == 1 else f"({', '.join(e.results)})"
    return f"({', '.join(operands)}) -> {result}"


def _operands(e: Example) -> list[str]:
    """Return the types of the operands; further arguments are used inside of regions."""
    count = _count(e)
    return list(e.operands[:count])


def _count(e: Example) -> int:
    return 1 if e.name in ("stablehlo.if", "stablehlo.case") else len(e.operands)


def generic(e: Example, *, inside: bool = True, location: str = "", notes: str = "") -> str:
    """Return the generic form. inside: the attributes are properties, `<{..}>`."""
    values = ", ".join(f"%a{i}" for i in range(_count(e)))
    attrs = _dictionary(e.attrs) if e.attrs else ""
    properties = f" <{attrs}>" if inside and attrs else ""
    rest = {**({} if inside else e.attrs), **({"mhlo.frontend_attributes": notes} if notes else {})}
    regions = f" ({', '.join(e.regions)})" if e.regions else ""
    dictionary = f" {_dictionary(rest)}" if rest else ""
    return f'"{e.name}"({values}){properties}{regions}{dictionary} : {_types(e)}{location}'


def short(e: Example, attrs: str = "", location: str = "") -> str:
    """Return the short form, with a dictionary of further attributes."""
    head, at, tail = e.short.rpartition("@ :")
    text = f"{head} {attrs} :{tail}" if at and attrs else head + (" :" if at else "") + tail
    if e.short.startswith("@ :") or e.short.startswith("@%"):
        text = e.short.replace("@", f"{attrs} " if attrs else "", 1)
    return f"{e.name} {text}{location}"


def right(e: Example) -> Iterator[tuple[str, str]]:
    """Yield forms that mean the same, with a word for what is special in each."""
    yield "properties", _module(e, generic(e))
    yield "dictionary", _module(e, generic(e, inside=False))
    yield "frontend attributes", _module(e, generic(e, notes='{a = "b"}'))
    turned = replace(e, attrs=dict(reversed(e.attrs.items())))
    if len(e.attrs) > 1:
        yield "permuted properties", _module(e, generic(turned))
        yield "permuted dictionary", _module(e, generic(turned, inside=False))
    for name in e.optional:
        rest = {k: v for k, v in e.attrs.items() if k != name}
        yield f"without {name}", _module(e, generic(replace(e, attrs=rest)))
    if e.optional:
        rest = {k: v for k, v in e.attrs.items() if k not in e.optional}
        yield "no optional attributes", _module(e, generic(replace(e, attrs=rest)))
    if e.attrs:
        aliases = {k: f"#v{i}" for i, (k, v) in enumerate(e.attrs.items()) if v != "unit"}
        lines = "".join(f"{a} = {e.attrs[k]}\n" for k, a in aliases.items())
        named = replace(e, attrs=e.attrs | aliases)
        yield "aliases in front", _module(e, generic(named), head=lines)
        yield "aliases behind", _module(e, generic(named, inside=False), tail=lines)
    yield "type aliases", _aliased(e, _module(e, generic(e)))
    for location in (' loc("a.py":3:7)', ' loc("f"("a.py":3:7))', " loc(unknown)", " loc(#where)",
                     ' loc(fused["a", "b"])', ' loc(callsite("f" at "g.py":1:2))'):  # fmt: skip
        tail = '#where = loc("b.py":1:1 to :5)\n' if "#" in location else ""
        yield f"location{location}", _module(e, generic(e, location=location), tail=tail)
    yield (
        "module",
        f"module @m attributes {{mhlo.num_partitions = 1 : i32}} {{\n{_module(e, generic(e))}}}\n",
    )
    if e.short:
        yield "short", _module(e, short(e))
        yield (
            "short with attributes",
            _module(e, short(e, '{mhlo.frontend_attributes = {a = "b"}}')),
        )
        yield "short with location", _module(e, short(e, location=' loc("a.py":3:7)'))
        yield "short, type aliases", _aliased(e, _module(e, short(e)))
        yield "short, extra gaps", _module(e, short(e).replace(" ", "  // gap\n  "))
        yield (
            "short, no gaps",
            _module(e, re.sub(r"\s*([,=:{}()<>\[\]])\s*(?!\^)", r"\1", short(e))),
        )
    if e.same:
        body, _, _ = short(e).rpartition(":")
        yield "short, types of a function", _module(e, f"{body}: {_types(e)}")


def _aliased(e: Example, text: str) -> str:
    kinds = dict.fromkeys([*e.operands, *e.results])
    for i, kind in enumerate(kinds):
        text = text.replace(kind, f"!t{i}")
    head = "".join(f"!t{i} = {kind}\n" for i, kind in enumerate(kinds))
    # An alias may use another: the type inside a tuple.
    return head + text


def wrong(e: Example) -> Iterator[tuple[str, str]]:
    """Yield forms in which one thing is changed; most of them are wrong."""
    yield from _wrong_attributes(e)
    if e.operands:
        yield from _wrong_operands(e)
    yield from _wrong_results(e)
    yield from _wrong_syntax(e)
    yield from _wrong_regions(e)
    if e.short:
        yield from _wrong_short(e)
    else:
        values = ", ".join(f"%a{i}" for i in range(_count(e)))
        yield "a short form", _module(e, f"{e.name} {values} : {_types(e)}")


def _with(e: Example, attrs: dict[str, str], *, inside: bool = True) -> str:
    """Return the generic form with other attributes."""
    return _module(e, generic(replace(e, attrs=attrs), inside=inside))


def _wrong_attributes(e: Example) -> Iterator[tuple[str, str]]:
    for name, value in e.attrs.items():
        rest = {k: v for k, v in e.attrs.items() if k != name}
        pair = name if value == "unit" else f"{name} = {value}"
        yield f"no {name}", _with(e, rest)
        for other in _OTHER_VALUES:
            yield f"{name} is {other}", _with(e, e.attrs | {name: other})
        yield f"{name} twice", _with(e, e.attrs | {"again": "unit"}).replace("again", pair, 1)
        yield f"{name} misspelt", _with(e, rest | {f"{name}s": value}, inside=False)
        if not e.regions:
            both = generic(e).replace(" : (", f" {{{pair}}} : (", 1)
            yield f"{name} in both dictionaries", _module(e, both)
    yield "unknown attribute", _with(e, e.attrs | {"extra": "1 : i64"}, inside=False)
    yield "unknown property", _with(e, e.attrs | {"extra": "1 : i64"})
    bare = re.sub(r" : i(64|32)\b(?=[,}])", "", generic(e))
    yield "no types of attributes", _module(e, bare)


def _wrong_operands(e: Example) -> Iterator[tuple[str, str]]:
    plain = generic(e)
    head, _, types = plain.rpartition(" : (")
    without = re.sub(r"%a0(, )?", "", head, count=1)
    rest = types.partition(", " if len(_operands(e)) > 1 else ")")[2]
    yield "an operand less", _module(e, re.sub(r"%a0(, )?", "", plain, count=1))
    yield (
        "an operand and its type less",
        _module(e, f"{without} : ({'' if len(_operands(e)) > 1 else ')'}{rest}"),
    )
    yield "an operand more", _module(e, plain.replace("%a0", "%a0, %a0", 1))
    more = head.replace("%a0", "%a0, %a0", 1)
    yield "an operand and its type more", _module(e, f"{more} : ({e.operands[0]}, {types}")
    yield "an undefined operand", _module(e, plain.replace("%a0", "%q", 1))
    for other in _OTHER_TYPES:
        changed = replace(e, operands=(other, *e.operands[1:]))
        yield f"operand of type {other}", _module(changed, generic(changed))
        yield f"operand said to be {other}", _module(e, generic(changed))


def _wrong_results(e: Example) -> Iterator[tuple[str, str]]:
    changes = {f"result of type {other}": (other, *e.results[1:]) for other in _OTHER_TYPES}
    changes["a result more"] = (*e.results, e.results[-1])
    if len(e.results) > 1:
        changes["a result less"] = e.results[:-1]
    for what, results in changes.items():
        changed = replace(e, results=results)
        yield what, _module(changed, generic(changed))


def _wrong_syntax(e: Example) -> Iterator[tuple[str, str]]:
    plain = generic(e)
    head, _, types = plain.rpartition(" : (")
    yield "misspelt", _module(e, plain.replace(e.name, e.name + "s", 1))
    yield "no dialect", _module(e, plain.replace(e.name, e.name.partition(".")[2], 1))
    yield "no types", _module(e, head)
    yield "no parenthesis", _module(e, plain.replace(")", "", 1))
    yield "no arrow", _module(e, " : ".join([head, types.replace("->", ",")]))
    yield "comma at the end of the operands", _module(e, plain.replace(")", ",)", 1))
    yield "comma at the end of the attributes", _module(e, plain.replace("}>", ",}>", 1))
    yield "attributes between the operands", _module(e, plain.replace("(", "({}", 1))
    yield "regions in front of the properties", _module(e, _swapped(e))


def _wrong_regions(e: Example) -> Iterator[tuple[str, str]]:
    for i, region in enumerate(e.regions):
        others = {"missing": (), "twice": (region, region)}
        for old, new in _REGION_CHANGES:
            others[f"with {new}"] = (region.replace(old, new),)
        for what, instead in others.items():
            regions = (*e.regions[:i], *instead, *e.regions[i + 1 :])
            yield f"region {i} {what}", _module(e, generic(replace(e, regions=regions)))


def _swapped(e: Example) -> str:
    plain = generic(e)
    m = re.search(r" <\{.*?\}>(?= \()", plain, re.S)
    if m is None or not e.regions:
        return plain
    rest = plain[m.end() :]
    at = rest.rindex(" : (")
    return plain[: m.start()] + rest[:at] + m[0] + rest[at:]


def _wrong_short(e: Example) -> Iterator[tuple[str, str]]:
    text = short(e)
    for i, m in enumerate(re.finditer(r"[,=:\[\]()]|\b(?!stablehlo|chlo|tensor)[a-z]{3,}\b", text)):
        if m.start() > len(e.name):
            yield f"short, {m[0]} {i} missing", _module(e, text[: m.start()] + text[m.end() :])
            yield f"short, {m[0]} {i} twice", _module(e, text[: m.end()] + " " + text[m.start() :])
            if m[0].isalpha():
                yield (
                    f"short, {m[0]} {i} misspelt",
                    _module(e, text[: m.end()] + "z" + text[m.end() :]),
                )
    if e.operands:
        yield "short, an operand less", _module(e, re.sub(r"%a0(, )?", "", text, count=1))
        yield "short, an operand more", _module(e, text.replace("%a0", "%a0, %a0", 1))
    yield "short, no types", _module(e, text.rpartition(" : ")[0])
    yield "short, attributes in front", _module(e, text.replace(e.name, f"{e.name} {{}}", 1))
    yield "short, attributes behind", _module(e, f"{text} {{}}")
    yield "short, properties", _module(e, short(e, "<{}>"))
    yield "short, quoted", _module(e, text.replace(e.name, f'"{e.name}"', 1))
    for name, value in e.attrs.items():
        if value != "unit":
            yield f"short, {name} in the dictionary", _module(e, short(e, f"{{{name} = {value}}}"))


def forms() -> Iterator[tuple[str, str]]:
    """Yield all forms of all examples: a unique name, and the text."""
    seen: dict[str, int] = {}
    for e in EXAMPLES:
        number = seen[e.name] = seen.get(e.name, -1) + 1
        texts: set[str] = set()
        for what, text in (*right(e), *wrong(e)):
            if text and text not in texts:
                texts.add(text)
                yield f"{e.name}-{number}: {what}", text
