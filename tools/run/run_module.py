"""The flags of XLA's run_hlo_module on `hlo-run`: what they mean in its own flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import emit, note
from ..command_line.options import Option
from ..command_line.platforms import backend_of

if TYPE_CHECKING:
    from hlo.frontends.proto import Iteration

    from .job import Job
    from .outcome import Outcome

HEADING = "Flags of XLA's run_hlo_module"
# What a float may be off by besides what the other bound allows, where one of them is given.
_ERROR_BOUND = 1e-3
_FLAGS: dict[str, dict[str, Any]] = {
    "--platform": {
        "metavar": "NAME",
        "help": "cpu or interpreter; results are compared with those of the reference platform.",
    },
    "--reference-platform": {
        "metavar": "NAME",
        "help": "The platform to compare results with: interpreter, cpu, or '' for none. "
        "[default: interpreter, with --platform]",
    },
    "--iterations": {
        "metavar": "N", "type": click.IntRange(1), "default": 1,
        "help": "Run N times, on different inputs each time.",
    },
    "--compile-only": {"is_flag": True, "help": "Compile the module without running it."},
    "--print-literals": {"is_flag": True, "help": "Print arguments and results in full."},
    "--input-literals-file": {
        "excludes": ("--input", "--inputs"), "metavar": "FILE",
        "help": "Read arguments from a RunHloModuleLiterals proto, binary or text.",
    },
    "--output-literals-file": {
        "metavar": "FILE",
        "help": "Write arguments and results to a RunHloModuleLiterals proto; as text if FILE "
        "ends in .pbtxt.",
    },
    "--abs-error-bound": {
        "metavar": "X", "type": click.FloatRange(0),
        "help": "Same as --atol; 0.001 if only the other bound is given.",
    },
    "--rel-error-bound": {
        "metavar": "X", "type": click.FloatRange(0),
        "help": "Same as --rtol; 0.001 if only the other bound is given.",
    },
    "--run-test-hlo-passes/--no-run-test-hlo-passes": {
        "default": True, "help": "Run passes before native code.  [default: yes]",
    },
    "--run-reference-hlo-passes/--no-run-reference-hlo-passes": {
        "default": True, "help": "Run passes on the reference platform, if that is cpu. "
        "[default: yes]",
    },
    "--use-large-float-range": {"is_flag": True, "help": "Same as --random large."},
    "--random-init-input-literals/--no-random-init-input-literals": {
        "default": True, "help": "Use random values for inputs that are not given, otherwise "
        "zeros.",
    },
    "--isolate-instructions": {
        "excludes": (
            "--input", "--inputs", "--input-literals-file", "--output", "--expect", "--infeed",
            "--outfeed", "--num-replicas", "--num-partitions",
        ),
        "is_flag": True, "help": "Run each instruction on its own instead of the module, and "
        "compare.",
    },
    "--force-fake-data": {
        "excludes": ("--input", "--inputs", "--input-literals-file"),
        "is_flag": True, "help": "Use random values for all inputs.",
    },
}  # fmt: skip
# What says how XLA's own runtime is to run.
_WITHOUT_EFFECT = ("force-use-cpu-thunk-runtime-for-test", "different-random-seeds")


class XlaOption(Option):
    """An option that `--help` lists apart from those of our own."""


def module_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of run_hlo_module."""
    for name, settings in reversed(_FLAGS.items()):
        command = click.option(name, cls=XlaOption, **settings)(command)
    for name in _WITHOUT_EFFECT:
        command = click.option(f"--{name}", is_flag=True, hidden=True, expose_value=False)(command)
    return command


