"""Functions of the compiler's run-time library that LLVM calls (libgcc, compiler-rt, MSVC's).

On 32-bit processors these are 64-bit division, and conversions between 64-bit integers and
floats; on Windows, probing large stack frames page by page. Our objects need no library, so each
defines the functions that it calls, as local ones of the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from hlo.objects.memory import memory_functions
from hlo.objects.parsing import parsed_for
from hlo.objects.targets import Platform


def with_builtins(
    module: llvm.ModuleRef, platform: Platform, *, is_alone: bool = False
) -> llvm.ModuleRef:
    """Return a module with definitions of the run-time functions that its machine code calls.

    is_alone: including those of the C library, for modules that are linked without it.
    """
    machine = platform.machine
    known = builtins(platform.arch, platform.container, machine.triple.endswith("-gnu"))
    if is_alone:
        known = {**known, **_memory()}
    defined: frozenset[str] = frozenset()
    found = module
    while known:
        # They are known only after code generation, and those that are added may call others.
        code = machine.object_code(found.clone())
        # ELF names are null-terminated; elsewhere a substring match is rare, and harmless.
        end = b"\0" if platform.container == "elf" else b""
        needed = defined.union(name for name in known if name.encode() + end in code)
        if needed == defined:
            break
        defined = needed
        added = parsed_for(module, _with_shared({n: known[n] for n in sorted(defined)}))
        names = [f.name for f in added.functions if not f.is_declaration]
        found = module.clone()
        found.link_in(added)
        # Not earlier: LLVM removes local functions that nothing in the module refers to.
        for name in names:
            found.get_function(name).linkage = "internal"
    return found


@dataclass(frozen=True)
class Builtin:
    """A function in LLVM IR. calls: the functions that it calls."""

    text: str
    calls: frozenset[str] = frozenset()


def _memory() -> dict[str, Builtin]:
    """Return the memory functions of the C library."""
    calls = {"memmove": frozenset({"memcpy"})}
    return {n: Builtin(text, calls.get(n, frozenset())) for n, text in memory_functions().items()}


@cache
def builtins(arch: str, container: str, is_gnu: bool) -> Mapping[str, Builtin]:
    """Return the definitions of the functions that code for a machine calls.

    is_gnu: use the names of GNU's compilers on systems with other conventions.
    """
    if container == "coff":
        return dict([_touch_stack("___chkstk_ms" if is_gnu else "__chkstk")])
    return {"i686": dict(_of_i686()), "armv7": dict(_of_armv7())}.get(arch, {})


def _divide(bits: int) -> str:
    """Return a function for unsigned quotient and remainder, one bit at a time.

    The divisor is not zero, as in LLVM's own division.
    """
    t = f"i{bits}"
    return f"""
define {{ {t}, {t} }} @hlo.udivmod.{t}({t} %n, {t} %d) nounwind {{
entry:
{_NARROW if bits == 64 else "  br label %wide"}
wide:
  %less = icmp ult {t} %n, %d
  br i1 %less, label %none, label %start
none:
  %none0 = insertvalue {{ {t}, {t} }} {{ {t} 0, {t} undef }}, {t} %n, 1
  ret {{ {t}, {t} }} %none0
start:
  %zeros.d = call {t} @llvm.ctlz.{t}({t} %d, i1 false)
  %zeros.n = call {t} @llvm.ctlz.{t}({t} %n, i1 false)
  %shift = sub {t} %zeros.d, %zeros.n
  %top = shl {t} %d, %shift
  br label %next
next:
  %rest = phi {t} [ %n, %start ], [ %rest.next, %next ]
  %part = phi {t} [ %top, %start ], [ %part.next, %next ]
  %quotient = phi {t} [ 0, %start ], [ %quotient.next, %next ]
  %left = phi {t} [ %shift, %start ], [ %left.next, %next ]
  %fits = icmp uge {t} %rest, %part
  %lower = sub {t} %rest, %part
  %rest.next = select i1 %fits, {t} %lower, {t} %rest
  %twice = shl {t} %quotient, 1
  %bit = zext i1 %fits to {t}
  %quotient.next = or {t} %twice, %bit
  %part.next = lshr {t} %part, 1
  %left.next = sub {t} %left, 1
  %last = icmp eq {t} %left, 0
  br i1 %last, label %done, label %next
done:
  %pair0 = insertvalue {{ {t}, {t} }} undef, {t} %quotient.next, 0
  %pair = insertvalue {{ {t}, {t} }} %pair0, {t} %rest.next, 1
  ret {{ {t}, {t} }} %pair
}}
declare {t} @llvm.ctlz.{t}({t}, i1)
"""


def _divide_signed(bits: int) -> str:
    """Return the same for signed numbers; the remainder has the sign of the dividend."""
    t = f"i{bits}"
    return f"""
