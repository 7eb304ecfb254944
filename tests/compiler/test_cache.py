"""Compiled programs on disk: what makes a key, what damage does, what goes when space is short."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.compiler.keys import sources
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build, compile_text
from hlo.llvm import Compiled
from hlo.runtime import kept
from hlo.runtime.cache import Cache, digest
from hlo.runtime.entries import head
from hlo.runtime.executable import Executable
from hlo.runtime.jit import Machine, host_machine
from hlo.runtime.kept import KeptFunctions
from hlo.runtime.parts import Part

ADD = "HloModule m\nENTRY e {\n  a = f32[3] parameter(0)\n  ROOT b = f32[3] add(a, a)\n}\n"
# A table large enough not to be part of the code.
TABLE = f"f32[700] constant({{{','.join(map(str, range(700)))}}})"
X = np.arange(3, dtype=np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def files(store: Cache) -> list[Path]:
    """Return the entries of programs, and what else is beside them but the folder of parts."""
    found = store.folder.iterdir() if store.folder.exists() else ()
    return sorted(p for p in found if p.name != "parts")


def was_built(text: str, store: Cache | bool, **options: str) -> bool:
    exe = compile_text(text.encode(), "m", cache=store, **options)  # type: ignore[arg-type]
    return "emit" in exe.compile_seconds


def test_the_second_time_nothing_is_built(store: Cache) -> None:
    assert was_built(ADD, store)
    again = compile_text(ADD.encode(), "m", cache=store)
    assert set(again.compile_seconds) == {"look up", "load"}
    np.testing.assert_array_equal(again(X), X + X)
    assert [p.name for p in again.parameters] == ["a"]
    assert again.cost["operations"] == 3


def test_constants_come_from_the_file(store: Cache) -> None:
    text = f"HloModule m\nENTRY e {{\n c = {TABLE}\n ROOT n = f32[700] negate(c)\n}}\n"
    first = compile_text(text.encode(), "m", cache=store)()
    second = compile_text(text.encode(), "m", cache=store)()
    np.testing.assert_array_equal(first, -np.arange(700, dtype=np.float32))
    np.testing.assert_array_equal(first, second)


def test_text_options_and_versions_are_the_key(
    store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert was_built(ADD, store)
    assert was_built(ADD.replace("add", "multiply"), store)
    assert not was_built(ADD, store)
    monkeypatch.setattr("hlo.compiler.keys.__version__", "99")
    assert was_built(ADD, store)


def test_thesources_of_every_package_are_part_of_the_key() -> None:
    assert "codegen/pipeline.py" in sources() and "ops/spec.py" in sources()


def test_a_module_is_known_by_its_text(store: Cache) -> None:
    module = hlo.parse(ADD)
    assert "emit" in hlo.compile(module, cache=store).compile_seconds
    assert "emit" not in hlo.compile(hlo.parse(str(module)), cache=store).compile_seconds


def test_parts_of_a_key_do_not_run_together() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"])


def test_without_a_cache_nothing_is_written(store: Cache) -> None:
    assert was_built(ADD, False)
    assert was_built(ADD, False)
    assert not files(store)


@pytest.mark.parametrize("keep", [0, 1, 40, 64, 100, -1])
def test_a_cut_entry_is_made_again(store: Cache, keep: int) -> None:
    was_built(ADD, store)
    (path,) = files(store)
    data = path.read_bytes()
    path.write_bytes(data[:keep])
    assert was_built(ADD, store)
    assert path.read_bytes() == data
    assert not was_built(ADD, store)


def test_any_changed_byte_is_noticed(store: Cache) -> None:
    was_built(ADD, store)
    (path,) = files(store)
    data = path.read_bytes()
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert store.get(path.stem) is None
    path.write_bytes(data)
    assert store.get(path.stem) is not None


def test_a_program_of_another_make_is_ignored(store: Cache) -> None:
    """What the checksum covers may still not be what this version writes."""
    was_built(ADD, store)
    (path,) = files(store)
    for body in (b"", b"\0" * 32, b"\1" * 64, (40).to_bytes(8, "little") * 4 + b"{}" * 40):
        path.write_bytes(head(path.stem, [body]) + body)
        assert store.get(path.stem) is None


def with_header(store: Cache, path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of an entry, so that all else of it is right."""
    data = path.read_bytes()[64:]
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode().ljust(length)
    assert len(text) == length, "what follows has a place of its own"
    body = data[:8] + text + data[8 + length :]
    path.write_bytes(head(path.stem, [body]) + body)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("symbol", "other"), ("symbol", None), ("name", 3), ("arena_bytes", -1),
        ("arena_bytes", "1"), ("parameters", []), ("parameters", [[1, "a", "f32[3]{0}"]]),
        ("result", "f32["), ("aliases", [[7, 0]]), ("imports", [1]), ("sections", [0, 0]),
        ("device_counts", [1]), ("uses_host", 0), ("domains", 5), ("elided", None),
    ],
)  # fmt: skip
def test_a_wrong_header_ends_in_compiling_again(store: Cache, key: str, value: object) -> None:
    was_built(ADD, store)
    (path,) = files(store)
    right = path.read_bytes()
    # Room for values of any length.
    with_header(store, path, lambda h: h.update({key: value, "cost": {}}))
    if key == "parameters" and not value:
        return  # sound, but for another program: only who may write here could say so
    exe = compile_text(ADD.encode(), "m", cache=store)
    assert "emit" in exe.compile_seconds
    np.testing.assert_array_equal(exe(X), X + X)
    assert path.read_bytes()[:16] == right[:16]


