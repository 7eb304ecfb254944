"""What other programs call the operations: hints for opcodes that HLO does not have.

The names are those of NumPy, JAX, PyTorch, TensorFlow, ONNX, StableHLO, MLIR's arith and LLVM, in
lower case without dashes, underscores and dots.
"""

from __future__ import annotations

import re

from hlo.errors import did_you_mean
from hlo.ops.spec import OPS

# By opcode: its other names.
_NAMES = {
    "abs": "absolute fabs absf absi absval magnitude",
    "add": "plus fadd addf addi iadd addv2 addn",
    "subtract": "sub minus fsub subf subi isub difference",
    "multiply": "mul times mult fmul mulf muli imul multiplication hadamard",
    "mulhi": "umulh mulh mulhigh mulhisi mulhiui",
    "divide": "div truediv truedivide fdiv divf divsi divui sdiv udiv quotient realdiv",
    "remainder": "rem mod fmod modulo modulus frem srem urem remf remsi remui truncatemod",
    "power": "pow powf powi ipow fpowi integerpow",
    "maximum": "max fmax maxf maxnum maximumf maxnumf maxsi maxui smax umax",
    "minimum": "min fmin minf minnum minimumf minnumf minsi minui smin umin",
    "negate": "neg negative fneg negf ineg unaryminus",
    "exponential": "exp expf",
    "exp2": "exp2f pow2",
    "exponential-minus-one": "expm1 expminusone",
    "log": "ln logf naturallog loge",
    "log2": "log2f",
    "log-plus-one": "log1p",
    "logistic": "sigmoid expit",
    "tanh": "tanhf hyperbolictangent",
    "sine": "sin sinf",
    "cosine": "cos cosf",
    "tan": "tanf tangent",
    "asin": "arcsin",
    "acos": "arccos",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "erf": "erff",
    "sqrt": "sqrtf squareroot",
    "rsqrt": "rsqrtf invsqrt inversesqrt reciprocalsqrt",
    "cbrt": "cuberoot",
    "ceil": "ceiling ceilf",
    "floor": "floorf",
    "round-nearest-even": "round rint roundeven nearbyint nearest",
    "round-nearest-afz": "roundaway roundhalfawayfromzero",
    "sign": "sgn signum",
    "not": "invert bitwisenot logicalnot bnot complement",
    "and": "bitwiseand logicaland band andi iand",
    "or": "bitwiseor logicalor bor ori ior",
    "xor": "bitwisexor logicalxor bxor xori ixor",
    "shift-left": "shl shli lshift leftshift bitwiseleftshift sll",
    "shift-right-logical": "lshr shrui srl rightshiftlogical",
    "shift-right-arithmetic": "ashr shrsi shr rshift rightshift bitwiserightshift sra",
    "popcnt": "popcount ctpop bitcount bitwisecount populationcount",
    "count-leading-zeros": "clz ctlz nlz",
    "is-finite": "finite",
    "imag": "imaginary cimag",
    "real": "creal realpart",
    "complex": "makecomplex createcomplex",
    "compare": "cmp icmp fcmp cmpi cmpf comparison",
    "select": "where selectn selectv2 ternary choose selectop",
    "clamp": "clip clipbyvalue hardtanh clampscalar",
    "convert": "cast astype to convertelementtype fptrunc fpext zext sext sitofp uitofp fptosi "
    "fptoui truncf extf extsi extui typecast changetype",
    "bitcast-convert": "reinterpretcast bitcastconverttype viewdtype",
    "reduce-precision": "quantize fakequant",
    "dot": "matmul mm bmm gemm dotgeneral einsum linear innerproduct matrixmultiply dotproduct "
    "contract batchmatmul tensordot gemv matvec addmm",
    "ragged-dot": "groupedmatmul raggeddotgeneral gmm",
    "convolution": "conv conv1d conv2d conv3d convgeneraldilated convolve depthwiseconv2d",
    "broadcast": "broadcastto broadcastindim dynamicbroadcastindim expand tile splat fill full",
    "reshape": "view flatten squeeze unsqueeze expanddims ravel expandshape collapseshape",
    "dynamic-reshape": "dynamicview",
    "transpose": "permute permutedims swapaxes swapdims moveaxis matrixtranspose",
    "concatenate": "concat cat concatv2 concatenation hstack vstack",
    "slice": "stridedslice narrow subarray extractslice subview",
    "dynamic-slice": "dynamicslicing realdynamicslice sliceat",
    "dynamic-update-slice": "dus updateslice insertslice dynamicupdate sliceupdate setslice",
    "gather": "take indexselect embedding takealongaxis gathernd gatherv2 lookup index",
    "scatter": "scatteradd scatternd scatterupdate indexput indexadd putalongaxis put",
    "pad": "padv2 constantpad zeropad constantpadnd mirrorpad",
    "reverse": "rev flip fliplr flipud",
    "iota": "arange range linspace",
    "reduce-window": "maxpool avgpool averagepool maxpool2d avgpool2d pool pooling",
    "select-and-scatter": "maxpoolgrad",
    "sort": "sorted argsort sortpairs",
    "topk": "topkv2 approxtopk",
    "map": "vmap apply elementwise",
    "scan": "associativescan",
    "rng": "random rand randn uniform randomuniform randomnormal rnguniform",
    "rng-bit-generator": "randombits threefry philox threefry2x32",
    "conditional": "if cond case switch ifthenelse scfif branch",
    "while": "for loop whileloop foriloop dowhile scfwhile scffor",
    "call": "funccall invoke funcall pjit closedcall jit",
    "custom-call": "extern externcall ffi fficall",
    "fusion": "fused fuse",
    "tuple": "maketuple pack",
    "get-tuple-element": "gte tupleelement extractvalue extractelement getelement getitem tupleget",
    "constant": "const literal lit immediate",
    "parameter": "param arg argument input placeholder",
    "copy": "clone identity",
    "after-all": "createtoken token afterall join",
    "opt-barrier": "optimizationbarrier barrier",
    "fft": "rfft ifft irfft fft2 fftn",
    "triangular-solve": "trsm solvetriangular",
    "cholesky": "potrf chol",
    "batch-norm-inference": "batchnorm batchnormalization batchnorminf",
    "batch-norm-training": "batchnormtrain",
    "all-reduce": "psum pmean pmax crossreplicasum mpiallreduce",
    "reduce-scatter": "psumscatter",
    "all-gather": "allgatherinvariant",
    "all-to-all": "alltoallv",
    "collective-permute": "ppermute pshuffle",
    "collective-broadcast": "pbroadcast",
    "partition-id": "axisindex",
    "send": "isend",
    "recv": "receive irecv",
    "get-dimension-size": "dimsize size dim shape",
}  # fmt: skip
# What is no operation by itself, and how it is expressed.
_EXPRESSED = {
    "relu": "relu(x) is maximum(x, 0)",
    "relu6": "relu6(x) is clamp(0, x, 6)",
    "square": "square(x) is multiply(x, x)",
    "reciprocal": "reciprocal(x) is divide(1, x)",
    "floordivide": "floor_divide(x, y) is floor(divide(x, y))",
    "floordiv": "floordiv(x, y) is floor(divide(x, y))",
    "isnan": "isnan(x) is compare(x, x), direction=NE",
    "isinf": "isinf(x) is compare(abs(x), inf), direction=EQ",
    "arctan": "arctan(x) is atan2(x, 1)",
    "atan": "atan(x) is atan2(x, 1)",
    "log10": "log10(x) is multiply(log(x), 0.4342944819)",
    "trunc": "trunc(x) is floor of positive numbers and ceil of others; convert changes the type",
    "softmax": "softmax is exponential(subtract(x, max)) divided by its sum",
    "gelu": "gelu(x) is multiply(x, 0.5 * (1 + erf(x / sqrt(2))))",
    "silu": "silu(x) is multiply(x, logistic(x))",
    "swish": "swish(x) is multiply(x, logistic(x))",
    "softplus": "softplus(x) is log-plus-one(exponential(x))",
    "stack": "stack is concatenate of operands with another dimension of size 1, by reshape",
    "split": "split is a slice for each part",
    "chunk": "chunk is a slice for each part",
    "cumsum": "cumsum is a reduce-window with padding, or a scan",
    "cumprod": "cumprod is a reduce-window with padding, or a scan",
    "ones": "ones is a broadcast of constant(1)",
    "zeros": "zeros is a broadcast of constant(0)",
    "return": "the result of a computation is its instruction with ROOT",
    "swap": "transpose with dimensions={..} exchanges dimensions",
}  # fmt: skip
_DIRECTIONS = {
    "eq": "EQ equal", "ne": "NE notequal neq", "lt": "LT less lessthan",
    "gt": "GT greater greaterthan",
    "le": "LE lessequal lte leq", "ge": "GE greaterequal geq",
}  # fmt: skip
_REDUCERS = {
    "add": "sum reducesum sumreduce", "multiply": "prod reduceprod product",
    "maximum": "reducemax amax maxreduce", "minimum": "reducemin amin minreduce",
    "and": "all reduceand reduceall", "or": "any reduceor reduceany",
}  # fmt: skip
_PREFIX = re.compile(
    r"(?:stablehlo|mhlo|chlo|lax|jax\.lax|jnp|jax\.numpy|np|numpy|torch|tf|tf\.math|aten|prims|arith|"
    r"math|tosa|linalg|func|scf|xla|xla_hlo)(?:\.|::)"
)


