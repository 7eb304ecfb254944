"""Writes the grammars of editors from the op table.

    python -m editors.generate

`editors/vscode/syntaxes/hlo.tmLanguage.json` is a TextMate grammar, which Visual Studio Code and
many other editors and sites read; `editors/tree-sitter-hlo` has a grammar of tree-sitter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hlo.frontends.text.annotations import ANNOTATIONS, CONTROL_PREDECESSORS
from hlo.frontends.text.header import MODULE_ATTRS
from hlo.frontends.text.sugar import AsyncOpcode
from hlo.frontends.text.terminals import KEYWORDS
from hlo.ops import OPS
from hlo.values.types import TYPE_NAMES

HERE = Path(__file__).resolve().parent
_NAME = "[A-Za-z_][A-Za-z0-9_.-]*"
_END = "(?![A-Za-z0-9_.-])"
_STATEMENTS = ("HloModule", "ENTRY", "ROOT", "FileNames", "FunctionNames", "FileLocations",
               "StackFrames")  # fmt: skip


def attributes() -> list[str]:
    """Return the names of all attributes: of operations, of any of them, and of the module."""
    own = {key for spec in OPS.values() for key in spec.attrs if key != spec.payload}
    return sorted({*own, *ANNOTATIONS, *MODULE_ATTRS, CONTROL_PREDECESSORS, "execution_thread"})


def callees() -> list[str]:
    """Return the attributes that name computations."""
    return sorted({key for spec in OPS.values() for key in spec.computation_attrs})


def values() -> list[str]:
    """Return the words that are values of attributes."""
    own = {w for spec in OPS.values() for a in spec.attrs.values() for w in a.codec.words}
    return sorted(own | (KEYWORDS - {*_STATEMENTS}))


def _one_of(words: Iterable[str]) -> str:
    # The longest first: an alternation takes the first that fits.
    return "|".join(re.escape(w) for w in sorted(words, key=lambda w: (-len(w), w)))


def _asynchronous() -> list[str]:
    """Return the opcodes of which the sugar `opcode-start` is made."""
    return [name for name in OPS if AsyncOpcode.of(f"{name}-start") is not None]


# --- TextMate -----------------------------------------------------------------------------------


def textmate() -> dict[str, Any]:
    """Return the TextMate grammar."""
    opcode = (
        rf"(?<![A-Za-z0-9_.%-])((?:{_one_of(_asynchronous())})-(?:start|update|done)"
        rf"|{_one_of(OPS)})(?=\s*\()"
    )
    repository: dict[str, Any] = {
        "comment": {
            "patterns": [
                _rule("comment.block.hlo", begin=r"/\*", end=r"\*/"),
                _rule("comment.line.double-slash.hlo", match="//.*$"),
            ]
        },
        "string": {
            "patterns": [
                _rule(
                    f"string.quoted.{kind}.hlo", begin=mark, end=mark,
                    patterns=[_rule("constant.character.escape.hlo", match=r"\\.")],
                )
                for mark, kind in (('"', "double"), ("'", "single"))
            ]
        },
        "header": {
            "match": rf"^\s*(HloModule)\s+({_NAME})",
            "captures": _captures("keyword.declaration.hlo", "entity.name.namespace.hlo"),
        },
        "computation": {
            "match": rf"^\s*(?:(ENTRY)\s+)?(%?{_NAME})(?=\s*(?:\(.*->|\{{))",
            "captures": _captures("keyword.declaration.hlo", "entity.name.function.hlo"),
        },
        "definition": {
            "match": rf"(?:(?<![A-Za-z0-9_.%-])(ROOT)\s+)?(%?{_NAME})\s+(=)"
            rf"(?=\s*(?:\(|[a-z][a-z0-9]*\s*\[|{_NAME}\s*\())",
            "captures": _captures(
                "keyword.modifier.hlo", "entity.name.variable.hlo", "keyword.operator.hlo"
            ),
        },
        "parameter": {
            "match": rf"(%?{_NAME})\s*(:)",
            "captures": _captures("variable.parameter.hlo", "punctuation.separator.hlo"),
        },
        "table": _rule("keyword.declaration.hlo", match=rf"^({_one_of(_STATEMENTS[3:])}){_END}"),
        "type": _rule(
            "storage.type.hlo", match=rf"(?<![A-Za-z0-9_.%-])({_one_of(TYPE_NAMES)})(?=\s*\[)"
        ),
        "opcode": _rule("support.function.hlo", match=opcode),
        "callees": {
            "begin": rf"(?<![A-Za-z0-9_.%-])({_one_of(callees())})\s*(=)"
            rf"\s*(?=\{{\s*%?{_NAME}\s*[,}}])",
            "beginCaptures": _captures("variable.other.property.hlo", "keyword.operator.hlo"),
            "end": r"(?<=\})",
            "patterns": [
                {"include": "#comment"},
                _rule("entity.name.function.hlo", match=rf"%?{_NAME}"),
                _rule("punctuation.separator.hlo", match=r"[{},]"),
            ],
        },
        "callee": {
            "match": rf"(?<![A-Za-z0-9_.%-])({_one_of(callees())})\s*(=)\s*(%?{_NAME})",
            "captures": _captures(
                "variable.other.property.hlo", "keyword.operator.hlo", "entity.name.function.hlo"
            ),
        },
        "attribute": {
            "match": rf"(?<![A-Za-z0-9_.%-])({_one_of(attributes())})\s*(=)",
            "captures": _captures("variable.other.property.hlo", "keyword.operator.hlo"),
        },
        "dimensions": {
            "match": r"(=)\s*([0-9a-z?]+_[0-9a-z?]+->[0-9a-z?]+)",
            "captures": _captures("keyword.operator.hlo", "constant.other.hlo"),
        },
        "field": {
            "match": rf"(?<![A-Za-z0-9_.%-])({_NAME})\s*(=)",
            "captures": _captures("variable.other.member.hlo", "keyword.operator.hlo"),
        },
        "value": _rule(
            "constant.language.hlo", match=rf"(?<![A-Za-z0-9_.%-])({_one_of(values())}){_END}"
        ),
        "name": _rule("variable.other.hlo", match=rf"%{_NAME}"),
        "number": _rule(
            "constant.numeric.hlo",
            match=r"(?<![A-Za-z_%.-])-?(?:0x[0-9a-fA-F]+|\d+(?:[x_]-?\d+)+|\d+\.?\d*(?:[eE][+-]?\d+)?"
            r"|\.\d+(?:[eE][+-]?\d+)?|inf|nan)",
        ),
        "operator": _rule("keyword.operator.hlo", match=r"->|<=|[=?*+#-]"),
        "punctuation": _rule("punctuation.separator.hlo", match=r"[\[\](){},:;.]"),
        "other": _rule("punctuation.other.hlo", match=r"[^\sA-Za-z_]"),
        "word": _rule("variable.other.hlo", match=_NAME),
    }  # fmt: skip
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "HLO",
        "scopeName": "source.hlo",
        "fileTypes": ["hlo"],
        "patterns": [{"include": f"#{name}"} for name in repository],
        "repository": repository,
    }


def _rule(scope: str, **parts: Any) -> dict[str, Any]:
    return {"name": scope, **parts}


def _captures(*scopes: str) -> dict[str, Any]:
    return {str(number): {"name": scope} for number, scope in enumerate(scopes, 1)}


# --- tree-sitter --------------------------------------------------------------------------------

# Flat but for brackets: what a word is can be told from the word and the character behind it, and
# a text that is being written is rarely whole.
_TREE_SITTER = r"""// Generated by editors/generate.py from the op table.
/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

