"""Data movement against XLA: values, inferred shapes, and what is rejected."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo.errors import HloError
from hlo.frontends.text import parse
from tests.harness.oracle import XlaError, assert_same, xla_parse
from tests.harness.run_both import errors, run, run_both
from tests.ops.test_ops_elementwise import program


def ramp(*dims: int, dtype: object = np.float32) -> np.ndarray:
    return np.arange(int(np.prod(dims))).reshape(dims).astype(dtype)  # type: ignore[call-overload]


ZERO = np.array(-1, np.float32)

CASES: list[tuple[list[str], list[np.ndarray], list[str]]] = [
    (["f32[2,3]"], [ramp(2, 3)], [
        "f32[2,3,4] broadcast(p0), dimensions={0,1}", "f32[4,2,3] broadcast(p0), dimensions={1,2}",
        "f32[3,5,2] broadcast(p0), dimensions={2,0}", "f32[0,2,3] broadcast(p0), dimensions={1,2}",
        "f32[6] reshape(p0)", "f32[3,2] reshape(p0)", "f32[1,3,1,2] reshape(p0)",
        "f32[3,2] transpose(p0), dimensions={1,0}", "f32[2,3] reverse(p0), dimensions={}",
        "f32[2,3] reverse(p0), dimensions={1}", "f32[2,3] reverse(p0), dimensions={1,0}",
        "f32[1,2] slice(p0), slice={[1:2], [0:3:2]}", "f32[0,3] slice(p0), slice={[1:1], [0:3]}",
        "f32[2,1] slice(p0), slice={[0:2], [2:3:100]}",
        "f32[4,3] concatenate(p0, p0), dimensions={0}",
        "f32[2,9] concatenate(p0, p0, p0), dimensions={1}",
        "f32[2,3] concatenate(p0), dimensions={1}",
    ]),
    (["f32[2,3]", "f32[]"], [ramp(2, 3), ZERO], [
        "f32[5,6] pad(p0, p1), padding=1_2x3_0", "f32[3,9] pad(p0, p1), padding=0_0_1x1_1_2",
        "f32[1,1] pad(p0, p1), padding=-1_0x-1_-1", "f32[1,4] pad(p0, p1), padding=0_-2_1x-1_0_1",
        "f32[2,0] pad(p0, p1), padding=0_0x-3_0", "f32[4,3] pad(p0, p1), padding=-2_4x5_-5",
        "f32[2,2] pad(p0, p1), padding=0_0x-4_1_1", "f32[3,1] pad(p0, p1), padding=-1_1_1x-2_-2_1",
        "f32[2,3,2] broadcast(p1), dimensions={}", "f32[] reshape(p1)",
        "f32[1,1] reshape(p1)", "f32[] transpose(p1), dimensions={}",
    ]),
    (["f32[0,3]", "f32[]", "f32[2,3]"], [ramp(0, 3), ZERO, ramp(2, 3)], [
        "f32[0,3,2] broadcast(p0), dimensions={0,1}", "f32[3,0] reshape(p0)",
        "f32[3,0] transpose(p0), dimensions={1,0}", "f32[2,3] concatenate(p0, p2), dimensions={0}",
        "f32[2,5] pad(p0, p1), padding=1_1_7x1_1", "f32[0,3] reverse(p0), dimensions={0,1}",
        "f32[0,1] slice(p0), slice={[0:0], [1:2]}",
    ]),
    (["f32[2,3,4]"], [ramp(2, 3, 4)], [
        f"f32[{','.join(str((2, 3, 4)[d]) for d in p)}] transpose(p0), "
        f"dimensions={{{','.join(map(str, p))}}}"
        for p in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=["array", "pad", "empty", "permutations"])
def test_movement_is_what_xla_does(case: tuple[list[str], list[np.ndarray], list[str]]) -> None:
    parameters, args, calls = case
    run_both(program(parameters, calls), args, ulps=0, signed_zero=True)


@pytest.mark.parametrize(
    ("et", "dtype"),
    [
        ("pred", np.bool_), ("s4", ml_dtypes.int4), ("u16", np.uint16), ("s64", np.int64),
        ("f8e4m3fn", ml_dtypes.float8_e4m3fn), ("bf16", ml_dtypes.bfloat16),
        ("c128", np.complex128),
    ],
)  # fmt: skip
def test_movement_in_every_kind_of_type(et: str, dtype: object) -> None:
    x, fill = ramp(2, 3, dtype=dtype), ramp(4, dtype=dtype)[3]
    calls = [
        f"{et}[2,3,2] broadcast(p0), dimensions={{0,1}}",
        f"{et}[3,2] transpose(p0), dimensions={{1,0}}",
        f"{et}[2,3] reverse(p0), dimensions={{1}}",
        f"{et}[1,2] slice(p0), slice={{[1:2], [0:3:2]}}",
        f"{et}[3,6] pad(p0, p1), padding=0_0_1x1_0_1",
        f"{et}[2,6] concatenate(p0, p0), dimensions={{1}}",
        f"{et}[3,2] reshape(p0)",
    ]
    run_both(program([f"{et}[2,3]", f"{et}[]"], calls), [x, np.asarray(fill)], ulps=0)


def test_nan_payloads_and_signs_are_moved_untouched() -> None:
    x = np.array([0x7FC12345, 0xFF800001, 0x80000000], np.uint32).view(np.float32)
    calls = ["f32[3] reverse(p0), dimensions={0}", "f32[6] concatenate(p0, p0), dimensions={0}"]
    back, twice = run(program(["f32[3]"], calls), [x])
    assert back.tobytes() == x[::-1].tobytes()
    assert twice.tobytes() == x.tobytes() * 2


@pytest.mark.parametrize(
    ("parameters", "call"),
    [
        (["f32[2,3]{0,1:S(5)}"], "transpose(p0), dimensions={1,0}"),
        (["f32[<=2,3,4]"], "transpose(p0), dimensions={2,0,1}"),
        (["f32[2,3]{0,1}"], "reverse(p0), dimensions={1,0}"),
        (["f32[<=2,3]"], "reverse(p0), dimensions={0}"),
        (["f32[4,3]{0,1}", "f32[]"], "pad(p0, p1), padding=0_1_0x-1_1_2"),
        (["f32[<=4,3]", "f32[]"], "pad(p0, p1), padding=0_1x1_1"),
        (["f32[?,3]", "f32[]"], "pad(p0, p1), padding=0_1x1_1"),
        (["f32[4,3]{0,1}"], "concatenate(p0), dimensions={1}"),
        (["f32[4,3]", "f32[4,<=2]"], "concatenate(p0, p1), dimensions={1}"),
        (["f32[<=4,3]", "f32[4,2]"], "concatenate(p0, p1), dimensions={1}"),
        (["f32[<=4,3]", "f32[4,?]"], "concatenate(p0, p1), dimensions={1}"),
        (["f32[4,<=3]", "f32[4,?]"], "concatenate(p0, p1), dimensions={1}"),
        (["f32[?,3]", "f32[4,3]"], "concatenate(p0, p1), dimensions={1}"),
        (["f32[2,3]{0,1}"], "negate(p0)"),
        (["f32[<=2,3]", "f32[2,?]"], "add(p0, p1)"),
        (["f32[2,3]", "f32[<=2,3]"], "add(p0, p1)"),
        (["pred[<=2]", "f32[2]"], "select(p0, p1, p1)"),
        (["pred[]", "f32[2,3]{0,1}"], "select(p0, p1, p1)"),
        (["f32[]", "f32[<=2]"], "clamp(p0, p1, p0)"),
        (["c64[2,3]{0,1}"], "abs(p0)"),
    ],
)
def test_a_left_out_shape_is_inferred_as_xla_does(parameters: list[str], call: str) -> None:
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)]
    text = "\n".join(["HloModule m\n", "ENTRY e {", *lines, f"  ROOT r = {call}", "}\n"])
    want = next(line for line in xla_parse(text, "short").splitlines() if "ROOT" in line)
    assert str(parse(text).entry.root.shape) == want.split("= ")[1].split("} ")[0] + "}"


@pytest.mark.parametrize(
    ("parameters", "result", "code"),
    [
        (["f32[2]"], "f32[2,3] broadcast(p0), dimensions={}", "bad-dimension"),
        (["f32[2]"], "f32[2,3] broadcast(p0)", "bad-dimension"),
        (["f32[2]"], "f32[2,3] broadcast(p0), dimensions={2}", "bad-dimension"),
        (["f32[2]"], "f32[2,3] broadcast(p0), dimensions={-1}", "bad-dimension"),
        (["f32[2,2]"], "f32[2] broadcast(p0), dimensions={0,0}", "bad-dimension"),
        (["f32[2]"], "f32[2,3] broadcast(p0), dimensions={1}", "shape-mismatch"),
        (["f32[1]"], "f32[3] broadcast(p0), dimensions={0}", "shape-mismatch"),
        (["f32[]"], "bf16[3] broadcast(p0), dimensions={}", "type-mismatch"),
        (["f32[2,3]"], "f32[7] reshape(p0)", "shape-mismatch"),
        (["f32[2,3]"], "s32[6] reshape(p0)", "type-mismatch"),
        (["f32[2,3]"], "f32[6] reshape(p0), inferred_dimension=1", "bad-dimension"),
        (["f32[2,3]"], "f32[3,2] transpose(p0), dimensions={1,1}", "bad-dimension"),
        (["f32[2,3]"], "f32[3,2] transpose(p0), dimensions={1}", "bad-dimension"),
        (["f32[2,3]"], "f32[2,3] transpose(p0), dimensions={1,0}", "shape-mismatch"),
        (["f32[2,3]"], "f32[3,2] transpose(p0)", "missing-attribute"),
        (["f32[2,3]"], "f32[2,3] reverse(p0), dimensions={0,0}", "bad-dimension"),
        (["f32[2,3]"], "f32[2,3] reverse(p0), dimensions={2}", "bad-dimension"),
        (["f32[4]"], "f32[2] slice(p0), slice={[3:5]}", "index-out-of-range"),
        (["f32[4]"], "f32[2] slice(p0), slice={[-1:1]}", "index-out-of-range"),
        (["f32[4]"], "f32[0] slice(p0), slice={[3:1]}", "index-out-of-range"),
        (["f32[4]"], "f32[2] slice(p0), slice={[0:4:0]}", "bad-value"),
        (["f32[4]"], "f32[2] slice(p0), slice={[0:2], [0:1]}", "bad-dimension"),
        (["f32[4]"], "f32[3] slice(p0), slice={[0:2]}", "shape-mismatch"),
        (["f32[4]", "f32[1]"], "f32[5] pad(p0, p1), padding=0_1", "shape-mismatch"),
        (["f32[4]", "bf16[]"], "f32[5] pad(p0, p1), padding=0_1", "type-mismatch"),
        (["f32[4]", "f32[]"], "f32[5] pad(p0, p1), padding=0_1x0_0", "bad-dimension"),
        (["f32[4]", "f32[]"], "f32[1] pad(p0, p1), padding=0_0_-1", "bad-value"),
        (["f32[4]", "f32[]"], "f32[0] pad(p0, p1), padding=-5_0", "bad-value"),
        (["f32[4,3]", "f32[4]"], "f32[4,4] concatenate(p0, p1), dimensions={1}", "shape-mismatch"),
        (
            ["f32[4,3]", "f32[3,3]"],
            "f32[4,6] concatenate(p0, p1), dimensions={1}",
            "shape-mismatch",
        ),
        (["f32[4]", "f16[4]"], "f32[8] concatenate(p0, p1), dimensions={0}", "type-mismatch"),
        (["f32[4]"], "f32[8] concatenate(p0, p0), dimensions={1}", "bad-dimension"),
        (["f32[4]"], "f32[8] concatenate(p0, p0), dimensions={0,1}", "bad-dimension"),
        (["f32[]"], "f32[] concatenate(p0), dimensions={0}", "bad-dimension"),
        (["f32[4]"], "f32[4] concatenate(), dimensions={0}", "operand-count"),
        (["token[]"], "f32[4] reshape(p0)", "type-mismatch"),
    ],
)
def test_what_is_wrong_is_said(parameters: list[str], result: str, code: str) -> None:
    found = errors(program(parameters, [result]))
    assert [c for c, _ in found] == [code], found


@pytest.mark.parametrize(
    "result",
    [
        "f32[1000000,1000000,1000000] broadcast(p0), dimensions={}",
        "f32[9000000000000000] pad(p1, p0), padding=0_8999999999999998",
    ],
)
def test_what_does_not_fit_in_memory_is_said_before_it_is_tried(result: str) -> None:
    with pytest.raises(HloError) as caught:
        run(program(["f32[]", "f32[2]"], [result]), [ZERO, ramp(2)])
    assert caught.value.code == "out-of-memory"


def test_sizes_that_no_64_bits_hold_are_rejected() -> None:
    text = "ENTRY e {\n  a = s8[4611686018427387904] parameter(0)\n  ROOT r = CALL\n}\n"
    for call in ("concatenate(a, a, a), dimensions={0}", "reverse(a), dimensions={0}"):
        found = errors(text.replace("CALL", call))
        assert ([c for c, _ in found] == ["bad-value"]) is call.startswith("concatenate"), found


def test_xla_takes_broken_movements_that_are_rejected_here() -> None:
    """Two of the table above, as XLA's unverified parser sees them: no error, or the end of it."""
    assert "broadcast" in xla_parse(
        program(["f32[2,2]"], ["f32[2] broadcast(p0), dimensions={0,0}"])
    )
    with pytest.raises(XlaError):
        xla_parse(program(["f32[2,3]"], ["f32[7] reshape(p0)"]))
    assert_same(run(program(["f32[2,3]"], ["f32[6] reshape(p0)"]), [ramp(2, 3)])[0], ramp(6))
