"""`hlo-reduce`: its tests, its output, interruptions, errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.reduce import main

import hlo
from tests.harness.processes import HANG_S, started
from tests.harness.schemas import check_schema

TEXT = """HloModule m

ENTRY e {
  x = f32[8,16] parameter(0)
  y = f32[8,16] parameter(1)
  s = f32[8,16] subtract(x, y)
  t = f32[8,16] exponential(s)
  u = f32[8,16] multiply(t, y)
  ROOT v = f32[8,16] tanh(u)
}
"""
PLUGIN = """
from hlo.passes import Rewrites, module_pass

@module_pass
def {name}(module, rewrites: Rewrites) -> None:
    '''Is wrong about subtractions.'''
    for comp in module.computations:
        for inst in comp.in_order():
            if inst.opcode == "subtract" and rewrites.allow("swap", inst):
                {body}
"""
SWAP = """x, y = inst.operands
                inst.replace_operand(0, y), inst.replace_operand(1, x)"""
BREAK = "inst.shape = module.entry.parameters[0].shape.with_type(hlo.values.types.S32)"


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hlo").write_text(TEXT)
    return tmp_path / "m.hlo"


def opcodes(path: str) -> list[str]:
    module = hlo.load(path)
    hlo.verify(module)
    return [i.opcode for i in module.instructions()]


def test_a_command_says_what_is_wrong(file: Path) -> None:
    done = run(str(file), "--test", "grep -q exponential")
    assert done.exit_code == 0
    assert "exit status 0: 6 instructions reduced to 2 instructions" in done.stderr
    assert opcodes("m.reduced.hlo") == ["parameter", "exponential"]
    assert not Path("m.reduced.hlo.journal").exists()


def test_the_file_of_a_command_and_its_exit_status(file: Path) -> None:
    command = 'test -s {} && grep -q tanh "$HLO_FILE" && exit 7'
    assert run("m.hlo", "--test", command, "--test-exit", "7", "-o", "t.hlo").exit_code == 0
    assert opcodes("t.hlo") == ["parameter", "tanh"]


@pytest.mark.parametrize(
    ("name", "body", "problem"),
    [
        ("swap_operands", SWAP, "changed results"),
        ("break_module", BREAK, "an invalid module"),
        ("crash_itself", "assert False", "AssertionError in the pass"),
    ],
)
def test_a_pass(file: Path, name: str, body: str, problem: str) -> None:
    Path("plugin.py").write_text("import hlo.values.types\n" + PLUGIN.format(name=name, body=body))
    done = run("m.hlo", "--pass", name, "--load-pass-plugin", "plugin.py", "--json")
    summary = json.loads(done.stdout)
    check_schema("hlo-reduce", summary)
    assert summary["problem"] == problem
    assert set(opcodes("m.reduced.hlo")) == {"parameter", "subtract"}
    assert summary["module"] == Path("m.reduced.hlo").read_text()


def test_two_ways_to_run_it(file: Path) -> None:
    plugin = PLUGIN.format(name="swap_again", body=SWAP)
    Path("plugin.py").write_text(plugin)
    ways = "compiled{passes=swap-again}, reference{passes=algsimp,dce}"
    assert run("m.hlo", "--diverges", ways, "--load-pass-plugin", "plugin.py").exit_code == 0
    assert set(opcodes("m.reduced.hlo")) == {"parameter", "subtract"}
    for wrong in ("compiled,referense", "compiled", "compiled,other.hlo", "xla,saved.npz"):
        done = run("m.hlo", "--diverges", wrong)
        assert done.exit_code == 1 and "[bad-backend]" in done.stderr and "hint" in done.stderr


TOGETHER = """HloModule m, replica_count=2
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] cosine(a)
  c = f32[8] all-reduce(b), replica_groups={{0,1}}, to_apply=add
  ROOT d = f32[8] exponential(c)
}
"""
SHARDED = """HloModule m, num_partitions=2
ENTRY e {
  a = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  b = f32[8,4] cosine(a), sharding={devices=[2,1]<=[2]}
  ROOT c = f32[4,8] transpose(b), dimensions={1,0}, sharding={replicated}
}
"""


@pytest.mark.parametrize(
    "flags", [("--diverges", "compiled{passes=no-sum},reference"), ("--pass", "no-sum")]
)
def test_several_devices(file: Path, flags: tuple[str, ...]) -> None:
    plugin = PLUGIN.replace("subtract", "all-reduce").format(
        name="no_sum", body="inst.replace_all_uses_with(inst.operands[0])"
    )
    Path("plugin.py").write_text(plugin)
    Path("m.hlo").write_text(TOGETHER)
    done = run("m.hlo", *flags, "--load-pass-plugin", "plugin.py")
    assert done.exit_code == 0, done.stderr
    assert (
        {"all-reduce"} <= set(opcodes("m.reduced.hlo")) <= {"parameter", "all-reduce", "constant"}
    )
    assert "[several-devices]" in run("m.hlo", "--crash").stderr


def test_a_partitioned_module_takes_shards(file: Path) -> None:
    Path("m.hlo").write_text(SHARDED)
    assert "[nothing-wrong]" in run("m.hlo", "--pass", "spmd-partitioning").stderr


CLAMPED = """HloModule m
ENTRY e {
  x = f32[2,4] parameter(0)
  y = f32[2,4] parameter(1)
  z = f32[2,4] multiply(x, x)
  hundred = f32[] constant(100)
  most = f32[2,4] broadcast(hundred), dimensions={}
  m = f32[2,4] minimum(z, most)
  ROOT r = f32[2,4] add(m, y)
}
"""


def test_inputs_shrink_with_their_parameters(file: Path) -> None:
    file.write_text(CLAMPED)
    plugin = PLUGIN.replace("subtract", "minimum").format(
        name="no_minimum",
        body="""if "constant(100)" in "".join(map(str, inst.operands[1].operands)):
                    inst.replace_all_uses_with(inst.operands[0])""",
    )
    Path("plugin.py").write_text(plugin)
    test = ["m.hlo", "--pass", "no-minimum", "--load-pass-plugin", "plugin.py"]
    assert "[nothing-wrong]" in run(*test).stderr
    np.savez("in.npz", x=np.full((2, 4), 30, np.float32))
    done = run(*test, "--inputs", "in.npz", "--json")
    summary = json.loads(done.stdout)
    check_schema("hlo-reduce", summary)
    assert opcodes("m.reduced.hlo") == ["constant", "broadcast", "parameter", "minimum"]
    # What was multiplied before is a parameter now, of the value that it had.
    with np.load(summary["inputs"]) as inputs:
        assert [a.tolist() for a in inputs.values()] == [[[900]]]
    assert run("m.hlo", "--error", "bad-value", "--inputs", "in.npz").exit_code == 2


HAS_LARGE = """
import sys
import numpy as np
with np.load(sys.argv[1]) as inputs:
    sys.exit(not any((a > 100).any() for a in inputs.values()))
