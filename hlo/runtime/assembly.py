"""LLVM IR to assembly text: PTX, and what else GPUs are programmed in.

PTX of kernels can be put one after the other. So a module is compiled in parts, several at a time:
a large kernel alone, small ones together. A part is written without names of its module; where the
same one was there before, its PTX is taken from then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from hlo.errors import HloError
from hlo.llvm import Function, LlvmModule
from hlo.runtime import emission, kept
from hlo.runtime.canonical import canonical
from hlo.runtime.pool import default_threads
from hlo.support.memory import check_address_space, threads_that_fit
from hlo.support.threads import in_threads

# A part has an overhead of a millisecond: that of five thousand characters. Kernels of so many are
# apart, and smaller ones together up to so many.
_APART_SIZE, _PART_SIZE = 6_000, 24_000
# Memory that LLVM needs for the smallest module, and for each character.
_LEAST_BYTES, _BYTES_OF_CHARACTER = 32 << 20, 50
# Of optimization, and of code generation. ptxas optimizes what LLVM generates.
_LEVEL, _CODE_LEVELS = 2, {"nvptx64": 0}
# How LLVM writes the dots of names that nobody else sees in PTX.
_DOT = "_$_"
_HEADER_END = ".address_size 64\n"
# Kernels with more parameters than fit in 4 KiB need PTX 8.1, with 32,764 bytes of them; models
# after this one have it anyway.
_MOST_POINTERS, _LAST_OLD_MODEL = 512, 90
# Of shared memory whose size the launch says, and of the file that debug information is about.
_DECLARATIONS = (".extern", ".file", ".section")


def assembly_of(module: LlvmModule, cpu: str) -> str:
    """Return the assembly of a module for a GPU. cpu: LLVM's name of the model.

    Raises HloError for what LLVM does not accept.
    """
    if not module.target_triple.startswith("nvptx"):
        return _compiled(module.to_text(), module.target_triple, cpu)
    parts = [_part(module, *kernels) for kernels in _divided(module)]
    if not parts:
        return _compiled(module.to_text(), module.target_triple, cpu)
    # One header is for all parts.
    features = _features(module, cpu)
    keys = [_key(part, f"{cpu} {features}") for part in parts]
    found = {key: kept.get(key, None) for key in keys}
    missing = {key: part for key, part in zip(keys, parts, strict=True) if found[key] is None}
    needed = _LEAST_BYTES + _BYTES_OF_CHARACTER * sum(len(p.text) for p in missing.values())
    check_address_space(needed, "compiling")
    threads = threads_that_fit(min(default_threads(), len(missing)), needed)
    done = in_threads(
        lambda part: _compiled(
            part.text, module.target_triple, cpu, features, is_final=part.is_final
        ),
        [*missing.values()], threads,
    )  # fmt: skip
    for key, code in zip(missing, done, strict=True):
        found[key] = code.encode()
        kept.put(key, code.encode(), None)
    codes = [(found[key] or b"").decode() for key in keys]
    return _joined([part.named(code) for part, code in zip(parts, codes, strict=True)])


def optimized_text(module: LlvmModule, cpu: str) -> str:
    """Return the LLVM IR that `assembly_of` makes assembly of. Raises HloError as it does."""
    return str(_optimized(module.to_text(), _target_machine(module.target_triple, cpu)))


# --- parts --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Kernels of a module, with what they call. symbols: pairs of names, in the text and before.

    is_final: see `Function`.
    """

    text: str
    symbols: tuple[tuple[str, str], ...]
    is_final: bool

    def named(self, code: str) -> str:
        """Return PTX of the text with the names that the module has."""
        _, first = self.symbols[0]
        # Those that begin with others are longer.
        for symbol, name in sorted(self.symbols, key=lambda pair: -len(pair[0])):
            code = code.replace(symbol, name)
            code = code.replace(symbol.replace(".", _DOT), name.replace(".", _DOT))
        return code.replace(f"hlo{_DOT}data{_DOT}", f"{first}{_DOT}data{_DOT}")


