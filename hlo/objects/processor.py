"""Detection of the processor at run time: which level of an object's code it can run, in LLVM IR.

The instructions that tell, cpuid and xgetbv, are machine code: LLVM IR cannot express them, and
llvmlite includes the assembly parser of the host architecture only. Tile registers (AMX) are asked
for, by a system call of Linux; no other system is known to give them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hlo.codegen.targets.cpu.x86 import CPUID_BITS
from hlo.objects.targets import Platform

# Bits of XCR0: the registers that the operating system saves on context switches.
_SAVES_AVX, _SAVES_AVX512, _SAVES_APX, _SAVES_TILES = 0x06, 0xE6, 1 << 19, 3 << 17
# The bit of cpuid that says that xgetbv exists.
_CAN_READ_XCR0 = (1, 0, "c", 27)
_OF_AVX = ("fma", "f16c", "xop", "fma4")
_REGISTERS = "abcd"
# What a processor is asked: leaf and subleaf of cpuid, and a register of the answer.
_Word = tuple[int, int, str]


def choice(symbol: str, levels: Sequence[Collection[str]], platform: Platform) -> str:
    """Return a function `<symbol>.choose` in LLVM IR that says what code to run.

    It returns the number of the last level all of whose features the processor has, counted from
    one, and the number behind the last if there is none; the first call asks, others remember.
    levels: the features of each, see `needed_features`. The functions that it declares are those of
    `instructions`.
    """
    call = f"{_convention(platform)} void"
    answer = _answer(levels, call, platform)
    declared = "".join(
        f"declare {call} @{name}({parameters})\n"
        for name, parameters in _PARAMETERS.items()
        if f"@{name}(" in answer
    )
    tables = " uwtable" if platform.container == "coff" else ""
    return f"""
