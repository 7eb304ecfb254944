"""What a program of JAX does here: its profile, its first NaN, its first divergence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hlo import api
from hlo.analysis.strict_math import ask_for_strict_math
from hlo.frontends.jax import as_jax_reads, from_jax
from hlo.jax.clients import options_in_use
from hlo.jax.private import need_jax, static_arguments

if TYPE_CHECKING:
    from hlo.debug.divergence.record import Divergence
    from hlo.debug.trace.finding import Finding
    from hlo.ir import Module
    from hlo.profiler.profile import Profile


def profile(
    function: Callable[..., Any], *args: Any, repeat: int = 10, warmup: int = 1,
    threads: int | None = None, passes: str | None = None, peak: bool = True, **named: Any,
) -> Profile:  # fmt: skip
    """Run a function of JAX as native code, and return where the time went, kernel by kernel.

    The program is the one that JAX gives this backend, whichever backend is in use, with the
    options that the backend has. Each row names the line of Python that it comes from.

    Args:
        function: a function on arrays, or one that `jax.jit` made.
        args: what it is called with, static arguments too.
        repeat: the number of runs, which the profile has the average of.
        warmup: runs before these, which are not measured.
        threads: how many may work on a run, by default as the backend's option says.
        passes: the pipeline, as of `hlo.optimize`; likewise.
        peak: compare with what the machine can do, which is measured once and kept on disk.
        named: arguments by name.

    Returns:
        What `hlo.profile` does.

    Raises:
        HloError: where the function is no program, and where a run fails.

    >>> import jax.numpy as jnp
    >>> report = hlo.jax.profile(lambda x: jnp.tanh(x) @ x, np.ones((256, 256)), peak=False)
    >>> [e.opcode for e in report.entries if e.kind == "kernel"]
    ['tanh', 'dot']
    """
    module, call, named = _program("hlo.jax.profile", function, args, named)
    from hlo.profiler.measure import profile as profile_module

    threads, passes = _defaults(threads, passes)
    return profile_module(
        module, *call, repeat=repeat, warmup=warmup, threads=threads, passes=passes, peak=peak,
        **named,
    )  # fmt: skip


def find_nan(
    function: Callable[..., Any], *args: Any, backend: str = "compiled",
    threads: int | None = None, passes: str | None = None, **named: Any,
) -> Finding | None:  # fmt: skip
    """Run a function of JAX and return the first operation that makes a NaN or an infinity.

    Args:
        function: as for `profile`, like `args`, `threads`, `passes` and `named`.
        backend: `compiled`, native code, or `reference`, the interpreter.

    Returns:
        What `hlo.find_nan` does: its `location` is the line of Python. None if nothing makes any.

    Raises:
        HloError: where the function is no program, and where a run fails.

    >>> import jax.numpy as jnp
    >>> finding = hlo.jax.find_nan(lambda x: 1 + jnp.log(x), np.float32([1, -3]))
    >>> finding.kind, finding.index, finding.opcode
    ('nan', (1,), 'log')
    """
    module, call, named = _program("hlo.jax.find_nan", function, args, named)
    threads, passes = _defaults(threads, passes)
    return api.find_nan(module, *call, backend=backend, threads=threads, passes=passes, **named)


def first_divergence(
    function: Callable[..., Any], *args: Any, against: str = "reference",
    backend: str = "compiled", threads: int | None = None, passes: str | None = None,
    rtol: float | None = None, atol: float | None = None, **named: Any,
) -> Divergence | None:  # fmt: skip
    """Run a function of JAX in two ways, and return the first operation where they diverge.

    Args:
        function: as for `profile`, like `args`, `threads`, `passes` and `named`.
        against: the other way: `reference`, the interpreter, or `xla`; others as of
            `hlo.first_divergence`.
        backend: what runs the function, likewise.
        rtol: what floats may be off by, of their value; by their types if neither is given.
        atol: what floats may be off by besides.

    Returns:
        What `hlo.first_divergence` does: its `location` is the line of Python. None where all
        results agree.

    Raises:
        HloError: where the function is no program, and where a run fails.

    >>> import jax.numpy as jnp
    >>> hlo.jax.first_divergence(lambda x: jnp.cumsum(jnp.sin(x)), np.float32([1, 2, 3]))
    """
    module, call, named = _program("hlo.jax.first_divergence", function, args, named)
    threads, passes = _defaults(threads, passes)
    return api.first_divergence(
        module, *call, against=against, backend=backend, threads=threads, passes=passes,
        rtol=rtol, atol=atol, **named,
    )  # fmt: skip


def _program(
    user: str, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Module, tuple[Any, ...], dict[str, Any]]:
    """Return the module of a call, and its arguments, static ones left out."""
    need_jax(user)
    module = from_jax(function, *args, **named)
    if options_in_use().strict:
        ask_for_strict_math(module)
    numbers, names = static_arguments(function)
    numbers = {n % len(args) for n in numbers if -len(args) <= n < len(args)}
    call = tuple(a for n, a in enumerate(args) if n not in numbers)
    rest = {name: a for name, a in named.items() if name not in names}
    call, rest = as_jax_reads((call, rest))
    return module, call, rest


def _defaults(threads: int | None, passes: str | None) -> tuple[int | None, str]:
    """Return the options of a run: those given, else the backend's."""
    options = options_in_use()
    return (
        options.threads or None if threads is None else threads,
        options.passes if passes is None else passes,
    )
