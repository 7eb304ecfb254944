"""The spellings of flags that LLVM's and XLA's tools take, as click knows them.

`-flag`, `--flag_of_words`, `--flag=true`, `--noflag` and `--o=FILE` are taken where an option has
that name in click's own spelling.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

import click

_FLAG = re.compile(r"(--?)([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_YES = frozenset({"true", "t", "1", "yes", "y"})
_NO = frozenset({"false", "f", "0", "no", "n"})


# What other programs call an option, for hints: the first of ours that a command has is meant.
_SYNONYMS = {
    "--rtol --atol": "tol tolerance eps epsilon precision allclose error max-error",
    "--input": "arg args data feed input-data value values",
    "--inputs --weights": "params parameters weights state checkpoint npz input-file inputs-file "
    "inputs-npz snapshot",
    "--expect": "expected golden reference-output compare compare-to want oracle",
    "--output": "out outdir out-dir output-dir output-file outputs save save-to results",
    "--repeat --iterations": "runs num-runs n iters num-iters loops warmup",
    "--time": "bench benchmark profile timing",
    "--seed": "rng-seed random-seed",
    "--num-replicas": "replicas replica-count devices num-devices",
    "--num-partitions": "partitions shards num-shards",
    "--passes": "pipeline pass-pipeline optimize opt run-passes",
    "--stage": "emit print-ir show",
    "--target": "triple target-triple march arch",
    "--threads": "num-threads jobs j",
    "--load": "lib library plugin so dlopen",
    "--passes ''": "no-passes no-optimize no-opt O0",
    "--fail-on-nan": "check-nan nan",
    "--no-verify --verify": "skip-verify disable-verify verify-none",
    "--list-ops": "ops opcodes list-opcodes",
    "--backend": "interpreter device executor engine",
    "--debug": "verbose v traceback backtrace stack-trace",
    "--quiet": "silent s q no-print no-output",
}


# How alike two names are at least, of which one is suggested for the other.
_LIKENESS = 0.75


def suggest(command: click.Command, name: str) -> str:
    """Return a sentence about the option that may be meant by an unknown one, empty for none.

    It is one that is called so elsewhere (`--tolerance`), has almost the same name, or is an option
    of another command.
    """
    word = name.lstrip("-").replace("_", "-").lower()
    known = _long_options(command)
    for ours, theirs in _SYNONYMS.items():
        options = [option for option in ours.split() if option in known]
        if options and word in theirs.lower().split():
            return f"Did you mean {ours if chr(39) in ours else ' or '.join(options)}?"
    close = difflib.get_close_matches(f"--{word}", known, n=1, cutoff=_LIKENESS)
    if close:
        return f"Did you mean {close[0]}?"
    from hlo.__main__ import commands

    others = {f"hlo-{short}": entry for short, entry in commands().items()}
    having = [
        other for other, entry in others.items()
        if other != command.name and f"--{word}" in _long_options(entry.load())
    ]  # fmt: skip
    return f"It is an option of {' and '.join(having)}." if having else ""


def _long_options(command: click.Command) -> list[str]:
    params = [p for p in command.params if not getattr(p, "hidden", False)]
    return [o for p in params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")]


def spelled(params: Sequence[click.Parameter], args: Sequence[str]) -> list[str]:
    """Return the arguments of a command with its flags in click's spelling.

    params: what the command takes. What is no flag of it stays as it is, for click to judge.
    """
    known: dict[str, click.Option] = {}
    for param in params:
        if isinstance(param, click.Option):
            known |= {name: param for name in (*param.opts, *param.secondary_opts)}
    out: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            out += [arg, *rest]
        else:
            out += _argument(arg, known, rest)
    return out


def _argument(arg: str, known: dict[str, click.Option], rest: Iterator[str]) -> list[str]:
    found = _FLAG.fullmatch(arg)
    if found is None:
        return [arg]
    dashes, word, value = found.groups()
    name = _known_name(dashes, word, known)
    if name is None:
        negated = word.removeprefix("no")
        name = _known_name("--", negated, known) if negated != word else None
        if name is None or value is not None or not known[name].is_flag:
            return [arg]
        value = "false"
    option = known[name]
    if option.is_flag:
        return _flag(arg, name, option, value)
    if value is None:
        # What follows is this flag's, whatever it looks like.
        following = next(rest, None)
        return [name] if following is None else [name, following]
    return [name, value] if len(name) == 2 else [f"{name}={value}"]


def _known_name(dashes: str, word: str, known: dict[str, click.Option]) -> str | None:
    """Return an option's name in click's spelling, None if there is no such option."""
    words = word.replace("_", "-")
    if dashes == "-" and len(word) > 1 and f"-{word[0]}" in known and f"--{words}" not in known:
        return None  # `-ofile`
    for name in (f"{dashes}{word}", f"--{word}", f"--{words}", f"-{word}"):
        if name in known and (len(word) > 1 or len(name) == 2):
            return name
    return None


def _flag(arg: str, name: str, option: click.Option, value: str | None) -> list[str]:
    """Return a flag that stands alone, or whose value says whether it is there."""
    if value is None or value.lower() in _YES:
        return [name]
    if value.lower() not in _NO:
        return [arg]
    if option.secondary_opts:
        others = option.opts if name in option.secondary_opts else option.secondary_opts
        return [others[0]]
    return []
