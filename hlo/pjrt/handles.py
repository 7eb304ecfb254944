"""Python objects behind handles: what an address at the C interface stands for."""

from __future__ import annotations

import ctypes
from collections.abc import ItemsView
from typing import Generic, TypeVar

from hlo.pjrt.entries import PjrtError

T = TypeVar("T")


class Handles(Generic[T]):
    """The objects of one kind by address. Foreign, freed and null addresses are errors."""

    def __init__(self, what: str) -> None:
        """what: names the kind in errors.

        JAX's runtime uses what handles point to after Python has cleared its modules: it stays.
        """
        self._what = what
        self._objects: dict[int, T] = {}
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def add(self, address: int, value: T) -> None:
        """Have an address stand for an object."""
        self._objects[address] = value

    def pop(self, address: int) -> T | None:
        """Return the object of an address, which stands for nothing from now on."""
        return self._objects.pop(address, None)

    def items(self) -> ItemsView[int, T]:
        """Return the addresses, each with its object."""
        return self._objects.items()

    def __getitem__(self, address: int) -> T:
        """Return the object of an address. Raises PjrtError."""
        found = self._objects.get(address)
        if found is None:
            which = "null" if not address else f"no {self._what} of this plug-in"
            raise PjrtError("INVALID_ARGUMENT", f"the handle of a {self._what} is {which}")
        return found