define {{ {t}, {t} }} @hlo.sdivmod.{t}({t} %n, {t} %d) nounwind {{
  %sign.n = ashr {t} %n, {bits - 1}
  %sign.d = ashr {t} %d, {bits - 1}
  %flipped.n = xor {t} %n, %sign.n
  %flipped.d = xor {t} %d, %sign.d
  %size.n = sub {t} %flipped.n, %sign.n
  %size.d = sub {t} %flipped.d, %sign.d
  %sizes = call {{ {t}, {t} }} @hlo.udivmod.{t}({t} %size.n, {t} %size.d)
  %q = extractvalue {{ {t}, {t} }} %sizes, 0
  %r = extractvalue {{ {t}, {t} }} %sizes, 1
  %sign.q = xor {t} %sign.n, %sign.d
  %flipped.q = xor {t} %q, %sign.q
  %flipped.r = xor {t} %r, %sign.n
  %quotient = sub {t} %flipped.q, %sign.q
  %rest = sub {t} %flipped.r, %sign.n
  %pair0 = insertvalue {{ {t}, {t} }} undef, {t} %quotient, 0
  %pair = insertvalue {{ {t}, {t} }} %pair0, {t} %rest, 1
  ret {{ {t}, {t} }} %pair
}}
"""


# Most 64-bit numbers are indices and sizes, for which 32-bit hardware division suffices.
_NARROW = """\
  %both = or i64 %n, %d
  %high = lshr i64 %both, 32
  %is.narrow = icmp eq i64 %high, 0
  br i1 %is.narrow, label %narrow, label %wide
