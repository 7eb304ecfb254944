"""`hlo-opt`: verify modules, run passes on them, and print them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from .common import (
    BAD_INPUT,
    Tool,
    common_options,
    emit,
    emit_json,
    fail,
    note,
    progress,
    read_source,
)
from .debug_options import DebugOptions
from .passes import PassFlags, list_passes, load_plugins, pass_options, run_passes
from .stages import STAGES, is_compiled, is_hlo, runs_passes, stage_text

if TYPE_CHECKING:
    from hlo.ir import Module
    from hlo.ops import OpSpec
    from hlo.text import PrintOptions

_SEPARATOR = "// -----"
_FORMS = ("default", "short", "canonical", "fingerprint", "xla")
# Flags and the fields of PrintOptions that they set.
_TOGGLES = {
    "operand_shapes": "shapes of operands",
    "percent": "% before names",
    "signatures": "signatures of computations",
    "metadata": "metadata",
    "backend_config": "backend_config",
    "layouts": "layouts in shapes",
    "control_predecessors": "control predecessors",
    "index_comments": "/*index=5*/ comments",
    "compact_gte": "%t#1 for get-tuple-element",
    "bodies": "called computations in place",
}


def _toggles(command: Any) -> Any:
    for field, what in reversed(_TOGGLES.items()):
        flag = field.replace("_", "-")
        option = click.option(f"--{flag}/--no-{flag}", field, default=None, help=f"Print {what}.")
        command = option(command)
    return command


class _OptTool(Tool):
    """Takes XLA's debug options out of the arguments, which no list of ours could name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj, rest = DebugOptions.take(args)
        return super().parse_args(ctx, rest)


@click.command("hlo-opt", cls=_OptTool, no_args_is_help=True)
@click.argument("file", required=False)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write there instead of standard output; a proto if FILE ends in .pb or .pbtxt.",
)
@click.option(
    "--verify/--no-verify", default=True, help="Check that the module is valid, or its graph alone."
)
@click.option(
    "--print", "form", type=click.Choice(_FORMS), default="default", show_default=True,
    help="The form of the text; the flags below change it.",
)  # fmt: skip
@click.option(
    "--constants", "limit", type=click.IntRange(0), metavar="N",
    help="Elide constants of more than N elements as {...}.",
)  # fmt: skip
@_toggles
@pass_options
@click.option(
    "--split-input-file",
    "split",
    is_flag=True,
    help="FILE holds several modules, separated by lines of `// -----`.",
)
@click.option(
    "--stage", type=click.Choice(list(STAGES)), metavar="STAGE",
    help="Print this form: HLO, or what code generation makes of it; see --list-stages.",
)  # fmt: skip
@click.option("--list-stages", is_flag=True, help="List the stages, and exit.")
@click.option(
    "--target",
    metavar="TRIPLE",
    help="For stages of machine code, by default this "
    "machine: x86_64-linux-gnu, aarch64-linux-gnu, riscv64-linux-gnu, wasm32-wasi, ...",
)
@click.option(
    "--extract",
    metavar="NAME[:HEIGHT]",
    help="Go on with a module of this instruction and what it is computed from, at most "
    "HEIGHT operations deep.",
)
@click.option("--stats", "report", flag_value="stats", help="Print counts, costs and memory.")
@click.option("--signature", "report", flag_value="signature", help="Print parameters and result.")
@click.option("--cost", "report", flag_value="cost",
              help="Print what each instruction of the entry costs, the dearest first."
)  # fmt: skip
@click.option(
    "--platform",
    type=click.Choice(["cpu", "transforms"]),
    expose_value=False,
    help="For scripts written for XLA's tool: there is one platform.",
)
@click.option("--quiet", is_flag=True, help="Print no module, errors only.")
@click.option("--list-ops", is_flag=True, help="List the operations, and exit.")
@click.option("--compiled", is_flag=True,
              help="With --list-ops: compile each in every element type, which takes minutes, and "
              "list what has no native code.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Errors, or the list, as JSON on stdout.")
