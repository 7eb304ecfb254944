"""LLVM IR to native code in this process."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm


@cache
def host_machine() -> llvm.TargetMachine:
    """Return the target machine of this processor, with every instruction it has."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3,
        reloc="pic", codemodel="small", jit=False,
    )  # fmt: skip


def optimize(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parse LLVM IR and run the optimization pipeline."""
    module = llvm.parse_assembly(text)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def to_object(text: str) -> bytes:
    """Return the object file of LLVM IR for this processor."""
    machine = host_machine()
    return machine.emit_object(optimize(text, machine))


class NativeCode:
    """Native code loaded in this process; `addresses` are those of the named functions."""

    _count = 0

    def __init__(self, object_file: bytes, *symbols: str) -> None:
        NativeCode._count += 1
        self._lljit = _lljit()
        builder = llvm.JITLibraryBuilder().add_object_img(object_file).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        # The library is unloaded when this object goes.
        self._library = builder.link(self._lljit, f"hlo{NativeCode._count}")
        self.addresses: dict[str, int] = {s: self._library[s] for s in symbols}


@cache
def _lljit() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(host_machine())