narrow:
  %n32 = trunc i64 %n to i32
  %d32 = trunc i64 %d to i32
  %q32 = udiv i32 %n32, %d32
  %product = mul i32 %q32, %d32
  %r32 = sub i32 %n32, %product
  %q64 = zext i32 %q32 to i64
  %r64 = zext i32 %r32 to i64
  %narrow0 = insertvalue { i64, i64 } undef, i64 %q64, 0
  %narrow1 = insertvalue { i64, i64 } %narrow0, i64 %r64, 1
  ret { i64, i64 } %narrow1"""

_TWO_32, _ONE_2_32 = "0x41F0000000000000", "0x3DF0000000000000"


def _with_shared(defined: Mapping[str, Builtin]) -> str:
    """Return definitions, by name, with the others that they call."""
    parts = [builtin.text for builtin in defined.values()]
    called = {name for builtin in defined.values() for name in builtin.calls} - defined.keys()
    parts += [declaration for name, declaration in _CALLED.items() if name in called]
    for bits in (32, 64):
        signed, unsigned = f"hlo.sdivmod.i{bits}", f"hlo.udivmod.i{bits}"
        if signed in called:
            parts.append(_divide_signed(bits))
        if signed in called or unsigned in called:
            parts.append(_divide(bits))
    return "".join(parts)


# Windows grows a thread's stack when its guard page is touched, so a function whose frame exceeds
# a page touches all of them first. It calls this with the frame size in rax. It is machine code
# because LLVM IR cannot express it, and there may be no assembler.
_CHKSTK = bytes.fromhex(
    "51"  # push rcx
    "50"  # push rax
    "483d00100000"  # cmp rax, 4096
    "488d4c2418"  # lea rcx, [rsp + 24]: the caller's stack
    "7218"  # jb last
    "4881e900100000"  # next: sub rcx, 4096
    "488509"  # test [rcx], rcx
    "482d00100000"  # sub rax, 4096
    "483d00100000"  # cmp rax, 4096
    "77e8"  # ja next
    "4829c1"  # last: sub rcx, rax
    "488509"  # test [rcx], rcx
    "58"  # pop rax
    "59"  # pop rcx
    "c3"  # ret
)


def _touch_stack(name: str) -> tuple[str, Builtin]:
    body = "".join(f"\\{byte:02X}" for byte in _CHKSTK)
    code = f'prologue [{len(_CHKSTK)} x i8] c"{body}"'
    return name, Builtin(f"define void @{name}() nounwind {code} {{\n  unreachable\n}}\n")


def _of_i686() -> Iterator[tuple[str, Builtin]]:
    for sign, u in (("s", ""), ("u", "u")):
        for number, operation in enumerate(("div", "mod")):
            name, divide = f"__{u}{operation}di3", f"hlo.{sign}divmod.i64"
            text = f"""
define i64 @{name}(i64 %n, i64 %d) nounwind {{
  %pair = call {{ i64, i64 }} @{divide}(i64 %n, i64 %d)
  %result = extractvalue {{ i64, i64 }} %pair, {number}
  ret i64 %result
}}
"""
            yield name, Builtin(text, frozenset({divide}))


def _of_armv7() -> Iterator[tuple[str, Builtin]]:
    """Yield the functions of the run-time ABI of Arm; they get floats in integer registers."""
    for sign, u in (("s", ""), ("u", "u")):
        for t, letter in (("i32", "i"), ("i64", "l")):
            name = f"__aeabi_{u}{letter}divmod"
            pair, divide = f"{{ {t}, {t} }}", f"hlo.{sign}divmod.{t}"
            call = f"%pair = call {pair} @{divide}({t} %n, {t} %d)"
            text = f"""
define arm_aapcscc {pair} @{name}({t} %n, {t} %d) nounwind {{
  {call}
  ret {pair} %pair
}}
"""
            yield name, Builtin(text, frozenset({divide}))
            if t == "i32":
                name = f"__aeabi_{u}idiv"
                text = f"""
define arm_aapcscc i32 @{name}(i32 %n, i32 %d) nounwind {{
  {call}
  %result = extractvalue {pair} %pair, 0
  ret i32 %result
}}
"""
                yield name, Builtin(text, frozenset({divide}))
    for u in ("", "u"):
        for t, letter in (("double", "d"), ("float", "f")):
            name = f"__aeabi_{u}l2{letter}"
            yield name, _from_integer(name, t, is_signed=not u)
            name = f"__aeabi_{letter}2{u}lz"
            yield name, _to_integer(name, t, is_signed=not u)

    for alignment in ("", "4", "8"):
        for operation, params, function, args in _MEMORY:
            name = f"__aeabi_{operation}{alignment}"
            text = f"""
