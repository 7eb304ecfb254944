"""The grammars of editors: current, and colours for every word of the op table's examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from editors.generate import outputs
from hlo.editor import words as kinds
from hlo.editor.document import Document
from hlo.ops import OPS
from tests.harness.paths import ROOT

_EXTENSION = ROOT / "editors/vscode"
# Of each kind of word, how the scopes that are fit for it begin.
_SCOPES = {
    kinds.KEYWORD: ("keyword.",),
    kinds.COMPUTATION: ("entity.name.function",),
    kinds.NAME: ("variable.", "entity.name.variable"),
    kinds.PARAMETER: ("variable.parameter",),
    kinds.OPCODE: ("support.function",),
    kinds.TYPE: ("storage.type",),
    kinds.ATTRIBUTE: ("variable.other.property", "variable.other.member"),
    kinds.FIELD: ("variable.other.member", "variable.other.property"),
    kinds.VALUE: ("constant.", "variable.other"),
    kinds.NUMBER: ("constant.",),
    kinds.STRING: ("string.", "constant.character"),
    kinds.COMMENT: ("comment.",),
    kinds.MODULE: ("entity.name.namespace",),
}


def _texts() -> list[str]:
    texts = [
        e if e.lstrip().startswith("HloModule") else f"  ROOT %r = {e}"
        for spec in OPS.values()
        for e in spec.examples
    ]
    texts.append(
        """HloModule m, is_scheduled=true
// a function
%f (a: f32[2], b.1: (s32[], bf16[4]{0:T(8)})) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  %b.1 = (s32[], bf16[4]{0:T(8)}) parameter(1)
  ROOT %s = f32[2]{0} add(%a, %a), metadata={op_name="x\\"/y" source_line=3} /* end */
}"""
    )
    return [*texts, *(p.read_text() for p in sorted((ROOT / "examples").glob("*.hlo"))[:6])]


def test_the_grammars_are_current() -> None:
    for path, text in outputs().items():
        assert path.read_text() == text, f"{path}: python -m editors.generate"


def test_every_word_of_the_op_table_has_its_colour() -> None:
    if shutil.which("node") is None or not (_EXTENSION / "node_modules/vscode-textmate").exists():
        pytest.skip("npm ci in editors/vscode has not been run")
    texts = _texts()
    run = subprocess.run(
        ["node", "test/scopes.js"], cwd=_EXTENSION, input=json.dumps(texts), text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    wrong: dict[tuple[str, str], str] = defaultdict(str)
    seen = set()
    for text, tokens in zip(texts, json.loads(run.stdout), strict=True):
        scopes = [""] * (len(text) + 1)
        for start, end, scope in tokens:
            scopes[start:end] = [scope] * (end - start)
        for at, character in enumerate(text):
            if not character.isspace() and scopes[at] == "source.hlo":
                wrong["nothing", character] = text[max(0, at - 30) : at + 10]
        for statement in Document("x", text).parsed.text.statements:
            for word in kinds.words(statement):
                seen.add(word.kind)
                scope = scopes[statement.start + word.start]
                if not scope.startswith(_SCOPES[word.kind]):
                    wrong[word.kind, scope] = (
                        f"{word.text} in {statement.source.text.strip()[:150]}"
                    )
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())
    assert seen == _SCOPES.keys()


# The functions of tree-sitter's grammars: each rule as a tree, with the names of the rules it uses.
_DSL = """
const names = new Set(), $ = new Proxy({}, { get: (_, name) => (names.add(name), name) });
const rule = (kind) => (...parts) => ({ kind, parts });
Object.assign(globalThis, { choice: rule("choice"), seq: rule("seq"), repeat: rule("repeat") });
globalThis.token = Object.assign(rule("token"), { immediate: rule("immediate") });
globalThis.prec = rule("prec");
globalThis.grammar = (g) => {
  for (const list of [g.extras, g.word]) list($);
  const rules = Object.fromEntries(Object.entries(g.rules).map(([n, f]) => [n, f($)]));
  return { rules, used: [...names] };
};
const { rules, used } = require(process.argv[1]);
console.log(JSON.stringify({ rules: Object.keys(rules), used, opcodes: rules.opcode.parts }));
"""


def test_the_tree_sitter_grammar_has_all_its_rules() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = ROOT / "editors/tree-sitter-hlo"
    run = subprocess.run(
        ["node", "-e", _DSL, str(folder / "grammar.js")], text=True, capture_output=True, check=True
    )
    found = json.loads(run.stdout)
    assert set(found["used"]) <= set(found["rules"])
    assert set(found["opcodes"]) == OPS.keys()
    queried = re.findall(r"\((\w+)\) @", (folder / "queries/highlights.scm").read_text())
    assert set(queried) <= set(found["rules"])


def test_the_tree_sitter_parser_takes_every_example(tmp_path: Path) -> None:
    tool = shutil.which("tree-sitter")
    if tool is None:
        pytest.skip("tree-sitter is not installed")
    folder, texts = tmp_path / "tree-sitter-hlo", tmp_path / "texts"
    shutil.copytree(ROOT / "editors/tree-sitter-hlo", folder)
    texts.mkdir()
    for number, text in enumerate(_texts()):
        (texts / f"{number}.hlo").write_text(text)
    files = sorted(map(str, texts.iterdir()))
    own = {name: str(tmp_path / "cache") for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [tool, *arguments], cwd=folder, env=os.environ | own, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("generate")
    assert "ERROR" not in run("parse", "-q", *files)
    colours = run("query", "queries/highlights.scm", *files)
    queried = re.findall(r"@([\w.]+)", (folder / "queries/highlights.scm").read_text())
    assert set(re.findall(r"capture: (?:\d+ - )?`?([\w.]+)", colours)) == set(queried)