@click.option("--format", type=click.Choice(["hlo", "txt"]), expose_value=False,
              help="For scripts written for XLA's tool: there is one format, text.")  # fmt: skip
@common_options
@click.pass_obj
def main(
    debug_options: DebugOptions, file: str | None, output: str | None, verify: bool, form: str,
    limit: int | None, quiet: bool, list_ops: bool, compiled: bool, as_json: bool, split: bool,
    stage: str | None, list_stages: bool, target: str | None, extract: str | None,
    report: str | None, **rest: Any,
) -> int:  # fmt: skip
    """Verify the HLO module in FILE (- for standard input), run passes on it, and print it.

    FILE is HLO text, StableHLO text, or a proto as XLA dumps it.

    All errors are reported at once, with their places.

    \b
    Example:
      hlo-opt model.hlo --print=short --constants=10
      hlo-opt model.hlo --passes='tuple-simplifier,fix(algsimp,dce)' --time-passes
    """
    flags = PassFlags.take(rest)
    load_plugins(flags.plugins)
    if flags.list:
        return list_passes(as_json)
    if list_ops:
        return _list_unsupported(as_json) if compiled else _list_operations(as_json)
    if list_stages:
        emit("".join(f"{name:28}{what}\n" for name, what in STAGES.items()))
        return 0
    if compiled:
        raise click.UsageError("--compiled goes with --list-ops.")
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    if flags.passes is None and runs_passes(stage):
        flags = replace(flags, passes="default")
    if flags.any_without_passes:
        raise click.UsageError("This needs --passes, for example --passes=default.")
    from hlo.errors import HloError
    from hlo.files import write_text
    from hlo.forms import is_proto_file
    from hlo.sources import write_module

    texts: list[str] = []
    options = _options(form, limit, rest)

    def show(module: Module) -> str:
        if report is not None:
            return _report(module, report, as_json)
        if stage is not None and not is_hlo(stage):
            return stage_text(module, stage, target)
        return _print(module, options)

    as_proto = output is not None and is_proto_file(output)
    if as_proto and (split or report is not None or not (stage is None or is_hlo(stage))):
        raise click.UsageError(f"--output {output}: a proto holds one module and nothing else.")
    try:
        with progress(f"hlo-opt {file}"):
            for number, module in enumerate(_modules(file, split)):
                _verify(module, rules=verify)
                if flags.passes is not None:
                    run_passes(module, flags, number, debug_options, is_compiled=is_compiled(stage))
                if extract is not None:
                    module = _extract(module, extract)
                if output is not None and as_proto:
                    write_module(output, module)
                else:
                    texts.append("" if quiet else show(module))
        text = (f"{_SEPARATOR}\n\n" if report is None else "").join(texts)
        if output is not None and not as_proto:
            write_text(output, text)
    except HloError as e:
        return fail(e, file, as_json=as_json)
    if as_json and report is None:
        emit_json({"file": file, "errors": []})
    elif output is None:
        emit(text)
    return 0


def _modules(file: str, split: bool) -> Iterator[Module]:
    """Yield the modules in a file, one if it is not to be split; places are those in the file."""
    from hlo import api
    from hlo.files import decode
    from hlo.sources import read_module

    data, name = read_source(file)
    if not split:
        yield read_module(data, name)
        return
    text = decode(data, name)
    line = 0
    for part in re.split(rf"(?m)^{_SEPARATOR}-*[ \t]*\r?$\n?", text):
        if part.strip():
            yield api.parse("\n" * line + part, name)
        line += part.count("\n") + 1


def _verify(module: Any, *, rules: bool) -> None:
    """Check a module, or its graph alone: nothing ends on computations that call themselves."""
    from hlo.verifier import verify, verify_structure

    (verify if rules else verify_structure)(module)


def _print(module: Any, options: PrintOptions) -> str:
    from hlo.text import print_module

    return print_module(module, options)


