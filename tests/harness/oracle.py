"""XLA as the second oracle: run and parse HLO text through jaxlib, and compare results.

XLA's text parser and compiler abort the process on some bad inputs, so they live in a worker
subprocess that is started on first use, and started again after a crash or a timeout.

    xla_run("f32[2] add(f32[2] a, f32[2] b)", [x, y]) -> [x + y]

Arguments and results are flat: tuple parameters and tuple results are their leaves in order,
without tokens. Arrays have the numpy dtype of their element type (ml_dtypes for bf16, f8, s4, ...).
An array of dynamic shape comes back at its bounds, with anything beyond its sizes. What cannot be
asked this way (XlaError says so): s1 and u1, token parameters, parameters of dynamic shape, and
operations that jaxlib's way from HLO to the compiler (through MLIR) does not know.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from hlo.testing.compare import is_inexact
from hlo.values.arrays import TOKEN_VALUE
from tests.harness.paths import ROOT
from tests.harness.processes import HANG_S, PERSISTENT


class XlaError(Exception):
    """XLA rejected the program, could not run it, crashed on it, or took too long."""


# --- the two questions --------------------------------------------------------------------------


def xla_run(text: str, args: Sequence[Any] = (), *, timeout_s: float = HANG_S) -> list[Any]:
    """Compile and run a module on XLA:CPU; returns the leaves of its result as numpy arrays."""
    flat = [np.asarray(leaf) for leaf in leaves(tuple(args))]
    result = _worker.ask(("run", text, flat), timeout_s)
    assert isinstance(result, list)
    return result


def xla_to_proto(text: str, *, timeout_s: float = HANG_S) -> bytes:
    """Return the HloModuleProto that XLA writes of what its parser read."""
    result = _worker.ask(("to_proto", text), timeout_s)
    assert isinstance(result, bytes)
    return result


def xla_from_proto(data: bytes, style: str = "canonical", *, timeout_s: float = HANG_S) -> str:
    """Return the module that XLA reads from an HloModuleProto, printed by XLA."""
    result = _worker.ask(("from_proto", data, style), timeout_s)
    assert isinstance(result, str)
    return result


def xla_parse(text: str, style: str = "canonical", *, timeout_s: float = HANG_S) -> str:
    """Return what XLA's parser read, printed by XLA.

    style: `canonical` (names replaced by numbers), `default`, `short` or `fingerprint`. All print
    constants in full.
    """
    result = _worker.ask(("parse", text, style), timeout_s)
    assert isinstance(result, str)
    return result


# --- comparison ---------------------------------------------------------------------------------

# Units in the last place by which two correct implementations may differ: f32 and f64 functions are
# computed by different libraries, narrower types are rounded once from a wider result.
_ULPS = {64: 64.0, 32: 32.0, 16: 2.0, 8: 1.0, 6: 1.0, 4: 1.0}


def leaves(value: Any) -> list[Any]:
    """Return the leaves of nested tuples (and lists) in order, without tokens."""
    if value is TOKEN_VALUE:
        return []
    if isinstance(value, (tuple, list)):
        return [leaf for element in value for leaf in leaves(element)]
    return [value]


def assert_same(
    got: Any,
    want: Any,
    *,
    ulps: float | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    signed_zero: bool = False,
    what: str = "",
) -> None:
    """Fail unless two values (arrays, or tuples of them) agree in dtype, shape and every element.

    Integers and pred agree exactly, NaN equals NaN, infinities need their sign. A float may be off
    by `ulps` (default by type), or by `rtol` of the wanted value, or by `atol`, whichever allows
    most. With `signed_zero`, -0 differs from 0. A complex number is compared by its parts, each
    allowed what the larger part is allowed. Tokens are left out.
    """
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want), f"{what}: {len(got)} results, {len(want)} expected"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        where = f"{what} result {i}".strip()
        g, w = np.asarray(g), np.asarray(w)
        assert g.dtype == w.dtype, f"{where}: dtype {g.dtype}, {w.dtype} expected"
        assert g.shape == w.shape, f"{where}: shape {g.shape}, {w.shape} expected"
        bad = _mismatches(g, w, ulps, rtol, atol, signed_zero)
        if bad.any():
            at = tuple(int(x) for x in np.argwhere(bad)[0])
            raise AssertionError(
                f"{where}: {np.count_nonzero(bad)} of {bad.size} {g.dtype} elements differ; "
                f"first at {at}: {g[at]!r}, {w[at]!r} expected"
            )


def _mismatches(
    got: np.ndarray, want: np.ndarray, ulps: float | None, rtol: float, atol: float, zero: bool
) -> np.ndarray:
    if not is_inexact(want.dtype):
        return np.asarray(got != want)
    if np.issubdtype(want.dtype, np.complexfloating):
        part = np.dtype(f"f{want.dtype.itemsize // 2}")
        parts = np.abs(np.stack([want.real, want.imag]))
        # An infinite or NaN part says nothing of how exact the other one has to be.
        size = np.where(np.isfinite(parts), parts, 0).max(axis=0)
        return np.asarray(
            _float_mismatches(got.real, want.real, size, part, ulps, rtol, atol, zero)
            | _float_mismatches(got.imag, want.imag, size, part, ulps, rtol, atol, zero)
        )
    with np.errstate(invalid="ignore"):  # a signalling NaN
        g, w = got.astype(np.float64), want.astype(np.float64)
    return _float_mismatches(g, w, np.abs(w), want.dtype, ulps, rtol, atol, zero)


def _float_mismatches(
    got: np.ndarray, want: np.ndarray, size: np.ndarray, dtype: np.dtype,
    ulps: float | None, rtol: float, atol: float, zero: bool,
) -> np.ndarray:  # fmt: skip
    info = ml_dtypes.finfo(dtype)
    steps = _ULPS[info.bits] if ulps is None else ulps
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = np.maximum(
            np.maximum(steps * float(info.eps), rtol) * size,
            max(atol, steps * float(info.smallest_subnormal)),
        )
        finite = np.isfinite(want) & np.isfinite(got)
        near = (got == want) | (finite & (np.abs(got - want) <= allowed))
    same = near | (np.isnan(got) & np.isnan(want))
    if zero:
        same &= (np.signbit(got) == np.signbit(want)) | (want != 0)
    return np.asarray(~same)


# --- the worker, seen from outside --------------------------------------------------------------


class _Worker:
    """The subprocess: length-prefixed pickles on its standard streams."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()
        atexit.register(self.close)

    def ask(self, request: tuple[Any, ...], timeout_s: float) -> Any:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        assert process.stdin and process.stdout
        mark = self._log.seek(0, os.SEEK_END)
        try:
            _send(process.stdin, request)
            kind, value = _receive(process.stdout, time.monotonic() + timeout_s)
        except TimeoutError:
            self.stop()
            raise XlaError(f"no answer in {timeout_s:g} s") from None
        except (EOFError, BrokenPipeError):
            code = process.wait()
            self.stop()
            raise XlaError(f"XLA crashed (exit status {code}): {self._log_since(mark)}") from None
        if kind == "error":
            raise XlaError(value)
        return value

    def _start(self) -> subprocess.Popen[bytes]:
        env = os.environ | {
            "JAX_PLATFORMS": "cpu",
            # Without this XLA keeps bf16 and f16 intermediates in f32: not what the text says.
            "XLA_FLAGS": "--xla_allow_excess_precision=false",
            "TF_CPP_MIN_LOG_LEVEL": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.oracle"], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=env,
        )  # fmt: skip
        PERSISTENT.add(self._process.pid)
        return self._process

    def _log_since(self, mark: int) -> str:
        self._log.seek(mark)
        return self._log.read().decode(errors="replace")[:2000]

    def close(self) -> None:
        self.stop()
        self._log.close()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            PERSISTENT.discard(process.pid)
            assert process.stdin and process.stdout
            process.stdout.close()
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass  # what it had not read is lost with it


