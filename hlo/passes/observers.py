"""What can be done around each pass of a pipeline: check, print, write to files, measure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from hlo.errors import Diagnostic, HloError
from hlo.ir import Module
from hlo.passes.manager import PassRun
from hlo.passes.pipeline import Step


class VerifyEach:
    """Raises HloError (`pass-broke-module`) after a pass that leaves an invalid module.

    verify: raises HloError for an invalid module.
    """

    def __init__(self, verify: Callable[[Module], None]) -> None:
        self._verify = verify

    def before(self, module: Module, step: Step) -> None: ...

    def after(self, module: Module, run: PassRun) -> None:
        try:
            self._verify(module)
        except HloError as e:
            head = Diagnostic("pass-broke-module", f"pass {run.step} leaves an invalid module")
            raise HloError([head, *e.diagnostics]) from None


class PrintAfter:
    """Hands the text of the module to `emit` after each run of some passes, or of all (`all`)."""

    def __init__(self, names: Collection[str], emit: Callable[[str], None]) -> None:
        self._names = {name.replace("-", "_") for name in names}
        self._emit = emit

    def before(self, module: Module, step: Step) -> None: ...

    def after(self, module: Module, run: PassRun) -> None:
        if self._names & {run.name, "all"}:
            self._emit(f"// after {run.number} {run.step}\n{module}")


class Dump:
    """Writes the module to a folder before the first pass and after each that changes it.

    Files are named as XLA names its dumps: `module_0000.NAME.0003.pipeline.after_dce.before_cse`,
    here without what runs next: `module_0000.NAME.0003.after_dce.txt`.
    """

    def __init__(self, folder: Path, write: Callable[[Path, str], None], number: int = 0) -> None:
        self._folder = folder
        self._write = write
        self._number = number
        self._count = 0

    def before(self, module: Module, step: Step) -> None:
        if not self._count:
            self._dump(module, "before_optimizations")

    def after(self, module: Module, run: PassRun) -> None:
        if run.changed:
            self._dump(module, f"{self._count:04}.after_{run.name}")

    def _dump(self, module: Module, what: str) -> None:
        name = "".join(c if c.isalnum() or c in "._-" else "_" for c in module.name)[:100]
        self._write(self._folder / f"module_{self._number:04}.{name}.{what}.txt", str(module))
        self._count += 1


def timing_table(runs: Sequence[PassRun]) -> str:
    """Return a line for each run of a pass: time, changes, instructions before and after."""
    lines = [f"{'ms':>9} {'rewrites':>9} {'before':>7} {'after':>7}  pass"]
    for run in runs:
        counts = f"{len(run.rewrites):9} {run.before:7} {run.after:7}"
        lines.append(f"{run.seconds * 1e3:9.2f} {counts}  {run.step}")
    lines.append(f"{sum(r.seconds for r in runs) * 1e3:9.2f} ms in all")
    return "\n".join(lines) + "\n"
