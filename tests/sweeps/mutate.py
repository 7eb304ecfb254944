"""Mutations of a module's text after which it still is a module, mostly: other sizes, types,
layouts, operations, operands, attributes and literals.

They work on texts as the printer writes them, a line an instruction; `mutant` makes some of them,
one after the other, and keeps what the verifier takes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.ops import OPS, Trait
from hlo.verifier import verify
from tests.sweeps import fuzz

_SHAPE = r"\((?:[^()]|\([^()]*\))*\)|\S+"
_LINE = re.compile(
    rf"^  (?P<root>ROOT )?(?P<name>%\S+) = (?P<shape>{_SHAPE}) "
    r"(?P<opcode>[a-z][\w-]*)\((?P<rest>.*)$",
    re.M,
)
_ARRAY = re.compile(r"\b(?P<type>[a-z]+\d*\w*)\[(?P<dims>[\d,<=]*)\](?P<layout>\{[\d,]*\})?")
_HEADER = re.compile(r"^((?:ENTRY )?%\S+) \(.*\) -> .* \{$", re.M)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
_LIST = re.compile(r"(?<==\{)\d+(?:,\d+)+(?=\})|(?<=dim_labels=)\w+|(?<=_)[\dbfio]+(?=->)")
_NAME = re.compile(r"%[\w.-]+")

_FLOATS = ("f32", "f32", "f64", "bf16", "f16", "f8e4m3fn", "f8e5m2")
_INTEGERS = ("s32", "s32", "s64", "s8", "u8", "u32", "s16", "u64", "s4", "u4", "u16")
_TYPES = (*_FLOATS, *_INTEGERS, "pred", "c64")
_SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 100, 128, 129, 256)
# Operations in whose place each of the others may stand.
_ALIKE = (
    ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2",
     "and", "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical"),
    ("negate", "abs", "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "sqrt",
     "rsqrt", "cbrt", "sine", "cosine", "tan", "logistic", "erf", "sign", "floor", "ceil",
     "round-nearest-afz", "round-nearest-even", "copy", "not", "popcnt", "count-leading-zeros",
     "opt-barrier"),
    ("convert", "bitcast-convert"), ("bitcast", "reshape"), ("real", "imag"),
)  # fmt: skip
_WORDS = (
    ("EQ", "NE", "LT", "LE", "GT", "GE"), ("FLOAT", "TOTALORDER"), ("FFT", "IFFT"),
    ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
)  # fmt: skip
_LITERALS = {
    "float": ("nan", "inf", "-inf", "-0", "0", "1", "-1", "0.5", "1e-30", "2", "100", "1e-45"),
    "integer": ("0", "1", "2", "3", "7", "-1", "127", "-128", "255", "2147483647", "-2147483648"),
}  # fmt: skip
# Promises that the program makes: where they are not kept, results are anything.
_PROMISES = re.compile(r"(?:indices_are_sorted|unique_indices)=$")
_TRIES = 24


class Broken(Exception):
    """Reading or verifying a text ends in something else than an error of ours."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


Mutation = Callable[[random.Random, str, Sequence[str]], str]


def plain(module: Module) -> str:
    """Return the text of a module without what is said about it: source lines, trip counts.

    What is said may be wrong after a mutation, and would be believed.
    """
    for inst in module.instructions():
        for key in ("metadata", "backend_config", "original_value", "statistics"):
            inst.annotations.pop(key, None)
    head, _, body = str(module).partition("\n")
    counts = re.findall(r", (?:replica_count|num_partitions)=\d+", head)
    return f"HloModule m{''.join(counts)}\n{body}"


def mutant(rng: random.Random, texts: Sequence[str], fits: Callable[[Module], bool]) -> str | None:
    """Return a valid module that is a mutant of one of some texts, None if none was found.

    texts: as `plain` returns them. fits: says which modules may be returned. Raises Broken.
    """
    text = begun = next(filter(None, (rng.choice(texts) for _ in range(_TRIES))), "")
    left = rng.choice((1, 1, 2, 2, 3, 4, 6))
    for _ in range(_TRIES):
        tried = rng.choice(MUTATIONS)(rng, text, texts)
        if tried == text:
            continue
        if rng.random() < 0.7:
            tried = inferred(tried)
        found = valid(tried, fits)
        if found is None:
            continue
        text = plain(found)
        left -= 1
        if not left:
            break
    return None if text == begun else text


