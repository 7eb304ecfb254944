"""Operations expressed by computations of other operations.

An expansion is a computation that takes the operands of an instruction and gives its value. Passes
put it in the place of the instruction; code generation inlines what is left. It may itself call
computations and use operations that have expansions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ops.host.custom_targets import CHECK_SIZE
from hlo.values.types import Shape, TupleShape

# Returns None where an instruction has an emitter of its own after all.
Expansion = Callable[[Instruction], Computation | None]
EXPANSIONS: dict[str, Expansion] = {}


def expansion(*opcodes: str) -> Callable[[Expansion], Expansion]:
    """Register how the instructions of some opcodes are expressed by others."""

    def add(expand: Expansion) -> Expansion:
        for opcode in opcodes:
            assert opcode not in EXPANSIONS, opcode
            EXPANSIONS[opcode] = expand
        return expand

    return add


def expand(inst: Instruction) -> Computation | None:
    """Return the computation that stands for an instruction, None for the instruction itself."""
    rule = EXPANSIONS.get(inst.opcode)
    return rule(inst) if rule else None


class Draft(Builder):
    """A computation under construction, with shapes inferred."""

    def __init__(self, like: Instruction, parameters: Sequence[Shape] | None = None) -> None:
        """Begin with the parameters that the operands of `like` bind, or with others.

        inst: the instruction that is expressed.
        """
        super().__init__(Computation(f"{like.opcode}.expanded"), like)
        self.inst = like
        shapes = like.operand_shapes if parameters is None else parameters
        self.parameters = [self.parameter(n, s, f"p{n}") for n, s in enumerate(shapes)]

    def need_at_most(self, n: Instruction, bound: Instruction, message: str) -> None:
        """Append the end of the program for a scalar that is negative, or above another one.

        message: what is wrong then, of the instruction that is expressed.
        """
        check = self.op(
            "custom-call", n, bound, shape=TupleShape(), custom_call_target=CHECK_SIZE
        )  # fmt: skip
        name = f"{self.inst.name}: {self.inst.opcode}"
        check.annotations["backend_config"] = f"{name}: {message}"

    def done(self, root: Instruction) -> Computation:
        """Return the computation with its result set."""
        self.comp.set_root(root)
        return self.comp
