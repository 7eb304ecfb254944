"""Object files are loaded whatever the process has mapped."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A small hole between mappings, 4 GB of an array below it, and code whose constants are larger.
PROGRAM = """
import ctypes, mmap
import llvmlite.binding as llvm
from hlo.runtime.jit import NativeCode, host_machine
from hlo.runtime.nearby import _libc

def occupy(size):
    return _libc().mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)

numbers = ", ".join(f"double {i}.5" for i in range(40000))
code = host_machine()._llvm.emit_object(llvm.parse_assembly(f'''
@numbers = private constant [40000 x double] [{numbers}]
define double @at(i64 %i) {{
  %p = getelementptr [40000 x double], ptr @numbers, i64 0, i64 %i
  %v = load double, ptr %p
  ret double %v
}}'''))
NativeCode([code], "at")
small = occupy(1 << 16)
occupy(4 << 30)
_libc().munmap(small, 1 << 16)
at = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)
loaded = [NativeCode([code], "at") for _ in range(40)]
print({at(each.addresses["at"])(7) for each in loaded})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of how Linux places mappings")
def test_code_reaches_its_constants_in_a_process_with_large_arrays() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert found.stdout == "{7.5}\n", found.stderr
