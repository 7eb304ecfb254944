"""Weights that are made part by part of a row: softmax, and what is computed of each element.

A row of a chain's operand may be longer than what a kernel has room for. A softmax needs no whole
row: its sums, and what they are the divisors of, are taken of exp(x - m) with the largest x so far;
where a larger one comes, all that was added up before is multiplied by exp(m - new m). Divisors
are row values, by which sums of weighted rows are divided as well as the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo.analysis.constants import splat
from hlo.analysis.fusion.accesses import IRREGULAR
from hlo.analysis.fusion.chains import Chain
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import RENAMED, Rows
from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.values.types import ArrayShape

_NAMES = ("f32", "bf16", "f16")
# Types that have any weight, whatever it is still to be multiplied with.
_WIDE = ("f64", "f32", "bf16")
# What does nothing to an element but say it in another type, or at another place.
_SAME = RENAMED | {"convert"}


@dataclass(frozen=True)
class Factor:
    """A row value that all elements of a row are multiplied or divided by.

    inst: the operation on elements. number: of the operand that is the row value.
    """

    inst: Instruction
    number: int

    @property
    def value(self) -> Instruction:
        return self.inst.operands[self.number]

    @property
    def rest(self) -> Instruction:
        """What is multiplied or divided."""
        return self.inst.operands[1 - self.number]

    @property
    def is_divisor(self) -> bool:
        return self.inst.opcode == "divide"


@dataclass(frozen=True)
class Weights:
    """How a row of weights is made part by part.

    maximum: the reduction to the largest element, if there is one; shift: the row value made of
    it that is subtracted before exponentials. sums: reductions of what exponentials make. factors:
    what is left to do when these are known, the outermost first. fits_half: whether f16 has what
    weights are before.
    """

    maximum: Instruction | None
    shift: Instruction | None
    sums: tuple[Instruction, ...]
    factors: tuple[Factor, ...]
    fits_half: bool


def weights_of(chain: Chain, roles: Mapping[Instruction, Role]) -> Weights | None:
    """Return how rows of a chain's operand are made part by part, None if that is not known."""
    return _Search(chain.rows, roles).weights(chain.operand)


