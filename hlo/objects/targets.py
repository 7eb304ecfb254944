"""Targets: their names, and what LLVM knows of a processor.

LLVM prints a warning for an unknown processor or feature, aborts the process for some invalid
combinations, and does not report the features of a processor. So a user-specified target is first
tried in a subprocess: small functions are compiled, and the assembly shows the features.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from hlo.codegen.targets.cpu import ARCHITECTURES, architecture_of, cpu_target
from hlo.codegen.targets.cpu.base import Cpu
from hlo.codegen.targets.gpu import ARCHITECTURES as GPUS
from hlo.errors import HloError, did_you_mean
from hlo.objects.features import can_be_asked, needed_features
from hlo.runtime.jit import Machine, host_machine


def gpu_hint(model: str) -> str | None:
    """Return the target that a model of a GPU is of, None for what is none."""
    return next((f"--target {name}" for name, gpu in GPUS.items() if model in gpu.models), None)


def architecture(triple: str) -> str:
    """Return the name of a triple's architecture. Raises HloError for one that is not supported."""
    name = architecture_of(triple).name
    if not name:
        first, known = triple.split("-")[0].lower(), [*ARCHITECTURES, *GPUS]
        raise HloError.at(
            "bad-target", f"target {triple!r}: code generation does not support {first!r}",
            hint=did_you_mean(first, known) or f"there are {', '.join(known)}",
        )  # fmt: skip
    return name


# A triple may omit the vendor; LLVM then takes the system for it.
_SYSTEMS = re.compile(
    r"(linux|windows|mingw|cygwin|uefi|darwin|macos|ios|freebsd|netbsd|openbsd|wasi|none)"
)


def spelled_out(triple: str) -> str:
    """Return a triple with all of its parts: `armv7-unknown-linux-gnueabihf`."""
    first, *rest = triple.replace("-mingw32", "-windows-gnu").split("-")
    if rest and _SYSTEMS.match(rest[0]):
        rest = ["unknown", *rest]
    return "-".join([first, *rest])


@dataclass(frozen=True)
class Platform:
    """A target, in LLVM's terms and in those of code generation.

    is_native: it is the processor of this machine.
    """

    machine: Machine
    target: Cpu
    is_native: bool = False

    @property
    def arch(self) -> str:
        return architecture(self.machine.triple)

    @property
    def base(self) -> Platform:
        """The target of all code that runs before the processor is known, as of any of its kind.

        It is the target itself where processors cannot be asked what they are.
        """
        cpu = ARCHITECTURES[self.arch]
        features = ",".join(filter(None, (cpu.baseline, cpu.always)))
        if not can_be_asked(self.machine.triple) or (
            (self.machine.cpu, self.machine.features) == (cpu.generic, features)
        ):
            return self
        machine = Machine(self.machine.triple, cpu.generic, features, cpu.abi)
        return Platform(machine, cpu_target(machine.triple, machine.data_layout, features))

    @property
    def compiler(self) -> str:
        """The command of a C compiler for the machine."""
        return "cc" if self.is_host else self.cross_compiler

    @property
    def cross_compiler(self) -> str:
        """The cross compiler's command."""
        if self.container == "wasm":
            return "clang --target=wasm32-wasi"
        if self.container == "coff":
            return f"{self.arch}-w64-mingw32-gcc"
        return f"{ARCHITECTURES[self.arch].tools}-gcc"

    @property
    def symbol_suffix(self) -> str:
        """The processor as a part of symbols, which all assemblers take without quotes."""
        return self.machine.cpu.replace("-", "_")

    @property
    def flags(self) -> tuple[str, ...]:
        """Module flags that the code needs."""
        return ARCHITECTURES[self.arch].flags

    @property
    def pointer_bits(self) -> int:
        return ARCHITECTURES[self.arch].c_pointer_bits

    @property
    def container(self) -> str:
        """The format of object files: elf, wasm, macho or coff."""
        system = self.machine.triple.partition("-")[2]
        if self.arch == "wasm32":
            return "wasm"
        if re.search(r"darwin|macos|ios|apple", system):
            return "macho"
        return "coff" if re.search(r"windows|mingw|cygwin|uefi", system) else "elf"

    @property
    def has_codeview(self) -> bool:
        """True where debuggers read Microsoft's CodeView; GNU's, on Windows too, read DWARF."""
        return self.container == "coff" and not self.machine.triple.endswith("-gnu")

    @property
    def library_suffix(self) -> str:
        """The suffix of a shared library."""
        return {"wasm": ".wasm", "macho": ".dylib", "coff": ".dll"}.get(self.container, ".so")

    @property
    def is_host(self) -> bool:
        """True when this process could run the code, its processor permitting."""
        host = llvm.get_process_triple()
        return (self.arch, _system(self.machine.triple)) == (architecture(host), _system(host))


