"""LLVM IR to object code, and object code to addresses in this process."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm

from hlo.errors import HloError, did_you_mean


class Machine:
    """A processor to make code for: what LLVM calls target machine, and the names it goes by.

    triple: architecture, vendor, system; cpu, features, abi: as LLVM names them (`znver4`,
    `+avx2,-avx512f`, `lp64d`).
    """

    def __init__(self, triple: str, cpu: str, features: str, abi: str = "") -> None:
        self.triple, self.cpu, self.features = triple, cpu, features
        try:
            target = llvm.Target.from_triple(triple)
        except RuntimeError as e:
            raise HloError.at("bad-target", f"target {triple}: {e}") from None
        # WebAssembly's position-independent code is for its own kind of dynamic linking only.
        reloc = "static" if triple.startswith("wasm") else "pic"
        self._llvm = target.create_target_machine(
            cpu=cpu, features=features, opt=3, reloc=reloc, codemodel="small", abiname=abi
        )

    @property
    def data_layout(self) -> str:
        """How types lie in memory, in LLVM's notation."""
        return str(self._llvm.target_data)

    def optimize(self, text: str, internal: Sequence[str] = ()) -> llvm.ModuleRef:
        """Parse LLVM IR and run the optimization pipeline.

        internal: functions that nothing outside the module is to see.
        """
        module = llvm.parse_assembly(text)
        for name in internal:
            module.get_function(name).linkage = "internal"
        # What the emitters leave to LLVM is to clean up and to vectorize. Loops that gain by
        # unrolling are emitted unrolled: LLVM's own choice doubles the time of compilation.
        tuning = llvm.create_pipeline_tuning_options(speed_level=1)
        tuning.loop_vectorization = True
        tuning.slp_vectorization = False
        tuning.loop_unrolling = False
        builder = llvm.create_pass_builder(self._llvm, tuning)
        builder.getModulePassManager().run(module, builder)
        return module

    def object_code(self, module: llvm.ModuleRef) -> bytes:
        """Return the object file of a module."""
        return bytes(self._llvm.emit_object(module))

    def assembly(self, module: llvm.ModuleRef) -> str:
        """Return the assembly text of a module."""
        return str(self._llvm.emit_assembly(module))


@cache
def host_machine(features: str = "") -> Machine:
    """Return this processor, with every instruction that it has and `features` leaves it.

    features: changes to what it has, as in `-avx512f,-avx512vl`. Raises HloError.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    have = llvm.get_host_cpu_features()
    for change in filter(None, features.split(",")):
        sign, name = change[:1], change[1:]
        if sign not in ("+", "-") or name not in have or (sign == "+" and not have[name]):
            raise HloError.at(
                "bad-target", f"feature {change!r}: this processor has none that can be so changed",
                hint=did_you_mean(name, have),
            )  # fmt: skip
        have[name] = sign == "+"
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), have.flatten())


# --- loading ------------------------------------------------------------------------------------

_numbers = itertools.count()


class NativeCode:
    """An object file loaded in this process; `addresses` are those of the named functions.

    The code is unloaded when this object goes.
    """

    def __init__(self, object_file: bytes, *symbols: str) -> None:
        builder = llvm.JITLibraryBuilder().add_object_img(object_file).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        self._library = builder.link(_lljit(), f"hlo{next(_numbers)}")
        self.addresses: dict[str, int] = {s: self._library[s] for s in symbols}


@cache
def _lljit() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(host_machine()._llvm)
