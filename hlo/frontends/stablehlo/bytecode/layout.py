"""The layout of MLIR's bytecode: its first bytes, versions, sections, and flags of operations.

Source: MLIR's description of its bytecode format.
"""

from __future__ import annotations

MAGIC = b"ML\xefR"
NEWEST = 6
# Versions of the format that introduced what their names say.
DIALECT_VERSIONS, ISOLATED_SECTIONS, USE_LISTS, BRIEF_ARGUMENTS, PROPERTIES = 1, 2, 3, 4, 5
# Numbers of sections.
STRINGS, DIALECTS, TABLE, OFFSETS, IR = range(5)
PROPERTIES_SECTION = 8
# What an operation has, as bits of one byte.
HAS_ATTRIBUTES, HAS_RESULTS, HAS_OPERANDS, HAS_SUCCESSORS = 1, 2, 4, 8
HAS_REGIONS, HAS_USE_LISTS, HAS_PROPERTIES = 16, 32, 64