def _system(triple: str) -> list[str]:
    """Return the operating system and environment of a triple."""
    return [part for part in triple.split("-")[1:] if part not in ("unknown", "pc", "apple")]


def platforms(
    triple: str | None = None, cpu: str | None = None, features: str = ""
) -> tuple[Platform, ...]:
    """Return a target for each of several processors of an architecture, the best one last.

    cpu: their names, separated by commas; by default this processor if no triple is given and code
    can ask which one it finds itself on, else any of the architecture. Else as `platform`. One is
    better than another if it has wider vectors, or more features. Raises HloError.
    """
    if cpu is None:
        is_own = triple is None and can_be_asked(llvm.get_process_triple())
        cpu = "native" if is_own else "generic"
    names = [name.strip() for name in cpu.split(",")]
    if "" in names:
        raise HloError.at("bad-target", f"cpu {cpu!r}: a name is missing")
    if len(names) == 1:
        return (platform(triple, names[0], features),)
    arch = architecture(triple or llvm.get_process_triple())
    if not can_be_asked(arch):
        raise HloError.at(
            "bad-target", f"cpu {cpu!r}: code for several processors is possible for x86_64 and "
            f"i686, where it can ask which one it runs on, not for {arch}",
        )  # fmt: skip
    found = [platform(triple, name, features) for name in names]
    known = [one.symbol_suffix for one in found]
    for name, one, suffix in zip(names, found, known, strict=True):
        if known.count(suffix) > 1:
            same = one.machine.cpu
            also = "" if name == same else f", which is {name}"
            raise HloError.at("bad-target", f"cpu {cpu!r}: duplicate processor {same}{also}")
    return tuple(sorted(found, key=_rank))


def _rank(found: Platform) -> tuple[int, int]:
    known = needed_features(found.machine.triple, found.target.features)
    return found.target.vector_bits, len(known)


def platform(triple: str | None = None, cpu: str | None = None, features: str = "") -> Platform:
    """Return a target by LLVM's names.

    triple: by default that of this machine. cpu: `native` is this processor, `generic` any of the
    architecture; by default the first if no triple is given, else the second. features: changes
    to the processor's features, as in `+avx2,-fma`. Raises HloError.
    """
    features = _checked_features(features)
    cpu = cpu or ("native" if triple is None else "generic")
    is_native = cpu == "native"
    if "\0" in cpu:
        raise HloError.at("bad-target", f"{cpu!r} is not a processor")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    host = llvm.get_process_triple()
    triple = host if triple is None else spelled_out(triple)
    arch = architecture(triple)
    if re.search(r"-(elf|coff|macho|wasm|xcoff|goff)$", triple):
        raise HloError.at(
            "bad-target", f"target {triple!r}: objects have the native format of the system"
        )
    if is_native:
        if arch != architecture(host):
            raise HloError.at(
                "bad-target", f"cpu native: this machine is {architecture(host)}, not {arch}"
            )
        have = host_machine().features
        cpu, features = llvm.get_host_cpu_name(), ",".join(filter(None, (have, features)))
        names = have.split(",")
        _tried(triple, cpu, features)
        machine = Machine(triple, cpu, features)
    else:
        generic = ARCHITECTURES[arch].generic
        if cpu == "generic":
            cpu = generic
        least = ARCHITECTURES[arch].baseline if cpu == generic else ""
        features = ",".join(filter(None, (least, ARCHITECTURES[arch].always, features)))
        names = _tried(triple, cpu, features)
        machine = Machine(triple, cpu, features, ARCHITECTURES[arch].abi)
    known = [*names, *features.split(",")]
    off = {f[1:] for f in known if f.startswith("-")}
    on = ",".join(f for f in known if f.startswith("+") and f[1:] not in off)
    found = Platform(machine, cpu_target(triple, machine.data_layout, on), is_native)
    # The data layout says where pointers are shorter than registers.
    has_short = bool(re.search(r"-p:32:", machine.data_layout))
    if has_short != (found.pointer_bits == 32):
        raise HloError.at(
            "bad-target", f"target {triple!r}: pointers of {arch} are all of its bits"
        )
    if found.container == "coff" and arch != "x86_64":
        raise HloError.at("bad-target", f"target {triple!r}: only x86_64 is supported on Windows")
    if arch in ("i686", "armv7") and found.container != "elf":
        raise HloError.at("bad-target", f"target {triple!r}: {arch} is only supported with ELF")
    return found


