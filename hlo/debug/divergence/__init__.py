"""The first instruction where two runs part: modules, or a machine and the interpreter."""
