"""Completion of a command's words in bash, zsh and fish."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

_SHELLS = ("bash", "zsh", "fish")
# zsh knows `compdef` only after this.
_ZSH_START = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"


class FileName(click.types.StringParamType):
    """The name of a file, which a shell can complete."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def complete_files(command: click.Command) -> None:
    """Have the options and arguments of a command that name files completed as such."""
    for param in command.params:
        metavar = param.metavar or param.human_readable_name.upper()
        if type(param.type) is click.types.StringParamType and re.search(
            r"\b(?:FILE|OUT|IN|DIR|PATH|SPEC)\b", metavar
        ):
            param.type = FileName()


def _variable(command: str) -> str:
    return f"_{command.replace('-', '_').upper()}_COMPLETE"


def answer_shell(command: click.Command) -> int | None:
    """Answer a shell that asks for a script or for words, by click's protocol.

    Returns the exit code, or None if no shell asks.
    """
    assert command.name is not None
    asked = os.environ.get(_variable(command.name))
    if not asked:
        return None
    return shell_complete(command, {}, command.name, _variable(command.name), asked)


def install(command: click.Command, shell: str) -> str:
    """Have a shell of the user complete all commands from its next start on; returns a message.

    command: the one that was asked. shell: bash, zsh, fish, or `auto` for the user's own. fish has
    a file for each command; bash and zsh have one script, and a line in their start-up file that
    reads it. Raises HloError for another shell, and where a file cannot be written.
    """
    from hlo.errors import HloError
    from hlo.io.files import make_folder, write_files

    if shell == "auto":
        shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        problem = f"unknown shell {shell!r}" if shell else "$SHELL does not name the shell"
        hint = "give its name, as in --install-completion=bash"
        message = f"{problem}; completion supports {', '.join(_SHELLS)}"
        raise HloError.at("bad-value", message, None, hint)
    scripts = _scripts(command, shell)
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        folder = config / "fish" / "completions"
        files = {str(folder / f"{name}.fish"): script for name, script in scripts.items()}
        where = folder
    else:
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
        where = data / "hlo-tools" / f"completion.{shell}"
        folder, text = where.parent, "\n".join(scripts.values())
        files = {str(where): _ZSH_START + text if shell == "zsh" else text}
    make_folder(folder)
    write_files({path: text.encode() for path, text in files.items()})
    if shell != "fish":
        _read_at_start(where, shell)
    names = ", ".join(scripts)
    return f"Installed completion of {names} in {where}; restart {shell} to enable it."


def _scripts(command: click.Command, shell: str) -> dict[str, str]:
    """Return the script of a shell for each installed command, by name."""
    from hlo.__main__ import commands

    maker = get_completion_class(shell)
    assert maker is not None
    names = sorted(f"hlo-{name}" for name in commands()) or [str(command.name)]
    return {name: maker(command, {}, name, _variable(name)).source() for name in names}


def _read_at_start(script: Path, shell: str) -> None:
    """Add a line that reads a script to the start-up file of a shell, once."""
    from hlo.io.files import read_bytes, write_files

    folder = os.environ.get("ZDOTDIR") if shell == "zsh" else None
    start = Path(folder or Path.home()) / f".{shell}rc"
    quoted = shlex.quote(str(script))
    line = f"[ -f {quoted} ] && . {quoted}\n".encode()
    text = read_bytes(start) if start.exists() else b""
    if line not in text:
        gap = b"\n" if text and not text.endswith(b"\n") else b""
        write_files({str(start): text + gap + line})


def install_option(command: Any) -> Any:
    """Add `--install-completion` to a command."""

    def run(context: click.Context, _: click.Parameter, shell: str | None) -> None:
        if shell is not None:
            click.echo(install(context.command, shell))
            context.exit()

    return click.option(
        "--install-completion", metavar="[SHELL]", is_flag=False, flag_value="auto",
        expose_value=False, is_eager=True, callback=run,
        help="Set up completion of all commands for bash, zsh or fish; by default for the current "
        "shell.",
    )(command)  # fmt: skip
