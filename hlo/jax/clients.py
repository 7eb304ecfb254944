"""Clients of the plug-in, made when a program first asks for its backend; and their options."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from hlo.errors import HloError
from hlo.jax import callbacks, foreign_functions, partitioning
from hlo.jax.private import NAME, backends, need_jax, platforms
from hlo.pjrt.options import Options, client_options

# What `backend` was given before there was a client, and what the client that there is was made of.
_given: dict[str, Any] = {}
_made: Options | None = None


def make_client() -> Any:
    """Return a client for JAX's table of backends."""
    global _made
    from hlo.pjrt.table import capsule

    given = {**_devices_of_cpu(), **_given}
    _made = client_options(given)
    client = backends.plugin_client(NAME, capsule(), given)
    callbacks.install(_made.platform)
    foreign_functions.install(_made.platform)
    partitioning.install()
    platforms.accept_donation(_made.platform)
    platforms.accept_compilation_cache(_made.platform)
    platforms.export_arrays_as_cpu(_made.platform)
    if backends.chosen_platforms()[:1] == [NAME]:
        platforms.import_arrays_of_cpu(NAME)
    return client


def make_topology(*args: Any, **options: Any) -> Any:
    """Return a description of devices, as `jax.experimental.topologies` asks for it."""
    from hlo.pjrt.table import capsule

    return backends.plugin_topology(capsule(), *args, **options)


def options_in_use() -> Options:
    """Return the options of the client, or those that it would be made with. Raises HloError."""
    return client_options(_given) if _made is None else _made


def is_cpu() -> bool:
    """Whether the backend's devices say that they are the CPU: option `platform`."""
    return options_in_use().platform == "cpu"


def _devices_of_cpu() -> dict[str, int]:
    """Return the number of devices that a program asks of JAX's CPU, if it does.

    As there: option `jax_num_cpu_devices`, or a flag of XLA's. Ours in the environment goes first.
    """
    import jax

    if os.environ.get("HLO_PJRT_DEVICES"):
        return {}
    number: int = getattr(jax.config, "jax_num_cpu_devices", -1)
    if number >= 0:
        return {"num_devices": number}
    flags = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.getenv("XLA_FLAGS", ""))
    return {"num_devices": int(flags[-1])} if flags else {}


@contextlib.contextmanager
def backend(
    *, devices: int | None = None, threads: int | None = None, passes: str | None = None,
    cache: bool | str | None = None, tune: float | None = None, strict: bool | None = None,
) -> Iterator[Any]:  # fmt: skip
    """Have JAX run programs on this compiler: `with hlo.jax.backend():`.

    Within, the first of its devices is JAX's default one. Data that is elsewhere stays where it is;
    programs that were compiled before run where they did. Options belong to the process: they have
    to be said before JAX makes the backend, at the first use of it. Those that are not given come
    from the environment, as `HLO_PJRT_THREADS=1`.

    Args:
        devices: how many there are, by default as many as JAX's CPU has, one.
        threads: how many work on a run, by default one a processor.
        passes: the pipeline, as of `hlo.compile`.
        cache: keep native code on disk; a folder says where.
        tune: seconds to measure equivalent kernels when a program is compiled.
        strict: strict arithmetic, as of `hlo.compile`.

    Yields:
        The device.

    Raises:
        HloError: for bad options, for others than those that the backend was made with, and,
            code `missing-extra`, without JAX.

    >>> import jax, jax.numpy as jnp
    >>> with hlo.jax.backend() as device:
    ...     x = jax.jit(jnp.sin)(jnp.zeros(3))
    >>> x.devices() == {device}, device.platform
    (True, 'hlo')
    """
    jax = need_jax("hlo.jax.backend")
    options = {
        "num_devices": devices, "threads": threads, "passes": passes, "cache": cache,
        "tune": tune, "strict": strict,
    }  # fmt: skip
    _choose({name: value for name, value in options.items() if value is not None})
    device = backends.backend(NAME, make_client).local_devices()[0]
    with jax.default_device(device):
        yield device


def _choose(given: dict[str, Any]) -> None:
    """Have the client made with options. Raises HloError where it has others."""
    if backends.made_client(NAME) is None:
        client_options(given)
        _given.update(given)
        return
    assert _made is not None
    wanted = client_options({**_devices_of_cpu(), **_given, **given})
    for name in given:
        there = getattr(_made, name)
        if getattr(wanted, name) != there:
            word = name.removeprefix("num_")
            raise HloError.at(
                "bad-value",
                f"JAX has made the backend with {word} = {there!r}: "
                f"{getattr(wanted, name)!r} comes too late",
                hint="options are of the process; say them before the first use of the backend",
            )  # fmt: skip