define arm_aapcscc void @{name}({params}) nounwind {{
  %address = call ptr @{function}({args})
  ret void
}}
"""
            yield name, Builtin(text, frozenset({function}))


# On bare metal, the memory functions have other names and argument orders.
_MEMORY = (
    ("memcpy", "ptr %to, ptr %from, i32 %n", "memcpy", "ptr %to, ptr %from, i32 %n"),
    ("memmove", "ptr %to, ptr %from, i32 %n", "memmove", "ptr %to, ptr %from, i32 %n"),
    ("memset", "ptr %to, i32 %n, i32 %c", "memset", "ptr %to, i32 %c, i32 %n"),
    ("memclr", "ptr %to, i32 %n", "memset", "ptr %to, i32 0, i32 %n"),
)
_CALLED = {
    "memcpy": "declare ptr @memcpy(ptr, ptr, i32)\n",
    "memmove": "declare ptr @memmove(ptr, ptr, i32)\n",
    "memset": "declare ptr @memset(ptr, i32, i32)\n",
    "llvm.fabs.f64": "declare double @llvm.fabs.f64(double)\n",
}


def _from_integer(name: str, t: str, *, is_signed: bool) -> Builtin:
    """Return the conversion of 64 bits to a float, rounded once."""
    low, narrowed = "%x", "ret double %sum"
    lines = []
    if t == "float":
        # Where a double would round too, the dropped bits matter only as a sticky bit.
        size = "%x"
        if is_signed:
            lines += [
                "%negated = sub i64 0, %x",
                "%is.negative = icmp slt i64 %x, 0",
                "%size = select i1 %is.negative, i64 %negated, i64 %x",
            ]
            size = "%size"
        lines += [
            f"%is.long = icmp ugt i64 {size}, {1 << 53}",
            "%dropped = and i64 %x, 2047",
            "%is.odd = icmp ne i64 %dropped, 0",
            "%odd = select i1 %is.odd, i64 2048, i64 0",
            "%kept = and i64 %x, -2048",
            "%sticky = or i64 %kept, %odd",
            "%held = select i1 %is.long, i64 %sticky, i64 %x",
        ]
        low, narrowed = "%held", "%narrow = fptrunc double %sum to float\n  ret float %narrow"
    lines += [
        f"%high64 = lshr i64 {low}, 32",
        "%high32 = trunc i64 %high64 to i32",
        f"%low32 = trunc i64 {low} to i32",
        f"%high = {'s' if is_signed else 'u'}itofp i32 %high32 to double",
        "%low = uitofp i32 %low32 to double",
        f"%scaled = fmul double %high, {_TWO_32}",
        "%sum = fadd double %scaled, %low",
        narrowed,
    ]
    body = "\n".join(f"  {line}" for line in lines)
    return Builtin(f"define arm_aapcscc {t} @{name}(i64 %x) nounwind {{\n{body}\n}}\n")


def _to_integer(name: str, t: str, *, is_signed: bool) -> Builtin:
    """Return the conversion of a float to 64 bits, towards zero."""
    value, lines = "%x", []
    if t == "float":
        value, lines = "%d", ["%d = fpext float %x to double"]
    size = value
    if is_signed:
        size = "%size"
        lines.append(f"%size = call double @llvm.fabs.f64(double {value})")
    lines += [
        f"%scaled = fmul double {size}, {_ONE_2_32}",
        "%high32 = fptoui double %scaled to i32",
        "%whole = uitofp i32 %high32 to double",
        f"%above = fmul double %whole, {_TWO_32}",
        f"%rest = fsub double {size}, %above",
        "%low32 = fptoui double %rest to i32",
        "%high64 = zext i32 %high32 to i64",
        "%high = shl i64 %high64, 32",
        "%low = zext i32 %low32 to i64",
        "%sum = or i64 %high, %low",
    ]
    if is_signed:
        lines += [
            f"%is.negative = fcmp olt double {value}, 0.0",
            "%negated = sub i64 0, %sum",
            "%result = select i1 %is.negative, i64 %negated, i64 %sum",
        ]
    lines.append(f"ret i64 {'%result' if is_signed else '%sum'}")
    body = "\n".join(f"  {line}" for line in lines)
    calls = frozenset({"llvm.fabs.f64"}) if is_signed else frozenset[str]()
    return Builtin(f"define arm_aapcscc i64 @{name}({t} %x) nounwind {{\n{body}\n}}\n", calls)
