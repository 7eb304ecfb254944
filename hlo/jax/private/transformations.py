"""Transformations of the modules that XLA compiles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from hlo.errors import HloError, did_you_mean
from hlo.jax.private import NAME


class Registration:
    """A callback for the modules that XLA compiles, by `jax.extend.xla`, which is public.

    platforms: for which; None for all that can. It can be registered again.
    """

    def __init__(
        self, callback: Callable[[bytes], bytes | None], name: str, stage: str,
        platforms: tuple[str, ...] | None,
    ) -> None:  # fmt: skip
        self._callback, self._name = callback, name
        self._asked = platforms is not None
        self._platforms = _platforms(platforms)
        self._xla = _transformations()
        self._stage = self._xla.PipelineStage[stage]
        self._registered: set[str] = set()

    def add(self) -> None:
        """Register it. Raises HloError for a platform that has no transformations."""
        for platform in self._platforms:
            if platform in self._registered:
                continue
            try:
                self._xla.register_hlo_module_transformation(
                    self._callback, name=self._name, stage=self._stage, platforms=platform
                )
            except RuntimeError as e:  # of newer versions, for a plug-in that has none
                if self._asked:
                    message = f"hlo.jax.transform: platform {platform}: {e}"
                    raise HloError.at("unsupported-platform", message) from None
            else:
                self._registered.add(platform)

    def remove(self) -> None:
        """Remove it from XLA:CPU, which is to pay nothing for it.

        Plug-ins keep it: what removes it there frees it even while another thread compiles, and
        0.10.2 adds it again to each client that is made later.
        """
        if "cpu" in self._registered:
            self._registered.remove("cpu")
            self._xla.clear_hlo_module_transformation(self._name, self._stage, "cpu")


def _transformations() -> ModuleType:
    try:
        import jax.extend.xla
    except ImportError:
        import jax

        message = f"hlo.jax.transform needs JAX 0.10.2 or newer, not {jax.__version__}"
        hint = "pip install --upgrade jax"
        raise HloError.at("missing-extra", message, None, hint) from None
    return jax.extend.xla


def _platforms(asked: tuple[str, ...] | None) -> list[str]:
    """Return the platforms to register for: those asked for, or all whose compilers are XLA's.

    0.10.2 knows them by the names of their clients, and takes those that are not loaded yet; newer
    versions load all first. Raises HloError (`unsupported-platform`) for one that there is not.
    """
    import jax
    import jax.extend.backend

    known = ["cpu", "gpu", "tpu"]
    is_old = jax.__version_info__ < (0, 11)
    if is_old:
        names = {"cuda": "gpu", "rocm": "gpu"}
        asked = asked and tuple(names.get(n, n) for n in asked)
    if not is_old or not {*known} >= {*(asked or ())}:
        known = list(jax.extend.backend.backends())
    for platform in asked or ():
        if platform == NAME:
            message = f"hlo.jax.transform: the compiler of platform {NAME} is not XLA"
            hint = "hlo.jax.backend(passes=...) chooses its passes"
            raise HloError.at("unsupported-platform", message, None, hint)
        if platform not in known:
            message = f"hlo.jax.transform: JAX has no platform {platform} here"
            hint = did_you_mean(platform, known) or f"it has {', '.join(sorted({*known}))}"
            raise HloError.at("unsupported-platform", message, None, hint)
    return [n for n in dict.fromkeys(known if asked is None else asked) if n != NAME]


@cache
def _context() -> Any:
    import jax

    return jax.make_user_context()


def compiled_apart(key: object) -> AbstractContextManager[None]:
    """Return a context in which functions are compiled apart from those outside of it.

    key: those with the same one are compiled once. `jax.make_user_context` is public.
    """
    context: AbstractContextManager[None] = _context()(key)
    return context


_THREAD = threading.local()
# What `jax.monitoring`, which is public, reports before each compilation.
_COMPILATION = "/jax/core/compile/backend_compile_duration"


@contextmanager
def no_compilation() -> Iterator[None]:
    """Make JAX refuse to compile in this thread.

    XLA compiles in a pool of threads: one that waited for another compilation might do so for ever.
    """
    _listen()
    _THREAD.is_compiling = True
    try:
        yield
    finally:
        _THREAD.is_compiling = False


@cache
def _listen() -> None:
    import jax.monitoring

    jax.monitoring.register_scalar_listener(_refuse)


def _refuse(event: str, value: float, **_: object) -> None:
    if event == _COMPILATION and getattr(_THREAD, "is_compiling", False):
        raise RuntimeError("JAX cannot compile in here: XLA is compiling, and waits for this")


@cache
def add_to_cache_key(text: Callable[[], str]) -> None:
    """Make what a function returns part of the keys of JAX's persistent cache, from now on.

    `jax._src.cache_key.custom_hook` is meant to be replaced, but in no public module. Without it, a
    cache would give what was compiled with other transformations, or without any.
    """
    from jax._src import cache_key

    before = cache_key.custom_hook
    cache_key.custom_hook = lambda: before() + text()
