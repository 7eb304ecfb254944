"""Which element types operations take, as docs/operations.md says: `type_probes.txt`, of any type.

What is valid runs on both backends, all else is an error that names the type, and XLA agrees.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from hlo.compiler.pipeline import compile as compile_module
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.ir import Module
from hlo.ops import OPS
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType
from tests.harness.oracle import XlaError, assert_same, xla_parse
from tests.harness.type_probes import TYPES, Probe, accepted, module, module_text, probes
from tests.ops.test_op_table import host, visible

# Each program once: `send` and `send-done`, for example, are asked by the same one.
PROBES = list({probe.text: probe for some in probes().values() for probe in some}.values())
# Every one of them, with itself and with one of another kind: code is made for each pair.
_PAIRED = tuple(ELEMENT_TYPES[n] for n in ("pred", "s4", "u8", "s64", "bf16", "f32", "c64"))


def test_every_operation_is_asked() -> None:
    assert set(OPS) <= set(probes())


def ones(program: Module) -> list[np.ndarray]:
    """Return arguments of ones, which are in range as indices and sizes too; of s1, zeros."""
    shapes = [s for s in program.entry.parameter_shapes if isinstance(s, ArrayShape)]
    return [
        np.full(s.dims, s.element_type.name != "s1").astype(s.element_type.dtype) for s in shapes
    ]


@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_each_type_that_is_taken_runs(probe: Probe) -> None:
    pairs = [
        (t, u) for t, u in accepted(probe)
        if len(probe.second_types) == 1 or (t in _PAIRED and u in _PAIRED)
    ]  # fmt: skip
    assert pairs
    if probe.is_call:
        programs = [accepted(probe)[pair] for pair in pairs]
    else:
        programs = [module(*((probe, t, u) for t, u in pairs))]
    for program in programs:
        args = ones(program)
        want = visible(interpret(program, args, host(program)))
        run = compile_module(program, cache=False, host=host(program), passes="")
        got = visible(run(*args))
        assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want]
        if "rng" not in probe.name:
            assert_same(got, want, what=str(probe))


@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_any_other_type_is_an_error_that_names_it(probe: Probe) -> None:
    for t, u in itertools.product(TYPES, probe.second_types):
        if (t, u) not in accepted(probe):
            with pytest.raises(HloError) as error:
                module((probe, t, u))
            assert re.search(rf"\b{t}\b", error.value.diagnostics[0].message)


# --- XLA ----------------------------------------------------------------------------------------

_INTEGER = {t for t in TYPES if t.is_integer}
_COMPLEX = {t for t in TYPES if t.is_complex}
# What XLA infers a shape for and we do not take, and why.
LAXER: dict[str, tuple[set[ElementType], str]] = {
    "remainder": (_COMPLEX, "XLA's compiler crashes on it"),
    **dict.fromkeys(
        ["shift-left", "shift-right-arithmetic", "shift-right-logical"],
        ({t for t in TYPES if t.is_float} | _COMPLEX, "StableHLO, on the way to XLA, rejects it"),
    ),
    "mulhi": (set(TYPES) - _INTEGER, "there is no upper half of any other product"),
    **dict.fromkeys(
        ["compare, others", "ge", "gt", "le", "lt", "sort, keys", "topk"],
        (_COMPLEX, "no document orders complex numbers; XLA:CPU does in loops, and not in sorts"),
    ),
    "rng-bit-generator, shape": (_COMPLEX | {ELEMENT_TYPES["pred"]}, "its parser does not look"),
    "ragged-dot, group_sizes": (set(TYPES) - _INTEGER, "sizes are integers"),
}
_WITHOUT_SHAPE = re.compile(r"(ROOT %result_0 = )(?:\([^=]*?\)|\S+) ([\w-]+\()")


def _without_shape(probe: Probe, t: ElementType) -> str:
    return _WITHOUT_SHAPE.sub(r"\1\2", module_text((probe, t, TYPES[0])))


def _xla_reads(text: str) -> bool:
    try:
        xla_parse(text)
    except XlaError:
        return False
    return True


@pytest.mark.parametrize("probe", [p for p in PROBES if not p.is_call], ids=str)
def test_the_shape_inference_of_xla_takes_the_same_types(probe: Probe) -> None:
    ours = {t for t, _ in accepted(probe)}
    texts = {t: _without_shape(probe, t) for t in TYPES}
    if len(set(texts.values())) == 1 or not _xla_reads(texts[next(t for t in TYPES if t in ours)]):
        pytest.skip("XLA's parser wants the shape of the result")
    theirs = {t for t, text in texts.items() if _xla_reads(text)}
    laxer, _ = LAXER.get(str(probe), (set(), ""))
    assert theirs - ours == laxer and not ours - theirs
