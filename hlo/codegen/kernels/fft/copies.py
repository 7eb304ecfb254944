"""Copies of rows between arrays and the workspace, and what else is done to whole rows.

All are functions of the sizes, which programs share. The workspace has numbers as two planes: the
real parts, and the imaginary ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hlo.codegen.kernels.fft.dft import Complex, Lanes, interleaved
from hlo.codegen.llvm import Builder, Index, ModuleBuilder, Val, i64
from hlo.codegen.loops.vectors import define, vector_at
from hlo.codegen.scalar import operations as scalar
from hlo.llvm import vector_type
from hlo.values.types import ElementType

_PLANES = "ptr noalias %re, ptr noalias %im"
_HALF = "ptr noalias readonly %table, i64 %half"


class Order(Enum):
    """Which numbers of an array are copied, `lanes` at a time.

    ROW: a contiguous row of at least so many. COLUMNS: so many rows that lie side by side, whose
    numbers are a step apart. ANY: one by one, of rows that are contiguous in the array, and so many
    steps and distances apart in it and in the workspace, where their numbers have a distance, too.
    """

    ROW = "row"
    COLUMNS = "columns"
    ANY = "any"


_SIZES = {
    Order.ROW: "i64 %count",
    Order.COLUMNS: "i64 %count, i64 %step",
    Order.ANY: "i64 %rows, i64 %row_step, i64 %row_distance, i64 %count, i64 %distance",
}


class _Numbers(Lanes):
    """Numbers in memory: in planes, or of an array, where parts are in turns."""

    def load(self, base: str, at: Index) -> Val:
        return vector_at(self.b, self.vector, base, self.type, at)

    def store(self, value: Val, base: str, at: Index) -> None:
        align = 4 if self.type == "float" else 8
        self.b.store(value, self.b.element_address(base, self.type, at), align=align)

    def planes(self, at: Index) -> Complex:
        return self.load("%re", at), self.load("%im", at)

    def store_planes(self, value: Complex, at: Index) -> None:
        for part, base in zip(value, ("%re", "%im"), strict=True):
            self.store(part, base, at)

    def array(self, at: Index) -> Complex:
        at = self.b.mul(at, 2)
        if self.lanes == 1:
            return self.load("%array", at), self.load("%array", self.b.add(at, 1))
        parts = vector_type(2 * self.lanes, self.type)
        both = vector_at(self.b, parts, "%array", self.type, at)
        re, im = (self.b.shuffle_vector(both, both, range(n, 2 * self.lanes, 2)) for n in range(2))
        return re, im

    def store_array(self, value: Complex, at: Index) -> None:
        at = self.b.mul(at, 2)
        for n, part in enumerate(interleaved(self.b, value, self.lanes, 1)):
            self.store(part, "%array", self.b.add(at, n * self.lanes))

    def reversed(self, value: Complex) -> Complex:
        if self.lanes == 1:
            return value
        re, im = (self.b.shuffle_vector(x, x, range(self.lanes)[::-1]) for x in value)
        return re, im


def of_spectrum(lanes: Lanes, x: Complex, mirrored: Complex, factor: Complex) -> Complex:
    """Return numbers X_j of the spectrum of a real row, times two, from those Z_j of the
    half-length one.

    That is Z_j + Z*_{h-j} - i w^j (Z_j - Z*_{h-j}), with Z_h = Z_0.
    """
    mirrored = mirrored[0], lanes.negate(mirrored[1])
    even, odd = lanes.add(x, mirrored), lanes.subtract(x, mirrored)
    re, im = lanes.multiply(odd, factor)
    return lanes.add(even, (im, lanes.negate(re)))


def of_halved(lanes: Lanes, x: Complex, mirrored: Complex, factor: Complex) -> Complex:
    """Return numbers of the half-length spectrum, times two, from those of a real row's.

    That is X_j + X*_{h-j} + i w^-j (X_j - X*_{h-j}).
    """
    mirrored = mirrored[0], lanes.negate(mirrored[1])
    even, odd = lanes.add(x, mirrored), lanes.subtract(x, mirrored)
    re, im = lanes.multiply(odd, (factor[0], lanes.negate(factor[1])))
    return lanes.add(even, (lanes.negate(im), re))


@dataclass(frozen=True)
class Copies:
    """Functions on numbers with parts of a type, for vectors of so many lanes."""

    module: ModuleBuilder
    part: ElementType
    lanes: int

    @property
    def _type(self) -> str:
        return scalar.memory_type(self.part)

    def _define(self, name: str, parameters: str, write: Callable[[Builder], None]) -> str:
        return define(self.module, f"fft.{name}.{self.part}x{self.lanes}", parameters, write)

    # --- arrays ---------------------------------------------------------------------------------

    def split(self, order: Order) -> str:
        """Return the function (array, re, im, sizes of the order) that reads an array."""

        def number(numbers: _Numbers, array: Index, at: Index) -> None:
            numbers.store_planes(numbers.array(array), at)

        return self._define(
            f"split.{order.value}",
            f"ptr noalias readonly %array, {_PLANES}, {_SIZES[order]}",
            lambda b: self._over(b, order, number),
        )

    def join(self, order: Order) -> str:
        """Return the function (array, re, im, sizes of the order, factor) that writes an array."""

        def number(numbers: _Numbers, array: Index, at: Index) -> None:
            factor = numbers.b.splat(Val(self._type, "%factor"), numbers.lanes)
            numbers.store_array(numbers.scale(numbers.planes(at), factor), array)

        return self._define(
            f"join.{order.value}",
            f"ptr noalias %array, {_PLANES}, {_SIZES[order]}, {self._type} %factor",
            lambda b: self._over(b, order, number),
        )

    def _over(
        self, b: Builder, order: Order, body: Callable[[_Numbers, Index, Index], None]
    ) -> None:
        """Emit the body for numbers of an array, and those of the workspace."""
        numbers = _Numbers(b, self._type, self.lanes if order is not Order.ANY else 1)
        match order:
            case Order.ROW:
                last = b.sub("%count", self.lanes)
                with b.loop(0, "%count", self.lanes, plain=True) as i:
                    at = b.minimum(i, last)
                    body(numbers, at, at)
            case Order.COLUMNS:
                with b.loop(0, "%count", plain=True) as j:
                    body(numbers, b.mul(j, "%step"), b.mul(j, self.lanes))
            case Order.ANY:
                with b.loop(0, "%rows", plain=True) as row:
                    array, at = b.mul(row, "%row_step"), b.mul(row, "%row_distance")
                    with b.loop(0, "%count", plain=True) as j:
                        place = b.add(at, b.mul(j, "%distance"))
                        body(numbers, b.add(array, j), place)

    # --- spectra of real rows -------------------------------------------------------------------

    def spectrum(self, half: int) -> str:
        """Return the function (array, re, im, table, half) that writes the spectrum of a real row.

        The workspace has that of the complex row of half its length, and the table the powers of
        the root of unity of its length, as planes.
        """

        def write(b: Builder) -> None:
            def pair(numbers: _Numbers, j: Index, mirror: Index, factor: Complex) -> None:
                mirrored = numbers.reversed(numbers.planes(mirror))
                found = of_spectrum(numbers, numbers.planes(j), mirrored, factor)
                numbers.store_array(numbers.scale(found, numbers.number(0.5)), j)

            self._over_pairs(b, half, pair)
            one = _Numbers(b, self._type, 1)
            re, im = one.planes(0)
            for at, opcode in ((0, "fadd"), ("%half", "fsub")):
                one.store_array((one.two(opcode, re, im), one.number(0.0)), at)

        parameters = f"ptr noalias %array, {_PLANES}, {_HALF}"
        return self._define(f"spectrum.{self._width(half)}", parameters, write)

    def halved(self, half: int) -> str:
        """Return the function (array, re, im, table, half) that reads the spectrum of a real row.

        It becomes that of the complex row of half its length, times two.
        """

        def write(b: Builder) -> None:
            def pair(numbers: _Numbers, j: Index, mirror: Index, factor: Complex) -> None:
                mirrored = numbers.reversed(numbers.array(mirror))
                numbers.store_planes(of_halved(numbers, numbers.array(j), mirrored, factor), j)

            self._over_pairs(b, half, pair)
            one = _Numbers(b, self._type, 1)
            (x, _), (y, _) = one.array(0), one.array("%half")
            one.store_planes((one.two("fadd", x, y), one.two("fsub", x, y)), 0)

        parameters = (
            f"ptr noalias readonly %array, {_PLANES}, ptr noalias readonly %table, i64 %half"
        )
        return self._define(f"halved.{self._width(half)}", parameters, write)

    def _width(self, half: int) -> int:
        """Return how many pairs are computed together."""
        return self.lanes if half > self.lanes else 1

    def _over_pairs(
        self, b: Builder, half: int, body: Callable[[_Numbers, Index, Index, Complex], None]
    ) -> None:
        """Emit the body for numbers from 1 to the last before half: for their places, where their
        mirror images begin, and their factors. The last ones end where the numbers end."""
        numbers = _Numbers(b, self._type, self._width(half))
        last = b.sub("%half", numbers.lanes)
        imaginary = b.element_address("%table", self._type, b.add("%half", 1))
        with b.loop(1, "%half", numbers.lanes, plain=True) as i:
            j = b.minimum(i, last)
            mirror = b.add(b.sub("%half", j), 1 - numbers.lanes)
            body(numbers, j, mirror, (numbers.load("%table", j), numbers.load(imaginary, j)))

    # --- in the workspace -----------------------------------------------------------------------

    def multiply(self, lines: int) -> str:
        """Return the function (re, im, table, count) that multiplies numbers of so many rows.

        The table has the factors as planes.
        """

        def write(b: Builder) -> None:
            tables = "%table", b.element_address("%table", self._type, "%count")

            def number(j: Index, width: int) -> None:
                factors = _Numbers(b, self._type, width)
                re, im = (factors.load(table, j) for table in tables)
                if lines > 1:
                    re, im = (b.shuffle_vector(x, x, [0] * lines) for x in (re, im))
                rows = _Numbers(b, self._type, width * lines)
                at = b.mul(j, lines)
                rows.store_planes(rows.multiply(rows.planes(at), (re, im)), at)

            width = self.lanes if lines == 1 else 1
            whole = b.binary("and", i64("%count"), -width).name
            with b.loop(0, whole, width, plain=True) as j:
                number(j, width)
            if width > 1:
                with b.loop(whole, "%count", plain=True) as j:
                    number(j, 1)

        parameters = f"{_PLANES}, ptr noalias readonly %table, i64 %count"
        return self._define(f"multiply.{lines}", parameters, write)

    def gather(self, lines: int) -> str:
        """Return the function (x, y, order, count): number j of y is number order[j] of x.

        x and y are two planes each, of so many rows.
        """

        def write(b: Builder) -> None:
            rows = _Numbers(b, self._type, lines)
            with b.loop(0, "%count", plain=True) as j:
                place = b.load("i32", b.element_address("%order", "i32", j), is_invariant=True)
                at = b.mul(b.cast("zext", place, "i64").name, lines)
                for x, y in (("%x_re", "%y_re"), ("%x_im", "%y_im")):
                    rows.store(rows.load(x, at), y, b.mul(j, lines))

        return self._define(
            f"gather.{lines}",
            "ptr noalias readonly %x_re, ptr noalias readonly %x_im, ptr noalias %y_re, "
            "ptr noalias %y_im, ptr noalias readonly %order, i64 %count", write,
        )  # fmt: skip