def _send(stream: Any, value: Any) -> None:
    data = pickle.dumps(value, protocol=5)
    stream.write(struct.pack("<q", len(data)) + data)
    stream.flush()


def _receive(stream: Any, deadline: float | None = None) -> Any:
    (size,) = struct.unpack("<q", _read(stream, 8, deadline))
    return pickle.loads(_read(stream, size, deadline))


def _read(stream: Any, size: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while size:
        if deadline is not None:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
        part = os.read(stream.fileno(), min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


_worker = _Worker()


# --- the worker, inside -------------------------------------------------------------------------


def _serve() -> None:
    """Answer requests until standard input ends."""
    # XLA must not write into the stream of answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    xla = _Xla()
    while True:
        try:
            kind, *request = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = ("ok", getattr(xla, kind)(*request))
        # Whatever Python-level error XLA's bindings raise is the answer to the question asked.
        except Exception as e:
            answer = ("error", f"{type(e).__name__}: {e}")
        _send(answers, answer)


class _Xla:
    def __init__(self) -> None:
        import jax
        import jax._src.lax.linalg  # registers the LAPACK custom-call targets
        import jaxlib._hlo
        import jaxlib.xla_client
        from jaxlib import _jax

        jax.config.update("jax_enable_x64", True)
        self.jax, self.hlo, self.mlir = jax, jaxlib._hlo, _jax.mlir
        self.device = jax.devices("cpu")[0]
        self.devices = jaxlib.xla_client.DeviceList((self.device,))
        self.options = jaxlib.xla_client.CompileOptions

    def parse(self, text: str, style: str) -> str:
        return self._printed(self.hlo.hlo_module_from_text(text), style)

    def to_proto(self, text: str) -> bytes:
        return bytes(self.hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())

    def from_proto(self, data: bytes, style: str) -> str:
        return self._printed(self.hlo.HloModule.from_serialized_hlo_module_proto(data), style)

    def _printed(self, module: Any, style: str) -> str:
        options = {
            "canonical": self.hlo.HloPrintOptions.canonical,
            "default": self.hlo.HloPrintOptions,
            "short": self.hlo.HloPrintOptions.short_parsable,
            "fingerprint": self.hlo.HloPrintOptions.fingerprint,
        }[style]()
        options.print_large_constants = True
        return str(module.to_string(options))

    def run(self, text: str, args: list[np.ndarray]) -> list[np.ndarray]:
        module = self.hlo.hlo_module_from_text(text)
        computation = self.hlo.XlaComputation(module.as_serialized_hlo_module_proto())
        self._check_types(computation.program_shape())
        mlir = self.mlir.xla_computation_to_mlir_module(computation)
        exe = self.device.client.compile_and_load(mlir, self.devices, self.options())
        buffers = [self.jax.device_put(a, self.device) for a in args]
        results = exe.execute_sharded(buffers).disassemble_into_single_device_arrays()
        shapes = self._leaf_shapes(computation.program_shape().result_shape())
        pairs = zip(results, shapes, strict=True)
        return [np.asarray(r[0]) for r, shape in pairs if not shape.is_token()]

    def _leaf_shapes(self, shape: Any) -> list[Any]:
        if not shape.is_tuple():
            return [shape]
        return [leaf for element in shape.tuple_shapes() for leaf in self._leaf_shapes(element)]

    def _check_types(self, program: Any) -> None:
        """MLIR has one 1-bit type, so that s1 and u1 would silently run as pred."""
        for shape in (*program.parameter_shapes(), program.result_shape()):
            for word in ("s1[", "u1["):
                if word in str(shape):
                    raise ValueError(f"{word[:-1]} cannot be run through MLIR")


if __name__ == "__main__":
    _serve()