@dataclass(frozen=True)
class ModuleFlags:
    """What the flags of run_hlo_module say."""

    platform: str | None
    reference_platform: str | None
    iterations: int
    compile_only: bool
    print_literals: bool
    input_literals_file: str | None
    output_literals_file: str | None
    abs_error_bound: float | None
    rel_error_bound: float | None
    run_test_hlo_passes: bool
    run_reference_hlo_passes: bool
    use_large_float_range: bool
    random_init_input_literals: bool
    force_fake_data: bool
    isolate_instructions: bool

    @classmethod
    def take(cls, given: dict[str, Any]) -> ModuleFlags:
        """Take these flags out of all that were given."""
        return cls(**{field.name: given.pop(field.name) for field in fields(cls)})

    @property
    def compares(self) -> bool:
        """True if these flags ask for a comparison."""
        wanted = self.reference_platform
        by_itself = self.platform is not None or self.isolate_instructions
        return bool(wanted) or (wanted is None and by_itself)

    def apply(self, job: Job) -> None:
        """Say it in a job's own terms. Raises HloError for platforms that are not here."""
        if self.platform is not None:
            job.backend = backend_of(self.platform)
        elif job.check and job.backend == job.against:
            # The other side of the comparison.
            job.backend = "compiled"
        if self.compares:
            wanted = self.reference_platform
            job.check = True
            job.against = backend_of("interpreter" if wanted in (None, "default") else wanted or "")
        if not self.run_test_hlo_passes:
            job.passes = ""
        if not self.run_reference_hlo_passes:
            job.reference_passes = ""
        bounds = (self.rel_error_bound, self.abs_error_bound)
        if bounds != (None, None):
            job.rtol, job.atol = (_ERROR_BOUND if b is None else b for b in bounds)
        if job.form in ("stablehlo", "mhlo"):
            job.form = "mlir"
        if self.use_large_float_range:
            job.random = ("large", *job.random)
        job.zeros = not self.random_init_input_literals
        job.compile_only = self.compile_only
        job.prints_literals = self.print_literals
        job.keeps_arguments = self.print_literals or self.output_literals_file is not None

    def jobs(self, job: Job) -> list[Job]:
        """Return the job of each iteration. Raises HloError."""
        given = _read_literals(self.input_literals_file)
        found = []
        for number in range(self.iterations):
            # Iterations that the file says nothing of are random.
            arguments = given[number].arguments if number < len(given) else []
            found.append(replace(job, seed=job.seed + number, arguments=arguments or None))
        return found

    def need_places(self, files: Sequence[str]) -> None:
        """Raise HloError or UsageError unless literals can be written where they are wanted."""
        path = self.output_literals_file
        if path is None:
            return
        if len(files) > 1:
            raise click.UsageError(f"--output-literals-file takes one FILE, not {len(files)}.")
        from hlo.io.files import need_places

        read = [] if self.input_literals_file is None else [self.input_literals_file]
        need_places([path], [*files, *read])

    def tell(self, outcome: Outcome, *, quiet: bool) -> None:
        """Write what XLA's tool says of a run; its literals unless standard output is taken."""
        if self.print_literals and not self.compile_only and not quiet:
            for number, argument in enumerate(outcome.arguments[0]):
                emit(f"\n** Argument {number} **\n{_text(argument)}")
            emit(f"\n** Result with test runner {self._test} **\n")
            emit("".join(map(_text, outcome.whole)))
            if outcome.whole_reference:
                emit(f"\n** Result with reference runner {self._reference} **\n")
                emit("".join(map(_text, outcome.whole_reference)))
        if self.platform is not None and outcome.checks and not outcome.failed:
            note(f"\n** Results on {self._test} and {self._reference} are close enough. **")

    def conclude(self, outcomes: Sequence[Outcome], bad: int) -> None:
        """Write what XLA's tool says of all iterations of a file, and keep their literals.

        bad: how many of them failed. Raises HloError.
        """
        if self.platform is not None and self.compares:
            note(f"{bad}/{self.iterations} runs failed.")
        path = self.output_literals_file
        if path is not None:
            from hlo.frontends.proto import write_runs
            from hlo.io.files import write_files
            from hlo.io.formats import PROTO_TEXT

            runs = [_kept(outcome) for outcome in outcomes]
            write_files({path: write_runs(runs, as_text=path.endswith(PROTO_TEXT))})

    @property
    def _test(self) -> str:
        return self.platform or "cpu"

    @property
    def _reference(self) -> str:
        wanted = self.reference_platform
        return "Interpreter" if wanted in (None, "default") else wanted or ""


def _text(value: Any) -> str:
    """Return a value as literals, a line for each array."""
    from hlo.io.files import literal_text

    plain = _plain(value)
    if isinstance(plain, tuple):
        return "".join(map(_text, plain))
    return (literal_text(plain) if hasattr(plain, "dtype") else str(plain)) + "\n"


def _plain(value: Any) -> Any:
    """Return a value whose arrays of dynamic size hold what is meant of them."""
    from hlo.values.arrays import DynamicArray

    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.actual if isinstance(value, DynamicArray) else value


def _kept(outcome: Outcome) -> Iteration:
    """Return the values of a run on its first device."""
    from hlo.frontends.proto import Iteration
    from hlo.values.literal import Literal

    whole, other = (
        [Literal.of(_plain(v)) for v in values[:1]]
        for values in (outcome.whole, outcome.whole_reference)
    )
    arguments = [Literal.of(_plain(v)) for v in outcome.arguments[0]]
    return Iteration(arguments, *whole, *other)


def _read_literals(path: str | None) -> list[Iteration]:
    if path is None:
        return []
    from hlo.frontends.proto import read_runs
    from hlo.io.files import decode, read_bytes
    from hlo.io.formats import PROTO_TEXT, is_proto

    data = read_bytes(path)
    is_text = path.endswith(PROTO_TEXT) or not is_proto(data)
    return read_runs(decode(data, path) if is_text else data, path)
