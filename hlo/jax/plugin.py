"""What JAX imports of this package in every program: entry point group `jax_plugins`.

JAX calls `initialize` at the first use of any backend, whichever the program is going to use. So
this file imports nothing but names of JAX's that are loaded by then. The rest of the plug-in is
imported when a program chooses the backend: `JAX_PLATFORMS=hlo`, `jax.devices("hlo")`, or
`hlo.jax.backend()`.
"""

from __future__ import annotations

from typing import Any

from hlo.jax.private import NAME, backends, targets

# Below that of JAX's own CPU, which is 0: who does not choose this backend does not get it.
_PRIORITY = -10


def initialize() -> None:
    """Register the backend with JAX, its lowering rules, and who takes foreign functions for it."""
    backends.register_backend(NAME, _first_client, _PRIORITY, _topology)
    backends.delay_rules(NAME, _rule)
    targets.collect_targets(NAME)


def _first_client() -> Any:
    """Return a client for JAX's table of backends, where the program has chosen this one.

    JAX asks every backend that is registered for one. Raises NotChosen where it has not; a client
    is then made when the program asks for the backend by name.
    """
    chosen = backends.chosen_platforms()
    if NAME in chosen:
        if "cpu" not in chosen:
            # Programs put data on "cpu" by that name, as JAX's own callbacks do.
            backends.make_on_demand("cpu", _cpu_client)
        return _client()
    if not chosen and backends.make_on_demand(NAME, _client):
        raise NotChosen("it is made when the program asks for it, as by jax.devices('hlo')")
    return _client()


class NotChosen(Exception):
    """JAX asks for a client that the program has not asked for."""


def _client() -> Any:
    from hlo.jax.clients import make_client

    return make_client()


def _cpu_client() -> Any:
    from hlo.jax.clients import is_cpu

    return backends.made_client(NAME) if is_cpu() else backends.cpu_client()


def _topology(*args: Any, **options: Any) -> Any:
    from hlo.jax.clients import make_topology

    return make_topology(*args, **options)


def _rule(primitive: Any) -> Any:
    from hlo.jax.lowering import rule_for

    return rule_for(primitive)
