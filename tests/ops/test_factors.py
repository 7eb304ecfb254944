"""Factor rules: what is cut along a factor and put together again is the whole."""

from __future__ import annotations

import math

import pytest

from docs import factor_rules as page
from hlo.frontends.text import parse
from hlo.ops import OPS
from hlo.ops.factors import FactorKind
from hlo.ops.movement.factors import common_factors
from tests.generators.ops import MAKERS, generate_ops
from tests.harness.factor_parts import check_factors, check_rule, values_of
from tests.harness.paths import DOCS
from tests.ops.test_op_table import EXAMPLES, example, ids


@pytest.mark.parametrize("case", EXAMPLES, ids=ids)
def test_the_rule_of_an_example_goes_with_its_shapes(case: tuple[str, int]) -> None:
    module = parse(example(*case))
    for inst in module.instructions():
        check_rule(inst)


@pytest.mark.parametrize("maker", MAKERS)
def test_parts_of_generated_operations_make_the_whole(maker: str) -> None:
    for seed in range(4):
        case = generate_ops(seed, maker, nested=False)
        values = values_of(case.module, case.args)
        for inst in case.module.entry.in_order():
            check_rule(inst)
            if all(o in values for o in inst.operands):
                check_factors(inst, [values[o] for o in inst.operands], 2 + seed % 2)


@pytest.mark.parametrize(
    ("before", "after", "factors"),
    [
        ((6,), (2, 3), [(2, 0, 0), (3, 0, 1)]),
        ((2, 3), (6,), [(2, 0, 0), (3, 1, 0)]),
        ((8, 6), (4, 12), [(4, 0, 0), (2, 0, 1), (6, 1, 1)]),
        ((1, 5, 1), (5,), [(5, 1, 0)]),
        # From the first cut that is not common on, until the products are equal again.
        ((2, 3, 5), (3, 2, 5), [(2, 0, None), (3, None, 0), (3, 1, None), (2, None, 1), (5, 2, 2)]),
        ((4, 3), (6, 2), [(2, 0, 0), (2, 0, None), (3, None, 0), (3, 1, None), (2, None, 1)]),
        ((), (), []),
    ],
)  # fmt: skip
def test_regrouped_dimensions_have_the_largest_common_factors(
    before: tuple[int, ...],
    after: tuple[int, ...],
    factors: list[tuple[int, int | None, int | None]],
) -> None:
    found = list(common_factors(before, after))
    assert found == factors
    for sizes, n in ((before, 1), (after, 2)):
        for at, size in enumerate(sizes):
            assert math.prod(f[0] for f in found if f[n] == at) == size


# A program, and the factors of its root: one letter each, and the kinds of those that do not pass.
RULES = {
    "broadcast of a dimension of one": (
        "x = f32[1,3] parameter(0) ROOT r = f32[1,3,4] broadcast(x), dimensions={0,1}",
        "[a,b] -> [a,b,c]", "",
    ),
    "slice": (
        "x = f32[4,6] parameter(0) ROOT r = f32[4,3] slice(x), slice={[0:4], [0:3]}",
        "[a,b] -> [a,b]", "b moves",
    ),
    "pad that shifts and keeps the size": (
        "x = f32[4] parameter(0) z = f32[] parameter(1) ROOT r = f32[4] pad(x, z), padding=1_-1",
        "[a] [] -> [a]", "a moves",
    ),
    "concatenate of one": (
        "x = f32[4] parameter(0) ROOT r = f32[4] concatenate(x), dimensions={0}",
        "[a] -> [a]", "",
    ),
    "dynamic-slice that takes a whole dimension": (
        "x = f32[4,6] parameter(0) i = s32[] parameter(1) "
        "ROOT r = f32[4,2] dynamic-slice(x, i, i), dynamic_slice_sizes={4,2}",
        "[a,b] [] [] -> [a,c]", "b moves, c whole",
    ),
    "blocks of scales": (
        "a = f8e4m3fn[2,8] parameter(0) b = f8e4m3fn[8,4] parameter(1) "
        "as = f8e8m0fnu[2,2] parameter(2) bs = f8e8m0fnu[4,4] parameter(3) "
        "ROOT r = f32[2,4] scaled-dot(a, b, as, bs), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
        "[a,cde] [cde,b] [a,c] [cd,b] -> [a,b]", "c sums, d sums, e sums",
    ),
    "kernel as large as what it moves over": (
        "x = f32[1,8,2] parameter(0) w = f32[8,2,3] parameter(1) ROOT r = f32[1,1,3] "
        "convolution(x, w), window={size=8}, dim_labels=b0f_0io->b0f",
        "[a,d,c] [d,c,b] -> [a,e,b]", "c sums, d moves, e whole",
    ),
    "kernel of one": (
        "x = f32[1,8,2] parameter(0) w = f32[1,2,3] parameter(1) ROOT r = f32[1,8,3] "
        "convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f",
        "[a,d,c] [,c,b] -> [a,d,b]", "c sums",
    ),
    "window of one": (
        "x = f32[4,6] parameter(0) z = f32[] parameter(1) ROOT r = f32[4,5] reduce-window(x, z), "
        "window={size=1x2}, to_apply=add",
        "[a,b] [] -> [a,b]", "b moves",
    ),
    "scatter of rows": (
        "x = f32[5,3] parameter(0) i = s32[2,1] parameter(1) u = f32[2,3] parameter(2) "
        "ROOT r = f32[5,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        "[c,b] [a,d] [a,b] -> [c,b]", "a sums, c moves, d whole",
    ),
    "transposing bitcast": (
        "x = f32[2,3]{0,1} parameter(0) ROOT r = f32[3,2]{1,0} bitcast(x)",
        "[b,a] -> [a,b]", "",
    ),
    "right-hand sides": (
        "x = f32[3,3] parameter(0) b = f32[3,4] parameter(1) ROOT r = f32[3,4] "
        "triangular-solve(x, b), left_side=true, transpose_a=NO_TRANSPOSE",
        "[c,d] [b,a] -> [b,a]", "b whole, c whole, d whole",
    ),
}  # fmt: skip
_KINDS = {
    FactorKind.REDUCTION: "sums", FactorKind.PERMUTATION: "moves",
    FactorKind.NEED_REPLICATION: "whole",
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    text, factors, kinds = RULES[name]
    module = parse(
        "HloModule m add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
        f" ENTRY e {{ {text} }}"
    )
    root = module.entry.root
    rule = check_rule(root)
    letters = "abcdefgh"
    operands, results = (
        " ".join(
            f"[{','.join(''.join(letters[n] for n in dim) for dim in dims)}]" for dims in arrays
        )
        for arrays in (rule.operands, rule.results)
    )
    said = [
        f"{letters[n]} {_KINDS[f.kind]}" for n, f in enumerate(rule.factors) if f.kind in _KINDS
    ]
    assert (f"{operands} -> {results}", ", ".join(said)) == (factors, kinds)


def test_an_operation_has_to_say() -> None:
    spec = OPS["abs"]
    with pytest.raises(TypeError, match="factors"):
        type(spec)("x", 1, spec.infer, spec.evaluate, spec.category, "", ())  # type: ignore[call-arg]


def test_the_page_of_rules_is_up_to_date() -> None:
    assert (DOCS / "factor-rules.md").read_text() == page.render(), "run `make operations`"