"""


@pytest.mark.parametrize("how", ["{inputs}", "$HLO_INPUTS"])
def test_a_command_gets_the_inputs(file: Path, how: str) -> None:
    """They shrink with the module: a value above 100 is a parameter's in the end."""
    Path("large.py").write_text(HAS_LARGE)
    np.savez("in.npz", x=np.full((8, 16), 300, np.float32), y=np.ones((8, 16), np.float32))
    command = f"{sys.executable} large.py {how} && grep -q tanh {{}}"
    done = run("m.hlo", "--test", command, "--inputs", "in.npz", "--json")
    assert opcodes("m.reduced.hlo") == ["parameter", "tanh"]
    with np.load(json.loads(done.stdout)["inputs"]) as inputs:
        assert [a.shape for a in inputs.values()] == [(1, 1)]
        assert min(a.min() for a in inputs.values()) > 100


def test_a_command_that_names_inputs_gets_random_ones(file: Path) -> None:
    command = "test -s {inputs} && grep -q tanh {}"
    assert run("m.hlo", "--test", command).exit_code == 0
    assert opcodes("m.reduced.hlo") == ["parameter", "tanh"]
    assert run("m.hlo", "--test", "test -z $HLO_INPUTS && grep -q tanh {}").exit_code == 1
    assert run("m.hlo", "--test", "! env | grep HLO_INPUT && grep -q sub {}").exit_code == 0


