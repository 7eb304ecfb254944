"""LLVM IR to object code, and object code to addresses in this process."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from hlo.errors import HloError, did_you_mean
from hlo.llvm import LlvmModule
from hlo.runtime import kept
from hlo.runtime.efforts import Effort
from hlo.runtime.emission import object_code, run_passes
from hlo.runtime.kept import KeptFunctions, PartStore
from hlo.runtime.nearby import contiguous_space
from hlo.runtime.parts import Part, split
from hlo.runtime.tiles import tiles_are_permitted
from hlo.support.memory import check_address_space, threads_that_fit
from hlo.support.threads import in_threads

# What loading maps besides twice the size of the object files.
_LOADED_SLACK = 1 << 20
# Memory that LLVM needs for the smallest module, threads included.
_LLVM_BYTES = 32 << 20


class Machine:
    """A processor to compile for: LLVM's target machine, and its names.

    triple: architecture, vendor, system; cpu, features, abi: as LLVM names them (`znver4`,
    `+avx2,-avx512f`, `lp64d`).
    """

    def __init__(self, triple: str, cpu: str, features: str, abi: str = "") -> None:
        self.triple, self.cpu, self.features, self.abi = triple, cpu, features, abi
        try:
            self._target = llvm.Target.from_triple(triple)
        except RuntimeError as e:
            raise HloError.at("bad-target", f"target {triple}: {e}") from None
        # Unused ones, by optimization level: initializing LLVM's tables of a processor takes
        # longer than compiling a small function.
        self._idle: dict[int, list[llvm.TargetMachine]] = {0: [], 3: []}
        self._llvm = self._machine(3)

    @property
    def names(self) -> tuple[str, str, str, str]:
        """What machines that compile alike have in common."""
        return self.triple, self.cpu, self.features, self.abi

    @contextmanager
    def _own(self, level: int) -> Iterator[llvm.TargetMachine]:
        """Borrow a target machine that no other thread uses."""
        idle = self._idle[level]
        try:
            machine = idle.pop()
        except IndexError:
            machine = self._machine(level)
        yield machine
        idle.append(machine)

    def _machine(self, level: int) -> llvm.TargetMachine:
        # Position-independent code for WebAssembly is for dynamic linking only.
        reloc = "static" if self.triple.startswith("wasm") else "pic"
        return self._target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=level, reloc=reloc, codemodel="small",
            abiname=self.abi,
        )  # fmt: skip

    @property
    def data_layout(self) -> str:
        """LLVM's data layout string."""
        return str(self._llvm.target_data)

    def optimize(self, text: str) -> llvm.ModuleRef:
        """Parse LLVM IR and run the optimization pipeline."""
        module = llvm.parse_assembly(text)
        _optimize(module, self._llvm)
        return module

    def object_code(self, module: llvm.ModuleRef) -> bytes:
        """Return the object file of a module."""
        return bytes(self._llvm.emit_object(module))

    def quick_code(self, text: str, context: llvm.ContextRef | None = None) -> bytes:
        """Return the object file of LLVM IR that runs too rarely to be worth optimizing."""
        with self._own(0) as machine:
            return object_code(llvm.parse_assembly(text, context), machine)

    def compile(
        self, module: LlvmModule, threads: int,
        around: Callable[[Part], AbstractContextManager[None]] = lambda _: nullcontext(),
        *, keeps_names: bool = False, store: PartStore | None = None,
        functions: KeptFunctions | None = None,
    ) -> tuple[bytes, ...]:  # fmt: skip
        """Return the object files of a module, compiled by this many threads. Raises HloError.

        around: the context in which each part is compiled. keeps_names: the symbols of functions
        are their names; else parts that other modules have had are not compiled again. store: where
        those are kept beyond this process. functions: what the module found some of its own in.
        """

        def compiled(part: Part) -> bytes:
            with around(part):
                return self._compile_part(part)

        division = split(module, keeps_names=keeps_names)
        parts = division.parts
        keys = {part: self._key(part) for part in parts if part.is_shared}
        found = {part: kept.get(key, store) for part, key in keys.items()}
        missing = [part for part in parts if found.get(part) is None]
        # LLVM aborts when memory runs out; it needs some fifty times the size of the text.
        needed = _LLVM_BYTES + 50 * sum(len(text) for part in missing for _, text in part.texts)
        check_address_space(needed, "compiling")
        threads = threads_that_fit(min(threads, len(missing)), needed)
        done = dict(zip(missing, in_threads(compiled, missing, threads), strict=True))
        for part in keys.keys() & done.keys():
            kept.put(keys[part], done[part], store)
        shared = {key: done.get(part) or found[part] or b"" for part, key in keys.items()}
        if functions is not None:
            shared |= functions.files_of(module.compiled)
            for origin, function in division.compiled(keys):
                functions.put(origin.key, function)
        # In an order that does not depend on what was known.
        files = [done[part] for part in parts if part not in keys]
        return (*files, *(shared[key] for key in sorted(shared)))

    def _key(self, part: Part) -> str:
        """Return the key of a part's object code: whatever could make it another is part of it."""
        total = hashlib.sha256()
        for text in (*self.names, *_make(), *(x for e, t in part.texts for x in (e.value, t))):
            total.update(f"{len(text)} {text}".encode())
        return total.hexdigest()

    def _compile_part(self, part: Part) -> bytes:
        # LLVM objects share state only within a context.
        context = llvm.create_context()
        level = 0 if all(effort is Effort.NONE for effort, _ in part.texts) else 3
        with self._own(level) as machine:
            modules: dict[Effort, llvm.ModuleRef] = {}
            for effort, text in part.texts:
                module = llvm.parse_assembly(text, context)
                if effort in modules:
                    modules[effort].link_in(module)
                else:
                    modules[effort] = module
            for effort, module in modules.items():
                _improve(effort, module, machine)
            whole, *rest = modules.values()
            for module in rest:
                whole.link_in(module)
            return object_code(whole, machine)

    def assembly(self, module: llvm.ModuleRef) -> str:
        """Return the assembly text of a module."""
        return str(self._llvm.emit_assembly(module))