module.exports = grammar({
  name: "hlo",
  extras: $ => [/\s/, $.comment],
  word: $ => $.identifier,
  rules: {
    module: $ => repeat($._item),
    _item: $ => choice($.braces, $.parentheses, $.brackets, $.keyword, $.definition, $.attribute,
      $.field, $.opcode, $.type, $.constant, $.dimensions, $.number, $.string, $.reference,
      $.identifier, $.operator, $.separator),
    braces: $ => seq("{", repeat($._item), "}"),
    parentheses: $ => seq("(", repeat($._item), ")"),
    brackets: $ => seq("[", repeat($._item), "]"),
    keyword: _ => choice(@KEYWORDS@),
    opcode: _ => choice(
@OPCODES@
    ),
    type: _ => choice(@TYPES@),
    constant: _ => choice(@VALUES@),
    // The name of an instruction, which a blank separates from the equals sign.
    definition: _ => token(prec(1, /%?[A-Za-z_][A-Za-z0-9_.-]*[ \t]+=/)),
    attribute: _ => token(prec(2, seq(choice(
@KEYS@
    ), "="))),
    field: _ => token(prec(1, /[A-Za-z_][A-Za-z0-9_.-]*=/)),
    reference: _ => /%[A-Za-z_][A-Za-z0-9_.-]*/,
    identifier: _ => /[A-Za-z_][A-Za-z0-9_.-]*/,
    dimensions: _ => token(prec(2, /[0-9a-z?]+_[0-9a-z?]+->[0-9a-z?]+/)),
    number: _ => /-?(\d+([x_]-?\d+)+|\d+\.?\d*([eE][+-]?\d+)?|\.\d+)/,
    string: _ => choice(/"([^"\\]|\\.)*"/, /'([^'\\]|\\.)*'/),
    operator: _ => choice("->", "<=", "=", "?", "*", "+", "#", "-"),
    separator: _ => choice(",", ":", ";", ".", "<", ">", "@"),
    comment: _ => token(choice(/\/\/[^\n]*/, /\/\*[^*]*\*+([^/*][^*]*\*+)*\//)),
  },
});
"""

HIGHLIGHTS = """; Generated by editors/generate.py.
(comment) @comment
(string) @string
(number) @number
(constant) @constant.builtin
(dimensions) @constant
(type) @type.builtin
(opcode) @function.builtin
(attribute) @property
(field) @property
(keyword) @keyword
(definition) @variable
(reference) @variable
(identifier) @variable
(operator) @operator
(separator) @punctuation.delimiter
["(" ")" "{" "}" "[" "]"] @punctuation.bracket
"""


def tree_sitter() -> str:
    """Return the grammar of tree-sitter."""

    def quoted(words: Iterable[str], *, lines: bool = False) -> str:
        found = [f'"{w}"' for w in sorted(words)]
        return "      " + ",\n      ".join(found) if lines else ", ".join(found)

    return (
        _TREE_SITTER.replace("@KEYWORDS@", quoted(_STATEMENTS))
        .replace("@VALUES@", quoted(set(values()) - OPS.keys() - TYPE_NAMES))
        .replace("@OPCODES@", quoted(OPS, lines=True))
        .replace("@KEYS@", quoted(attributes(), lines=True))
        .replace("@TYPES@", quoted(TYPE_NAMES))
    )


def outputs() -> dict[Path, str]:
    """Return what is generated, by file."""
    return {
        HERE / "vscode/syntaxes/hlo.tmLanguage.json": json.dumps(textmate(), indent=1) + "\n",
        HERE / "tree-sitter-hlo/grammar.js": tree_sitter(),
        HERE / "tree-sitter-hlo/queries/highlights.scm": HIGHLIGHTS,
    }


if __name__ == "__main__":
    for path, text in outputs().items():
        path.write_text(text)