def test_the_instruction_that_makes_a_nan(file: Path) -> None:
    file.write_text(TEXT.replace("exponential(s)", "log(s)"))
    np.savez("in.npz", x=np.ones((8, 16), np.float32), y=np.full((8, 16), 2, np.float32))
    done = run("m.hlo", "--find-nan", "--inputs", "in.npz", "--json")
    summary = json.loads(done.stdout)
    check_schema("hlo-reduce", summary)
    assert summary["problem"] == "log makes NaN"
    assert opcodes("m.reduced.hlo") == ["parameter", "log"]
    with np.load(summary["inputs"]) as inputs:
        assert [a.tolist() for a in inputs.values()] == [[[-1]]]
    assert (
        "nothing to reduce: the test does not fail on m.hlo"
        in run("m.hlo", "--find-nan", "--random", "x=5:9", "--random", "y=1:2").stderr
    )


def test_a_command_that_dies(file: Path) -> None:
    command = "if grep -q tanh {}; then kill -ABRT $$; fi"
    assert "SIGABRT: 6 instructions" in run("m.hlo", f"--crash={command}").stderr
    assert opcodes("m.reduced.hlo") == ["parameter", "tanh"]


def test_a_pass_that_ends_the_process(file: Path) -> None:
    body = "import os; os.kill(os.getpid(), 9)"
    Path("plugin.py").write_text(PLUGIN.format(name="fatal", body=body))
    said = run("m.hlo", "--pass", "fatal", "--load-pass-plugin", "plugin.py").stderr
    assert "ended by SIGKILL; --crash is for what ends a process" in said


def test_native_code_that_is_right(file: Path) -> None:
    for test in ("--check", "--crash"):
        done = run("m.hlo", test, "--json")
        assert done.exit_code == 1
        check_schema("hlo-reduce", json.loads(done.stdout))
        assert json.loads(done.stdout)["errors"][0]["code"] == "nothing-wrong"


def test_an_error_of_the_verifier(file: Path) -> None:
    file.write_text(TEXT.replace("t = f32[8,16]", "t = f32[8,15]"))
    assert run("m.hlo", "--test", "true").exit_code == 1
    assert run("m.hlo", "--error", "shape-mismatch", "-o", "out.hlo").exit_code == 0
    assert len(list(hlo.load("out.hlo").instructions())) <= 3


def test_files_of_tests_that_are_ended_go(file: Path) -> None:
    Path("files").mkdir()
    # Of two tests at a time the second is ended, if the first finds its module wrong.
    flags = ["m.hlo", "--test", "sleep 0.1; grep -q tanh {}", "-j", "2"]
    command = [sys.executable, "-c", "from hlo_tools.reduce import main; main()", *flags]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(Path("files").absolute())})
    assert done.returncode == 0
    assert not list(Path("files").iterdir())


def test_wrong_usage(file: Path) -> None:
    assert run("m.hlo").exit_code == 2
    assert "nan is not a number" in run("m.hlo", "--check", "--timeout", "nan").stderr
    assert run("m.hlo", "--check", "--crash").exit_code == 2
    assert "[bad-command]" in run("m.hlo", "--test", "no-such-command").stderr
    assert "[unknown-pass]" in run("m.hlo", "--pass", "no-such-pass").stderr
    assert run("none.hlo", "--check").exit_code == 1


def test_an_interrupted_reduction_goes_on(file: Path) -> None:
    # From the third test on each takes long.
    Path("slow.sh").write_text(
        "echo >> tests; [ $(wc -l < tests) -gt 6 ] && [ ! -e on ] && sleep 3600\n"
        'grep -q tanh "$1"\n'
    )
    Path("tests").touch()
    command = "from hlo_tools.reduce import main; main()"
    args = [sys.executable, "-c", command, "m.hlo", "--test", "sh ./slow.sh", "-j", "1"]
    with started(args, stderr=subprocess.PIPE, text=True) as process:
        while Path("tests").read_text().count("\n") < 7:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 130 and "continues from there" in said
    before = len(opcodes("m.reduced.hlo"))
    assert before < 6
    Path("on").touch()
    done = run("m.hlo", "--test", "sh ./slow.sh", "-j", "1")
    assert f"continues from m.reduced.hlo, {before} instruction" in done.stderr
    assert opcodes("m.reduced.hlo") == ["parameter", "tanh"]
    assert not {p.name for p in Path().iterdir()} - {
        "m.hlo",
        "m.reduced.hlo",
        "slow.sh",
        "tests",
        "on",
    }
