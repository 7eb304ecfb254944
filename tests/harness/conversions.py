"""XLA's own conversion of StableHLO texts, through jaxlib in a process of its own: it can abort."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from typing import NamedTuple

from tests.harness.paths import ROOT
from tests.harness.processes import HANG_S


class Conversion(NamedTuple):
    """What XLA makes of a text.

    generic: the text in MLIR's generic form; None where it is refused. proto: an HloModuleProto, or
    None with the reason in `error`.
    """

    generic: str | None
    proto: bytes | None
    error: str = ""


def convert_all(texts: list[str]) -> list[Conversion]:
    """Return the conversion of each text; after a crash the next process goes on."""
    found: list[Conversion] = []
    while len(found) < len(texts):
        asked = pickle.dumps(texts[len(found) :])
        env = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.harness.conversions"],
            cwd=ROOT,
            env=env,
            input=asked,
            capture_output=True,
            timeout=HANG_S,
        )
        answers = io.BytesIO(done.stdout)
        while answers.tell() < len(done.stdout):
            found.append(Conversion(*pickle.load(answers)))
        if len(found) < len(texts):
            assert done.returncode != 0
            found.append(Conversion(None, None, "XLA crashed"))
    return found


def _serve() -> None:
    from jax._src.interpreters import mlir
    from jaxlib import _jax
    from jaxlib.mlir import ir

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for text in pickle.load(sys.stdin.buffer):
        generic = proto = None
        error = ""
        try:
            with mlir.make_ir_context():
                module = ir.Module.parse(text)
                generic = module.operation.get_asm(print_generic_op_form=True)
        except ir.MLIRError as e:
            error = str(e)
        try:
            computation = _jax.mlir.mlir_module_to_xla_computation(text, False, False)
            proto = computation.as_serialized_hlo_module_proto()
        except (RuntimeError, ValueError) as e:
            error = str(e)
        pickle.dump((generic, proto, error), answers)
        answers.flush()


if __name__ == "__main__":
    _serve()