def test_an_entry_under_another_key_is_none(store: Cache) -> None:
    was_built(ADD, store)
    (add,) = files(store)
    was_built(ADD.replace("add", "multiply"), store)
    (other,) = set(files(store)) - {add}
    os.replace(other, add)
    exe = compile_text(ADD.encode(), "m", cache=store)
    np.testing.assert_array_equal(exe(X), X + X)


@pytest.mark.skipif(os.name != "posix", reason="modes say nothing here")
@pytest.mark.parametrize("writable", ["folder", "entry"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_not_run(store: Cache, writable: str, mode: int) -> None:
    was_built(ADD, store)
    (entry,) = files(store)
    path = store.folder if writable == "folder" else entry
    path.chmod(path.stat().st_mode | mode)
    assert was_built(ADD, store)
    if writable == "folder":
        assert store.problem is not None and "others may write to it" in store.problem
        path.chmod(0o700)
    assert not was_built(ADD, store)  # it is written again, or its folder is private again


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no users")
def test_what_is_of_another_user_is_not_run(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    was_built(ADD, store)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert was_built(ADD, store) and store.problem is not None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("kind", ["pipe", "link", "loop", "device"])
def test_what_is_no_file_is_no_entry(store: Cache, kind: str) -> None:
    was_built(ADD, store)
    (path,) = files(store)
    elsewhere = store.folder.parent / "elsewhere"
    os.replace(path, elsewhere)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        to = {"link": elsewhere, "loop": path, "device": Path("/dev/zero")}[kind]
        path.symlink_to(to)
    assert was_built(ADD, store)
    assert path.is_file() and not path.is_symlink() and not was_built(ADD, store)


def test_an_entry_that_is_a_folder_is_no_entry(store: Cache) -> None:
    was_built(ADD, store)
    (path,) = files(store)
    path.unlink()
    path.mkdir()
    assert was_built(ADD, store)
    assert store.problem


def test_what_was_not_used_for_longest_goes_first(store: Cache) -> None:
    texts = [ADD.replace("add", op) for op in ("add", "multiply", "maximum")]
    for age, text in zip((30, 20, 10), texts, strict=True):
        was_built(text, store)
        newest = max(files(store), key=os.path.getmtime)
        os.utime(newest, (time.time() - age, time.time() - age))
    assert not was_built(texts[0], store)  # which makes it the newest
    size = files(store)[0].stat().st_size
    store.limit_bytes = 3 * size + size // 2
    assert was_built(ADD.replace("add", "minimum"), store)
    assert len(files(store)) == 3
    assert not was_built(texts[0], store)
    assert was_built(texts[1], store)


def test_a_program_too_large_for_the_cache_is_not_kept(store: Cache) -> None:
    store.limit_bytes = 100
    assert was_built(ADD, store)
    assert not files(store)
    assert store.problem is not None and "too many" in store.problem


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Cache(tmp_path / "file" / "cache")
    assert was_built(ADD, store)
    assert store.problem is not None


def test_what_a_dead_process_left_is_removed(store: Cache) -> None:
    was_built(ADD, store)
    old, young = store.folder / "new-old", store.folder / "new-young"
    foreign = store.folder / "readme"
    for path in (old, young, foreign):
        path.write_text("x")
    for path in (old, foreign):
        os.utime(path, (0, 0))
    was_built(ADD.replace("add", "multiply"), store)
    assert not old.exists() and young.exists() and foreign.exists()


def test_clear(store: Cache) -> None:
    was_built(ADD, store)
    product(store, 64, 96)
    store.clear()
    assert not files(store) and not parts(store)


def _many(folder: str, number: int) -> int:
    """Compile several programs, whose entries push each other out, in a process of its own."""
    store = Cache(folder, limit_bytes=20_000)
    wrong = 0
    for i in range(12):
        text = ADD.replace("add(a, a)", f"{('add', 'multiply', 'maximum')[(i + number) % 3]}(a, a)")
        got = compile_text(text.encode(), "m", cache=store)(X)
        want = (X + X, X * X, X)[(i + number) % 3]
        wrong += not np.array_equal(got, want)
    return wrong


def test_several_processes_at_once(store: Cache) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        assert pool.starmap(_many, [(str(store.folder), n) for n in range(3)]) == [0, 0, 0]
    assert not [p for p in files(store) if p.name.startswith("new-")]


# --- parts that programs share ------------------------------------------------------------------

PRODUCT = """HloModule m
ENTRY e {{
  a = f32[{m},40] parameter(0)  b = f32[40,{n}] parameter(1)
  ROOT c = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def parts(store: Cache) -> list[Path]:
    return sorted((store.folder / "parts").glob("*.o"))


def product(store: Cache, m: int, n: int) -> None:
    a, b = np.ones((m, 40), np.float32), np.ones((40, n), np.float32)
    result = compile_text(PRODUCT.format(m=m, n=n).encode(), "m", cache=store)(a, b)
    np.testing.assert_array_equal(result, np.full((m, n), 40, np.float32))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The names of functions in each part that is compiled."""
    found: list[tuple[str, ...]] = []
    compile_part = Machine._compile_part

    def noting(machine: Machine, part: Part) -> bytes:
        found.append(part.names)
        return compile_part(machine, part)

    monkeypatch.setattr(Machine, "_compile_part", noting)
    return found


def microkernels(compiled: list[tuple[str, ...]]) -> list[str]:
    return [name for names in compiled for name in names if name.endswith(".tile")]


@pytest.mark.parametrize("is_other_process", [False, True])
def test_products_of_other_sizes_share_a_microkernel(
    store: Cache, compiled: list[tuple[str, ...]], is_other_process: bool
) -> None:
    kept.forget()
    product(store, 64, 96)
    assert microkernels(compiled) and parts(store)
    compiled.clear()
    if is_other_process:
        kept.forget()
    product(store, 96, 64)
    assert compiled and not microkernels(compiled)


def test_code_is_the_same_wherever_its_parts_come_from(store: Cache) -> None:
    text, machine = PRODUCT.format(m=64, n=96), host_machine()
    programs = []
    for warm, cache in ((False, None), (True, None), (False, store), (False, store)):
        if not warm:
            kept.forget()
        programs.append(build(hlo.parse(text), machine, Clock(), store=cache).code)
    assert programs[1:] == programs[:-1]


@pytest.mark.parametrize("keep", [0, 40, 64, 200])
def test_a_damaged_part_is_compiled_again(
    store: Cache, compiled: list[tuple[str, ...]], keep: int
) -> None:
    kept.forget()
    product(store, 64, 96)
    files = {path: path.read_bytes() for path in parts(store)}
    for path, data in files.items():
        path.write_bytes(data[:keep])
    kept.forget()
    compiled.clear()
    build(hlo.parse(PRODUCT.format(m=64, n=96)), host_machine(), Clock(), store=store)
    assert microkernels(compiled)
    assert {path: path.read_bytes() for path in files} == files


def test_parts_are_stored_that_were_only_in_memory(store: Cache) -> None:
    kept.forget()
    build(hlo.parse(PRODUCT.format(m=64, n=96)), host_machine(), Clock())
    product(store, 64, 96)
    assert parts(store)


# --- functions that programs share --------------------------------------------------------------

# Of different sizes, so that none is computed beside another.
STEPS = {"exp": 300, "logistic": 310, "cbrt": 320}
OPCODES = {"exp": "exponential", "logistic": "logistic", "cbrt": "cbrt"}


def of_steps(*names: str) -> str:
    """Return a module with a kernel for each step."""
    lines = ["HloModule m", "ENTRY e {"]
    for n, name in enumerate(names):
        lines.append(f"x{n} = f32[{STEPS[name]}] parameter({n})")
        lines.append(f"{name} = f32[{STEPS[name]}] {OPCODES[name]}(x{n})")
    types = ", ".join(f"f32[{STEPS[name]}]" for name in names)
    return "\n".join([*lines, f"ROOT r = ({types}) tuple({', '.join(names)})", "}"])


def results(names: Sequence[str], store: Cache | None) -> dict[str, np.ndarray]:
    arguments = [np.linspace(0.5, 4, STEPS[name], dtype=np.float32) for name in names]
    program = build(hlo.parse(of_steps(*names)), host_machine(), Clock(), store=store)
    found = Executable(program)(*arguments)
    return dict(zip(names, found if isinstance(found, tuple) else [found], strict=True))


def kernels(compiled: list[tuple[str, ...]]) -> set[str]:
    names = [name for names in compiled for name in names if name.startswith("kernel.")]
    return {name.split(".")[1] for name in names}


@pytest.fixture
def whole() -> dict[str, np.ndarray]:
    """The results of the steps, compiled without what others have had."""
    kept.forget()
    found = results([*STEPS], None)
    kept.forget()
    return found


@pytest.mark.parametrize("is_other_process", [False, True])
def test_a_new_program_compiles_what_is_new_in_it(
    store: Cache, compiled: list[tuple[str, ...]], whole: dict[str, np.ndarray],
    is_other_process: bool,
) -> None:  # fmt: skip
    for names, new in (
        (["exp", "logistic"], {"exp", "logistic"}),
        (["logistic", "cbrt"], {"cbrt"}),
        (["cbrt", "logistic", "exp"], set()),
    ):
        compiled.clear()
        for name, result in results(names, store).items():
            np.testing.assert_array_equal(result, whole[name])
        assert kernels(compiled) == new
        if is_other_process:
            kept.forget()


def test_a_function_may_be_in_several_object_files(
    store: Cache, tmp_path: Path, compiled: list[tuple[str, ...]], whole: dict[str, np.ndarray]
) -> None:
    """Processes that compile at the same time do not see what the other one has made."""
    other = Cache(tmp_path / "other")
    results(["exp", "logistic"], store)
    kept.forget()
    results(["logistic", "cbrt"], other)
    for pattern in ("*.o", "*.function"):
        for path in (other.folder / "parts").glob(pattern):
            target = store.folder / "parts" / path.name
            if not target.exists():
                path.rename(target)
    kept.forget()
    compiled.clear()
    for name, result in results(["exp", "cbrt", "logistic"], store).items():
        np.testing.assert_array_equal(result, whole[name])
    assert not kernels(compiled)


def test_what_is_beside_a_function_is_linked_with_all_that_it_calls() -> None:
    """Products in single and double precision have one object file, and call two others."""

    def run(*types: str) -> None:
        lines, results, arguments = [], [], []
        for n, t in enumerate(types):
            lines.append(f"a{n} = {t}[3,5] parameter({2 * n})")
            lines.append(f"b{n} = {t}[5,7] parameter({2 * n + 1})")
            dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            lines.append(f"c{n} = {t}[3,7] dot(a{n}, b{n}), {dims}")
            results.append(f"{t}[3,7]")
            arguments += [np.ones(size, t.replace("f", "float")) for size in ((3, 5), (5, 7))]
        names = ", ".join(f"c{n}" for n in range(len(types)))
        root = f"ROOT r = ({', '.join(results)}) tuple({names})"
        module = hlo.parse("\n".join(["HloModule m", "ENTRY e {", *lines, root, "}"]))
        found = Executable(build(module, host_machine(), Clock()))(*arguments)
        for array in found if isinstance(found, tuple) else [found]:
            np.testing.assert_array_equal(array, np.full((3, 7), 5))

    kept.forget()
    run("f32", "f64")
    run("f32")
    run("f64")


def test_kernels_of_other_sizes_or_types_are_others(
    store: Cache, compiled: list[tuple[str, ...]]
) -> None:
    kept.forget()
    shapes = ("f32[300]", "f64[300]", "f16[300]", "f32[301]", "f32[600]")
    for shape in shapes:
        compiled.clear()
        text = f"HloModule m\nENTRY e {{ x = {shape} parameter(0) ROOT y = {shape} tanh(x) }}"
        build(hlo.parse(text), host_machine(), Clock(), store=store)
        assert kernels(compiled) == {"y"}, shape


@pytest.mark.parametrize("pattern", ["*.o", "*.function"])
@pytest.mark.parametrize("keep", [None, 0, 70])
def test_a_function_without_its_files_is_compiled_again(
    store: Cache, compiled: list[tuple[str, ...]], whole: dict[str, np.ndarray], pattern: str,
    keep: int | None,
) -> None:  # fmt: skip
    results(["exp"], store)
    kept.forget()
    compiled.clear()
    for path in (store.folder / "parts").glob(pattern):
        path.unlink() if keep is None else path.write_bytes(path.read_bytes()[:keep])
    np.testing.assert_array_equal(results(["exp"], store)["exp"], whole["exp"])
    assert kernels(compiled) == ({"exp"} if pattern == "*.o" else set())


def test_other_processors_have_functions_of_their_own(store: Cache) -> None:
    kept.forget()
    here = KeptFunctions("x86-64-v4", store)
    here.put("f", Compiled("f", "declare void @f()", True, (1.0, 2.0), ()))
    assert KeptFunctions("x86-64-v4", store).find("f") is not None
    assert KeptFunctions("x86-64-v2", store).find("f") is None
    kept.forget()
    assert KeptFunctions("x86-64-v4", store).find("f") == here.find("f")


# --- limits -------------------------------------------------------------------------------------


def test_parts_take_a_bounded_share(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store._parts, "_looks_at_all", True)
    store.limit_bytes = 8 * 500
    for n in range(20):
        store.put_part(f"{n:064x}", bytes(100))
    assert sum(path.stat().st_size for path in parts(store)) <= 500
    assert store.get_part(f"{19:064x}") == bytes(100) and store.get_part(f"{0:064x}") is None


def test_memory_for_parts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept._files, "_limit", 1000)
    kept.forget()
    for n in range(20):
        kept.put(str(n), bytes(100), None)
        kept.get("0", None)
    held = [n for n in range(20) if kept.get(str(n), None) is not None]
    assert held == [0, *range(11, 20)]
    kept.forget()
