"""What a reduction keeps on disk: the smallest module so far, and what the test has let pass.

After an interruption the next run of the same test on the same file continues from there.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.io.files import write_text
from hlo.ir import Module


class Journal:
    """The journal beside an output file, `OUTPUT.journal`: a line of JSON for each event.

    Attributes:
        module: the smallest module of an interrupted run; None if there was none.
        problem: what is wrong with it.
        known: digests of modules with which nothing is wrong.
    """

    def __init__(self, output: str, given: bytes, test: str, *, resume: bool = True) -> None:
        self._output, self._path = output, Path(f"{output}.journal")
        self._head = {"input": sha256(given).hexdigest(), "test": test}
        self.module: Module | None = None
        self.problem = ""
        self.known: set[str] = set()
        if resume and self._path.exists() and os.path.exists(output):
            self._read()
        if self.module is None:
            self._path.unlink(missing_ok=True)

    def _read(self) -> None:
        events = []
        for line in self._path.read_text().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                break  # the last one, cut short
        if not events or events[0] != self._head:
            return
        text = Path(self._output).read_text()
        try:
            module = parse(text, self._output)
        except HloError:
            return  # somebody has changed it
        adopted = [e for e in events if "problem" in e]
        if adopted and adopted[-1]["digest"] == _digest(text):
            self.module, self.problem = module, adopted[-1]["problem"]
            self.known = {e["passes"] for e in events if "passes" in e}

    def adopted(self, module: Module, problem: str) -> None:
        """Write the smallest module so far. Raises HloError."""
        text = str(module)
        write_text(self._output, text)
        self._append({"problem": problem, "digest": _digest(text)})

    def passed(self, digest: str) -> None:
        """Remember a module with which nothing is wrong."""
        self._append({"passes": digest})

    def _append(self, event: dict[str, str]) -> None:
        with open(self._path, "a") as file:
            if not file.tell():
                file.write(json.dumps(self._head) + "\n")
            file.write(json.dumps(event) + "\n")

    def done(self) -> None:
        """Forget the journal: there is nothing to go on with."""
        self._path.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
