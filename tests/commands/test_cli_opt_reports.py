"""`hlo-opt`: stages, reports, parts of modules, and the search for the pass that went wrong."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main as hlo_opt

import hlo
from hlo.analysis.memory import peak_memory
from hlo.ir.extract import extract

TEXT = """HloModule m
scale {
  x = f32[64,32] parameter(0)
  two = f32[] constant(2)
  twos = f32[64,32] broadcast(two), dimensions={}
  ROOT y = f32[64,32] multiply(x, twos)
}
ENTRY e {
  a = f32[64,16] parameter(0)
  b = f32[16,32] parameter(1)
  c = f32[64,32] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64,32] call(c), to_apply=scale
  ROOT s = f32[64,32] tanh(d)
}
"""


def run(*flags: str, text: str = TEXT) -> tuple[int, str, str]:
    result = CliRunner().invoke(hlo_opt, ["-", *flags], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("parsed", "to_apply=%scale"),
        ("hlo", "ENTRY %e"),
        ("optimized", "ENTRY %e"),
        ("dot", 'label="tanh\\ns\\nf32[64,32]"'),
        ("html", "graphPanel"),
        ("buffers", "output"),
        ("llvm-before-optimizations", "define i32 @hlo_entry"),
        ("llvm", "define"),
        ("asm", "hlo_entry:"),
    ],
)
def test_stages(stage: str, words: str) -> None:
    code, out, err = run(f"--stage={stage}")
    assert code == 0, err
    assert words in out


def test_every_stage_is_listed() -> None:
    code, out, _ = run("--list-stages")
    assert code == 0
    for line in out.splitlines():
        assert run(f"--stage={line.split()[0]}")[0] == 0


def test_passes_replace_the_default_pipeline_of_a_stage() -> None:
    _, out, _ = run("--stage=hlo", "--passes=dce", "--platform=cpu")
    assert "to_apply=%scale" in out


def test_assembly_for_another_target() -> None:
    code, out, _ = run("--stage=asm", "--target=riscv64-linux-gnu")
    assert code == 0 and "attribute" in out and "rv64" in out
    # The module's name, and no functions for callers from C.
    assert '.file\t"m"' in out and "hlo_entry:" in out and "workspace_bytes" not in out


def test_signature_and_statistics() -> None:
    _, out, _ = run("--signature")
    assert "0  a: f32[64,16]{1,0}" in out and "->    f32[64,32]{1,0}" in out
    found = json.loads(run("--stats", "--json")[1])
    assert found["opcodes"] == {
        "parameter": 3, "dot": 1, "call": 1, "tanh": 1, "constant": 1, "broadcast": 1,
        "multiply": 1,
    }  # fmt: skip
    assert found["cost"]["operations"] == 2 * 64 * 32 * 16 + 64 * 32
    assert found["cost"]["transcendentals"] == 64 * 32
    assert "peak memory" in run("--stats")[1]


_GATHERED = """HloModule m, num_partitions=4
ENTRY e {
  x = f32[1024] parameter(0)
  ROOT g = f32[4096] all-gather(x), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0},
    use_global_device_ids=true
}"""


def test_statistics_of_collectives() -> None:
    code, out, err = run("--stats", "--network=bandwidth=1GB/s,latency=1us", text=_GATHERED)
    assert code == 0, err
    assert "collectives (bandwidth 1 GB/s each way, latency 1 us)" in out
    row = next(line for line in out.splitlines() if line.startswith("  all-gather"))
    assert row.split() == [
        "all-gather", "1", "1", "4", "12", "KiB", "14.29", "us", "16", "KiB", "doubling",
    ]  # fmt: skip
    _, out, _ = run("--stats", text=_GATHERED)
    assert "collectives (bandwidth 50 GB/s each way, latency 2 us)" in out
    found = json.loads(run("--stats", "--json", text=_GATHERED)[1])["communication"]
    assert (found["sent_bytes"], found["result_bytes"]) == (12288, 16384)
    assert found["rows"][0]["opcode"] == "all-gather"


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--stats", "--network=bandwidth=0"], 1, "must be more than 0 B/s [bad-value]"),
        (["--stats", "--network=latency=soon"], 1, "'soon' is not a number of s [bad-value]"),
        (["--stats", "--network=speed=1"], 1, "unknown setting speed [bad-value]"),
        (["--network=latency=1us"], 2, "--network requires --stats."),
    ],
)
def test_networks_that_are_none(flags: list[str], code: int, message: str) -> None:
    status, _, err = run(*flags, text=_GATHERED)
    assert (status, message in err) == (code, True), err


def test_costs_have_the_dearest_first() -> None:
    lines = run("--cost")[1].splitlines()
    assert lines[1].split()[0] == "65.54k" and " dot" in lines[1]
    rows = json.loads(run("--cost", "--json")[1])
    assert [r["opcode"] for r in rows] == ["parameter", "parameter", "dot", "call", "tanh"]


def test_peak_memory_counts_what_is_live_at_once() -> None:
    # Both arguments, c and d, and inside the call the broadcast and the product besides.
    peak = peak_memory(hlo.parse(TEXT).entry)
    array = 64 * 32 * 4
    assert peak.bytes == (64 * 16 + 16 * 32) * 4 + 2 * array + 2 * array
    assert peak.at is not None and peak.at.name == "d"


@pytest.mark.parametrize(
    ("wanted", "opcodes"),
    [
        ("d", ["parameter", "parameter", "dot", "call"]),
        ("%d:0", ["parameter", "call"]),
        ("s:1", ["parameter", "call", "tanh"]),
        ("scale/y:0", ["parameter", "parameter", "multiply"]),
    ],
)
def test_extract(wanted: str, opcodes: list[str]) -> None:
    code, out, err = run(f"--extract={wanted}")
    assert code == 0, err
    module = hlo.parse(out)
    hlo.verify(module)
    assert [i.opcode for i in module.entry] == opcodes


def test_extract_keeps_constants_and_leaves_the_module_alone() -> None:
    module = hlo.parse(TEXT)
    before = str(module)
    inst = module.computations[0].get("twos")
    assert inst is not None
    assert [i.opcode for i in extract(inst, 0).entry] == ["constant", "broadcast"]
    assert str(module) == before


def test_extract_names_what_is_near() -> None:
    code, _, err = run("--extract=scale/twoss")
    assert code == 1 and "did you mean 'twos'?" in err
    assert run("--extract=d:x")[0] == 2


def test_bisect_passes_is_quiet_when_all_agree() -> None:
    code, out, err = run("--passes=fix(tuple-simplifier,dce)", "--bisect-passes")
    assert code == 0, err
    assert "ENTRY" in out


def test_html_and_dot_take_any_name() -> None:
    text = TEXT.replace("HloModule m", "HloModule a_b").replace("scale", "sc.al-e")
    for stage in ("html", "dot"):
        code, out, _ = run(f"--stage={stage}", "--passes=dce", text=text)
        assert code == 0 and "a_b" in out and "sc.al-e" in out


@pytest.mark.parametrize("target", ["wasm32", "armv7-linux-gnueabihf", "nvptx64"])
def test_memory_on_other_machines(target: str) -> None:
    code, out, _ = run("--memory", "--target", target, text=TEXT)
    assert code == 0 and " live, at " in out


def test_memory_on_an_unknown_machine() -> None:
    code, _, err = run("--memory", "--target", "mips-unknown", text=TEXT)
    assert code == 1 and "target" in err