class _Search:
    def __init__(self, rows: Rows, roles: Mapping[Instruction, Role]) -> None:
        self.rows, self.roles = rows, roles
        self.known: dict[Instruction, frozenset[Instruction]] = {}
        self.maximum: Instruction | None = None
        self.shift: Instruction | None = None
        self.factors: list[Factor] = []

    def weights(self, root: Instruction) -> Weights | None:
        reductions = [i for i in self.rows.uses if self._is_inside(i) and i.opcode == "reduce"]
        sums = []
        for inst in reductions:
            match _kind(inst):
                case "add":
                    sums.append(inst)
                case "maximum" if self.maximum is None:
                    self.maximum = inst
                case _:
                    return None
        if self.maximum is not None and self._reductions(self.maximum.operands[0]):
            return None
        for inst in sums:
            if not self._reductions(inst.operands[0]) <= {self.maximum}:
                return None
            if not self._is_scaled(inst.operands[0]) or self.factors:
                return None
        if not self._is_scaled(root):
            return None
        fits_half = not self.factors or self._is_small()
        return Weights(self.maximum, self.shift, tuple(sums), tuple(self.factors), fits_half)

    def _is_inside(self, inst: Instruction) -> bool:
        role = self.roles[inst]
        return role is Role.FUSED or (role is Role.ALIAS and inst.opcode in RENAMED)

    def _reductions(self, inst: Instruction) -> frozenset[Instruction]:
        """Return the reductions of the row that a value depends on."""
        todo = [inst]
        while todo:
            node = todo[-1]
            if node in self.known:
                todo.pop()
                continue
            is_walked = node is self.rows.root or node in self.rows.uses
            operands = node.operands if is_walked and self._is_inside(node) else ()
            missing = [o for o in operands if o not in self.known]
            if missing:
                todo += missing
                continue
            found = frozenset[Instruction]().union(*(self.known[o] for o in operands))
            is_own = self._is_inside(node) and node.opcode == "reduce"
            self.known[node] = found | {node} if is_own else found
            todo.pop()
        return self.known[inst]

    def _is_scaled(self, inst: Instruction) -> bool:
        """True for what is known but for factors of the row: a new maximum is one.

        Appends those factors that are made of reductions.
        """
        if not self._reductions(inst):
            return self.maximum is None
        before = len(self.factors)
        if not self._is_product(inst):
            return False
        # Whether its type has also what there is without the factors.
        name = inst.array_shape.element_type.name
        return name in _WIDE or (
            name == "f16" and (len(self.factors) == before or self._is_small())
        )

    def _is_product(self, inst: Instruction) -> bool:
        """True for what is scaled, as far as its operation goes."""
        match inst.opcode:
            case "exponential":
                return self._is_shifted(inst)
            case "negate":
                return self._is_scaled(inst.operands[0])
            case "multiply":
                return any(self._is_multiplied(inst, number) for number in (0, 1))
            case "divide":
                return self._is_multiplied(inst, 1)
            case "select":
                condition, *cases = inst.operands
                before = len(self.factors)
                # Factors would be those of both cases, and of zeros: there are some that are NaN.
                return (
                    not self._reductions(condition)
                    and all(_is_zero(case) or self._is_scaled(case) for case in cases)
                    and len(self.factors) == before
                )
            case opcode:
                return opcode in _SAME and self._is_scaled(inst.operands[0])

    def _is_multiplied(self, inst: Instruction, number: int) -> bool:
        """True for what is scaled, multiplied or divided by an operand that stays as it is, or by
        a factor of the row."""
        value, rest = inst.operands[number], inst.operands[1 - number]
        found = self._reductions(value)
        if found and not self._is_row_value(value):
            return False
        before = len(self.factors)
        if found:
            self.factors.append(Factor(inst, number))
        if self._is_scaled(rest):
            return True
        del self.factors[before:]
        return False

    def _is_shifted(self, inst: Instruction) -> bool:
        """True for exponentials of what the largest of the row, or what is made of it, has been
        subtracted from."""
        shifted = _same(inst.operands[0])
        if shifted.opcode != "subtract" or self.maximum is None:
            return False
        element, shift = shifted.operands
        if self._reductions(element) or self._reductions(shift) != {self.maximum}:
            return False
        if self.shift not in (None, shift) or not self._is_row_value(shift):
            return False
        self.shift = shift
        return self._is_bounded(inst, element)

    def _is_bounded(self, inst: Instruction, element: Instruction) -> bool:
        """True where no element that counts is larger than the maximum."""
        assert self.maximum is not None
        element, reduced = _same(element), _same(self.maximum.operands[0])
        if element is reduced:
            return True
        # Others may be larger, which are replaced before and after.
        cases = [_same(case) for case in reduced.operands[1:]]
        is_replaced = all(user.opcode == "select" for user in inst.users)
        return reduced.opcode == "select" and element in cases and is_replaced

    def _is_small(self) -> bool:
        """True where exponentials are of differences to the maximum: at most 1, and one is 1."""
        shift = self.shift
        if shift is None:
            return False
        shift = _repeated(shift)
        if shift.opcode == "select":
            condition, shift, other = shift.operands
            tested = _repeated(condition)
            if tested.opcode != "is-finite" or not _is_zero(other):
                return False
            if _repeated(tested.operands[0]) is not self.maximum:
                return False
        return _repeated(shift) is self.maximum

    def _is_row_value(self, inst: Instruction) -> bool:
        """True for what has one value for each row, always found in the same way."""
        if inst.array_shape.dims:
            (loop_dims, *more) = self.rows.uses[inst]
            if more or IRREGULAR in loop_dims:
                return False
        return self._is_uniform(inst)

    def _is_uniform(self, inst: Instruction) -> bool:
        """True for what has the same value for all elements of a row."""
        if not isinstance(inst.shape, ArrayShape) or not inst.shape.dims:
            return True
        if inst in self.rows.uses and self.rows.is_row_value(inst):
            return True
        if not self._is_inside(inst):
            return False
        if inst.opcode in _SAME or inst.opcode == "broadcast" or inst.spec.has(Trait.ELEMENTWISE):
            return all(map(self._is_uniform, inst.operands))
        return False


def _kind(reduce: Instruction) -> str | None:
    """Return the operation of a reduction of floats that is taken part by part."""
    if len(reduce.operands) != 2 or reduce.array_shape.element_type.name not in _NAMES:
        return None
    known, start = single_binary_op(reduce.to_apply), _same(reduce.operands[1])
    if start.opcode != "constant":
        return None
    return known if known == "maximum" or _is_zero(start) else None


def _is_zero(inst: Instruction) -> bool:
    value = splat(_repeated(inst))
    return value is not None and not value


def _repeated(inst: Instruction) -> Instruction:
    """Return what an element is, but for its type and places."""
    while inst.opcode in _SAME or inst.opcode == "broadcast":
        (inst,) = inst.operands
    return inst


def _same(inst: Instruction) -> Instruction:
    """Return what an element is, but for its type and its place."""
    while inst.opcode in _SAME:
        (inst,) = inst.operands
    return inst
