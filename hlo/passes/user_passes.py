"""Passes of users: whether a module is as valid after one as it was before."""

from __future__ import annotations

from collections.abc import Callable

from hlo.errors import Diagnostic, HloError
from hlo.ir import Module
from hlo.passes.registry import Pass
from hlo.support.user_code import definition, located
from hlo.verifier import VerifyOptions, verify, verify_structure


def _is_valid(check: Callable[[Module], None], module: Module) -> bool:
    try:
        check(module)
    except HloError:
        return False
    return True


class Verification:
    """Checks of a module around a pass, by the strictest rules that hold before it."""

    def __init__(self, module: Module, spec: Pass) -> None:
        self._module, self._pass = module, spec
        levels = (verify, lambda m: verify(m, VerifyOptions(lenient=True)))
        self._level = next((c for c in levels if _is_valid(c, module)), None)

    def check(self) -> None:
        """Sort and check the module after the pass. Raises HloError (`pass-broke-module`)."""
        name, where = self._pass.name.replace("_", "-"), definition(self._pass.function)
        head = f"pass {name} ({where}) leaves an invalid module"
        try:
            verify_structure(self._module)
            for comp in self._module.computations:
                comp.sort()
            if self._level is not None:
                self._level(self._module)
        except HloError as e:
            raise HloError([Diagnostic("pass-broke-module", head), *e.diagnostics]) from None
        except MemoryError:
            raise
        except Exception as e:  # values of types that no rule expects
            raise HloError.at("pass-broke-module", f"{head}: {located(e)}") from e
