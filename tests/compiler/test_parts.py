"""LLVM IR in parts: what each function is worth, and that nothing is missing."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

import hlo
from hlo.codegen.pipeline import emit_program
from hlo.codegen.targets.cpu import cpu_target
from hlo.runtime import jit
from hlo.runtime.jit import NativeCode, host_machine
from hlo.runtime.parts import Effort, split

NOTES = """\
!0 = !{!"llvm.loop.vectorize.enable", i1 false}
!1 = !{!"llvm.loop.unroll.disable"}
!2 = distinct !{!2, !0, !1}
"""
ENTRY = """\
define i32 @entry(ptr %x) nounwind {
  call void @fill(ptr %x)
  call void @swap(ptr %x)
  ret i32 0
}
"""
FILL = """\
define internal void @fill(ptr %x) noinline nounwind {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %c = icmp slt i64 %i, 100
  br i1 %c, label %body, label %done
body:
  %at = getelementptr i64, ptr %x, i64 %i
  store i64 %i, ptr %at
  %j = add i64 %i, 1
  br label %headNOTE
done:
  ret void
}
"""
SWAP = """\
@seven = internal unnamed_addr constant i64 7
define internal void @swap(ptr %x) noinline nounwind {
  %seven = load i64, ptr @seven
  store i64 %seven, ptr %x
  ret void
}
"""


def efforts(text: str) -> dict[str, Effort]:
    return {
        name: effort
        for part in split(text)
        for effort, module in part.texts
        for name in ("entry", "fill", "swap")
        if any(x.startswith("define") and f"@{name}(" in x for x in module.split("\n"))
    }


@pytest.mark.parametrize(
    ("note", "fill"), [("", Effort.VECTORIZE), (", !llvm.loop !2", Effort.CLEAN)]
)
def test_what_a_function_is_worth(note: str, fill: Effort) -> None:
    text = ENTRY + FILL.replace("NOTE", note) + SWAP + NOTES
    # So little straight code is not worth a module of its own.
    assert efforts(text) == {"entry": Effort.CLEAN, "fill": fill, "swap": Effort.CLEAN}


def test_an_outer_loop_is_not_asked() -> None:
    outer = FILL.replace("NOTE", "").replace("@fill", "@entry").replace("internal void", "void")
    inner = "inner:\n  br i1 %c, label %inner, label %go, !llvm.loop !2\ngo:\n  %at ="
    text = outer.replace("  %at =", f"  br label %inner\n{inner}") + NOTES
    assert efforts(text) == {"entry": Effort.CLEAN}


def test_much_straight_code_is_apart() -> None:
    long = ENTRY.replace(
        "  ret", "".join(f"  %v{n} = add i64 {n}, 1\n" for n in range(2000)) + "  ret"
    )
    text = long + FILL.replace("NOTE", "") + SWAP + NOTES
    assert efforts(text) == {"entry": Effort.NONE, "fill": Effort.VECTORIZE, "swap": Effort.NONE}


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_make_the_whole(copies: int, threads: int) -> None:
    """Many functions become many object files, the same for any number of threads."""
    kernels = "".join(FILL.replace("@fill", f"@fill.{n}") for n in range(copies)).replace(
        "NOTE", ""
    )
    calls = "".join(f"  call void @fill.{n}(ptr %x)\n" for n in range(copies))
    entry = ENTRY.replace("  call void @fill(ptr %x)\n", calls)
    machine = host_machine()
    objects = machine.compile(entry + kernels + SWAP + NOTES, threads)
    assert (len(objects) > 1) == (copies > 1)
    assert objects == machine.compile(entry + kernels + SWAP + NOTES, 1)

    data = (ctypes.c_int64 * 100)()
    code = NativeCode(objects, "entry")
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.addresses["entry"])(data) == 0
    assert list(data) == [7, *range(1, 100)]


@pytest.mark.parametrize("library", [SimpleNamespace(), SimpleNamespace(_name=1, LLVMPY_X=None)])
def test_a_binding_without_the_private_names_makes_the_same_code(
    library: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, machine = ENTRY + FILL.replace("NOTE", "") + SWAP + NOTES, host_machine()
    objects = machine.compile(text, 2)
    jit._unlocked.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(jit, "ffi", SimpleNamespace(lib=library))
        assert jit._unlocked("LLVMPY_X") is None
        assert machine.compile(text, 2) == objects
    jit._unlocked.cache_clear()


def test_an_error_of_llvm_is_raised() -> None:
    with pytest.raises(RuntimeError):
        host_machine().compile("define i32 @f() {\n  ret i64 %nothing\n}\n", 2)


@pytest.mark.parametrize(
    ("text", "is_folded"),
    [
        ("f32[70] add(f32[70] a, f32[70] b)", True),
        ("s8[70] slice(s8[140] a), slice={[0:140:2]}", False),
        ("f32[7,70] transpose(f32[70,7] a), dimensions={1,0}", False),
    ],
)
def test_loops_that_end_with_a_mask(text: str, is_folded: bool) -> None:
    """Elements that lie apart in memory would be loaded one by one under a mask."""
    machine = host_machine()
    target = cpu_target(machine.triple, machine.data_layout, "+avx512bw,+avx512vl,+avx512f")
    llvm = emit_program(hlo.parse(text).entry, "entry", target).llvm
    assert ("vectorize.predicate.enable" in llvm) == is_folded


DRIVER = """define internal void @driver(ptr %x, i64 %n) noinline nounwind {
entry:
  br label %head1
head1:
  %i = phi i64 [ 0, %entry ], [ %j, %latch1 ]
  %c = icmp slt i64 %i, %n
  br i1 %c, label %body1, label %done1
body1:
  BODY
  br label %latch1
latch1:
  %j = add nsw i64 %i, 1
  br label %head1
done1:
  ret void
}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("call void @fill(ptr %x, i64 %n)", True),
        ("store i8 0, ptr %x", False),
        ("call void @straight(ptr %x)", False),
    ],
)
def test_loops_around_loops_of_other_functions_are_left_as_they_are(
    body: str, expected: bool
) -> None:
    straight = "define internal void @straight(ptr %x) noinline nounwind {\n  ret void\n}\n"
    fill = DRIVER.replace("@driver", "@fill").replace("BODY", "store i8 0, ptr %x")
    text = "".join([DRIVER.replace("BODY", body), fill, straight])
    (part,) = split(text)
    (driver,) = [line for _, t in part.texts for line in t.split("\n") if "@driver(" in line]
    assert ("optnone" in driver) == expected
