"""MLIR's bytecode with StableHLO's portable dialect, VHLO: reading.

`container` decodes the sections of any bytecode; `builtin`, `vhlo` and `shardy` its attributes and
types; `operations` restores StableHLO's attributes from VHLO's; `text` writes all of it as MLIR
text, which the reader of StableHLO takes; `exported` finds the bytecode in files of `jax.export`.
Sources: MLIR's description of its bytecode format; StableHLO's documents on VHLO and compatibility.
"""

from hlo.frontends.stablehlo.bytecode.exported import exported_module
from hlo.frontends.stablehlo.bytecode.text import bytecode_to_text
from hlo.version import STABLEHLO_VERSIONS

__all__ = ["NEWEST", "OLDEST", "bytecode_to_text", "exported_module"]

OLDEST, NEWEST = STABLEHLO_VERSIONS


def __dir__() -> list[str]:
    return sorted(__all__)
