"""Calls of the custom-call targets that are known, with shapes that fit or do not."""

from __future__ import annotations

import random
import re

import numpy as np

from hlo.frontends.text import parse
from hlo.testing.sampling import random_array
from hlo.values.types import S32, ArrayShape
from tests.generators.ops import Case

_TYPED = ", api_version=API_VERSION_TYPED_FFI"
# What each takes and gives, and its attributes.
_CALLS = [
    ("(f32[3,4], s32[], s32[])", "f32[<=3,4] a", 'custom_call_target="PadToStatic"'),
    ("s32[]", "s32[] a", 'custom_call_target="SetBound"'),
    ("f32[<=3,<=4]", "f32[3,4] a, s32[] n, s32[] m", 'custom_call_target="SliceToDynamic"'),
    ("(f32[2,3], s32[2,3])", "f32[2,8] a", 'custom_call_target="TopK"'),
    ("f32[3,2]", "f32[5] v, s32[4] s, s32[5] c, f32[4,2] x",
     'custom_call_target="cpu_csr_sparse_dense_ffi"' + _TYPED),
    ("f32[3,4,2]", "f32[3,4] a, f32[3,4] b, f32[3,4] c, f32[3,4,2] x",
     'custom_call_target="tridiagonal_solve_perturbed_ffi"' + _TYPED),
    *((result, operands,
       f'custom_call_target="lapack_s{name}_ffi"{_TYPED}, backend_config={{{config}}}')
      for name, result, operands, config in [
          ("potrf", "(f32[3,4,4]{1,2,0}, s32[3])", "f32[3,4,4] a", "uplo = 76 : ui8"),
          ("getrf", "(f32[3,5,4]{1,2,0}, s32[3,4], s32[3])", "f32[3,5,4] a", ""),
          ("geqrf", "(f32[3,5,4]{1,2,0}, f32[3,4])", "f32[3,5,4] a", ""),
          ("orgqr", "f32[3,5,4]{1,2,0}", "f32[3,5,4] a, f32[3,4] t", ""),
          ("geqp3", "(f32[3,4,4]{1,2,0}, s32[3,4], f32[3,4])", "f32[3,4,4] a, s32[3,4] p", ""),
          ("gesdd", "(f32[3,5,4]{1,2,0}, f32[3,4], f32[3,5,5]{1,2,0}, f32[3,4,4]{1,2,0}, s32[3])",
           "f32[3,5,4] a", "mode = 65 : ui8"),
          ("gesvd", "(f32[3,5,4]{1,2,0}, f32[3,4], f32[3,5,5]{1,2,0}, f32[3,4,4]{1,2,0}, s32[3])",
           "f32[3,5,4] a", "mode = 65 : ui8"),
          ("syevd", "(f32[3,4,4]{1,2,0}, f32[3,4], s32[3])", "f32[3,4,4] a",
           "mode = 86 : ui8, uplo = 76 : ui8"),
          ("geev", "(f32[3,4], f32[3,4], c64[3,4,4]{1,2,0}, c64[3,4,4]{1,2,0}, s32[3])",
           "f32[3,4,4] a", "compute_left = 78 : ui8, compute_right = 86 : ui8"),
          ("gees", "(f32[3,4,4]{1,2,0}, f32[3,4,4]{1,2,0}, f32[3,4], f32[3,4], s32[3], s32[3])",
           "f32[3,4,4] a", "mode = 86 : ui8, sort = 78 : ui8"),
          ("gehrd", "(f32[3,4,4]{1,2,0}, f32[3,3], s32[3])", "f32[3,4,4] a",
           "high = 4 : i32, low = 1 : i32"),
          ("sytrd", "(f32[3,4,4]{1,2,0}, f32[3,4], f32[3,3], f32[3,3], s32[3])", "f32[3,4,4] a",
           "uplo = 76 : ui8"),
          ("gtsv", "(f32[3,4], f32[3,4], f32[3,4], f32[3,4,2]{1,2,0}, s32[3])",
           "f32[3,4] a, f32[3,4] b, f32[3,4] c, f32[3,4,2] x", ""),
          ("trsm", "f32[3,4,2]{1,2,0}", "f32[3,4,4] a, f32[3,4,2] b",
           "diag = 85 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8"),
      ]),
]  # fmt: skip
_SHAPE = re.compile(r"(\w+)\[([^]]*)\](\{[\d,]*\})?")
_SIZES = ("0", "1", "2", "3", "4", "5", "7", "64", "1000", "<=4")
_TYPES = ("f32", "f64", "f16", "s32", "s64", "u8", "pred", "c64", "c128", "s4", "f8e4m3fn")


def _changed(rng: random.Random, shape: re.Match[str]) -> str:
    """Return another shape: of other sizes, rank, type or order."""
    name, dims = shape[1], [d for d in shape[2].split(",") if d]
    match rng.randrange(5):
        case 0 if dims:
            dims[rng.randrange(len(dims))] = rng.choice(_SIZES)
        case 1 if dims:
            del dims[rng.randrange(len(dims))]
        case 2:
            dims.insert(rng.randint(0, len(dims)), rng.choice(_SIZES))
        case 3:
            rng.shuffle(dims)
        case _:
            name = rng.choice(_TYPES)
    order = list(range(len(dims)))
    if rng.random() < 0.3:
        rng.shuffle(order)
    else:
        order.reverse()
    return f"{name}[{','.join(dims)}]{{{','.join(map(str, order))}}}"


def generate_target(seed: int) -> Case:
    """Return a call with some shapes changed; the first seeds have none. May be invalid."""
    rng = random.Random(seed)
    result, operands, attributes = _CALLS[seed % len(_CALLS)]
    parts = [result, operands]
    for _ in range(0 if seed < len(_CALLS) else rng.choice((1, 1, 1, 2, 3))):
        n = rng.randrange(2)
        shape = rng.choice(list(_SHAPE.finditer(parts[n])))
        parts[n] = parts[n][: shape.start()] + _changed(rng, shape) + parts[n][shape.end() :]
        if rng.random() < 0.3:
            # Of operands and results alike.
            size = rng.choice(_SIZES[:8])
            parts = [re.sub(r"\b4\b", size, part) for part in parts]
    module = parse(f"{parts[0]} custom-call({parts[1]}), {attributes}")
    values = np.random.default_rng(seed)
    args = [
        # Sizes and rows, which are to fit now and then.
        np.sort(values.integers(0, 4, p.shape.dims).astype(np.int32), axis=None).reshape(
            p.shape.dims
        )
        if p.shape.element_type is S32
        else random_array(values, p.shape.element_type, p.shape.dims)
        for p in module.entry.parameters
        if isinstance(p.shape, ArrayShape)
    ]
    return Case(module, args)
