"""Arrays as strided memory: views through operations that move no data.

A transpose, a reshape, a slice or a broadcast of an array in memory is that memory with other
strides; a conversion to a wider type is the same values. If a reshape merges dimensions whose
strides do not fit together, a dimension of the view has several digits: it is indexed by several
indices, the outermost first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.fusion.operations import is_widening
from hlo.analysis.fusion.roles import Role
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.values.layout.plain import is_plain
from hlo.values.types import ArrayShape, ElementType

# A size, and strides in elements of one or several arrays.
Digit = tuple[int, ...]
Digits = tuple[Digit, ...]


@dataclass(frozen=True)
class StridedView:
    """Elements in memory: an instruction's buffer, or workspace by number.

    offset: of the element at index 0. dims: the digits of each dimension: size and stride.
    """

    memory: Instruction | int
    et: ElementType
    offset: int
    dims: tuple[Digits, ...]

    def scaled(self, et: ElementType, factor: int) -> StridedView:
        """Return the view of the same memory as elements `factor` times smaller."""
        dims = tuple(tuple((n, s * factor) for n, s in digits) for digits in self.dims)
        return StridedView(self.memory, et, self.offset * factor, dims)


def element_strides(shape: ArrayShape) -> list[int]:
    """Return the distance in elements between neighbours of each dimension."""
    assert shape.layout is not None
    strides, step = [0] * shape.rank, 1
    for d in shape.layout.minor_to_major:
        strides[d] = step
        step *= shape.dims[d]
    return strides


def whole_view(
    memory: Instruction | int, shape: ArrayShape, et: ElementType | None = None
) -> StridedView:
    """Return the view of a materialized array in its layout."""
    dims = tuple(((n, s),) for n, s in zip(shape.dims, element_strides(shape), strict=True))
    return StridedView(memory, et or shape.element_type, 0, dims)


def view_of(inst: Instruction, roles: Mapping[Instruction, Role]) -> StridedView | None:
    """Return an instruction's value as a view of memory, None if it has to be computed.

    The view may have a narrower type than the instruction.
    """
    shape = inst.array_shape
    role = roles[inst]
    if not shape.dims:
        return None  # not in memory
    if role is not Role.FUSED:
        return whole_view(inst, shape) if is_plain(shape) else None
    if not inst.spec.has(Trait.VIEW) and not is_widening(inst):
        return None
    source = view_of(inst.operands[0], roles)
    if source is None:
        return None
    match inst.opcode:
        case "copy" | "convert":
            return source
        case "transpose":
            return replace(source, dims=tuple(source.dims[d] for d in inst.dimensions))
        case "broadcast":
            return _broadcast(inst, shape, source)
        case "slice":
            return _slice(inst, source)
        case "reverse":
            return _reverse(inst, source)
        case "reshape":
            return _reshape(shape, source)
    return None


def _broadcast(inst: Instruction, shape: ArrayShape, source: StridedView) -> StridedView:
    dims: list[Digits] = [((n, 0),) for n in shape.dims]
    for at, d in enumerate(inst.dimensions):
        if _size(source.dims[at]) == shape.dims[d]:
            dims[d] = source.dims[at]
    return replace(source, dims=tuple(dims))


def _slice(inst: Instruction, source: StridedView) -> StridedView | None:
    offset, dims = source.offset, []
    for digits, part in zip(source.dims, inst.slice, strict=True):
        size = len(range(part.start, part.limit, part.stride))
        if size == _size(digits):
            dims.append(digits)
            continue
        if len(digits) != 1:
            return None
        ((_, stride),) = digits
        offset += part.start * stride
        dims.append(((size, stride * part.stride),))
    return replace(source, offset=offset, dims=tuple(dims))


def _reverse(inst: Instruction, source: StridedView) -> StridedView:
    offset, dims = source.offset, list(source.dims)
    for d in inst.dimensions:
        offset += sum((n - 1) * s for n, s in dims[d] if n)
        dims[d] = tuple((n, -s) for n, s in dims[d])
    return replace(source, offset=offset, dims=tuple(dims))


def _reshape(shape: ArrayShape, source: StridedView) -> StridedView | None:
    """Split the digits of the source by the sizes of other dimensions."""
    rest = [digit for digits in source.dims for digit in digits if digit[0] != 1]
    dims: list[Digits] = []
    for size in reversed(shape.dims):
        digits: list[Digit] = []
        while size > 1:
            if not rest:
                return None
            n, stride = rest.pop()
            if size % n == 0:
                digits.insert(0, (n, stride))
                size //= n
            elif n % size == 0:
                digits.insert(0, (size, stride))
                rest.append((n // size, stride * size))
                size = 1
            else:
                return None
        dims.insert(0, tuple(_joined(digits)) or ((size, 0),))
    return replace(source, dims=tuple(dims))


def _joined(digits: Sequence[Digit]) -> list[Digit]:
    result: list[Digit] = []
    for n, stride in digits:
        if result and result[-1][1] == stride * n:
            result[-1] = (result[-1][0] * n, stride)
        else:
            result.append((n, stride))
    return result


def _size(digits: Digits) -> int:
    size = 1
    for n, *_ in digits:
        size *= n
    return size


def common_digits(counts: Sequence[Digits]) -> list[Digit] | None:
    """Return common digits of one dimension of several arrays: size and stride in each.

    None if one array's digits do not divide another's.
    """
    rests = [list(digits) for digits in counts]
    result: list[Digit] = []
    while all(rests):
        least = min(rest[-1][0] for rest in rests)
        strides = []
        for rest in rests:
            n, stride = rest.pop()
            if least == 0 or n % least:
                return None
            strides.append(stride)
            if n > least:
                rest.append((n // least, stride * least))
        result.insert(0, (least, *strides))
    # The remainder has size one.
    return result