@cache
def _make() -> tuple[str, ...]:
    """Return what changes when LLVM does, or what this file has it do."""
    return llvmlite.__version__, hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _improve(effort: Effort, module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    if effort is Effort.VECTORIZE:
        _optimize(module, machine)
    elif effort is not Effort.NONE:
        _clean(module, machine, combines=effort is Effort.CLEAN)


def _optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    # The emitters leave clean-up and vectorization to LLVM. Loops that benefit from unrolling are
    # emitted unrolled: LLVM's own unrolling doubles compile time.
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    run_passes(builder.getModulePassManager(), module, builder)


def _clean(module: llvm.ModuleRef, machine: llvm.TargetMachine, *, combines: bool) -> None:
    """Run the clean-up passes for code whose loops are in final form.

    combines: instructions, which takes longer than the other passes together.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_ipsccp_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    if combines:
        passes.add_instruction_combine_pass()
    passes.add_global_dead_code_eliminate_pass()
    run_passes(passes, module, builder)


@cache
def host_machine(features: str = "") -> Machine:
    """Return this processor with all its features that it may use, modified by `features`.

    features: changes, as in `-avx512f,-avx512vl`. Raises HloError.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    have = llvm.get_host_cpu_features()
    if have.get("amx-tile") and not tiles_are_permitted():
        for name in have:
            if name.startswith("amx-"):
                have[name] = False
    for change in filter(None, features.split(",")):
        sign, name = change[:1], change[1:]
        if sign not in ("+", "-") or name not in have or (sign == "+" and not have[name]):
            raise HloError.at(
                "bad-target", f"feature {change!r}: this processor has no such feature to change",
                hint=did_you_mean(name, have),
            )  # fmt: skip
        have[name] = sign == "+"
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), have.flatten())


# --- loading ------------------------------------------------------------------------------------

_numbers = itertools.count()


class NativeCode:
    """Object files loaded in this process; `addresses` are those of the named functions.

    The code is unloaded when this object goes.
    """

    def __init__(
        self, object_files: Sequence[bytes], *symbols: str, called: Mapping[str, int] = {}
    ) -> None:
        """Load object files. called: addresses of functions that they call, by symbol."""
        builder = llvm.JITLibraryBuilder().add_current_process()
        for symbol, address in called.items():
            builder.import_symbol(symbol, address)
        for object_file in object_files:
            builder.add_object_img(object_file)
        for symbol in symbols:
            builder.export_symbol(symbol)
        # Sections are as large as the file, but for what is rounded up to pages, and for stubs.
        size = _LOADED_SLACK + 2 * sum(map(len, object_files))
        with contiguous_space(size):
            self._library = builder.link(_lljit(), f"hlo{next(_numbers)}")
        self.addresses: dict[str, int] = {s: self._library[s] for s in symbols}


@cache
def _lljit() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(host_machine()._llvm)
