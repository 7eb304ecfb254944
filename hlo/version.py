"""The version of this package, and those of StableHLO that it reads."""

__version__ = "0.1.0"
# The versions of StableHLO whose portable artifacts are read, oldest and newest.
STABLEHLO_VERSIONS = (0, 9, 0), (1, 17, 0)