def valid(text: str, fits: Callable[[Module], bool] = lambda _: True) -> Module | None:
    """Return the module that a text spells, None for one that is not valid or does not fit.

    Raises Broken.
    """
    try:
        module = parse(text)
        verify(module)
        if not fits(module):
            return None
    except HloError:
        return None
    except Exception as e:
        raise Broken(text) from e
    return module


def inferred(text: str) -> str:
    """Leave out the shapes that follow from others, so that they follow from mutated ones."""

    def without(m: re.Match[str]) -> str:
        spec = OPS.get(m["opcode"])
        if spec is None or not spec.has(Trait.INFERABLE):
            return m[0]
        return f"  {m['root'] or ''}{m['name']} = {m['opcode']}({m['rest']}"

    return _HEADER.sub(r"\1 {", _LINE.sub(without, text))


# --- shapes -------------------------------------------------------------------------------------


def _of_lines(rng: random.Random, text: str) -> re.Match[str] | None:
    lines = list(_LINE.finditer(text))
    return rng.choice(lines) if lines else None


def _sizes(text: str) -> list[str]:
    return [d for m in _ARRAY.finditer(text) for d in m["dims"].split(",") if d.isdigit()]


def size(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Put another size in the place of one, everywhere."""
    sizes = _sizes(text)
    if not sizes:
        return text
    old = rng.choice(sizes)
    near = (int(old) + 1, max(0, int(old) - 1), 2 * int(old))
    return with_sizes(text, {old: str(rng.choice((*_SIZES, *near)))}, attributes=rng.random() < 0.8)


def with_sizes(text: str, new: dict[str, str], *, attributes: bool) -> str:
    """Return a text with other dimensions, and ends of slices, sizes of windows and the like."""

    def shape(m: re.Match[str]) -> str:
        dims = ",".join(new.get(d, d) for d in m["dims"].split(","))
        return f"{m['type']}[{dims}]{m['layout'] or ''}"

    text = _ARRAY.sub(shape, text)
    if not attributes:
        return text

    def number(m: re.Match[str]) -> str:
        return m[1] + re.sub(r"\d+", lambda n: new.get(n[0], n[0]), m[2])

    for key in ("slice=", "dynamic_slice_sizes=", "slice_sizes=", "fft_length=", "size="):
        text = re.sub(rf"({key})(\{{[^}}]*\}}|[\dx]+)", number, text)
    return text


def one_size(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Put another size in one place."""
    places = [m for m in _ARRAY.finditer(text) if m["dims"]]
    if not places:
        return text
    m = rng.choice(places)
    dims = m["dims"].split(",")
    kind, at = rng.randrange(6), rng.randrange(len(dims))
    layout = m["layout"] or ""
    if kind == 0:
        dims.insert(at, "1")
        layout = ""
    elif kind == 1:
        del dims[at]
        layout = ""
    elif kind == 2 and dims[at].isdigit():
        dims[at] = f"<={dims[at]}"
    else:
        dims[at] = str(rng.choice(_SIZES))
    return f"{text[: m.start()]}{m['type']}[{','.join(dims)}]{layout}{text[m.end() :]}"


def order(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Change the layout of a shape, or of all shapes of its rank."""
    places = [m for m in _ARRAY.finditer(text) if m["layout"] and "," in m["layout"]]
    if not places:
        return text
    m = rng.choice(places)
    numbers = m["layout"][1:-1].split(",")
    rng.shuffle(numbers)
    layout = "{" + ",".join(numbers) + "}"
    if rng.random() < 0.3:
        return text.replace(m["layout"], layout)
    return text[: m.start("layout")] + layout + text[m.end("layout") :]


def type_(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Put another element type in the place of one: everywhere, in a computation, or once."""
    places = [m for m in _ARRAY.finditer(text) if m["type"] in OPS or m["type"] in _TYPES]
    if not places:
        return text
    m = rng.choice(places)
    old = m["type"]
    kind = next((k for k in (_FLOATS, _INTEGERS) if old in k), _TYPES)
    new = rng.choice(kind if rng.random() < 0.8 else _TYPES)
    pattern = re.compile(rf"\b{old}(?=\[)")
    where = rng.random()
    if where < 0.6:
        return pattern.sub(new, text)
    if where < 0.8:
        start = text.rfind("\n}", 0, m.start()) + 1
        end = text.find("\n}", m.start())
        return text[:start] + pattern.sub(new, text[start:end]) + text[end:]
    return text[: m.start()] + new + text[m.end("type") :]


# --- operations ---------------------------------------------------------------------------------


def opcode(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Put another operation of the same operands in the place of one."""
    lines = [(m, a) for m in _LINE.finditer(text) for a in _ALIKE if m["opcode"] in a]
    if not lines:
        return text
    m, alike = rng.choice(lines)
    return text[: m.start("opcode")] + rng.choice(alike) + text[m.end("opcode") :]


def _operands(m: re.Match[str]) -> list[tuple[int, int]]:
    """Return where the operands of a line stand."""
    end = m["rest"].find(")")
    base = m.start("rest")
    return [(base + n.start(), base + n.end()) for n in _NAME.finditer(m["rest"][:end])]


def swap(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Swap two operands of an instruction."""
    lines = [o for m in _LINE.finditer(text) if len(o := _operands(m)) > 1]
    if not lines:
        return text
    (a, b), (c, d) = sorted(rng.sample(rng.choice(lines), 2))
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def operand(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Use another value of the computation, rather one of the same shape."""
    lines = [(m, o) for m in _LINE.finditer(text) for o in _operands(m)]
    if not lines:
        return text
    m, (start, end) = rng.choice(lines)
    before = list(_LINE.finditer(text, text.rfind("\n}", 0, m.start()) + 1, m.start()))
    shape = next((b["shape"] for b in before if b["name"] == text[start:end]), None)
    same = [b for b in before if b["shape"] == shape]
    others = same if same and rng.random() < 0.8 else before
    if not others:
        return text
    return text[:start] + rng.choice(others)["name"] + text[end:]


def insert(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Compute something of a value, and use that in its place."""
    lines = [m for m in _LINE.finditer(text) if _ARRAY.fullmatch(m["shape"]) and not m["root"]]
    if not lines:
        return text
    m = rng.choice(lines)
    array = _ARRAY.fullmatch(m["shape"])
    assert array is not None
    rank = len(array["dims"].split(",")) if array["dims"] else 0
    dims = [d for d in range(rank) if rng.random() < 0.5]
    order = list(range(rank))
    rng.shuffle(order)
    x, y = m["name"], f"%new.{rng.randrange(10**6)}"
    sizes = [d.removeprefix("<=") for d in array["dims"].split(",") if d]
    cut = ",".join(
        f"[{(a := rng.randrange(int(n) + 1))}:{rng.randint(a, int(n))}:{rng.randint(1, 3)}]"
        for n in sizes
    )
    pads = "x".join(
        f"{rng.randint(-1, 2)}_{rng.randint(-1, 2)}_{rng.randint(0, 1)}" for _ in range(rank)
    )
    names = [n["name"] for n in lines if n["shape"] == m["shape"] and n.start() < m.start()]
    made = rng.choice((
        f"negate({x})", f"copy({x})", f"abs({x})", f"tanh({x})", f"add({x}, {x})",
        f"reverse({x}), dimensions={{{','.join(map(str, dims))}}}",
        f"transpose({x}), dimensions={{{','.join(map(str, order))}}}",
        f"slice({x}), slice={{{cut}}}",
        f"concatenate({x}, {x}), dimensions={{{rng.randrange(max(1, rank))}}}",
        f"multiply({x}, {rng.choice([*names, x])})", f"opt-barrier({x})",
        f"maximum({rng.choice([*names, x])}, {x})",
        f"pad({x}, {x}), padding={pads}", f"{m['shape']} sort({x}), dimensions={{0}}",
        f"{m['shape']} broadcast({x}), dimensions={{{','.join(map(str, order))}}}",
        f"{array['type']}[{','.join(reversed(sizes))}] reshape({x})",
        f"{rng.choice(_TYPES)}[{array['dims']}] convert({x})",
    ))  # fmt: skip
    end = text.find("\n}", m.end())
    after = re.sub(rf"{re.escape(x)}(?![\w.-])", y, text[m.end() : end])
    return f"{text[: m.end()]}\n  {y} = {made}{after}{text[end:]}"


def results(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Return another value, or several, from the entry."""
    start = text.find("\nENTRY ")
    lines = list(_LINE.finditer(text, start))
    if not lines:
        return text
    body = text[start:].replace("  ROOT %", "  %")
    names = [m["name"] for m in lines]
    if rng.random() < 0.4:
        name = rng.choice(names)
        return text[:start] + body.replace(f"  {name} = ", f"  ROOT {name} = ", 1)
    chosen = ", ".join(rng.choice(names) for _ in range(rng.randint(1, 4)))
    end = body.find("\n}")
    return f"{text[:start]}{body[:end]}\n  ROOT %all.{len(names)} = tuple({chosen}){body[end:]}"


def callee(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Call another computation."""
    names = re.findall(r"^(%\S+) \(", text, re.M)
    places = [m for m in re.finditer(r"(?<==)%[\w.-]+", text)]
    if not names or not places:
        return text
    m = rng.choice(places)
    return text[: m.start()] + rng.choice(names) + text[m.end() :]


# --- attributes, literals -----------------------------------------------------------------------


def attribute(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Change a number, a truth value or a word of an attribute."""
    places: list[tuple[int, int, Sequence[str]]] = []
    for m in _LINE.finditer(text):
        start = m.start("rest") + m["rest"].find(")")
        for n in _NUMBER.finditer(text, start, m.end()):
            value = int(n[0]) if n[0].lstrip("-").isdigit() else 0
            near = (value + 1, value - 1, 0, 1, 2, 3, 2 * value)
            places.append((*n.span(), [str(v) for v in near]))
        for n in re.finditer(r"(?<==)(?:true|false)\b", text[start : m.end()]):
            if not _PROMISES.search(text[: start + n.start()]):
                other = "false" if n[0] == "true" else "true"
                places.append((start + n.start(), start + n.end(), [other]))
        for words in _WORDS:
            for n in re.finditer(rf"\b(?:{'|'.join(words)})\b", text[start : m.end()]):
                places.append((start + n.start(), start + n.end(), words))
    if not places:
        return text
    start, end, others = rng.choice(places)
    return text[:start] + rng.choice(others) + text[end:]


def permuted(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Shuffle a list of numbers or letters of an attribute."""
    places = list(_LIST.finditer(text))
    if not places:
        return text
    m = rng.choice(places)
    parts = m[0].split(",") if "," in m[0] else list(m[0])
    rng.shuffle(parts)
    return text[: m.start()] + ("," if "," in m[0] else "").join(parts) + text[m.end() :]


def literal(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Put another number in a constant."""
    lines = [m for m in _LINE.finditer(text) if m["opcode"] == "constant"]
    if not lines:
        return text
    m = rng.choice(lines)
    numbers = list(_NUMBER.finditer(m["rest"]))
    if not numbers:
        return text.replace(m[0], re.sub(r"true|false", rng.choice(("true", "false")), m[0]))
    n = rng.choice(numbers)
    kind = "float" if re.match(r"[bf]", m["shape"]) else "integer"
    at = m.start("rest")
    return text[: at + n.start()] + rng.choice(_LITERALS[kind]) + text[at + n.end() :]


MUTATIONS: Sequence[Mutation] = [
    size, size, size, size, one_size, one_size, one_size, order, order, type_, type_, type_,
    opcode, opcode, opcode, swap, operand, operand, operand, insert, insert, insert, insert, insert,
    results, results, callee, attribute, attribute, attribute, attribute, permuted, literal,
    literal, fuzz.tokens, fuzz.numbers, fuzz.attributes, fuzz.shapes, fuzz.callees, fuzz.names,
    fuzz.lines, fuzz.lines,
]  # fmt: skip


# --- texts to begin with ------------------------------------------------------------------------


def smaller(rng: random.Random, text: str) -> str:
    """Return a text with small sizes in place of large ones, products of others kept as such."""
    sizes = sorted({int(d) for d in _sizes(text)})
    new: dict[int, int] = {}
    for n in sizes:
        factors = next(((a, n // a) for a in new if a > 1 and n % a == 0 and n // a in new), None)
        if n <= 8:
            new[n] = n
        elif factors is not None:
            new[n] = new[factors[0]] * new[factors[1]]
        else:
            new[n] = rng.choice((4, 5, 6, 8, 12, 16, 32))
    return with_sizes(text, {str(a): str(b) for a, b in new.items()}, attributes=True)


def modules_in_python(source: str) -> Iterator[str]:
    """Yield what may be a module among the strings of a Python source."""
    import ast

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "ENTRY " in node.value and "ROOT" in node.value:
                yield node.value