def _extract(module: Module, wanted: str) -> Module:
    """Return the module of one instruction, given as [COMPUTATION/]NAME[:HEIGHT]."""
    from hlo.errors import HloError, did_you_mean
    from hlo.ir.extract import extract

    name, colon, height = wanted.rpartition(":")
    if not colon:
        name, height = wanted, ""
    if height and not height.isdecimal():
        raise click.UsageError(f"--extract {wanted}: {height!r} is not a height.")
    where, _, name = name.lstrip("%").rpartition("/")
    comps = [c for c in module.computations if where in ("", c.name)]
    # The entry first: names are unique in their computation only.
    comps.sort(key=lambda c: c is not module.entry)
    found = next((i for c in comps if (i := c.get(name)) is not None), None)
    if found is None:
        hint = did_you_mean(name, (i.name for c in comps for i in c))
        raise HloError.at("unknown-instruction", f"there is no instruction {name}", None, hint)
    return extract(found, int(height) if height else None)


def _report(module: Module, report: str, as_json: bool) -> str:
    from . import analysis

    if report == "stats":
        return _shown(analysis.statistics(module), analysis.statistics_text, as_json)
    if report == "signature":
        return _shown(analysis.signature(module), analysis.signature_text, as_json)
    return _shown(analysis.costs(module), analysis.costs_text, as_json)


def _shown(found: Any, write: Callable[[Any], str], as_json: bool) -> str:
    return json.dumps(found) + "\n" if as_json else write(found)


def _options(form: str, limit: int | None, toggles: dict[str, bool | None]) -> PrintOptions:
    from hlo.text import PrintOptions

    options = {
        "default": PrintOptions,
        "short": PrintOptions.short_parsable,
        "canonical": PrintOptions.canonical,
        "fingerprint": PrintOptions.fingerprint,
        "xla": PrintOptions.xla,
    }[form]()
    changes: dict[str, Any] = {k: v for k, v in toggles.items() if v is not None}
    if limit is not None:
        changes["constant_limit"] = limit
    return replace(options, **changes)


def _list_unsupported(as_json: bool) -> int:
    """Print which operations have no native code in which types; returns 1 if there are any."""
    from hlo.support import supported

    missing, count = [], 0
    with progress("compiling examples"):
        for pair in supported():
            count += 1
            if pair.problem is not None:
                missing.append(pair)
    if as_json:
        pairs = [{"opcode": p.opcode, "type": p.type, "problem": p.problem} for p in missing]
        emit_json({"pairs": count, "unsupported": pairs})
    else:
        emit("".join(f"{p.opcode:28}{p.type:15}{p.problem}\n" for p in missing))
        note(f"{count} pairs of operation and element type, {len(missing)} without native code")
    return BAD_INPUT if missing else 0


def _list_operations(as_json: bool) -> int:
    """Print the op table."""
    from hlo.ops import OPS

    specs = [spec for _, spec in sorted(OPS.items())]
    if as_json:
        emit_json([_operation_json(spec) for spec in specs])
        return 0
    lines = [f"{'opcode':28}{'operands':10}{'category':13}attributes (! required)"]
    for spec in specs:
        attrs = " ".join(
            key + ("!" if attr.required else "")
            for key, attr in spec.attrs.items()
            if key != spec.payload
        )
        line = f"{spec.name:28}{_arity(spec.arity):10}{spec.emitter.value:13}{attrs}"
        lines.append(line.rstrip())
    emit("\n".join(lines) + "\n")
    return 0


def _operation_json(spec: OpSpec) -> dict[str, Any]:
    return {
        "opcode": spec.name,
        "operands": _arity(spec.arity),
        "category": spec.emitter.value,
        "traits": [str(t.name).lower().replace("_", "-") for t in spec.traits],
        "attributes": {
            key: {"form": attr.codec.name, "required": attr.required}
            for key, attr in spec.attrs.items()
            if key != spec.payload
        },
        "source": spec.source,
        "examples": list(spec.examples),
    }


def _arity(arity: int | tuple[int, int | None]) -> str:
    if isinstance(arity, int):
        return str(arity)
    least, most = arity
    return f"{least}.." if most is None else f"{least}..{most}"
