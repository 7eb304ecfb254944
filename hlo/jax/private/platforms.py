"""What JAX does for the platforms that it knows, for one that it does not."""

from __future__ import annotations

from typing import Any


def accept_donation(platform: str) -> None:
    """Have `donate_argnums` reach the compiler: `mlir._platforms_with_donation`, a list."""
    from jax._src.interpreters import mlir

    if platform not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(platform)


def accept_compilation_cache(platform: str) -> None:
    """Have JAX keep compiled programs on disk where `jax_compilation_cache_dir` is set.

    `compilation_cache.is_cache_used`, which has a list of platforms inside. It also remembers its
    first answer, whichever backend asked.
    """
    from jax._src import compilation_cache

    asked = compilation_cache.is_cache_used
    if platform == "cpu" or getattr(asked, "platform", None) == platform:
        return

    def is_cache_used(backend: Any) -> bool:
        if backend.platform == platform:
            return bool(compilation_cache._is_cache_enabled())
        return bool(asked(backend))

    is_cache_used.platform = platform  # type: ignore[attr-defined]
    compilation_cache.is_cache_used = is_cache_used


def export_arrays_as_cpu(platform: str) -> None:
    """Have arrays of a platform be CPU arrays for DLPack.

    `array.ArrayImpl`, the class of arrays: its methods, and the function of jaxlib below them, know
    the platforms that have an own type of device there. The memory is the same; XLA's CPU backend
    makes an array of it, and exports that.
    """
    from jax._src.array import ArrayImpl

    if platform == "cpu" or getattr(ArrayImpl.__dlpack__, "platform", None) == platform:
        return
    export, device_of = ArrayImpl.__dlpack__, ArrayImpl.__dlpack_device__

    def as_cpu(array: Any) -> Any:
        import jax
        import numpy as np

        if len(array.sharding.device_set) > 1 or array.platform() != platform:
            return array
        return jax.device_put(np.asarray(array), jax.local_devices(backend="cpu")[0])

    def __dlpack__(self: Any, **options: Any) -> Any:
        return export(as_cpu(self), **options)

    def __dlpack_device__(self: Any) -> Any:
        return device_of(as_cpu(self))

    __dlpack__.platform = platform  # type: ignore[attr-defined]
    arrays: Any = ArrayImpl
    arrays.__dlpack__, arrays.__dlpack_device__ = __dlpack__, __dlpack_device__


def import_arrays_of_cpu(name: str) -> None:
    """Have `jax.dlpack.from_dlpack` give an array of the CPU's memory to this backend.

    `dlpack._DL_DEVICE_TO_PLATFORM`: which backend takes which type of device.
    """
    from jax._src import dlpack

    table = dlpack._DL_DEVICE_TO_PLATFORM
    table[dlpack.DLDeviceType.kDLCPU] = name
