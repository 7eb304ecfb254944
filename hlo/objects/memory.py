"""The memory functions of the C library in LLVM IR, for modules that are linked without it."""

from __future__ import annotations


def _upwards(load: str, eight: str, one: str) -> str:
    """Return lines that write n bytes at `to` and return it: eight at a time, then one by one.

    load: a template that loads a type at %at; eight, one: the values to write.
    """
    lines = [
        "  %words = and i32 %n, -8",
        "  %has.words = icmp ne i32 %words, 0",
        "  br i1 %has.words, label %wide, label %rest",
    ]
    for loop, t, value, step, start, end, then in (
        ("wide", "i64", eight, 8, "[ 0, %entry ]", "%words", "rest"),
        ("bytes", "i8", one, 1, "[ %first, %rest ]", "%n", "end"),
    ):
        lines += [
            f"{loop}:",
            f"  %{loop}.at = phi i32 {start}, [ %{loop}.next, %{loop} ]",
            *(f"  {x}" for x in load.format(t=t, loop=loop).splitlines()),
            f"  %{loop}.to = getelementptr i8, ptr %to, i32 %{loop}.at",
            f"  store {t} {value.format(loop=loop)}, ptr %{loop}.to, align 1",
            f"  %{loop}.next = add i32 %{loop}.at, {step}",
            f"  %{loop}.more = icmp ult i32 %{loop}.next, {end}",
            f"  br i1 %{loop}.more, label %{loop}, label %{then}",
        ]
        if loop == "wide":
            lines += [
                "rest:",
                "  %first = phi i32 [ 0, %entry ], [ %words, %wide ]",
                "  %has.bytes = icmp ult i32 %first, %n",
                "  br i1 %has.bytes, label %bytes, label %end",
            ]
    return "\n".join([*lines, "end:", "  ret ptr %to", ""])


_LOAD = """\
%{loop}.from = getelementptr i8, ptr %from, i32 %{loop}.at
%{loop}.value = load {t}, ptr %{loop}.from, align 1"""
_DOWNWARDS = """\
down:
  %left = phi i32 [ %n, %entry ], [ %next, %down ]
  %next = sub i32 %left, 1
  %source = getelementptr i8, ptr %from, i32 %next
  %target = getelementptr i8, ptr %to, i32 %next
  %value = load i8, ptr %source
  store i8 %value, ptr %target
  %more = icmp ne i32 %next, 0
  br i1 %more, label %down, label %end
end:
  ret ptr %to
"""


def memory_functions() -> dict[str, str]:
    """Return memcpy, memmove and memset, for addresses of 32 bits, by name."""
    return {
        "memcpy": f"""
define ptr @memcpy(ptr %to, ptr %from, i32 %n) nounwind {{
entry:
{_upwards(_LOAD, "%{loop}.value", "%{loop}.value")}}}
""",
        # Copy backwards if the target overlaps the source from above.
        "memmove": f"""
define ptr @memmove(ptr %to, ptr %from, i32 %n) nounwind {{
entry:
  %to.address = ptrtoint ptr %to to i32
  %from.address = ptrtoint ptr %from to i32
  %gap = sub i32 %to.address, %from.address
  %is.clear = icmp uge i32 %gap, %n
  br i1 %is.clear, label %up, label %down
up:
  %done = call ptr @memcpy(ptr %to, ptr %from, i32 %n)
  ret ptr %to
{_DOWNWARDS}}}
""",
        "memset": f"""
define ptr @memset(ptr %to, i32 %c, i32 %n) nounwind {{
entry:
  %byte = trunc i32 %c to i8
  %wide.byte = zext i8 %byte to i64
  %eight = mul i64 %wide.byte, {0x0101010101010101}
{_upwards("", "%eight", "%byte")}}}
""",
    }
