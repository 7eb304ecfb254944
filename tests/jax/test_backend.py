"""`hlo.jax.backend()` and the other ways to choose the backend."""

from __future__ import annotations

import pytest

import hlo.jax
from hlo.errors import HloError
from tests.jax.test_plugin import run_program


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": 0}, "num_devices is a number from 1"),
        ({"threads": -1}, "threads is a number from 0"),
        ({"tune": "long"}, "tune is a number of seconds"),
        ({"strict": "maybe"}, "strict is true or false"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(HloError, match=message):
        hlo.jax.backend(**options).__enter__()  # type: ignore[arg-type]


def test_it_is_the_default_device_within_the_block() -> None:
    """Also where JAX_PLATFORMS leaves it out; options that come too late are errors."""
    code = """
import jax, jax.numpy as jnp
import hlo.jax
from hlo.errors import HloError
print(jax.jit(jnp.sin)(0.5).devices())
with hlo.jax.backend(devices=2, threads=1) as device:
    x = jax.jit(jnp.sin)(0.5)
    print(x.devices() == {device}, jax.devices("hlo"), jax.default_backend())
    with hlo.jax.backend(threads=1):
        print(jnp.ones(2).devices() == {device})
print(jnp.ones(2).devices(), x + 1)
for late in ({"threads": 2}, {"devices": 3}, {"strict": True}):
    try:
        hlo.jax.backend(**late).__enter__()
    except HloError as e:
        print(str(e).splitlines()[0])
"""
    done = run_program(code, JAX_PLATFORMS="cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "{CpuDevice(id=0)}",
        "True [HloDevice(id=0), HloDevice(id=1)] cpu",
        "True",
        "{CpuDevice(id=0)} 1.4794255",
        *(
            f"error: JAX has made the backend with {was}: {late} comes too late [bad-value]"
            for was, late in (("threads = 1", 2), ("devices = 2", 3), ("strict = False", True))
        ),
    ]


def test_it_is_chosen_by_its_name() -> None:
    """What JAX knows of platforms holds here: CPU data, donation, DLPack, the compilation cache."""
    code = """
import jax, jax.numpy as jnp, numpy as np
x = jnp.arange(64.0)
print(x.devices(), jax.default_backend(), jax.devices("cpu"))
view = np.from_dlpack(x)
print(view.ctypes.data == x.unsafe_buffer_pointer(), view.sum())
array = np.arange(64, dtype=np.float32)
taken = jax.dlpack.from_dlpack(array)
print(taken.devices() == x.devices(), taken.sum())
y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
print(x.is_deleted(), y[:2])
print(jax.device_put(y, jax.devices("cpu")[0]).devices())
"""
    done = run_program(code, JAX_PLATFORMS="hlo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "{HloDevice(id=0)} hlo [CpuDevice(id=0)]",
        "True 2016.0",
        "True 2016.0",
        "True [1. 2.]",
        "{CpuDevice(id=0)}",
    ]
