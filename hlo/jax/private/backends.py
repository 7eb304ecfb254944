"""Backends, and the lowering rules of their platforms."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

# --- clients -------------------------------------------------------------------------------------


def register_backend(
    name: str, client: Callable[[], Any], priority: int, topology: Callable[..., Any]
) -> None:
    """Give JAX a function that makes the client of a backend.

    `xla_bridge.register_backend_factory`: `jax.extend.backend` has it, whose import takes 17 ms.
    (`xla_bridge.register_plugin` wants the table of functions at once, and warns that plug-ins that
    JAX does not list are experimental.)
    """
    from jax._src import xla_bridge

    xla_bridge.register_backend_factory(
        name, client, priority=priority, fail_quietly=True, make_topology=topology
    )


def chosen_platforms() -> list[str]:
    """Return the names in JAX's option `jax_platforms`."""
    import jax

    return [name for name in (getattr(jax.config, "jax_platforms", "") or "").split(",") if name]


class _Backends(dict[str, Any]):
    """JAX's clients by the name of the backend, some of which are made on demand."""

    def __init__(self, made: Mapping[str, Any]) -> None:
        super().__init__(made)
        self.waiting: dict[str, Callable[[], Any]] = {}
        self._lock = threading.RLock()

    def get(self, name: str, default: Any = None) -> Any:
        if name in self.waiting:
            with self._lock:
                if name in self.waiting:
                    self[name] = self.waiting[name]()
                    del self.waiting[name]
        return super().get(name, default)


def make_on_demand(name: str, client: Callable[[], Any]) -> bool:
    """Have JAX call a function when a program first asks for a backend by its name.

    `xla_bridge._backends`, the clients that there are: JAX makes those of all registered backends
    together, at the first use of any. Returns False where JAX has no such dictionary.
    """
    from jax._src import xla_bridge

    backends = getattr(xla_bridge, "_backends", None)
    if type(backends) is dict:
        backends = xla_bridge._backends = _Backends(backends)
    if not isinstance(backends, _Backends):
        return False
    if name not in backends:
        backends.waiting.setdefault(name, client)
    return True


def made_client(name: str) -> Any:
    """Return the client of a backend, or None if none has been made (`xla_bridge._backends`)."""
    from jax._src import xla_bridge

    return dict.get(getattr(xla_bridge, "_backends", {}), name)


def cpu_client() -> Any:
    """Return a new client of XLA's for the CPU: `xla_bridge.make_cpu_client`, which has no other
    name."""
    from jax._src import xla_bridge

    return xla_bridge.make_cpu_client()


def plugin_client(name: str, table: Any, options: Mapping[str, Any]) -> Any:
    """Return a new client of a plug-in.

    table: the capsule of its functions. `xla_client.load_pjrt_plugin_with_c_api` and
    `xla_bridge.make_pjrt_c_api_client`: the public interface has only the whole of both.
    """
    from jax._src import xla_bridge
    from jax._src.lib import xla_client

    if not xla_client.pjrt_plugin_loaded(name):
        xla_client.load_pjrt_plugin_with_c_api(name, table)
    return xla_bridge.make_pjrt_c_api_client(name, options)


def plugin_topology(table: Any, *args: Any, **options: Any) -> Any:
    """Return a topology of a plug-in's: `xla_client.make_c_api_device_topology`, as JAX does for
    plug-ins that it registers itself."""
    from jax._src.lib import xla_client

    return xla_client.make_c_api_device_topology(table, *args, **options)


def backend(name: str, client: Callable[[], Any]) -> Any:
    """Return the client of a backend, made by a function if JAX has none yet.

    `xla_bridge.backends`, as `jax.extend.backend` has it, whose import takes 17 ms.
    """
    from jax._src import xla_bridge

    xla_bridge.backends()
    make_on_demand(name, client)
    return xla_bridge.backends().get(name)


# --- lowering ------------------------------------------------------------------------------------


class _Rules(dict[Any, Any]):
    """The lowering rules of a platform by primitive, which a function is asked for."""

    def __init__(self, registered: Mapping[Any, Any], rule: Callable[[Any], Any]) -> None:
        super().__init__(registered)
        self._rule = rule

    def __contains__(self, primitive: object) -> bool:
        return super().__contains__(primitive) or self._rule(primitive) is not None

    def __missing__(self, primitive: Any) -> Any:
        found = self._rule(primitive)
        if found is None:
            raise KeyError(primitive)
        return found


def delay_rules(platform: str, rule: Callable[[Any], Any]) -> None:
    """Have JAX ask a function for a primitive's lowering rule, and take its own where that is None.

    `mlir._platform_specific_lowerings`: `register_lowering` would have to be called before a
    program lowers anything for each primitive that there is, and again when it imports more.
    """
    from jax._src.interpreters import mlir

    tables = mlir._platform_specific_lowerings
    if not isinstance(tables[platform], _Rules):
        tables[platform] = _Rules(tables[platform], rule)


def rules_of(platform: str | None) -> Mapping[Any, Any]:
    """Return a platform's lowering rules by primitive, for None the rules of any platform.

    `mlir._platform_specific_lowerings` and `mlir._lowerings`: JAX has no function that returns one.
    """
    from jax._src.interpreters import mlir

    return mlir._lowerings if platform is None else mlir._platform_specific_lowerings[platform]


def with_rule(entry: Any, rule: Callable[..., Any]) -> Any:
    """Return an entry of these tables with another function."""
    return type(entry)(rule, entry.inline)
