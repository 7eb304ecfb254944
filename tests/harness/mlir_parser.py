"""MLIR's own parser and the verifiers of its dialects, through jaxlib: they can end the process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

from tests.harness.paths import ROOT


def refusals(texts: list[str]) -> list[str]:
    """Return the error for each text, empty where it is read; a crash is an error too."""
    env = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.mlir_parser"],
        cwd=ROOT, env=env, input=pickle.dumps(texts), capture_output=True, timeout=600, check=True,
    )  # fmt: skip
    found: list[str] = pickle.loads(done.stdout)
    return found


def _serve() -> None:
    from jaxlib.mlir import ir  # noqa: F401  (loaded before the first fork)

    texts = pickle.load(sys.stdin.buffer)
    found: list[str] = []
    while len(found) < len(texts):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            _answer(texts[len(found) :], writing)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answers:
            try:
                while True:
                    found.append(pickle.load(answers))
            except EOFError:
                pass
        os.waitpid(child, 0)
        if len(found) < len(texts):
            found.append("the parser crashed")
    sys.stdout.buffer.write(pickle.dumps(found))


def _answer(texts: list[str], writing: int) -> None:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    with os.fdopen(writing, "wb") as answers, mlir.make_ir_context() as context:
        context.emit_error_diagnostics = False
        for text in texts:
            try:
                error = "" if ir.Module.parse(text).operation.verify() else "it does not verify"
            except (ir.MLIRError, ValueError) as e:
                error = str(e) or type(e).__name__
            pickle.dump(error, answers)
            answers.flush()


if __name__ == "__main__":
    _serve()