def _divided(module: LlvmModule) -> Iterator[tuple[list[Function], bool]]:
    """Yield the kernels of each part, with what they call, and whether they are final."""
    together: dict[bool, dict[str, Function]] = {True: {}, False: {}}
    sizes = {True: 0, False: 0}
    for function in module.functions.values():
        if function.linkage:
            continue
        own = _closure(function, module)
        # Loops are what LLVM's whole pipeline is for.
        is_final = function.is_final or not any(f.innermost_loops for f in own)
        size = sum(len(f.text) for f in own)
        if size >= _APART_SIZE:
            yield own, is_final
            continue
        if together[is_final] and sizes[is_final] + size > _PART_SIZE:
            yield [*together[is_final].values()], is_final
            together[is_final], sizes[is_final] = {}, 0
        together[is_final] |= {f.name: f for f in own}
        sizes[is_final] += size
    for is_final, functions in together.items():
        if functions:
            yield [*functions.values()], is_final


def _closure(function: Function, module: LlvmModule) -> list[Function]:
    """Return a function with all that it calls, and what those do."""
    found, stack = {function.name: function}, [function]
    while stack:
        for name in sorted(stack.pop().symbols & module.functions.keys()):
            if name not in found:
                found[name] = module.functions[name]
                stack.append(module.functions[name])
    return [*found.values()]


def _part(module: LlvmModule, functions: Sequence[Function], is_final: bool) -> _Part:
    # What the code depends on besides is in the key.
    own = canonical(module, functions, {}, "")
    symbols = tuple((symbol, name) for name, symbol in own.symbols.items())
    return _Part(own.text, symbols, is_final)


def _joined(codes: Sequence[str]) -> str:
    """Return PTX texts as one, with one header; what several declare is declared once."""
    first, *_ = codes
    header = first[: first.index(_HEADER_END) + len(_HEADER_END)]
    lines: list[str] = []
    declared: set[str] = set()
    for code in codes:
        for line in code[code.index(_HEADER_END) + len(_HEADER_END) :].splitlines():
            if line.lstrip().startswith(_DECLARATIONS):
                if line in declared:
                    continue
                declared.add(line)
            lines.append(line)
    return header + "\n".join(lines) + "\n"


# --- LLVM ---------------------------------------------------------------------------------------


@cache
def _make() -> str:
    """Return what changes when LLVM does, or what this file has it do."""
    return llvmlite.__version__ + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _key(part: _Part, cpu: str) -> str:
    """Return the key of a part's PTX: whatever could make it another is part of it."""
    content = f"{_make()} {cpu} {part.is_final} {part.text}"
    return "ptx" + hashlib.sha256(content.encode()).hexdigest()


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _features(module: LlvmModule, cpu: str) -> str:
    """Return the features of PTX that the kernels of a module need, LLVM's default if it does."""
    kernels = [f for f in module.functions.values() if not f.linkage]
    most = max((len(f.parameters) for f in kernels), default=0)
    model = int("".join(filter(str.isdigit, cpu)))
    return "+ptx81" if most > _MOST_POINTERS and model <= _LAST_OLD_MODEL else ""


def _target_machine(triple: str, cpu: str, features: str = "") -> llvm.TargetMachine:
    _initialize()
    level = _CODE_LEVELS.get(triple.split("-")[0], _LEVEL)
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=level)


def _compiled(
    text: str, triple: str, cpu: str, features: str = "", *, is_final: bool = False
) -> str:
    machine = _target_machine(triple, cpu, features)
    return emission.assembly(_optimized(text, machine, is_final=is_final), machine)


def _optimized(text: str, machine: llvm.TargetMachine, *, is_final: bool = False) -> llvm.ModuleRef:
    try:
        # LLVM objects share state only within a context.
        parsed = llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as e:
        raise HloError.at("internal", f"LLVM rejects the kernels: {e}") from e
    tuning = llvm.create_pipeline_tuning_options(speed_level=_LEVEL)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, tuning)
    passes = _clean_up() if is_final else builder.getModulePassManager()
    emission.run_passes(passes, parsed, builder)
    return parsed


def _clean_up() -> llvm.ModulePassManager:
    """Return the passes for kernels that are written as they are to be.

    Values are sunk to where they are used, so that they take no registers before.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_sinking_pass()
    passes.add_global_dead_code_eliminate_pass()
    return passes