def _checked_features(features: str) -> str:
    parts = [f.strip() for f in features.split(",")]
    for part in filter(None, parts):
        if not re.fullmatch(r"[+-][A-Za-z0-9_.-]+", part):
            raise HloError.at("bad-target", f"feature {part!r}: written as in +avx2,-fma")
    return ",".join(filter(None, parts))


# --- trying a target ----------------------------------------------------------------------------

_TRIAL = """
define <16 x float> @wide(<16 x float> %x) {
  %y = fadd <16 x float> %x, %x
  ret <16 x float> %y
}
define float @half(i16 %x) {
  %h = bitcast i16 %x to half
  %y = fpext half %h to float
  ret float %y
}
define double @double(double %x) {
  %y = fmul double %x, %x
  ret double %y
}
"""

_SCRIPT = f"""
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
triple, cpu, features, abi, *names = sys.argv[1:]
machine = llvm.Target.from_triple(triple).create_target_machine(
    cpu=cpu, features=features, codemodel="small", abiname=abi)
module = llvm.parse_assembly({_TRIAL!r})
module.triple = triple
print(machine.emit_assembly(module))
# A function that needs a feature is put into another only where the processor has that.
before = features and features + ","
needing = "".join(
    f'define internal void @f{{i}}() "target-features"="{{before}}+{{name}}" {{{{\\n'
    f'  call void @have(i32 {{i}})\\n  ret void\\n}}}}\\n'
    for i, name in enumerate(names))
calls = "".join(f"  call void @f{{i}}()\\n" for i in range(len(names)))
module = llvm.parse_assembly(
    f'target triple = "{{triple}}"\\ndeclare void @have(i32)\\n{{needing}}'
    f"define void @all() {{{{\\n{{calls}}  ret void\\n}}}}\\n")
passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
passes.getModulePassManager().run(module, passes)
body = str(module.get_function("all"))
print("# has:", *(name for i, name in enumerate(names) if f"@have(i32 {{i}})" in body))
"""


@cache
def _tried(triple: str, cpu: str, features: str) -> list[str]:
    """Return the detected features of a processor, of those that code generation uses."""
    arch = architecture(triple)
    done = _run(triple, cpu, features)
    unknown = re.search(r"'(.*)' is not a recognized (processor|feature)", done.stderr)
    if unknown:
        name, kind = unknown.groups()
        known = _known_names(triple, kind)
        raise HloError.at(
            "bad-target", f"{kind} {name!r}: LLVM knows none of this name for {arch}",
            hint=gpu_hint(name) or did_you_mean(name.lstrip("+-"), known),
        )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((x for x in lines if "LLVM ERROR" in x), lines[-1] if lines else "it fails")
        reason = reason.removeprefix("LLVM ERROR: ").removeprefix("RuntimeError: ")
        failed = re.search(r'Assertion `.*"(.*?)"', reason)
        reason = failed[1] if failed else reason
        raise HloError.at("bad-target", f"target {triple} with cpu {cpu}: LLVM: {reason}")
    return _features_in(arch, triple, cpu, done.stdout)


def _features_in(arch: str, triple: str, cpu: str, assembly: str) -> list[str]:
    if re.search(r"__(muldf3|adddf3|aeabi_dmul)", assembly):
        raise HloError.at(
            "bad-target", f"target {triple} with cpu {cpu}: it has no double-precision arithmetic"
        )
    if arch == "i686" and "mulsd" not in assembly:
        raise HloError.at(
            "bad-target", f"target {triple} with cpu {cpu}: it has no SSE2, and x87 rounds twice"
        )
    return ARCHITECTURES[arch].features_seen(assembly)


def _run(triple: str, cpu: str, features: str) -> subprocess.CompletedProcess[str]:
    arch = architecture(triple)
    asked = ARCHITECTURES[arch].probed
    return subprocess.run(
        [sys.executable, "-c", _SCRIPT, triple, cpu, features, ARCHITECTURES[arch].abi, *asked],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _known_names(triple: str, kind: str) -> list[str]:
    """Return the processors or the features that LLVM knows for an architecture."""
    text = _run(triple, "help", "").stderr
    head, _, rest = text.partition("Available features for this target:")
    return re.findall(r"^\s+(\S+)\s+- ", head if kind == "processor" else rest, re.MULTILINE)
