"""MLIR's bytecode with StableHLO's portable dialect, VHLO: reading and writing.

`stream` has the primitive values, `builtin`, `vhlo`, `vhlo_types` and `shardy` the codes of
attributes and types, `properties` those of operations, and `operations` what StableHLO and VHLO
have in different form: all of them for both directions.

Reading: `container` decodes the sections of any bytecode, `text` writes it as MLIR text, which the
reader of StableHLO takes, and `exported` finds the bytecode in files of `jax.export`. Writing:
`write` encodes the operations of a program, and `assembly` the tables that they refer to.
Sources: MLIR's description of its bytecode format; StableHLO's documents on VHLO and compatibility.
"""

from hlo.frontends.stablehlo.bytecode.exported import exported_module
from hlo.frontends.stablehlo.bytecode.text import bytecode_to_text
from hlo.frontends.stablehlo.bytecode.write import portable_artifact
from hlo.version import STABLEHLO_VERSIONS

__all__ = ["NEWEST", "OLDEST", "bytecode_to_text", "exported_module", "portable_artifact"]

OLDEST, NEWEST = STABLEHLO_VERSIONS


def __dir__() -> list[str]:
    return sorted(__all__)
