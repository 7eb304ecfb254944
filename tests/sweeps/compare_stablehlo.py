"""StableHLO of JAX's functions read here beside XLA's conversion of the same: results agree.

    python -m tests.sweeps.compare_stablehlo [NAME...]

Both printed forms are read, the pretty and the generic one, and have to give the same module.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import jax

import hlo
from tests.harness.jax_programs import PROGRAMS
from tests.harness.oracle import assert_same

_SAME = hlo.PrintOptions.fingerprint()


def check(name: str) -> str:
    """Return what is wrong with the conversion of a function, or nothing."""
    function, argument = PROGRAMS[name]
    lowered: Any = jax.jit(function, keep_unused=True).lower(argument)
    generic = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True)
    try:
        module = hlo.from_stablehlo(lowered.as_text())
        hlo.verify(module)
        if str(hlo.parse(str(module))) != str(module):
            return "its text is another module's"
        again = hlo.from_stablehlo(generic)
        if hlo.print_module(again, _SAME) != hlo.print_module(module, _SAME):
            return "the generic form gives another module"
        want = hlo.interpret(hlo.from_jax(lowered), argument)
        assert_same(hlo.interpret(module, argument), want)
    except (hlo.HloError, AssertionError) as e:
        return str(e)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="functions, by default all")
    names = parser.parse_args().names or list(PROGRAMS)
    problems = {name: problem for name in names if (problem := check(name))}
    for name, problem in problems.items():
        print(f"{name}: {problem}")
    print(f"{len(names) - len(problems)} of {len(names)} functions agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
