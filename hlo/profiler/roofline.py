"""What this machine can do: operations and bytes a second, measured with kernels of our own.

A large matrix product for each element type, for f32 and f64 also chains of multiplications and
additions that stay in registers, and a sum of two arrays that no cache holds. It takes a second or
two, so the numbers are kept on disk, by processor, number of threads and version.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hlo.compiler.pipeline import compile
from hlo.frontends.text import parse
from hlo.io.inputs import Sampler
from hlo.profiler.records import Peak
from hlo.runtime.executable import Executable
from hlo.runtime.jit import host_machine
from hlo.runtime.pool import default_threads
from hlo.version import __version__

# The types that products are measured in, and what else computes like them.
MEASURED = ("f32", "f64", "bf16", "s8")
_LIKE = {
    "f16": "bf16", "u8": "s8", "s16": "s8", "u16": "s8", "s4": "s8", "u4": "s8", "c64": "f32",
    "c128": "f64", "s64": "f64", "u64": "f64",
}  # fmt: skip
_SUMS = {"s8": "s32"}
_SIZE = 768
# Types whose multiplications and additions are one instruction, and how many of these in how many
# chains there are for each element: enough to wait for none, and for memory not at all.
_FUSED, _CHAINS, _LENGTH = ("f32", "f64"), 4, 16
_ELEMENTS = 1 << 24
# The best of so many runs, of which at least as many take so long.
_RUNS, _SECONDS = 5, 0.3


def measured_like(element_type: str) -> str:
    """Return the type whose products stand for the arithmetic of an element type."""
    return element_type if element_type in MEASURED else _LIKE.get(element_type, "f32")


def machine_peak(
    threads: int | None = None, element_types: Iterable[str] = MEASURED,
    folder: str | os.PathLike[str] | None = None, *, again: bool = False,
) -> Peak:  # fmt: skip
    """Return what this machine can do with a number of threads, by default all.

    element_types: those that are wanted; each is given the numbers of the type that stands for it.
    folder: where numbers are kept, by default the user's cache folder. again: measure also what is
    known, and keep the larger number. Raises HloError where memory does not suffice.
    """
    threads = default_threads() if threads is None else threads
    machine = host_machine()
    store = Path(_default_folder() if folder is None else folder) / "peaks.json"
    key = f"{__version__} {machine.cpu} {_model()} {threads}"
    known = _read(store).get(key, {})
    wanted = {measured_like(t) for t in element_types}
    missing = wanted if again else wanted - known.keys()
    if missing or "bytes" not in known:
        measured = {t: _flops(t, threads) for t in sorted(missing)}
        known = known | {t: max(n, known.get(t, 0.0)) for t, n in measured.items()}
        if again or "bytes" not in known:
            known["bytes"] = max(_bandwidth(threads), known.get("bytes", 0.0))
        _write(store, {**_read(store), key: known})
    flops = {t: known[t] for t in MEASURED if t in known}
    return Peak(machine.cpu, threads, flops, known["bytes"])


def _flops(element_type: str, threads: int) -> float:
    """Return the operations a second of the fastest arithmetic on an element type."""
    product = _product_flops(element_type, threads)
    return max(product, _chain_flops(element_type, threads)) if element_type in _FUSED else product


def _chain_flops(element_type: str, threads: int) -> float:
    """Return the operations a second of polynomials by Horner's rule, several at a time."""
    t, n = element_type, _ELEMENTS >> 4
    lines = []
    for chain in range(_CHAINS):
        lines.append(f"k{chain} = {t}[] constant(0.{chain + 1})")
        lines.append(f"c{chain} = {t}[{n}] broadcast(k{chain}), dimensions={{}}")
        total = f"c{chain}"
        for i in range(_LENGTH):
            lines.append(f"m{chain}.{i} = {t}[{n}] multiply({total}, x)")
            total = f"s{chain}.{i}"
            lines.append(f"{total} = {t}[{n}] add(m{chain}.{i}, c{chain})")
    *rest, last = (f"s{chain}.{_LENGTH - 1}" for chain in range(_CHAINS))
    for number, value in enumerate(rest):
        lines.append(f"t{number} = {t}[{n}] add({value}, {last})")
        last = f"t{number}"
    lines[-1] = f"ROOT {lines[-1]}"
    text = f"HloModule peak ENTRY e {{ x = {t}[{n}] parameter(0)\n" + "\n".join(lines) + "\n}"
    return 2 * _CHAINS * _LENGTH * n / _least_seconds(text, threads)


def _product_flops(element_type: str, threads: int) -> float:
    """Return the operations a second of a large matrix product."""
    n, t, total = _SIZE, element_type, _SUMS.get(element_type, element_type)
    text = f"""HloModule peak ENTRY e {{ x = {t}[{n},{n}] parameter(0) y = {t}[{n},{n}] parameter(1)
  ROOT z = {total}[{n},{n}] dot(x, y), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{0}} }}"""
    return 2 * n**3 / _least_seconds(text, threads)


def _bandwidth(threads: int) -> float:
    """Return the bytes a second that are read and written where no cache holds them."""
    n = _ELEMENTS
    text = f"""HloModule peak ENTRY e {{ x = f32[{n}] parameter(0) y = f32[{n}] parameter(1)
  ROOT z = f32[{n}] add(x, y) }}"""
    return 12 * n / _least_seconds(text, threads)


def _least_seconds(text: str, threads: int) -> float:
    module = parse(text)
    run = compile(module, threads=threads)
    assert isinstance(run, Executable)
    arguments = Sampler().values(list(run.parameters))
    least, spent, count = float("inf"), 0.0, 0
    while count < _RUNS or spent < _SECONDS:
        start = time.perf_counter()
        run(*arguments)
        seconds = time.perf_counter() - start
        least, spent, count = min(least, seconds), spent + seconds, count + 1
    return least


# --- on disk ------------------------------------------------------------------------------------


def _default_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("hlo-tools", appauthor=False))


def _model() -> str:
    """Return what tells processors of one name apart: the model, where the system knows it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


def _read(store: Path) -> dict[str, dict[str, float]]:
    """Return the numbers in a file; none if there is none that holds numbers."""
    try:
        data: Any = json.loads(store.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {key: dict(value) for key, value in data.items() if _is_numbers(value)}


def _is_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(x, float) and x > 0 for x in value.values())


def _write(store: Path, data: Mapping[str, Mapping[str, float]]) -> None:
    """Keep numbers if that is possible: else they are measured again."""
    with contextlib.suppress(OSError):
        store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=store.parent, prefix="peaks")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(data, file)
            os.replace(name, store)
        except BaseException:
            os.unlink(name)
            raise
