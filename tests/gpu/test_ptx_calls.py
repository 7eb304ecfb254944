"""Kernels that call device functions."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.gpu.ptx import parse_ptx
from hlo.gpu.ptx.inlining import without_calls
from tests.gpu.simt import Run, kernel

# The sum of all integers below a number, by a loop, with its steps in local memory.
_SUM = """
.func (.param .b32 func_retval0) sum(.param .b32 sum_param_0)
{
    .local .align 4 .b8 depot[4];
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    ld.param.b32 %r1, [sum_param_0];
    mov.b64 %rd1, depot;
    st.local.b32 [%rd1], 0;
    mov.b32 %r2, 0;
LOOP:
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra DONE;
    ld.local.b32 %r3, [%rd1];
    add.s32 %r3, %r3, %r2;
    st.local.b32 [%rd1], %r3;
    add.s32 %r2, %r2, 1;
    bra LOOP;
DONE:
    ld.local.b32 %r4, [%rd1];
    st.param.b32 [func_retval0], %r4;
    ret;
}
"""
# Twice that of its first argument, plus the second, which is a byte.
_TWICE = """
.func (.param .b32 func_retval0) twice(.param .b32 twice_param_0, .param .b32 twice_param_1)
{
    .reg .b16 %h<2>;
    .reg .b32 %r<6>;
    ld.param.b32 %r1, [twice_param_0];
    {
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0], %r1;
    call.uni (retval0), sum, (param0);
    ld.param.b32 %r2, [retval0];
    }
    ld.param.b8 %h1, [twice_param_1];
    cvt.u32.u16 %r3, %h1;
    mad.lo.s32 %r4, %r2, 2, %r3;
    st.param.b32 [func_retval0], %r4;
    ret;
}
"""
_CALL = """
    { // callseq 0, 0
    .param .b32 param0;
    .param .b8 param1;
    .param .b32 retval0;
    st.param.b32 [param0], %r1;
    mov.b16 %h1, 263;
    st.param.b8 [param1], %h1;
    call.uni (retval0), twice, (param0, param1);
    ld.param.b32 %r6, [retval0];
    } // callseq 0
    add.s64 %rd2, %rd1, %rd30;
    st.global.b32 [%rd2], %r6;
"""


def test_functions_that_call_others() -> None:
    run = Run(kernel(_CALL, 1, _SUM + _TWICE), [4 * 32])
    n = np.arange(32)
    assert run.array(0, 32).tolist() == (n * (n - 1) + 7).tolist()


def test_a_function_that_is_called_twice_has_memory_of_its_own() -> None:
    body = _CALL + "mov.b32 %r1, %r6;\n" + _CALL
    run = Run(kernel(body, 1, _SUM + _TWICE), [4 * 32])
    n = np.arange(32) * (np.arange(32) - 1) + 7
    assert run.array(0, 32).tolist() == (n * (n - 1) + 7).tolist()
    module = parse_ptx(kernel(body, 1, _SUM + _TWICE))
    assert without_calls(module.kernels["k"], module).local_bytes == 8


def test_a_kernel_without_calls_stays() -> None:
    module = parse_ptx(kernel("", 1, _SUM))
    assert without_calls(module.kernels["k"], module) is module.kernels["k"]


def test_functions_that_call_themselves_are_not_supported() -> None:
    text = kernel("call f, ();", 1, ".func f() {\ncall f, ();\nret;\n}\n")
    with pytest.raises(HloError, match="only plain calls") as caught:
        Run(text, [4])
    assert caught.value.code == "unsupported-ptx"


def test_parts_of_what_is_passed_are_not_supported() -> None:
    body = _CALL.replace("ld.param.b32 %r6, [retval0]", "ld.param.b16 %h2, [retval0+2]")
    with pytest.raises(HloError, match="not stored as one number"):
        Run(kernel(body, 1, _SUM + _TWICE), [4 * 32])
