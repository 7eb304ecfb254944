"""Random programs with one instruction, `seeded`, that makes a NaN or an infinity.

Values are kept near one before it: everything else stays finite. What follows it may pass the value
on, or hide it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# A line of text for each source, with its operands from values near one: {x}, of {n} elements of
# f32, is in [0.5, 2]. Each gives the name of the instruction `seeded`.
_SOURCES: dict[str, tuple[str, ...]] = {
    "log-of-negative": ("neg = f32[{n}] negate({x})", "seeded = f32[{n}] log(neg)"),
    "log-of-zero": ("zero = f32[{n}] subtract({x}, {x})", "seeded = f32[{n}] log(zero)"),
    "zero-by-zero": ("zero = f32[{n}] subtract({x}, {x})",
                     "seeded = f32[{n}] divide(zero, zero)"),
    "one-by-zero": ("zero = f32[{n}] subtract({x}, {x})", "seeded = f32[{n}] divide({x}, zero)"),
    "exp-overflow": ("k = f32[] constant(300)", "kb = f32[{n}] broadcast(k), dimensions={{}}",
                     "big = f32[{n}] multiply({x}, kb)", "seeded = f32[{n}] exponential(big)"),
    "sqrt-of-negative": ("neg = f32[{n}] negate({x})", "seeded = f32[{n}] sqrt(neg)"),
    "rsqrt-of-zero": ("zero = f32[{n}] subtract({x}, {x})", "seeded = f32[{n}] rsqrt(zero)"),
    "inf-minus-inf": ("i = f32[] constant(inf)", "ib = f32[{n}] broadcast(i), dimensions={{}}",
                      "still = f32[{n}] add({x}, ib)", "seeded = f32[{n}] subtract(still, ib)"),
    "inf-times-zero": ("i = f32[] constant(-inf)", "ib = f32[{n}] broadcast(i), dimensions={{}}",
                       "zero = f32[{n}] subtract({x}, {x})",
                       "seeded = f32[{n}] multiply(ib, zero)"),
    "convert-overflow": ("k = f32[] constant(60000)", "kb = f32[{n}] broadcast(k), dimensions={{}}",
                         "big = f32[{n}] multiply({x}, kb)", "bigger = f32[{n}] add(big, kb)",
                         "seeded = f16[{n}] convert(bigger)", "seen = f32[{n}] convert(seeded)"),
    "power-overflow": ("k = f32[] constant(1000)", "kb = f32[{n}] broadcast(k), dimensions={{}}",
                       "two = f32[{n}] add({x}, {x})", "three = f32[{n}] add(two, {x})",
                       "seeded = f32[{n}] power(three, kb)"),
    "power-of-negative": ("neg = f32[{n}] negate({x})", "k = f32[] constant(0.3)",
                          "kb = f32[{n}] broadcast(k), dimensions={{}}",
                          "seeded = f32[{n}] power(neg, kb)"),
    "dot-overflow": ("k = f32[] constant(2e38)", "kb = f32[{n}] broadcast(k), dimensions={{}}",
                     "d = f32[{n},1] reshape({x})", "e = f32[1,{n}] reshape({x})",
                     "kr = f32[1,{n}] reshape(kb)", "one = f32[1,{n}] divide(e, e)",
                     "big = f32[1,{n}] multiply(one, kr)", "ones = f32[{n},1] divide(d, d)",
                     "seeded = f32[1,1] dot(big, ones), lhs_contracting_dims={{1}}, "
                     "rhs_contracting_dims={{0}}",
                     "flat = f32[] reshape(seeded)", "seen = f32[{n}] broadcast(flat), "
                     "dimensions={{}}"),
    "sum-overflow": ("k = f32[] constant(2e38)", "kb = f32[{n}] broadcast(k), dimensions={{}}",
                     "one = f32[{n}] divide({x}, {x})", "big = f32[{n}] multiply(one, kb)",
                     "z = f32[] constant(0)",
                     "seeded = f32[] reduce(big, z), dimensions={{0}}, to_apply=sum",
                     "seen = f32[{n}] broadcast(seeded), dimensions={{}}"),
    "square-overflow": ("k = f32[] constant(1e30)", "kb = f32[{n}] broadcast(k), dimensions={{}}",
                        "big = f32[{n}] multiply({x}, kb)", "seeded = f32[{n}] multiply(big, big)"),
    "acos-outside": ("k = f32[] constant(3)", "kb = f32[{n}] broadcast(k), dimensions={{}}",
                     "out = f32[{n}] add({x}, kb)", "seeded = f32[{n}] acos(out)"),
    "remainder-by-zero": ("zero = f32[{n}] subtract({x}, {x})",
                          "seeded = f32[{n}] remainder({x}, zero)"),
    "sine-of-infinity": ("i = f32[] constant(inf)", "ib = f32[{n}] broadcast(i), dimensions={{}}",
                         "seeded = f32[{n}] sine(ib)", "seen = f32[{n}] add(seeded, {x})"),
    "bits": ("q = u32[] constant(2143289344)", "qb = u32[{n}] broadcast(q), dimensions={{}}",
             "seeded = f32[{n}] bitcast-convert(qb)", "seen = f32[{n}] add(seeded, {x})"),
}  # fmt: skip
# Steps that keep values near one.
_STEPS: tuple[tuple[str, ...], ...] = (
    ("{y} = f32[{n}] logistic({x})",),
    ("{y}a = f32[{n}] tanh({x})", "{y} = f32[{n}] abs({y}a)"),
    ("{y} = f32[{n}] sqrt({x})",),
    ("{y}a = f32[{n}] sine({x})", "{y}b = f32[{n}] multiply({y}a, {y}a)",
     "{y}c = f32[{n}] add({y}b, {x})", "{y} = f32[{n}] logistic({y}c)"),
    ("{y}r = f32[{n}] reverse({x}), dimensions={{0}}", "{y}m = f32[{n}] maximum({y}r, {x})",
     "{y} = f32[{n}] copy({y}m)"),
    ("{y} = f32[{n}] sort({x}), dimensions={{0}}, to_apply=less",),
    # A maximum over elements that starts at minus infinity, and a mask: normal infinities.
    ("{y}l = f32[] constant(-inf)",
     "{y}m = f32[] reduce({x}, {y}l), dimensions={{0}}, to_apply=most",
     "{y}b = f32[{n}] broadcast({y}m), dimensions={{}}", "{y}d = f32[{n}] subtract({x}, {y}b)",
     "{y}e = f32[{n}] exponential({y}d)", "{y} = f32[{n}] logistic({y}e)"),
    ("{y}l = f32[] constant(-inf)", "{y}b = f32[{n}] broadcast({y}l), dimensions={{}}",
     "{y}i = s32[{n}] iota(), iota_dimension=0", "{y}o = s32[] constant(1)",
     "{y}p = s32[{n}] broadcast({y}o), dimensions={{}}",
     "{y}c = pred[{n}] compare({y}i, {y}p), direction=LT",
     "{y}s = f32[{n}] select({y}c, {x}, {y}b)", "{y}e = f32[{n}] exponential({y}s)",
     "{y} = f32[{n}] logistic({y}e)"),
)  # fmt: skip
_COMMON = """sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
"""


@dataclass
class NanProgram:
    """A program whose instruction `seeded` makes what no other instruction does.

    source: which of the sources. inside: what it is in, the outermost first. x: the argument.
    iteration: of the innermost loop that it is in, None in none.
    """

    text: str
    source: str
    inside: tuple[str, ...]
    x: np.ndarray
    iteration: int | None = None


@dataclass
class _Writer:
    rng: np.random.Generator
    n: int
    computations: list[str] = field(default_factory=list)
    iteration: int | None = None
    count: int = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def steps(self, lines: list[str], x: str) -> str:
        """Append some harmless steps; returns the last value."""
        for _ in range(int(self.rng.integers(0, 3))):
            y = self.fresh("v")
            step = _STEPS[int(self.rng.integers(len(_STEPS)))]
            lines += [line.format(x=x, y=y, n=self.n) for line in step]
            x = y
        return x

    def source(self, lines: list[str], x: str, name: str) -> str:
        made = [line.format(x=x, n=self.n) for line in _SOURCES[name]]
        lines += made
        return made[-1].split(" =")[0]

    def body(self, x: str, source: str, inside: tuple[str, ...]) -> tuple[list[str], str]:
        """Return lines that compute from x, with the source inside of what is named."""
        lines: list[str] = []
        # The source expects values in [0.5, 2].
        near = self.fresh("near")
        lines.append(f"{near}a = f32[{self.n}] logistic({x})")
        lines.append(f"{near} = f32[{self.n}] add({near}a, {near}a)")
        x = self.steps(lines, near)
        lines.append(f"{near}c = f32[{self.n}] logistic({x})")
        lines.append(f"{near}d = f32[{self.n}] add({near}c, {near}c)")
        x = f"{near}d"
        if inside:
            x = getattr(self, f"_{inside[0]}")(lines, x, source, inside[1:])
        else:
            x = self.source(lines, x, source)
        return lines, self.steps(lines, x)

    def _computation(self, kind: str, source: str, inside: tuple[str, ...]) -> str:
        name = self.fresh(kind)
        lines, root = self.body("p", source, inside)
        self.add(name, [f"p = f32[{self.n}] parameter(0)", *lines], f"f32[{self.n}] copy({root})")
        return name

    def add(self, name: str, lines: list[str], root: str) -> None:
        text = "\n  ".join([*lines, f"ROOT result = {root}"])
        self.computations.append(f"{name} {{\n  {text}\n}}\n")

    def _call(self, lines: list[str], x: str, source: str, inside: tuple[str, ...]) -> str:
        y = self.fresh("v")
        name = self._computation("called", source, inside)
        lines.append(f"{y} = f32[{self.n}] call({x}), to_apply={name}")
        return y

    def _fusion(self, lines: list[str], x: str, source: str, inside: tuple[str, ...]) -> str:
        y = self.fresh("v")
        name = self._computation("fused", source, ())
        lines.append(f"{y} = f32[{self.n}] fusion({x}), kind=kLoop, calls={name}")
        return y

    def _branch(self, lines: list[str], x: str, source: str, inside: tuple[str, ...]) -> str:
        y, n = self.fresh("v"), self.n
        bad = self._computation("branch", source, inside)
        good = self.fresh("branch")
        self.add(good, [f"p = f32[{n}] parameter(0)"], f"f32[{n}] tanh(p)")
        taken = int(self.rng.integers(2))
        branches = (bad, good) if taken == 0 else (good, bad)
        lines.append(f"{y}i = s32[] constant({taken})")
        lines.append(
            f"{y} = f32[{n}] conditional({y}i, {x}, {x}), "
            f"branch_computations={{{', '.join(branches)}}}"
        )
        return y

    def _loop(self, lines: list[str], x: str, source: str, inside: tuple[str, ...]) -> str:
        """A loop in which only one iteration takes the branch with the source."""
        y, n = self.fresh("v"), self.n
        trips = int(self.rng.integers(2, 6))
        self.iteration = bad_at = int(self.rng.integers(trips))
        bad = self._computation("turn", source, inside)
        if "loop" not in inside:
            self.iteration = bad_at
        good = self.fresh("turn")
        self.add(good, [f"p = f32[{n}] parameter(0)"], f"f32[{n}] tanh(p)")
        state = f"(s32[], f32[{n}])"
        body, cond = self.fresh("body"), self.fresh("cond")
        self.add(
            cond,
            [f"s = {state} parameter(0)", "i = s32[] get-tuple-element(s), index=0",
             f"t = s32[] constant({trips})"],
            "pred[] compare(i, t), direction=LT",
        )  # fmt: skip
        self.add(
            body,
            [f"s = {state} parameter(0)", "i = s32[] get-tuple-element(s), index=0",
             f"v = f32[{n}] get-tuple-element(s), index=1", "one = s32[] constant(1)",
             "j = s32[] add(i, one)", f"at = s32[] constant({bad_at})",
             "is = pred[] compare(i, at), direction=EQ",
             f"w = f32[{n}] conditional(is, v, v), true_computation={bad}, "
             f"false_computation={good}"],
            f"{state} tuple(j, w)",
        )  # fmt: skip
        lines.append(f"{y}z = s32[] constant(0)")
        lines.append(f"{y}t = {state} tuple({y}z, {x})")
        lines.append(f"{y}w = {state} while({y}t), condition={cond}, body={body}")
        lines.append(f"{y} = f32[{n}] get-tuple-element({y}w), index=1")
        return y


_INSIDE: tuple[tuple[str, ...], ...] = (
    (), (), (), ("fusion",), ("call",), ("branch",), ("loop",), ("call", "fusion"),
    ("loop", "fusion"), ("loop", "call"), ("branch", "call"), ("loop", "loop"),
)  # fmt: skip


def nan_program(seed: int) -> NanProgram:
    """Return the program of a seed; the sources take turns."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 7, 64, 1000]))
    names = list(_SOURCES)
    source = names[seed % len(names)]
    inside = _INSIDE[int(rng.integers(len(_INSIDE)))]
    writer = _Writer(rng, n)
    lines, root = writer.body("x", source, inside)
    lines.insert(0, f"x = f32[{n}] parameter(0)")
    if rng.integers(3) == 0:
        # What is hidden again is found nevertheless.
        lines += [f"hidden = pred[{n}] is-finite({root})", "h0 = f32[] constant(0)",
                  f"hb = f32[{n}] broadcast(h0), dimensions={{}}",
                  f"shown = f32[{n}] select(hidden, {root}, hb)"]  # fmt: skip
        root = "shown"
    writer.add("ENTRY main", lines, f"f32[{n}] copy({root})")
    text = "HloModule seeded\n" + _COMMON + "".join(writer.computations)
    x = rng.uniform(0.5, 2, n).astype(np.float32)
    return NanProgram(text, source, inside, x, writer.iteration)