def _table() -> dict[str, str]:
    """Return the hint for each name."""
    found: dict[str, str] = {}

    def add(name: str, hint: str) -> None:
        assert name not in found and name not in OPS, f"{name} has a meaning already"
        found[name] = hint

    for opcode, names in _NAMES.items():
        assert opcode in OPS, opcode
        for name in names.split():
            add(name, f"did you mean {opcode!r}?")
    for name, hint in _EXPRESSED.items():
        add(name, hint)
    for short, names in _DIRECTIONS.items():
        direction, *longer = names.split()
        for name in (short, *longer):
            add(name, f"did you mean 'compare'? with direction={direction}")
    for opcode, names in _REDUCERS.items():
        for name in names.split():
            add(name, f"did you mean 'reduce'? with to_apply=C, a computation of `{opcode}`")
    for name in ("mean", "reducemean", "average"):
        add(name, "the mean is a reduce by add, divided by the number of elements")
    for name in ("argmax", "argmin"):
        add(
            name, f"{name} is a reduce of values and an iota, whose computation compares the values"
        )
    for name in ("var", "variance", "std", "norm", "layernorm"):
        add(name, f"{name} is made of multiply and reduce by add")
    return found


_HINTS = _table()
_OPCODES = {re.sub("[-_]", "", opcode): opcode for opcode in OPS}


def opcode_hint(word: str) -> str | None:
    """Return a hint for a word that is no opcode: what HLO calls the operation.

    >>> from hlo.ops.aliases import opcode_hint
    >>> opcode_hint("sub"), opcode_hint("jnp.matmul"), opcode_hint("konstant")
    ("did you mean 'subtract'?", "did you mean 'dot'?", "did you mean 'constant'?")
    """
    key = re.sub("[-_.: ]", "", _PREFIX.sub("", word.lower()))
    if key in _HINTS:
        return _HINTS[key]
    if key in _OPCODES:
        return f"did you mean {_OPCODES[key]!r}?"
    hint = did_you_mean(word, OPS)
    if hint is None and (other := did_you_mean(key, _HINTS)) is not None:
        hint = _HINTS[other.split("'")[1]]
    return hint
