"""Small programs, one for each thing that JAX does, on the plug-in and on XLA's CPU.

    JAX_PLATFORMS=hlo XLA_FLAGS=--xla_force_host_platform_device_count=2 \\
        python -m tests.sweeps.jax_features [NAME...]

Each prints a line: whether the results agree, and the error if there is one.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.integrate
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import ml_dtypes
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

FEATURES: dict[str, Callable[[], Any]] = {}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 8)).astype(np.float32)
V = RNG.normal(size=16).astype(np.float32)
IMAGES = RNG.normal(size=(2, 9, 9, 3)).astype(np.float32)
KERNEL = RNG.normal(size=(3, 3, 3, 4)).astype(np.float32)
SPD = (X @ X.T + 6 * np.eye(6)).astype(np.float32)


def feature(function: Callable[[], Any]) -> Callable[[], Any]:
    FEATURES[function.__name__] = function
    return function


# --- types and data ------------------------------------------------------------------------------


@feature
def every_type() -> Any:
    names = (
        "bool int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 float16 "
        "bfloat16 float32 float64 complex64 complex128 float8_e5m2 float8_e4m3fn "
        "float8_e4m3b11fnuz float8_e5m2fnuz float8_e4m3fnuz float8_e3m4 float8_e4m3 "
        "float8_e8m0fnu float4_e2m1fn"
    ).split()
    results = {}
    with jax.enable_x64(True):
        for name in names:
            dtype = getattr(ml_dtypes, name, None) or np.dtype(name)
            x = jax.device_put(np.array([0, 1, 1, 0], np.float32).astype(dtype))
            results[name] = jax.jit(lambda x: (x.reshape(2, 2), x.astype(jnp.float32)))(x)
    return results


@feature
def put_and_get() -> Any:
    x = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    on = jax.device_put(x)
    return on, on + 1, np.asarray(on), jax.device_put(x.T), jax.device_get({"a": on})


@feature
def empty_and_scalar() -> Any:
    return jnp.zeros((0, 3)) + 1, jnp.float32(3) * 2, jax.jit(lambda: 7)(), jnp.zeros(0).sum()


@feature
def donation() -> Any:
    f = jax.jit(lambda x, y: (x + y, y), donate_argnums=0)
    x, y = jax.device_put(V), jax.device_put(V)
    r = f(x, y)
    return r, x.is_deleted(), y.is_deleted()


@feature
def deleted_is_an_error() -> Any:
    x = jnp.ones(3)
    x.delete()
    with contextlib.suppress(RuntimeError, ValueError):
        return jnp.sin(x)
    return "refused"


@feature
def dlpack_with_numpy() -> Any:
    x = jnp.arange(6.0).reshape(2, 3)
    out = np.from_dlpack(x)
    same = out.ctypes.data == x.unsafe_buffer_pointer()
    back = jax.dlpack.from_dlpack(np.arange(4.0, dtype=np.float32))
    return out, same, back + 1


@feature
def asarray_is_no_copy() -> Any:
    x = jnp.arange(1000.0) + 1
    return np.asarray(x).ctypes.data == x.unsafe_buffer_pointer()


@feature
def buffers_live_on() -> Any:
    view = np.asarray(jnp.arange(4096.0) * 2)
    for _ in range(50):
        jnp.arange(4096.0) * 3
    return view


@feature
def prng() -> Any:
    k = jax.random.key(3)
    a, b = jax.random.split(k)
    return [
        jax.random.normal(a, (5,)), jax.random.uniform(b, (3, 2)), jax.random.gamma(a, 2.5, (4,)),
        jax.random.permutation(b, 10), jax.random.categorical(a, jnp.zeros(5), shape=(3,)),
        jax.random.poisson(a, 3.0, (4,)), jax.random.beta(b, 2.0, 3.0, (3,)),
        jax.random.truncated_normal(a, -1, 1, (3,)), jax.random.choice(b, 10, (4,), False),
        jax.random.bits(a, (3,), "uint8"), jax.random.key_data(k),
        jax.random.normal(jax.random.key(1, impl="rbg"), (3,)),
        jax.random.multivariate_normal(a, jnp.zeros(2), jnp.eye(2)), jax.random.dirichlet(a, V * V),
    ]  # fmt: skip


# --- programs ------------------------------------------------------------------------------------


@feature
def elementwise() -> Any:
    f = jax.jit(lambda x: [g(x) for g in (
        jnp.sin, jnp.exp, jnp.tanh, jsp.special.erf, jsp.special.gammaln, jsp.special.digamma,
        jnp.log1p, jnp.cbrt, jnp.sign, jnp.floor, jnp.round, jsp.special.erfinv,
    )])  # fmt: skip
    return f(abs(V) % 1)


@feature
def reductions_and_scans() -> Any:
    f = jax.jit(lambda x: [
        x.sum(0), x.max(1), x.argmin(0), jnp.cumsum(x, 1), jnp.cumprod(x, 0), x.std(),
        lax.cummax(x, axis=1), jax.nn.logsumexp(x, 1), lax.associative_scan(jnp.add, x),
        jnp.median(x), jnp.quantile(x, 0.3),
    ])  # fmt: skip
    return f(X)


@feature
def sort_and_top_k() -> Any:
    f = jax.jit(lambda x: [
        jnp.sort(x, 1), jnp.argsort(x, 0), lax.top_k(x, 3), jnp.unique(jnp.round(x), size=9),
        jnp.searchsorted(jnp.sort(x[0]), x[1]), lax.sort((x, -x), num_keys=1), jnp.lexsort(x),
        lax.approx_max_k(x, 2),
    ])  # fmt: skip
    return f(X)


@feature
def gather_and_scatter() -> Any:
    i = np.array([3, 0, 3, 5])
    f = jax.jit(lambda x: [
        x[i], x[:, i[:2]], x.at[i].add(1), x.at[i, 1].set(9), x.at[i].mul(2), x.at[i].max(0),
        jax.ops.segment_sum(x, jnp.array([0, 1, 0, 2, 2, 1]), 4),
        jnp.take_along_axis(x, i[None], 1),
        lax.dynamic_slice(x, (2, 1), (2, 3)), lax.dynamic_update_slice(x, x[:2], (4, 7)),
        x.at[10].get(mode="fill", fill_value=-1), jnp.bincount(i, length=7),
    ])  # fmt: skip
    return f(X)


@feature
def products() -> Any:
    f = jax.jit(lambda x: [
        x @ x.T, jnp.einsum("ij,kj,il->kl", x, x, x), jnp.tensordot(x, x, 2), jnp.outer(x[0], x[1]),
        jnp.matmul(x.astype(jnp.bfloat16), x.T.astype(jnp.bfloat16)),
        lax.dot(x, x.T, precision="highest"), jnp.kron(x, x)[:3], 
        lax.batch_matmul(x[None], x.T[None]),
        lax.dot(x.astype(jnp.int8), x.T.astype(jnp.int8), preferred_element_type=jnp.int32),
        lax.ragged_dot(x, jnp.ones((2, 8, 3)), jnp.array([2, 4])),
    ])  # fmt: skip
    return f(X)


@feature
def convolutions() -> Any:
    x, k = IMAGES, KERNEL
    numbers = ("NHWC", "HWIO", "NHWC")
    f = jax.jit(lambda x, k: [
        lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=numbers),
        lax.conv_transpose(x, k, (2, 2), "SAME"), jnp.convolve(x[0, 0, :, 0], k[0, 0, :, 0]),
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lax.conv_general_dilated(x + 1j, k + 0j, (1, 1), "VALID", dimension_numbers=numbers),
        jsp.signal.convolve2d(x[0, :, :, 0], k[:, :, 0, 0]),
    ])  # fmt: skip
    return (
        f(x, k),
        jax.grad(lambda x: (f(x, k)[0] ** 2).sum())(x),
        jax.grad(
            lambda x: lax.reduce_window(
                x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
            ).sum()
        )(x),
    )


@feature
def control_flow() -> Any:
    def body(c: Any, x: Any) -> Any:
        return c * 0.5 + x, jnp.sin(c)

    f = jax.jit(lambda x, n: [
        lax.scan(body, x[0], x), lax.fori_loop(0, n, lambda i, c: c * 1.1 + i, x),
        lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * c + 1, x),
        lax.cond(n > 3, jnp.sin, jnp.cos, x), lax.switch(n, [jnp.sin, jnp.cos, jnp.tan], x),
        lax.map(lambda r: r.sum(), x), lax.scan(body, x[0], x, reverse=True, unroll=3),
    ])  # fmt: skip
    return f(X, 5), f(X, 1)


@feature
def linear_algebra() -> Any:
    f = jax.jit(lambda a, b: [
        jnp.linalg.cholesky(a), jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.solve(a, b),
        jnp.abs(jnp.linalg.qr(b)[1]), jnp.linalg.svd(b)[1], jnp.linalg.eigvalsh(a),
        jnp.linalg.lstsq(b, b[:, 0])[0], jnp.linalg.pinv(b), jnp.linalg.matrix_rank(b),
        jsp.linalg.expm(a / 10), jsp.linalg.lu(a), jsp.linalg.schur(a)[0].trace(),
        jnp.sort(jnp.abs(jnp.linalg.eigvals(b[:, :6]))), jnp.linalg.slogdet(a),
        jnp.linalg.norm(b, 2),
        jsp.linalg.solve_triangular(jnp.triu(a), b), jsp.linalg.sqrtm(a), jnp.linalg.cond(a),
        lax.linalg.tridiagonal_solve(a[0] * 0, a[1] + 9, a[2] * 0, b[:, :1]),
    ])  # fmt: skip
    return f(SPD, X)


@feature
def batched_linear_algebra() -> Any:
    many = SPD + np.arange(20, dtype=np.float32)[:, None, None] * np.eye(6, dtype=np.float32)
    f = jax.jit(
        jax.vmap(lambda a: (jnp.linalg.inv(a), jnp.linalg.cholesky(a), jnp.linalg.eigvalsh(a)))
    )
    return f(many), jax.grad(lambda a: jnp.linalg.slogdet(a)[1].sum())(many)


@feature
def fft() -> Any:
    f = jax.jit(lambda x: [
        jnp.fft.fft(x), jnp.fft.rfft2(x), jnp.fft.irfft(x), jnp.fft.ifft(x + 1j), jnp.fft.fftn(x),
        jsp.fft.dct(x),
    ])  # fmt: skip
    return f(X)


@feature
def derivatives() -> Any:
    f = lambda x: jnp.sum(jnp.tanh(x @ x.T) ** 2)  # noqa: E731

    @jax.custom_vjp
    def clip(x: Any) -> Any:
        return x

    clip.defvjp(lambda x: (x, x), lambda r, g: (jnp.clip(g, -1, 1) * r,))

    @jax.custom_jvp
    def twice(x: Any) -> Any:
        return 2 * x

    twice.defjvp(lambda p, t: (twice(p[0]), 3 * t[0]))
    return [
        jax.grad(f)(X), jax.jit(jax.value_and_grad(f))(X), jax.jvp(f, (X,), (X,)),
        jax.hessian(lambda v: (v**3).sum())(V[:4]), jax.jacrev(jnp.cumsum)(V[:4]),
        jax.grad(lambda x: (clip(x) ** 2).sum())(V), jax.grad(lambda x: twice(x).sum())(V),
        jax.jit(jax.grad(jax.checkpoint(f)))(X), jax.vmap(jax.grad(lambda v: (v * v).sum()))(X),
        jax.linearize(f, X)[1](X), jax.linear_transpose(lambda x: 3 * x, V)(V),
    ]  # fmt: skip


@feature
def neural() -> Any:
    f = jax.jit(lambda x: [
        jax.nn.softmax(x), jax.nn.gelu(x), jax.nn.one_hot(jnp.arange(3), 5), jax.nn.standardize(x),
        jax.nn.dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None]),
        jax.image.resize(x, (12, 5), "bilinear"), jsp.stats.norm.logpdf(x), jax.nn.relu6(x),
        jsp.ndimage.map_coordinates(x, [x[0], x[1]], 1), jax.nn.log_softmax(x, 0),
    ])  # fmt: skip
    return f(X)


@feature
def sparse() -> Any:
    from jax.experimental import sparse

    m = sparse.BCOO.fromdense(jnp.where(X > 0, X, 0))
    c = sparse.CSR.fromdense(jnp.where(X > 0, X, 0))
    return m @ X.T, jax.jit(lambda m, v: m @ v)(m, V[:8]), c @ V[:8], m.T.todense(), c @ X.T


@feature
def x64() -> Any:
    with jax.enable_x64(True):
        x = jnp.linspace(0, 1, 7)
        return x, jnp.sin(x), x.astype(jnp.int64) << 40, jnp.linalg.svd(jnp.asarray(X, float))[1]


@feature
def matmul_precision() -> Any:
    with jax.default_matmul_precision("float32"):
        return jnp.asarray(X) @ X.T


# --- effects -------------------------------------------------------------------------------------


@feature
def pure_callback() -> Any:
    f = jax.jit(lambda x: jax.pure_callback(np.sort, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1)
    return f(V), jax.vmap(
        lambda x: jax.pure_callback(
            lambda x: np.asarray(x) * 2, x, x, vmap_method="sequential")
    )(X)  # fmt: skip


@feature
def io_callback() -> Any:
    from jax.experimental import io_callback as call

    seen: list[float] = []

    def note(x: Any) -> Any:
        seen.append(float(x))
        return np.float32(len(seen))

    @jax.jit
    def f(x: Any) -> Any:
        one = call(note, jax.ShapeDtypeStruct((), np.float32), x[0], ordered=True)
        lax.fori_loop(0, 3, lambda i, c: (call(note, one, c * 2, ordered=True), c + 1)[1], x[1])
        return one

    r = f(V)
    jax.effects_barrier()
    return r, seen


@feature
def debug_print() -> Any:
    @jax.jit
    def f(x: Any) -> Any:
        jax.debug.print("x is {x} and {y}", x=x[0] > 100, y=jnp.int32(4), ordered=True)
        jax.debug.print("last {}", x.shape[0])
        return x

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        f(V).block_until_ready()
        jax.effects_barrier()
    return sorted(out.getvalue().splitlines())


@feature
def debug_callback_in_scan() -> Any:
    seen: list[float] = []

    def note(x: Any) -> None:
        seen.append(round(float(x), 3))

    f = jax.jit(lambda x: lax.scan(
        lambda c, x: (jax.debug.callback(note, x, ordered=True),
                      c + x)[1:] * 2, 0.0, x))  # fmt: skip
    r = f(V)
    jax.effects_barrier()
    return r, seen


@feature
def error_in_callback() -> Any:
    def bad(x: Any) -> Any:
        raise ValueError("no such luck")

    try:
        jax.jit(lambda x: jax.pure_callback(bad, x, x))(V).block_until_ready()
    except Exception as e:
        return "no such luck" in str(e)
    return "no error"


@feature
def checkify() -> Any:
    from jax.experimental import checkify as c

    def f(x: Any) -> Any:
        c.check(x.sum() > 1e6, "the sum is {s}", s=x[0] * 0)
        return jnp.log(x)

    errors, r = c.checkify(jax.jit(f), errors=c.user_checks | c.float_checks)(V)
    return errors.get(), r


@feature
def debug_nans() -> Any:
    with jax.debug_nans(True):
        try:
            jax.jit(jnp.log)(-jnp.ones(3))
        except FloatingPointError as e:
            return "nan" in str(e)
    return "no error"


# --- stages --------------------------------------------------------------------------------------


@feature
def ahead_of_time() -> Any:
    compiled = jax.jit(lambda x: jnp.sin(x) @ x.T).lower(X).compile()
    text, cost, memory = compiled.as_text(), compiled.cost_analysis(), compiled.memory_analysis()
    assert "HloModule" in text and "dot" in text
    flops = cost["flops"]
    return compiled(X), flops > 500, memory.argument_size_in_bytes, memory.output_size_in_bytes


@feature
def ahead_of_time_shapes() -> Any:
    lowered = jax.jit(lambda x: x * 2).trace(jax.ShapeDtypeStruct((3,), np.float32)).lower()
    compiled = lowered.compile()
    info = compiled.out_info
    return compiled(np.ones(3, np.float32)), info.shape, str(info.dtype), lowered.as_text()[:6]


@feature
def export() -> Any:
    f = jax.jit(lambda x: jnp.linalg.inv(x) + jnp.sin(x))
    own = jnp.zeros(()).devices().pop().platform
    data = jax.export.export(f, platforms=[own])(SPD).serialize()
    for_cpu = jax.export.export(f, platforms=["cpu"])(SPD).serialize()
    both = jax.export.export(f, platforms=["cpu", "tpu"])(SPD).serialize()
    return [jax.export.deserialize(d).call(SPD) for d in (data, for_cpu, both)]


@feature
def export_polymorphic() -> Any:
    shape = jax.export.symbolic_shape("a, b")
    f = jax.jit(lambda x: x.reshape(-1) * x.shape[0])
    e = jax.export.export(f, platforms=["cpu"])(jax.ShapeDtypeStruct(shape, np.float32))
    return e.call(X), jax.jit(e.call)(X[:2])


@feature
def serialized_executable() -> Any:
    from jax.experimental import serialize_executable as s

    compiled = jax.jit(lambda x: jnp.cos(x) @ x.T).lower(jax.device_put(X)).compile()
    client = jnp.zeros(()).devices().pop().client
    return s.deserialize_and_load(*s.serialize(compiled), client, client.devices()[:1])(X)


@feature
def compilation_cache() -> Any:
    from jax.experimental.compilation_cache import compilation_cache as c

    hits: list[str] = []
    jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
    with tempfile.TemporaryDirectory() as folder:
        names = {
            "jax_compilation_cache_dir": folder,
            "jax_persistent_cache_min_compile_time_secs": 0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
        }
        before = {name: getattr(jax.config, name) for name in names}
        c.reset_cache()
        for name, value in names.items():
            jax.config.update(name, value)
        try:
            results = []
            for _ in range(2):
                results.append(jax.jit(lambda x: jnp.sin(x) @ x.T * 3)(X))
                jax.clear_caches()
            return results, bool(os.listdir(folder)), any("cache_hits" in h for h in hits)
        finally:
            for name, old in before.items():
                jax.config.update(name, old)
            c.reset_cache()


@feature
def compiler_options() -> Any:
    return jax.jit(lambda x: x + 1, compiler_options={"xla_embed_ir_in_executable": True})(V)


@feature
def ffi() -> Any:
    import ctypes
    import subprocess

    folder = tempfile.mkdtemp()
    source = os.path.join(folder, "twice.cc")
    with open(source, "w") as f:
        f.write("""#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Twice(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (by < 0) return ffi::Error::InvalidArgument("it is negative");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = by * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(TwiceHandler, Twice,
    ffi::Ffi::Bind().Attr<float>("by").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