@{symbol}.chosen = internal global i32 0, align 4
define internal i32 @{symbol}.choose() alwaysinline nounwind {{
entry:
  %known = load atomic i32, ptr @{symbol}.chosen monotonic, align 4
  %is.known = icmp ne i32 %known, 0
  br i1 %is.known, label %done, label %ask
ask:
  %found = call i32 @{symbol}.ask()
  store atomic i32 %found, ptr @{symbol}.chosen monotonic, align 4
  br label %done
done:
  %level = phi i32 [ %known, %entry ], [ %found, %ask ]
  ret i32 %level
}}
define internal i32 @{symbol}.ask() cold noinline nounwind{tables} {{
entry:
{answer}
}}
{declared}"""


def instructions(platform: Platform, choice: str) -> str:
    """Return the functions for the instructions that LLVM IR lacks, to be linked in last.

    choice: what calls them.

    LLVM takes their bodies for empty: it must not optimize what calls them. They store the
    registers eax, ebx, ecx, edx; the lower half of XCR0; what Linux answers who asks for tiles.
    """
    parts = []
    for name, text in _CODE[platform.arch].items():
        if f"@{name}(" not in choice:
            continue
        code, parameters = bytes.fromhex(text), _PARAMETERS[name]
        body = "".join(f"\\{byte:02X}" for byte in code)
        parts.append(
            f"define {_convention(platform)} void @{name}({parameters}) naked noinline nounwind "
            f'prologue [{len(code)} x i8] c"{body}" {{\n  unreachable\n}}\n'
        )
    return "".join(parts)


def _convention(platform: Platform) -> str:
    """Return the calling convention of the functions of machine code, the same on all systems."""
    return "x86_64_sysvcc" if platform.arch == "x86_64" else "ccc"


def _answer(levels: Sequence[Collection[str]], call: str, platform: Platform) -> str:
    """Return the body of the function that asks the processor. call: of what type a call is."""
    is_darwin = platform.container == "macho"
    needs = [_needs(features) for features in levels]
    saved = [_saved(features, is_darwin=is_darwin) for features in levels]
    asked = {word[:2] for need in needs for word in need}
    lines, ends = ["  %answer = alloca [4 x i32], align 4"], dict[int, str]()
    for top in sorted({leaf & 0x80000000 for leaf, _ in asked}):
        lines += _asked(call, f"top{top:x}", top, 0, "a")
        ends[top] = f"%top{top:x}.a"
    for leaf, part in sorted(asked):
        name = f"leaf{leaf:x}.{part}"
        words = {word for need in needs for word in need if word[:2] == (leaf, part)}
        registers = sorted(register for _, _, register in words)
        lines += _asked(call, name, leaf, part, registers)
        # Beyond the last leaf the processor answers with those of another.
        lines.append(f"  %{name}.is = icmp uge i32 {ends[leaf & 0x80000000]}, {_signed(leaf)}")
        lines += [
            f"  %{name}.{r}.is = select i1 %{name}.is, i32 %{name}.{r}, i32 0" for r in registers
        ]
    if any(saved):
        leaf, part, register, bit = _CAN_READ_XCR0
        lines += [
            f"  %xsave = and i32 %leaf{leaf:x}.{part}.{register}.is, {_signed(1 << bit)}",
            "  %has.xsave = icmp ne i32 %xsave, 0",
            "  br i1 %has.xsave, label %wide, label %narrow",
            "wide:",
            f"  call {call} @{_XGETBV}(ptr %answer)",
            "  %xcr0.read = load i32, ptr %answer, align 4",
            "  br label %narrow",
            "narrow:",
            "  %xcr0 = phi i32 [ 0, %entry ], [ %xcr0.read, %wide ]",
        ]
    can_have_tiles = platform.arch == "x86_64" and "linux" in platform.machine.triple
    level = str(len(levels) + 1)
    for number, (need, bits) in enumerate(zip(needs, saved, strict=True), 1):
        tests = [(f"%leaf{n:x}.{p}.{r}.is", mask) for (n, p, r), mask in sorted(need.items())]
        tests += [("%xcr0", bits)] if bits else []
        fits = "true"
        for at, (word, mask) in enumerate(tests):
            name = f"%fits{number}.{at}"
            lines += [
                f"  {name}.bits = and i32 {word}, {_signed(mask)}",
                f"  {name}.all = icmp eq i32 {name}.bits, {_signed(mask)}",
                f"  {name} = and i1 {name}.all, {fits}",
            ]
            fits = name
        if any(map(_is_of_tiles, levels[number - 1])):
            fits = _with_tiles(lines, call, number, fits) if can_have_tiles else "false"
        lines.append(f"  %level{number} = select i1 {fits}, i32 {number}, i32 {level}")
        level = f"%level{number}"
    return "\n".join([*lines, f"  ret i32 {level}"])


def _is_of_tiles(feature: str) -> bool:
    return feature.startswith("amx-")


def _with_tiles(lines: list[str], call: str, number: int, fits: str) -> str:
    """Add lines that ask for tiles if a level fits; returns whether it does and they were given."""
    ask, asked, name = (f"{word}{number}" for word in ("tiles", "asked", "given"))
    lines += [
        f"  br label %before{number}",
        f"before{number}:",
        f"  br i1 {fits}, label %{ask}, label %{asked}",
        f"{ask}:",
        f"  call {call} @{_TILES}(ptr %answer)",
        f"  %{name}.answer = load i32, ptr %answer, align 4",
        f"  %{name}.is = icmp eq i32 %{name}.answer, 0",
        f"  br label %{asked}",
        f"{asked}:",
        f"  %{name} = phi i1 [ false, %before{number} ], [ %{name}.is, %{ask} ]",
    ]
    return f"%{name}"


def _asked(call: str, name: str, leaf: int, part: int, registers: Iterable[str]) -> list[str]:
    """Return lines that ask for a leaf and load registers of the answer."""
    lines = [f"  call {call} @{_CPUID}(ptr %answer, i32 {_signed(leaf)}, i32 {part})"]
    for register in registers:
        place = _REGISTERS.index(register)
        lines += [
            f"  %{name}.{register}.at = getelementptr i32, ptr %answer, i32 {place}",
            f"  %{name}.{register} = load i32, ptr %{name}.{register}.at, align 4",
        ]
    return lines


def _needs(features: Collection[str]) -> dict[_Word, int]:
    """Return the bits that have to be set in each word."""
    bits = [CPUID_BITS[f] for f in features]
    if _saved(features, is_darwin=False):
        bits.append(_CAN_READ_XCR0)
    needs: dict[_Word, int] = {}
    for leaf, part, register, bit in bits:
        word = (leaf, part, register)
        needs[word] = needs.get(word, 0) | 1 << bit
    return needs


def _saved(features: Collection[str], *, is_darwin: bool) -> int:
    """Return the bits of XCR0 that have to be set.

    is_darwin: the system saves the registers of AVX-512 once they are used, and says so only then.
    """
    bits = 0
    for feature in features:
        if feature.startswith("avx") or feature in _OF_AVX:
            is_long = feature.startswith("avx512") and not is_darwin
            bits |= _SAVES_AVX512 if is_long else _SAVES_AVX
        elif feature == "egpr":
            bits |= _SAVES_APX
        elif _is_of_tiles(feature):
            bits |= _SAVES_TILES
    return bits


def _signed(word: int) -> int:
    """Return a word of 32 bits as LLVM writes it."""
    return word - (1 << 32) if word >> 31 else word


# --- machine code -------------------------------------------------------------------------------

_CPUID, _XGETBV, _TILES = "hlo.cpuid", "hlo.xgetbv", "hlo.tiles"
_PARAMETERS = {_CPUID: "ptr, i32, i32", _XGETBV: "ptr", _TILES: "ptr"}
# They by architecture. Of x86-64 they get arguments as on Linux. On 32 bits nobody asks for tiles.
_CODE = {
    "x86_64": {
        _CPUID: (
            "4989d8"  # mov r8, rbx: the caller's
            "89f0"  # mov eax, esi
            "89d1"  # mov ecx, edx
            "0fa2"  # cpuid
            "8907"  # mov [rdi], eax
            "895f04"  # mov [rdi + 4], ebx
            "894f08"  # mov [rdi + 8], ecx
            "89570c"  # mov [rdi + 12], edx
            "4c89c3"  # mov rbx, r8
            "c3"  # ret
        ),
        _XGETBV: (
            "31c9"  # xor ecx, ecx
            "0f01d0"  # xgetbv
            "8907"  # mov [rdi], eax
            "c3"  # ret
        ),
        _TILES: (
            "4989f8"  # mov r8, rdi
            "b89e000000"  # mov eax, 158: arch_prctl
            "bf23100000"  # mov edi, 0x1023: ARCH_REQ_XCOMP_PERM
            "be12000000"  # mov esi, 18: the data of tiles
            "0f05"  # syscall
            "418900"  # mov [r8], eax
            "c3"  # ret
        ),
    },
    "i686": {
        _CPUID: (
            "53"  # push ebx
            "57"  # push edi
            "8b7c240c"  # mov edi, [esp + 12]
            "8b442410"  # mov eax, [esp + 16]
            "8b4c2414"  # mov ecx, [esp + 20]
            "0fa2"  # cpuid
            "8907"  # mov [edi], eax
            "895f04"  # mov [edi + 4], ebx
            "894f08"  # mov [edi + 8], ecx
            "89570c"  # mov [edi + 12], edx
            "5f"  # pop edi
            "5b"  # pop ebx
            "c3"  # ret
        ),
        _XGETBV: (
            "57"  # push edi
            "8b7c2408"  # mov edi, [esp + 8]
            "31c9"  # xor ecx, ecx
            "0f01d0"  # xgetbv
            "8907"  # mov [edi], eax
            "5f"  # pop edi
            "c3"  # ret
        ),
    },
}
