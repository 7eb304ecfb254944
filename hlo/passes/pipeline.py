"""Pipelines as text: `a,b{opt=v},fix(c,d)`.

    pipeline = pass ("," pass)*
    pass     = name options?  |  "fix" options? "(" pipeline ")"  |  "default"
    options  = "{" option ("," option)* "}"
    option   = name "=" value, or a name alone for `=true`

`fix` repeats what it holds until nothing changes, at most `max-iters` times. `default` stands
for the stages of the default pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo.errors import HloError, Source, Span, did_you_mean
from hlo.passes.registry import Option, Pass, find_pass
from hlo.support.signature import checked, need

# XLA's own bound for its simplification pipeline.
DEFAULT_MAX_ITERS = 25
_MAX_DEPTH = 50

_WORD = re.compile(r"[A-Za-z_][\w-]*")
_VALUE = re.compile(r"[^,{}()\s]+")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class Step:
    """A pass with values for some of its options.

    Raises TypeError and HloError (`bad-pass-option`) for options that the pass does not take.
    """

    spec: Pass
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        need(self.spec, Pass, "Step: spec")
        need(self.options, Mapping[str, Any], "Step: options")
        for name, value in self.options.items():
            option = self.spec.options.get(name)
            if option is None:
                raise _no_option(self.spec.name, name, self.spec.options)
            need(value, option.type, f"{self.spec.name}: {name}")

    def __repr__(self) -> str:
        return f"<Step {self}>"

    def __str__(self) -> str:
        name = self.spec.name.replace("_", "-")
        if not self.options:
            return name
        options = (str(Option(k, type(v), v)) for k, v in self.options.items())
        return f"{name}{{{','.join(options)}}}"


@dataclass(frozen=True)
class Fix:
    """Steps that are repeated until none changes the module, at most `max_iters` times."""

    steps: Sequence[Step | Fix]
    max_iters: int = DEFAULT_MAX_ITERS

    def __post_init__(self) -> None:
        need(self.steps, Sequence[Step | Fix], "Fix: steps")
        need(self.max_iters, int, "Fix: max_iters")

    def __repr__(self) -> str:
        return f"<Fix {self}>"

    def __str__(self) -> str:
        limit = "" if self.max_iters == DEFAULT_MAX_ITERS else f"{{max-iters={self.max_iters}}}"
        return f"fix{limit}({','.join(map(str, self.steps))})"


Pipeline = Callable[[], Sequence[Step | Fix]]
"""Returns steps that a word stands for: made when it is read, which imports their passes."""


def step(name: str, **options: Any) -> Step:
    """Return the step that runs a pass by name. Raises HloError for unknown names and options."""
    return Step(find_pass(name), options)


def _no_option(
    name: str, word: str, known: Mapping[str, Option], span: Span | None = None
) -> HloError:
    names = [option.replace("_", "-") for option in known]
    hint = did_you_mean(word.replace("_", "-"), names) or f"it has {', '.join(names) or 'none'}"
    shown = name.replace("_", "-")
    return HloError.at("bad-pass-option", f"{shown} has no option {word}", span, hint)


@checked
def parse_pipeline(
    text: str, name: str = "passes", *, default: Pipeline | None = None
) -> list[Step | Fix]:
    """Return the pipeline that a text spells. `name` stands for the text in error messages.

    default: returns what the word `default` stands for; without it no such word is known.

    Raises HloError with the place in the text: `pass-syntax`, `unknown-pass`, `bad-pass-option`.
    """
    return _Parser(Source(name, text), default).whole()


class _Parser:
    def __init__(self, source: Source, default: Pipeline | None) -> None:
        self._source = source
        self._default = default
        self._text = source.text
        self._at = 0

    def whole(self) -> list[Step | Fix]:
        self._skip()
        if self._at == len(self._text):
            return []
        steps = self._steps()
        if self._at < len(self._text):
            raise self._error("',' or the end")
        return steps

    def _steps(self) -> list[Step | Fix]:
        """Read a list; groups are kept on a stack, so that no nesting is too deep."""
        groups: list[tuple[int, list[Step | Fix]]] = [(0, [])]
        while True:
            name, span = self._word("the name of a pass")
            if name == "fix":
                if len(groups) > _MAX_DEPTH:
                    raise self._error(f"at most {_MAX_DEPTH} fix in each other", span.start)
                groups.append((self._max_iters(), []))
                self._expect("(")
                continue
            if name == "default" and self._default is not None:
                groups[-1][1].extend(self._default())
            else:
                spec = find_pass(name, span)
                groups[-1][1].append(Step(spec, self._options(name, spec.options)))
            while len(groups) > 1 and self._take(")"):
                limit, steps = groups.pop()
                groups[-1][1].append(Fix(steps, limit))
            if not self._take(","):
                if len(groups) > 1:
                    raise self._error("',' or ')'")
                return groups[0][1]

    def _max_iters(self) -> int:
        option = Option("max_iters", int, DEFAULT_MAX_ITERS)
        at = self._at
        limit = int(self._options("fix", {"max_iters": option}).get("max_iters", option.default))
        if limit < 1:
            raise self._error("max-iters of one or more", at)
        return limit

    def _options(self, name: str, known: Mapping[str, Option]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if not self._take("{"):
            return values
        if self._take("}"):
            return values
        while True:
            word, span = self._word("the name of an option")
            option = known.get(word.replace("-", "_"))
            if option is None:
                raise _no_option(name, word, known, span)
            values[option.name] = self._value(option) if self._take("=") else self._flag(option)
            if self._take("}"):
                return values
            if not self._take(","):
                raise self._error("',' or '}'")

    def _flag(self, option: Option) -> bool:
        if option.type is not bool:
            raise self._error(f"'=' and a value for {option.name}")
        return True

    def _value(self, option: Option) -> Any:
        self._skip()
        m = _VALUE.match(self._text, self._at)
        start = self._at
        word = m[0] if m else ""
        self._at += len(word)
        try:
            if option.type is bool:
                value: Any = {"true": True, "1": True, "false": False, "0": False}[word.lower()]
            else:
                value = option.type(word)
        except (ValueError, KeyError):
            kind = {bool: "true or false", int: "an integer", float: "a number", str: "a word"}
            raise HloError.at(
                "bad-pass-option", f"{option.name} is {kind[option.type]}, not {word!r}",
                Span(self._source, start, max(self._at, start + 1)),
            ) from None  # fmt: skip
        self._skip()
        return value

    def _word(self, what: str) -> tuple[str, Span]:
        self._skip()
        m = _WORD.match(self._text, self._at)
        if m is None:
            raise self._error(what)
        self._at = m.end()
        self._skip()
        return m[0], Span(self._source, *m.span())

    def _take(self, char: str) -> bool:
        if not self._text.startswith(char, self._at):
            return False
        self._at += 1
        self._skip()
        return True

    def _expect(self, char: str) -> None:
        if not self._take(char):
            raise self._error(repr(char))

    def _skip(self) -> None:
        m = _SPACE.match(self._text, self._at)
        assert m is not None
        self._at = m.end()

    def _error(self, wanted: str, at: int | None = None) -> HloError:
        at = self._at if at is None else at
        found = repr(self._text[at]) if at < len(self._text) else "the end"
        span = Span(self._source, at, at + 1)
        return HloError.at("pass-syntax", f"expected {wanted}, found {found}", span)
