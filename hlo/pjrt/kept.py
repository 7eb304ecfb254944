"""Programs that were compiled before: by their code as it came, which need not be read again."""

from __future__ import annotations

import json

from hlo.compiler.keys import versions
from hlo.compiler.pipeline import load_program
from hlo.errors import HloError, TextError
from hlo.pjrt.calls import functions, host
from hlo.pjrt.compile_options import CompileOptions
from hlo.pjrt.program_shape import ProgramShape
from hlo.pjrt.programs import Program
from hlo.runtime.cache import Cache, digest
from hlo.runtime.executable import Executable as NativeExecutable
from hlo.runtime.jit import host_machine


class Kept:
    """An entry of the cache for a program: its shape, and the key of its native code."""

    def __init__(self, store: Cache, code: bytes, form: str, options: CompileOptions) -> None:
        self._store, self._code, self._form, self._options = store, code, form, options
        about = (
            "pjrt", form, repr(options), *versions(), *host_machine().names, *sorted(functions()),
        )  # fmt: skip
        self._key = digest([code, *(text.encode() for text in about)])

    def get(self) -> tuple[Program, NativeExecutable] | None:
        """Return the program with its code, None where it is not there."""
        entry = self._store.get_part(self._key)
        if entry is None:
            return None
        try:
            fields = json.loads(entry)
            shape = ProgramShape.from_json(fields["shape"])
            native = self._store.get(fields["key"])
            if native is None:
                return None
            threads = self._options.options.threads or None
            own = host() if native.uses_host else None
            found = load_program(native, threads=threads, host=own)
        except (ValueError, KeyError, TypeError, TextError, HloError, RuntimeError):
            # It was not written by this version, or is damaged: it is made again.
            return None
        return Program(self._code, self._form, self._options, shape), found

    def put(self, program: Program, native: NativeExecutable) -> None:
        """Keep a program, if its native code is kept."""
        if native.key:
            fields = {"shape": program.shape.to_json(), "key": native.key}
            self._store.put_part(self._key, json.dumps(fields).encode())
