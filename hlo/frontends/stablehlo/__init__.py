"""StableHLO, the format in which JAX and others export programs: reading and writing."""

from __future__ import annotations

import re

from hlo.errors import Diagnostic, HloError, Source, Span, TextError
from hlo.frontends.stablehlo.bytecode import bytecode_to_text, exported_module, portable_artifact
from hlo.frontends.stablehlo.convert import convert
from hlo.frontends.stablehlo.tree import text_of
from hlo.frontends.stablehlo.write_special import SPECIAL
from hlo.frontends.stablehlo.writer import ModuleWriter
from hlo.ir import Module, need_module
from hlo.support.memory import collector_paused
from hlo.support.signature import checked

__all__ = ["from_stablehlo", "to_portable_artifact", "to_stablehlo"]


_WORD = re.compile(r"%?[\w.$-]*")


def _word_end(text: str, start: int) -> int:
    m = _WORD.match(text, start)
    return max(m.end() if m else start, start + 1)


@checked
def from_stablehlo(
    text: str | bytes, name: str = "<string>", *, function: str | None = None
) -> Module:
    """Return the module that a StableHLO program says.

    Operations without a counterpart in HLO, and dialects other than StableHLO, CHLO and func, are
    errors. The module may still violate rules that `hlo.verify` checks.

    Args:
        text: MLIR in its pretty or its generic form; or as bytes, a portable artifact of StableHLO,
            or a serialized `jax.export.Exported`.
        name: names the text in errors.
        function: the name of the function that is the entry, by default `main`, or the only one.

    Raises:
        HloError: at the first error.

    >>> hlo.from_stablehlo('''func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    ...   %0 = stablehlo.tanh %x : tensor<2x3xf32>
    ...   return %0 : tensor<2x3xf32>
    ... }''').entry.root
    <Instruction tanh = f32[2,3]{1,0} tanh(x)>
    """
    if isinstance(text, bytes):
        return from_source(bytecode_source(text, name), function)
    return from_source(Source(name, text), function)


def from_source(source: Source, function: str | None = None) -> Module:
    """Return the module that a StableHLO program says. Raises HloError at the first error.

    function: the name of the function that is the entry, by default `main`, or the only one.
    """
    try:
        with collector_paused():
            return convert(source, function)
    except TextError as e:
        span = Span(source, e.offset, _word_end(source.text, e.offset))
        raise HloError([Diagnostic(e.code, e.message, span, e.hint)]) from None


def bytecode_source(data: bytes, name: str) -> Source:
    """Return the text of a portable artifact, or of a serialized export. Raises HloError."""
    try:
        return Source(f"{name}, as text", bytecode_to_text(exported_module(data) or data))
    except TextError as e:
        raise HloError.at(e.code, f"{name}: byte {e.offset}: {e.message}", None, e.hint) from None


def to_stablehlo(module: Module) -> str:
    """Return a valid module as StableHLO text, in the generic form of its operations.

    Raises HloError at the first instruction without a counterpart in StableHLO, CHLO and func.
    """
    need_module(module)
    return text_of(ModuleWriter(module, SPECIAL).program())


def to_portable_artifact(module: Module, version: str | None = None) -> bytes:
    """Return a valid module as a portable artifact: MLIR bytecode of VHLO.

    version: of StableHLO; without one the oldest, from 1.0.0 on, that has all that the module has.
    Raises HloError at the first instruction that it cannot have.
    """
    # Not before it is needed: it imports how operations are expressed by others.
    from hlo.frontends.stablehlo.write_portable import PORTABLE

    need_module(module)
    return portable_artifact(ModuleWriter(module, PORTABLE).program(), version)


def __dir__() -> list[str]:
    return sorted(__all__)
