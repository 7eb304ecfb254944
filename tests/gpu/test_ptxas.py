"""ptxas: machine code, what kernels take, and its refusals."""

from __future__ import annotations

import pytest

import hlo
from hlo.gpu import ptxas

pytestmark = pytest.mark.skipif(ptxas.find_ptxas() is None, reason="needs ptxas")

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 a) {
  .reg .b64 %r<3>; .reg .b32 %x<3>; .shared .align 4 .b8 s[1024];
  mov.u32 %x1, s; ld.param.u64 %r1, [a]; cvta.to.global.u64 %r2, %r1;
  st.global.u32 [%r2], %x1; bar.sync 0; ret;
}
"""


def test_equal_texts_make_equal_machine_code() -> None:
    first, second = (ptxas.assemble(KERNEL, "sm_80") for _ in range(2))
    assert first == second
    assert first.cubin.startswith(b"\x7fELF")
    assert not first.warnings


def test_what_a_kernel_takes_is_reported() -> None:
    [resources] = ptxas.assemble(KERNEL, "sm_90").resources.values()
    assert resources.shared_bytes == 1024
    assert resources.barriers == 1
    assert 0 < resources.registers < 32
    assert not resources.stack_bytes + resources.spill_store_bytes + resources.spill_load_bytes


def test_spills_are_reported() -> None:
    loads = "".join(f"ld.volatile.global.u32 %x{n}, [%r2+{4 * n}];\n" for n in range(300))
    stores = "".join(f"st.volatile.global.u32 [%r2+{4 * n}], %x{n};\n" for n in range(300))
    start = KERNEL[: KERNEL.index("mov.u32")].replace("%x<3>", "%x<300>")
    code = f"{start} ld.param.u64 %r1, [a]; cvta.to.global.u64 %r2, %r1;\n{loads}{stores}ret; }}"
    found = ptxas.assemble(code, "sm_80").resources["store"]
    assert found.spill_store_bytes > 0
    assert found.spill_load_bytes > 0
    assert found.stack_bytes > 0


@pytest.mark.parametrize("code", ["ret; ret2;", "\x00"])
def test_what_is_wrong_is_said(code: str) -> None:
    with pytest.raises(hlo.HloError) as error:
        ptxas.assemble(KERNEL.replace("ret;", code), "sm_80")
    assert error.value.code == "bad-ptx"
    assert "/tmp" not in str(error.value)


def test_where_there_is_none_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "find_ptxas", lambda: None)
    with pytest.raises(hlo.HloError, match=r"hlo-tools\[cuda\]"):
        ptxas.assemble(KERNEL, "sm_80")
