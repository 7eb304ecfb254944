"""`hlo-bench`: how long a run takes, and which of two is faster."""

from __future__ import annotations

import contextlib

import click

from .command_line.common import (
    Tool,
    common_options,
    emit,
    emit_json,
    fail,
    function_option,
    progress,
    source_file,
    strict_math_option,
)


@click.command("hlo-bench", cls=Tool, short_help="measure and compare runs", no_args_is_help=True)
@click.argument("file")
@click.argument("other", required=False)
@click.option(
    "--vs", metavar="OPTIONS",
    help="Compare with the same file run in another way: `xla`, or 'passes=.. threads=.. "
    "strict-math=on'.",
)  # fmt: skip
@click.option(
    "--baseline-python", metavar="PYTHON",
    help="Compare with the version of this package that is installed for this interpreter.",
)  # fmt: skip
@click.option(
    "--passes", default="default", show_default=True, metavar="PIPELINE",
    help="The passes that run first.",
)  # fmt: skip
@click.option(
    "--threads", type=click.IntRange(1), metavar="N",
    help="Number of threads of a run, each on its own processor.  [default: all]",
)  # fmt: skip
@click.option("--precision", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              default=0.01, show_default=True, metavar="P",
              help="Measure until the half-width of the interval is at most this fraction of the "
              "median.")  # fmt: skip
@click.option(
    "--max-time", type=click.FloatRange(0, min_open=True), default=30.0, show_default=True,
    metavar="S", help="Stop measuring after S seconds.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random inputs.")
@strict_math_option
@click.option("--json", "as_json", is_flag=True, help="Print the result or errors as JSON.")
@function_option
@common_options
def main(
    file: str, other: str | None, vs: str | None, baseline_python: str | None, passes: str,
    threads: int | None, precision: float, max_time: float, seed: int, strict_math: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Measure a run of the module in FILE on random inputs, or compare two: with OTHER, --vs or
    --baseline-python.

    Both sides alternate in random order, in processes of their own that are pinned to the same
    processors, until the 95 % confidence interval of the median is narrow.

    \b
    Examples:
      hlo-bench model.hlo
      hlo-bench before.hlo after.hlo
      hlo-bench model.hlo --vs xla --threads 1
      hlo-bench model.hlo --vs 'passes=algsimp,dce threads=1'
    """
    from hlo.errors import HloError
    from hlo.profiler.benchmark import bench

    try:
        with progress(f"hlo-bench {file}"), contextlib.ExitStack() as files:
            sides = [f and files.enter_context(source_file(f)) for f in (file, other)]
            found = bench(
                sides[0] or file, other=sides[1], vs=vs, passes=passes, threads=threads,
                baseline_python=baseline_python, precision=precision, max_time=max_time, seed=seed,
                strict=strict_math,
            )  # fmt: skip
    except HloError as e:
        return fail(e, file, as_json=as_json)
    if as_json:
        emit_json(found.to_json())
    else:
        emit(f"{found}\n")
    return 0
