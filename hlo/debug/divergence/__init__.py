"""The first instruction where two runs diverge: modules, or a machine and the interpreter."""
