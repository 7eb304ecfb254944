"""Chains of products: which are one kernel, and that they compute the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hlo.codegen.lower.prepare import flatten
from hlo.codegen.plan.roles import Role, assign_roles
from hlo.frontends.text import parse
from hlo.values.types import ELEMENT_TYPES
from tests.harness.run_compiled import check, compiled_for

SIZES = {"b": 2, "h": 3, "g": 2, "q": 37, "k": 45, "d": 16, "e": 20}
TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "f16": 2e-2, "bf16": 5e-2}


class Program:
    """The text of a module, written line by line; dimensions are letters."""

    def __init__(self, et: str, sizes: dict[str, int] | None = None) -> None:
        self.et, self.sizes = et, sizes or SIZES
        self.lines: list[str] = []
        self.dims: dict[str, str] = {}
        self.parameters: list[str] = []

    def shape(self, dims: str, et: str = "") -> str:
        return f"{et or self.et}[{','.join(str(self.sizes[d]) for d in dims)}]"

    def add(self, dims: str, operation: str, et: str = "") -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"  {name} = {self.shape(dims, et)} {operation}")
        self.dims[name] = dims
        return name

    def parameter(self, dims: str) -> str:
        self.parameters.append(dims)
        return self.add(dims, f"parameter({len(self.parameters) - 1})")

    def dot(self, x: str, y: str, batch: str, along: str) -> str:
        a, b = self.dims[x], self.dims[y]
        free = [d for side in (a, b) for d in side if d not in batch + along]
        attrs = ", ".join(
            f"{side}_{kind}_dims={{{','.join(str(dims.index(d)) for d in of)}}}"
            for side, dims in (("lhs", a), ("rhs", b))
            for kind, of in (("batch", batch), ("contracting", along))
        )
        return self.add(batch + "".join(free), f"dot({x}, {y}), {attrs}")

    def turned(self, x: str, dims: str) -> str:
        if dims == self.dims[x]:
            return x
        order = ",".join(str(self.dims[x].index(d)) for d in dims)
        return self.add(dims, f"transpose({x}), dimensions={{{order}}}")

    def spread(self, x: str, dims: str) -> str:
        at = ",".join(str(dims.index(d)) for d in self.dims[x])
        return self.add(dims, f"broadcast({x}), dimensions={{{at}}}")

    def reduced(self, x: str, along: str, function: str, start: str) -> str:
        dims = self.dims[x]
        zero = self.add("", f"constant({start})")
        at = ",".join(str(dims.index(d)) for d in along)
        kept = "".join(d for d in dims if d not in along)
        return self.add(kept, f"reduce({x}, {zero}), dimensions={{{at}}}, to_apply={function}")

    def softmax(self, x: str, along: str = "k", *, has_maximum: bool = True) -> str:
        dims = self.dims[x]
        if has_maximum:
            top = self.spread(self.reduced(x, along, "mx", "-inf"), dims)
            x = self.add(dims, f"subtract({x}, {top})")
        e = self.add(dims, f"exponential({x})")
        total = self.spread(self.reduced(e, along, "sm", "0"), dims)
        return self.add(dims, f"divide({e}, {total})")

    def scaled(self, x: str, by: float = 0.25) -> str:
        factor = self.spread(self.add("", f"constant({by})"), self.dims[x])
        return self.add(self.dims[x], f"multiply({x}, {factor})")

    def causal(self, x: str, *, before: int = 0) -> str:
        """Keep what is at the same place or before; `before` leaves the first rows nothing."""
        dims = self.dims[x]
        row, column = (
            self.add(dims, f"iota(), iota_dimension={dims.index(d)}", "s32") for d in "qk"
        )
        shift = self.add("", f"constant({before})", "s32")
        column = self.add(dims, f"add({column}, {self.spread_of('s32', shift, dims)})", "s32")
        kept = self.add(dims, f"compare({column}, {row}), direction=LE", "pred")
        low = self.spread(self.add("", "constant(-inf)"), dims)
        return self.add(dims, f"select({kept}, {x}, {low})")

    def spread_of(self, et: str, x: str, dims: str) -> str:
        return self.add(dims, f"broadcast({x}), dimensions={{}}", et)

    def text(self, *results: str) -> str:
        shapes = ", ".join(self.shape(self.dims[r]) for r in results)
        root = f"  ROOT r = ({shapes}) tuple({', '.join(results)})"
        t = self.et
        functions = "".join(
            f"{name} {{ a = {t}[] parameter(0) b = {t}[] parameter(1) "
            f"ROOT c = {t}[] {opcode}(a, b) }}\n"
            for name, opcode in (("mx", "maximum"), ("sm", "add"))
        )
        return "\n".join([f"HloModule m\n{functions}ENTRY e {{", *self.lines, root, "}"])

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(len(self.lines))
        dtype = ELEMENT_TYPES[self.et].dtype
        return [
            rng.standard_normal([self.sizes[d] for d in dims]).astype(dtype)
            for dims in self.parameters
        ]


def attention(
    p: Program,
    *,
    query: str = "bhqd",
    key: str = "bhkd",
    value: str = "bhke",
    batch: str = "bh",
    mask: str = "",
    has_maximum: bool = True,
    order: tuple[int, int] = (0, 0),
) -> str:
    """Add attention; order: whether the operands of the first, and of the second, change places."""
    q, k, v = p.parameter(query), p.parameter(key), p.parameter(value)
    scores = p.dot(*((k, q) if order[0] else (q, k)), batch, "d")
    whole = batch + "".join(d for d in query if d not in batch + "d") + "k"
    scores = p.scaled(p.turned(scores, whole))
    if mask == "bias":
        scores = p.add(whole, f"add({scores}, {p.spread(p.parameter('qk'), whole)})")
    elif mask:
        scores = p.causal(scores, before=3 if mask == "nothing left" else 0)
    weights = p.softmax(scores, has_maximum=has_maximum)
    return p.dot(*((v, weights) if order[1] else (weights, v)), batch, "k")


def products(text: str) -> int:
    """Return how many products are kernels of their own."""
    comp = flatten(parse(text).entry)
    roles = assign_roles(comp)
    return sum(i.opcode == "dot" and roles[i] is Role.KERNEL for i in comp)


def close(p: Program, *results: str, left: int, tolerance: float = 0.0) -> None:
    text = p.text(*results)
    assert products(text) == left
    tolerance = max(tolerance, TOLERANCE[p.et])
    check(text, p.arguments(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("et", TOLERANCE)
@pytest.mark.parametrize("mask", ["", "bias", "causal", "nothing left"])
def test_attention_is_one_kernel(et: str, mask: str) -> None:
    p = Program(et)
    close(p, attention(p, mask=mask), left=1)


@pytest.mark.parametrize("query", ["bhqd", "bqhd", "qbhd", "dqbh"])
@pytest.mark.parametrize("key", ["bhkd", "bkhd", "dkbh"])
@pytest.mark.parametrize("value", ["bhke", "kbeh"])
def test_dimensions_in_any_order(query: str, key: str, value: str) -> None:
    p = Program("f32")
    close(p, attention(p, query=query, key=key, value=value, has_maximum=False), left=1)


@pytest.mark.parametrize("batch", ["bh", "hb", "b", ""])
@pytest.mark.parametrize("swapped", [0, 1])
def test_any_batch(batch: str, swapped: int) -> None:
    p = Program("f32")
    kinds = {n: batch + d for n, d in (("query", "qd"), ("key", "kd"), ("value", "ke"))}
    close(p, attention(p, **kinds, batch=batch, order=(0, swapped)), left=1)  # type: ignore[arg-type]


def test_queries_share_keys() -> None:
    p = Program("f32")
    found = attention(p, query="bghqd", key="bgkd", value="bgke", batch="bg")
    close(p, found, left=1)


@pytest.mark.parametrize("order", ["bgqhk", "bhgqk", "qbghk"])
def test_scores_are_transposed(order: str) -> None:
    """As where several queries share keys, and their dimensions go elsewhere on the way."""
    p = Program("f32")
    q, k, v = (p.parameter(x) for x in ("bqghd", "bkgd", "bkge"))
    scores = p.turned(p.causal(p.scaled(p.dot(q, k, "bg", "d"))), order)
    close(p, p.dot(v, p.softmax(scores), "bg", "k"), left=1)


def test_keys_are_broadcast() -> None:
    p = Program("f32")
    q, k, v = p.parameter("bhqd"), p.parameter("bkd"), p.parameter("bke")
    scores = p.scaled(p.dot(q, p.spread(k, "bhkd"), "bh", "d"))
    close(p, p.dot(p.softmax(scores), p.spread(v, "bhke"), "bh", "k"), left=1)


@pytest.mark.parametrize("sizes", [*itertools.product((8, 97), (8, 33, 300), (1, 70))])
def test_sizes(sizes: tuple[int, int, int]) -> None:
    q, k, d = sizes
    p = Program("f32", SIZES | {"q": q, "k": k, "d": d, "e": d + 3})
    close(p, attention(p, mask="causal"), left=1)


def test_an_inner_dimension_in_several_blocks() -> None:
    p = Program("f32", SIZES | {"b": 1, "h": 1, "q": 20, "k": 1300, "d": 700, "e": 30})
    close(p, attention(p), left=1)


def test_gradient_of_a_softmax() -> None:
    """Two products make one operand, with weights that are in memory."""
    p = Program("f32")
    g, v, k, w = (p.parameter(d) for d in ("bhqe", "bhke", "bhkd", "bhqk"))
    x = p.add("bhqk", f"multiply({p.dot(g, v, 'bh', 'e')}, {w})")
    total = p.spread(p.reduced(x, "k", "sm", "0"), "bhqk")
    x = p.scaled(p.add("bhqk", f"subtract({x}, {p.add('bhqk', f'multiply({w}, {total})')})"), 0.01)
    close(p, p.dot(x, k, "bh", "k"), left=1)


def test_two_products_make_one_operand() -> None:
    p = Program("f32")
    a, b, c, d = (p.parameter(x) for x in ("bhqd", "bhkd", "bhqe", "bhke"))
    both = p.add("bhqk", f"multiply({p.dot(a, b, 'bh', 'd')}, {p.dot(c, d, 'bh', 'e')})")
    close(p, p.dot(p.softmax(both), d, "bh", "k"), left=1)


@pytest.mark.parametrize(("kept", "left"), [("scores", 2), ("weights", 1), ("maximum", 2)])
def test_what_others_read_is_written(kept: str, left: int) -> None:
    p = Program("f32")
    q, k, v = (p.parameter(x) for x in ("bhqd", "bhkd", "bhke"))
    scores = p.dot(q, k, "bh", "d")
    top = p.reduced(scores, "k", "mx", "-inf")
    lower = p.add("bhqk", f"subtract({scores}, {p.spread(top, 'bhqk')})")
    e = p.add("bhqk", f"exponential({lower})")
    close(
        p, p.dot(e, v, "bh", "k"), {"scores": scores, "weights": e, "maximum": top}[kept], left=left
    )


def test_products_of_one_operand_stay_apart() -> None:
    p = Program("f32", SIZES | {"k": 37})
    x = p.parameter("bhqd")
    w = p.add("bhqk", f"tanh({p.dot(x, p.parameter('bhkd'), 'bh', 'd')})")
    text = p.text(p.add("bhqk", f"dot({w}, {w}), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, "
                        "lhs_contracting_dims={3}, rhs_contracting_dims={2}"))  # fmt: skip
    assert products(text) == 1
    check(text, p.arguments(), rtol=1e-4, atol=1e-4)


# --- without a last product ---------------------------------------------------------------------


def finished(p: Program, x: str, kind: str) -> str:
    """Add what is made of a product `x` of rows q and columns k."""
    dims = p.dims[x]
    bias = p.spread(p.parameter("k"), dims)
    match kind:
        case "bias":
            return p.add(dims, f"add({x}, {bias})")
        case "activation":
            zero = p.spread(p.add("", "constant(0)"), dims)
            return p.add(dims, f"maximum({p.add(dims, f'add({x}, {bias})')}, {zero})")
        case "residual":
            return p.add(dims, f"add({p.add(dims, f'tanh({x})')}, {p.parameter(dims)})")
        case "softmax":
            return p.softmax(p.add(dims, f"add({x}, {bias})"))
        case "gate":
            other = p.dot(p.parameter("qd"), p.parameter("dk"), "", "d")
            return p.add(dims, f"multiply({p.add(dims, f'logistic({x})')}, {other})")
    raise AssertionError(kind)


KINDS = ["bias", "activation", "residual", "softmax", "gate"]


@pytest.mark.parametrize("et", TOLERANCE)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_of_a_product_is_in_its_kernel(et: str, kind: str) -> None:
    p = Program(et, SIZES | {"q": 130})
    close(p, finished(p, p.dot(p.parameter("qd"), p.parameter("dk"), "", "d"), kind), left=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(400, 600, 70), (128, 33, 900), (130, 1500, 40)])
def test_blocks_of_columns(kind: str, sizes: tuple[int, int, int]) -> None:
    q, k, d = sizes
    p = Program("f32", SIZES | {"q": q, "k": k, "d": d})
    x = p.scaled(p.dot(p.parameter("qd"), p.parameter("dk"), "", "d"), 0.1)
    close(p, finished(p, x, kind), left=0, tolerance=2e-4)


@pytest.mark.parametrize(("x", "y"), [("bqd", "bdk"), ("qbd", "kbd"), ("dbq", "bkd")])
def test_a_batch_of_finished_products(x: str, y: str) -> None:
    p = Program("f32")
    close(p, finished(p, p.dot(p.parameter(x), p.parameter(y), "b", "d"), "activation"), left=0)


def test_heads_of_a_projection() -> None:
    p = Program("bf16")
    x = p.dot(p.parameter("bqd"), p.parameter("dhe"), "", "d")
    bias = p.spread(p.parameter("he"), "bqhe")
    close(p, p.add("bqhe", f"add({x}, {bias})"), left=0)


def test_a_result_with_other_readers_is_written() -> None:
    p = Program("f32")
    x = p.dot(p.parameter("qd"), p.parameter("dk"), "", "d")
    close(p, finished(p, x, "activation"), p.reduced(x, "q", "sm", "0"), left=1)


def test_integers_are_scaled_as_they_are_added_up() -> None:
    text = """HloModule m
ENTRY e { x = s8[70,64] parameter(0) w = s8[64,100] parameter(1) f = f32[100] parameter(2)
  d = s32[70,100] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[70,100] convert(d) s = f32[70,100] broadcast(f), dimensions={1}
  m = f32[70,100] multiply(c, s) ROOT r = s8[70,100] convert(m) }"""
    assert products(text) == 0
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-128, 128, n, np.int8) for n in ((70, 64), (64, 100)))
    check(text, [x, w, rng.uniform(0, 1e-3, 100).astype(np.float32)])


def test_threads_do_not_show() -> None:
    p = Program("f32", SIZES | {"q": 300, "k": 200, "d": 64})
    text, args = p.text(attention(p)), p.arguments()
    one, two = (compiled_for(text, n)(*args)[0] for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_special_values() -> None:
    p = Program("f32")
    text, args = p.text(attention(p)), p.arguments()
    args[0][0, 0, 3] = np.nan
    args[2][1, 2, 5] = np.inf
    check(text, args, rtol=1e-4, atol=1e-4)
