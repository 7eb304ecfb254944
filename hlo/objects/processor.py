"""Detection of x86 features at run time, as a C function.

It is in the header instead of the object because it needs inline assembly, for which llvmlite
includes the parser of the host architecture only.
"""

from __future__ import annotations

from collections.abc import Collection

from hlo.codegen.targets.cpu.x86 import CPUID_BITS

# The register state that the operating system has to save on context switches (XCR0), and the bit
# that says that xgetbv exists.
_OF_AVX = ("fma", "f16c", "xop", "fma4")
_SAVES_AVX, _SAVES_AVX512, _CAN_BE_ASKED = 0x06, 0xE6, 27
_REGISTERS = "abcd"
_FUNCTION = """\
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#else
#include <cpuid.h>
#endif

/* 1 where the processor has all instructions that the functions below use, or 0: those would stop
 * the program. */
static inline int {name}(void) {{
  /* Leaf and part of cpuid, the number of a register, and the bits that have to be set there. */
  static const unsigned needed[][4] = {{
{rows}
  }};
  unsigned i, r[4];
  for (i = 0; i < sizeof needed / sizeof needed[0]; i++) {{
    const unsigned *at = needed[i];
#if defined(_MSC_VER) && !defined(__clang__)
    __cpuid((int *)r, (int)(at[0] & 0x80000000u));
    if (r[0] < at[0]) return 0;
    __cpuidex((int *)r, (int)at[0], (int)at[1]);
#else
    if ((unsigned)__get_cpuid_max(at[0] & 0x80000000u, NULL) < at[0]) return 0;
    __cpuid_count(at[0], at[1], r[0], r[1], r[2], r[3]);
#endif
    if ((r[at[2]] & at[3]) != at[3]) return 0;
  }}
{kept}
}}
"""
# Asked last: the bit that says that it can be is among those that are looked at.
_KEPT = """\
#if defined(_MSC_VER) && !defined(__clang__)
  r[0] = (unsigned)_xgetbv(0);
#else
  __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(r[0]), "=d"(r[3]) : "c"(0)); /* xgetbv */
#endif
  /* The system keeps the wide registers of each thread. */
  return (r[0] & {mask}u) == {mask}u;"""


def check_function(name: str, features: Collection[str]) -> str:
    """Return a C function that returns 1 if the processor has all the given features, else 0."""
    masks: dict[tuple[int, int, str], int] = {}
    for feature in sorted(CPUID_BITS.keys() & features):
        leaf, part, register, bit = CPUID_BITS[feature]
        masks[leaf, part, register] = masks.get((leaf, part, register), 0) | 1 << bit
    kept = "  return 1;"
    if any(CPUID_BITS.get(f) and (f.startswith("avx") or f in _OF_AVX) for f in features):
        masks[1, 0, "c"] = masks.get((1, 0, "c"), 0) | 1 << _CAN_BE_ASKED
        has_512 = any(f.startswith("avx512") for f in features)
        kept = _KEPT.format(mask=f"0x{_SAVES_AVX512 if has_512 else _SAVES_AVX:02x}")
    rows = [
        f"    {{0x{leaf:x}u, {part}u, {_REGISTERS.index(register)}u, 0x{mask:08x}u}},"
        for (leaf, part, register), mask in sorted(masks.items())
    ]
    return _FUNCTION.format(name=name, rows="\n".join(rows), kept=kept)