""")
    library = os.path.join(folder, "twice.so")
    subprocess.run(["g++", "-w", "-std=c++17", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}",
                    source, "-o", library], check=True)  # fmt: skip
    handler = ctypes.CDLL(library).TwiceHandler
    jax.ffi.register_ffi_target(f"twice_{id(folder)}", jax.ffi.pycapsule(handler), platform="cpu")
    call = jax.ffi.ffi_call(f"twice_{id(folder)}", jax.ShapeDtypeStruct(V.shape, V.dtype))
    f = jax.jit(lambda x, by: call(x, by=by), static_argnums=1)
    try:
        message = str(f(V, np.float32(-1)).block_until_ready())
    except Exception as e:
        message = "it is negative" if "it is negative" in str(e) else str(e)
    return f(V, np.float32(2)), message


@feature
def pallas() -> Any:
    from jax.experimental import pallas as pl

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * 2 + pl.program_id(0).astype(jnp.float32)

    call = pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype), grid=(3,), interpret=True,
        in_specs=[pl.BlockSpec((2, 8), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((2, 8), lambda i: (i, 0)),
    )  # fmt: skip
    return jax.jit(call)(X)


@feature
def profiler_trace() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            r = jax.jit(lambda x: jnp.sin(x) @ x.T)(X).block_until_ready()
        return r, any(files for _, _, files in os.walk(folder))


@feature
def memory_profile() -> Any:
    return len(jax.profiler.device_memory_profile()) > 0


@feature
def layouts() -> Any:
    from jax.experimental.layout import Format, Layout

    x = jnp.asarray(X)
    layout = Format(Layout((1, 0)), x.sharding)
    y = jax.jit(lambda x: x + 1, out_shardings=layout)(x)
    z = jax.device_put(x, layout)
    auto = jax.jit(lambda x: x.T @ x, in_shardings=Format(Layout.AUTO)).lower(x).compile()
    return y, y.format.layout.major_to_minor, z, y + z, len(auto.input_formats[0])


@feature
def memories() -> Any:
    x = jnp.asarray(X)
    host = jax.device_put(x, x.sharding.with_memory_kind("pinned_host"))
    return host, x.sharding.memory_kind, host.sharding.memory_kind


@feature
def live_arrays() -> Any:
    x = jnp.full(77, 3.0)
    return x, any(a.shape == (77,) for a in jax.live_arrays())


@feature
def refs() -> Any:
    def body(i: Any, ref: Any) -> None:
        ref[i] += 1

    x = jax.new_ref(jnp.zeros(4))
    jax.jit(lambda r: r.__setitem__(1, 5.0))(x)
    return jax.jit(lambda x: x + 1)(x[...])


@feature
def errors() -> Any:
    try:
        jax.jit(lambda x: x @ x)(X)
    except TypeError as e:
        return "dot" in str(e)


@feature
def threads() -> Any:
    from concurrent.futures import ThreadPoolExecutor

    f = jax.jit(lambda x, n: jnp.sin(x) * n)
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda n: np.asarray(f(V, n)), range(40)))


@feature
def many_arguments() -> Any:
    f = jax.jit(lambda xs: [x + n for n, x in enumerate(xs)])
    return f([V] * 60)


@feature
def large_constants() -> Any:
    big = jnp.arange(100_000.0)
    return jax.jit(lambda x: (big * x)[-5:])(2.0)


@feature
def trees_and_names() -> Any:
    f = jax.jit(lambda d, *, scale: {k: v * scale for k, v in d.items()}, static_argnames="scale")
    return f({"a": V, "b": X}, scale=2), jax.tree.map(jnp.sum, {"a": X})


@feature
def named_call_and_scope() -> Any:
    with jax.named_scope("outer"):
        return jax.jit(jax.named_call(jnp.sin, name="inner"))(V)


@feature
def numpy_interop() -> Any:
    x = jnp.asarray(X)
    return (
        np.sin(x),
        x.tolist(),
        float(x[0, 0]),
        x.item(3),
        np.array(x),
        bytes(memoryview(np.asarray(x))),
    )


@feature
def pickled_arrays() -> Any:
    import pickle

    return pickle.loads(pickle.dumps(jnp.asarray(X)))


@feature
def copies() -> Any:
    x = jnp.asarray(X)
    cpu = jax.devices("cpu")[0]
    there = jax.device_put(x, cpu)
    back = jax.device_put(there, x.devices().pop())
    return there, back, jnp.copy(x), x.copy(), jax.device_put(x, x.devices().pop(), may_alias=False)


@feature
def custom_root_and_ode() -> Any:
    from jax.experimental.ode import odeint

    return odeint(lambda y, t: -y * t, jnp.float32(1), jnp.linspace(0, 2, 5)), lax.custom_root(
        lambda x: x**2 - 2, 1.0,
        lambda f, x: lax.fori_loop(0, 9, lambda i, x: x - f(x) / (2 * x), x),
        lambda g, y: y / g(1.0),
    ), jsp.optimize.minimize(lambda v: ((v - 1) ** 2).sum(), V[:3], method="BFGS").x  # fmt: skip


@feature
def solvers() -> Any:
    return jsp.sparse.linalg.cg(lambda v: SPD @ v, V[:6])[0], jsp.sparse.linalg.gmres(
        lambda v: SPD @ v, V[:6])[0], jsp.integrate.trapezoid(V)  # fmt: skip


# --- several devices -----------------------------------------------------------------------------


# Those that programs for several devices are to use.
_DEVICES: list[Any] = []


def _mesh() -> Mesh:
    return Mesh(np.array(_DEVICES[:2]), ("x",))


def sharded(function: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(function)
    def run() -> Any:
        return function() if len(_DEVICES) > 1 else "one device"

    return feature(run)


@sharded
def shardings() -> Any:
    mesh = _mesh()
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    f = jax.jit(lambda x: jnp.tanh(x @ x.T).sum(0), out_shardings=NamedSharding(mesh, P()))
    g = jax.jit(jax.grad(lambda x: (x @ x.T).sum()))
    return x, f(x), g(x), [s.data for s in x.addressable_shards]


@sharded
def shard_map() -> Any:
    f = jax.shard_map(
        lambda x: (lax.psum(x.sum(), "x"), lax.all_gather(x, "x"), lax.axis_index("x")[None]),
        mesh=_mesh(), in_specs=P("x"), out_specs=(P(), P(None, "x"), P("x")), check_vma=False,
    )  # fmt: skip
    return jax.jit(f)(X)


@sharded
def pmap() -> Any:
    return jax.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i", devices=_DEVICES[:2])(
        X[:2] ** 2 + 1
    )


# --- running -------------------------------------------------------------------------------------


def _equal(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "fcV" and a.dtype.names is None:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        return np.allclose(a.astype(wide), b.astype(wide), 2e-4, 2e-5, equal_nan=True)
    return bool(np.array_equal(a, b))


def compare(name: str) -> str:
    """Return what is wrong with a feature, if anything is."""
    _DEVICES[:] = jax.devices()
    try:
        got = jax.tree.map(np.asarray, FEATURES[name]())
    except Exception as e:
        frame = traceback.extract_tb(e.__traceback__)[-1]
        return f"{type(e).__name__}: {e} ({frame.filename}:{frame.lineno})"
    try:
        _DEVICES[:] = jax.devices("cpu")
        with jax.default_device(_DEVICES[0]):
            want = jax.tree.map(np.asarray, FEATURES[name]())
    except Exception as e:
        return f"XLA:CPU: {type(e).__name__}: {e}"
    leaves, tree = jax.tree.flatten(got)
    others, other = jax.tree.flatten(want)
    if tree != other:
        return f"{tree} is not {other}"
    bad = [n for n, (a, b) in enumerate(zip(leaves, others, strict=True)) if not _equal(a, b)]
    shown = [" ".join(str(x[bad[0]]).split())[:120] for x in (leaves, others)] if bad else []
    return f"results {bad} differ: {' is not '.join(shown)}" if bad else ""


def main(names: list[str]) -> int:
    wrong = 0
    for name in names or FEATURES:
        start = time.perf_counter()
        error = compare(name)
        wrong += bool(error)
        seconds = time.perf_counter() - start
        print(f"{name:24} {seconds:6.2f} s  {' '.join(error.split()) or 'ok'}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
