"""The flags of `hlo-opt` that run passes, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import emit, emit_json, note
from .partition_report import tell

if TYPE_CHECKING:
    from hlo.ir import Module

    from .debug_options import DebugOptions


@dataclass(frozen=True)
class PassFlags:
    """passes: the pipeline, `default` for the default one, None for none."""

    passes: str | None
    list: bool
    plugins: tuple[str, ...]
    verify_each: bool
    validate: bool
    bisect_passes: bool
    time_passes: bool
    print_after: tuple[str, ...]
    dump_dir: str | None

    @classmethod
    def take(cls, given: dict[str, Any]) -> PassFlags:
        """Take these flags out of all that were given."""
        return cls(**{field.name: given.pop(field.name) for field in fields(cls)})

    @property
    def without_passes(self) -> str | None:
        """An option that was given although no passes run, None if there is none."""
        names = (
            "verify_each", "validate", "bisect_passes", "time_passes", "print_after", "dump_dir"
        )  # fmt: skip
        given = [name for name in names if getattr(self, name)]
        if self.passes is not None or not given:
            return None
        return f"--{given[0].replace('_', '-')}"


def pass_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that run passes."""
    options = [
        click.option("--passes", metavar="A,B{X=V},fix(C,D)", help="Run these passes in order; "
                     "`fix` repeats until nothing changes; `default`, alone or in a list, is "
                     "the default pipeline."),
        click.option("--list-passes", "list", is_flag=True, help="List the passes, and exit."),
        click.option("--load-pass-plugin", "plugins", multiple=True, metavar="FILE.py",
                     help="Run a Python file that registers passes."),
        click.option("--verify-each", is_flag=True, help="Verify after every pass."),
        click.option("--validate", is_flag=True, help="After every pass, compare the module's "
                                                 "results with those before it, and name the first "
                                                 "rule that changed one."),
        click.option("--bisect-passes", is_flag=True, help="After every pass, compare the compiled "
                     "module with the reference, and name the first pass and rule at which they "
                     "disagree."),
        click.option("--time-passes", is_flag=True,
                     help="Show time, rewrites and instructions of every pass."),
        click.option("--print-after", multiple=True, metavar="PASS",
                     help="Print the module after a pass, or after `all`, on standard error."),
        click.option("--dump-dir", metavar="DIR",
                     help="Write the module to DIR before and after each pass that changes it."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def load_plugins(paths: tuple[str, ...]) -> None:
    """Load the files of `--load-pass-plugin`."""
    if paths:
        from hlo.passes import load_plugin

        for path in paths:
            load_plugin(path)


def check_pipeline(passes: str) -> None:
    """Raise HloError, with the place in the flag, where `--passes` is no pipeline."""
    if passes not in ("", "default"):
        from hlo.passes.default import pipeline_of

        pipeline_of(passes, name="--passes")


def run_passes(
    module: Module, flags: PassFlags, number: int, debug_options: DebugOptions, *,
    is_compiled: bool, lenient: bool = False,
) -> None:  # fmt: skip
    """Run the passes on a module, in place.

    number: of the module in its file, for dumps. is_compiled: what comes after them is code
    generation, which fuses for itself. lenient: how the module is verified between passes.
    """
    from hlo.lenient import verify_as
    from hlo.passes import Observer, run_pipeline
    from hlo.passes.default import pipeline_of
    from hlo.passes.observers import PrintAfter, VerifyEach, timing_table
    from hlo.passes.registry import find_pass
    from hlo.passes.validate import Validate

    assert flags.passes is not None
    pipeline = pipeline_of(flags.passes, fuses=not is_compiled, name="--passes")
    observers: list[Observer] = []
    for name in flags.print_after:
        if name != "all":
            find_pass(name)
    if flags.print_after:
        observers.append(PrintAfter(flags.print_after, note))
    if flags.dump_dir is not None:
        observers.append(_dump(flags.dump_dir, number))
    if flags.verify_each or flags.validate or flags.bisect_passes:
        observers.append(VerifyEach(lambda m: verify_as(m, "lenient" if lenient else "strict")))
    if flags.validate:
        observers.append(Validate(module))
    if flags.bisect_passes:
        observers.append(Validate(module, execute=_compiled))
    xla_dump = debug_options.dump(module, number)
    if xla_dump is not None:
        observers += xla_dump.observers()
    runs = run_pipeline(module, pipeline, observers)
    tell(module.name, [text for run in runs for text in run.notes])
    if xla_dump is not None:
        xla_dump.done()
    if flags.time_passes:
        note(timing_table(runs).rstrip())


def _compiled(module: Module, values: Sequence[Any]) -> Any:
    from hlo.compiler.pipeline import compile

    return compile(module, cache=False, passes="")(*values)


def _dump(folder: str, number: int) -> Any:
    from hlo.io.files import make_folder, write_text
    from hlo.passes.observers import Dump

    make_folder(folder)
    return Dump(Path(folder), write_text, number)


# XLA's names have dashes but for these, and are words in capitals for two.
_UNDERSCORES = frozenset(
    "batchnorm_expander bitcast_dtypes_expander broadcast_canonicalizer cholesky_expander "
    "constant_folding convert_operand_folding convolution_4d_expander cpu_multi_output_fusion "
    "cse_barrier_expander dot_decomposer dynamic_padder eigh_expander fusion_constant_sinking "
    "gather_expander gather_simplifier horizontal_loop_fusion multi_output_fusion operand_upcaster "
    "qr_expander result_caster scatter_determinism_expander scatter_expander scatter_simplifier "
    "stochastic_convert_decomposer tree_reduction_rewriter triangular_solve_expander "
    "zero_sized_hlo_elimination".split()
)
_CAPITALS = {
    "assume_gather_indices_in_bound_rewrite_to_copy": "AssumeGatherIndicesInBoundRewriteToCopy",
    "reduce_window_to_reduce_and_broadcast": "ReduceWindowToReduceAndBroadcast",
}


def _xla_name(name: str) -> str:
    """Return the name of a pass as XLA spells it."""
    if name in _UNDERSCORES:
        return name
    return _CAPITALS.get(name, name.replace("_", "-"))


def list_passes(as_json: bool, *, one_line: bool) -> int:
    """Print the passes with their options, or their names alone as `--passes` takes them."""
    from hlo.passes import all_passes

    passes = all_passes()
    if one_line:
        emit(",".join(sorted(_xla_name(p.name) for p in passes)) + "\n")
        return 0
    if as_json:
        emit_json(
            [
                {
                    "name": p.name,
                    "summary": p.summary,
                    "options": {
                        o.name: {"type": o.type.__name__, "default": o.default}
                        for o in p.options.values()
                    },
                }
                for p in passes
            ]
        )
        return 0
    lines = []
    for p in passes:
        options = "{" + ",".join(map(str, p.options.values())) + "}" if p.options else ""
        lines.append(f"{p.name.replace('_', '-')}{options}\n    {p.summary}\n")
    emit("".join(lines))
    return 0
