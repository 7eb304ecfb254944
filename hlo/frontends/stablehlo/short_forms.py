"""The short forms of operations, read as `declarations` says. Sources: the definitions of the
dialects, and the methods of those with a form of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from hlo.frontends.stablehlo.cursor import STRING, VALUE, WORD, Tagged
from hlo.frontends.stablehlo.declarations import Declaration
from hlo.frontends.stablehlo.quantized_types import QuantizedShape
from hlo.frontends.stablehlo.syntax import Argument, Block, Op, OperationReader
from hlo.values.types import ArrayShape, Shape, TupleShape, array, complex_part

# MLIR reads true and false as integers too.
_INTEGER = re.compile(r"(?:-?\d{1,19}+|true|false)(?![\w.])")
_FORMAT = re.compile(r"e(\d{1,10})m(\d{1,10})(?![\w$.-])")
_LABEL = re.compile(r"[a-z?]|\d{1,2}")
_RANGE = re.compile(r"(-?\d{1,19})\s*:\s*(-?\d{1,19})(?:\s*:\s*(-?\d{1,19}))?")
# Keys of a window, and the attributes that they are.
_WINDOW = {
    "stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation", "reverse": "window_reversal",
}  # fmt: skip
# Operations that the short form of a reduction may name.
_COMMUTATIVE = frozenset("add and maximum minimum multiply or xor".split())


class ShortFormReader(OperationReader):
    """Reads operations, also in their short forms."""

    __slots__ = ()

    def short_form(self, op: Op, declared: Declaration) -> None:
        assert declared.short is not None
        parts = iter(declared.short)
        for part in parts:
            if part == "?":
                inside = []
                while (optional := next(parts)) != "?":
                    inside.append(optional)
                if self._is_at(inside):
                    for optional in inside:
                        self._part(op, declared, optional)
            else:
                self._part(op, declared, part)

    def _is_at(self, parts: Sequence[str]) -> bool:
        """Whether an optional group is here: its first words are."""
        start, words = self.pos, [p for p in parts[:2] if p[0] not in "%$@{<" and not p.isupper()]
        is_here = all(map(self.accept, words)) if words else self.peek("%")
        self.pos = start
        return is_here

    def _part(self, op: Op, declared: Declaration, part: str) -> None:
        read = _PARTS.get(part)
        if read is not None:
            read(self, op)
        elif part[0] == "@":
            op.attrs[part[1:]] = self.symbol()
        elif part[0] == "$":
            name = part[1:]
            op.attrs[name] = self._value(declared.attributes[name].kind, op)
        elif part.isalpha() and self.at(WORD):
            start, word = self.pos, self.match(WORD, repr(part))[0]
            if word != part:
                self.fail(f"expected {part!r}, found {word!r}", start)
        else:
            self.expect(part)

    def _operands_before_commas(self, op: Op) -> None:
        if not self.peek("%"):
            self.accept(",")  # MLIR prints one behind no operands, too
        while self.peek("%"):
            self.operand(op)
            self.expect(",")

    def _optional_attributes(self, op: Op) -> None:
        if self.peek("{"):
            self.attributes(op)

    # --- values of attributes -------------------------------------------------------------------

    def _value(self, kind: str, op: Op) -> Any:
        if kind in ("i64", "i32"):
            return self._integer()
        if kind == "ints":
            return self._integers()
        if kind == "string":
            return self.attribute() if self.at(STRING) else self.fail_at("a string")
        start = self.pos
        word = self.match(WORD, "a word")[0]
        if kind == "bool":
            if word not in ("true", "false"):
                self.fail(f"expected true or false, found {word!r}", start)
            return word == "true"
        return Tagged(f"{op.name.partition('.')[0]}.{kind}", word, start)

    def fail_at(self, what: str) -> Any:
        self.fail(f"expected {what}, found {self.found()}")

    def _integers(self) -> list[int]:
        return [self._integer() for _ in self.items("[", "]")]

    def _integer(self) -> int:
        word = self.match(_INTEGER, "an integer")[0]
        return int(word == "true") if word.isalpha() else int(word)

    def _constant(self, op: Op) -> None:
        if self.peek("("):
            self._generic(op, None)
            return
        if self.peek("{"):
            self.attributes(op)
        start = self.pos
        op.attrs["value"] = value = self.attribute()
        if not isinstance(value, Tagged) or value.type is None:
            self.fail("a constant is dense<..> : type", start)
        op.result_types = [value.type]

    def _float_format(self, op: Op) -> None:
        start = self.pos
        m = self.match(_FORMAT, "a format such as e5m2")
        bits = int(m[1]), int(m[2])
        if max(bits) > 0x7FFFFFFF:
            self.fail(f"{m[0]!r} is not a format such as e5m2", start, code="bad-value")
        op.attrs["exponent_bits"], op.attrs["mantissa_bits"] = bits

    def _ranges(self, op: Op) -> None:
        """Read the bounds of a slice, `[1:3, 0:6:3]`."""
        rows = [self.match(_RANGE, "start:limit:stride") for _ in self.items("[", "]")]
        for i, key in enumerate(("start_indices", "limit_indices", "strides"), 1):
            op.attrs[key] = [int(m[i] or 1) for m in rows]

    def _labels(self, op: Op) -> None:
        """Read `[b, 0, f]x[0, i, o]->[b, 0, f]`."""
        start, parts = self.pos, []
        for word in ("x", "->", ""):
            parts.append([self.match(_LABEL, "a label")[0] for _ in self.items("[", "]")])
            if word:
                self.expect(word)
        text = "[{}]x[{}]->[{}]".format(*(", ".join(part) for part in parts))
        op.attrs["dimension_numbers"] = Tagged("stablehlo.conv", text, start)

    def _window(self, op: Op) -> None:
        """Read `stride = [1, 1], pad = [[0, 0], [1, 1]]`; a comma may follow the last."""
        while self.at(WORD):
            start = self.pos
            key = self.match(WORD, "an attribute of a window")[0]
            name = _WINDOW.get(key)
            if name is None or name in op.attrs:
                self.fail(f"unexpected {key!r} in a window", start)
            self.expect("=")
            if key == "pad":
                op.attrs[name] = self._padding()
            else:
                op.attrs[name] = self._integers()
            if not self.accept(","):
                return

    def _padding(self) -> list[list[int]]:
        rows = []
        for _ in self.items("[", "]"):
            start = self.pos
            rows.append(self._integers())
            if len(rows[-1]) != 2:
                self.fail(f"padding is two integers, not {len(rows[-1])}", start, code="bad-value")
        return rows

    def _dot_dimensions(self, op: Op) -> None:
        """Read `batching_dims = [0] x [0], contracting_dims = [2] x [1]`."""
        fields = {}
        if self.accept("batching_dims"):
            fields["batching"] = self._pair_of_lists()
            self.expect(",")
        self.expect("contracting_dims")
        fields["contracting"] = self._pair_of_lists()
        text = ", ".join(
            f"{side}_{kind}_dimensions = {pair[i]}"
            for kind, pair in fields.items() for i, side in enumerate(("lhs", "rhs"))
        )  # fmt: skip
        op.attrs["dot_dimension_numbers"] = Tagged("stablehlo.dot", text, op.start)

    def _pair_of_lists(self) -> tuple[list[int], list[int]]:
        self.expect("=")
        first = self._integers()
        self.expect("x")
        return first, self._integers()

    def _precision(self, op: Op) -> None:
        if self.accept(","):
            self.expect("precision")
            self._precisions(op)

    def _precisions(self, op: Op) -> None:
        self.expect("=")
        op.attrs["precision_config"] = [
            Tagged("stablehlo.precision", self.match(WORD, "a precision")[0], self.pos)
            for _ in self.items("[", "]")
        ]

    def _precision_and_algorithm(self, op: Op) -> None:
        if not self.accept(","):
            return
        if self.accept("precision"):
            self._precisions(op)
            if not self.accept(","):
                return
        self.expect("algorithm")
        self.expect("=")
        start = self.pos
        op.attrs["algorithm"] = Tagged("stablehlo.dot_algorithm", self.balanced("<"), start)

    # --- operations with regions ----------------------------------------------------------------

    def _while(self, op: Op) -> None:
        """Read `(%state = %start) : types attributes {..} cond {..} do {..}`."""
        names: list[str] = []
        self.expect("(")
        while not self.accept(")"):
            if names:
                self.expect(",")
            names.append(self.match(VALUE, "a value")[1])
            self.expect("=")
            self.operand(op)
        if names:
            self.expect(":")
            op.operand_types = self.types()
            op.result_types = op.operand_types
        if len(names) != len(op.operand_types):
            self.fail(f"{len(names)} values have {len(op.operand_types)} types", op.start,
                      code="operand-count")  # fmt: skip
        if self.accept("attributes"):
            self.attributes(op)
        arguments = list(zip(names, op.operand_types, strict=True))
        for word in ("cond", "do"):
            self.expect(word)
            op.regions.append(self.region(arguments))

    def _reduce(self, op: Op) -> None:
        """Read `(%a init: %b), (%c init: %d) applies op across dimensions = [0] : types`, or
        a region behind the types."""
        starts = Op("", op.start)
        while True:
            self.expect("(")
            self.operand(op)
            self.expect("init")
            self.expect(":")
            self.operand(starts)
            self.expect(")")
            if not self.accept(","):
                break
        op.operands += starts.operands
        op.operand_starts += starts.operand_starts
        inner = self.match(WORD, "an operation")[0] if self.accept("applies") else ""
        dialect, _, kind = inner.partition(".")
        if inner and (dialect != op.name.partition(".")[0] or kind not in _COMMUTATIVE):
            self.fail(f"{inner} is not an operation that a reduction applies", op.start,
                      code="bad-value")  # fmt: skip
        for word in ("across", "dimensions", "="):
            self.expect(word)
        dimensions = self._integers()
        if self.peek("{"):
            start = self.pos
            self.attributes(op)
            if "dimensions" in op.attrs:
                self.fail("dimensions are there twice", start, code="duplicate-attribute")
        op.attrs["dimensions"] = dimensions
        self.expect(":")
        op.operand_types, op.result_types = self.function_type()
        op.regions.append(self._applied(op, inner) if inner else self._reducer())

    def _applied(self, op: Op, inner: str) -> Block:
        """Return the region of a reduction that applies one operation."""
        op.location = self.location()
        first = op.operand_types[0] if op.operand_types else None
        if not isinstance(first, ArrayShape):
            self.fail(f"{op.name}: the type of its operand is missing", op.start)
        scalar = array(first.element_type, ())
        if isinstance(first, QuantizedShape):
            scalar = QuantizedShape(first.element_type, (), scalar.layout, (), first.quantization)
        made = Op(inner, op.start, op.end, [("r", 1)], ["x", "y"], [op.start] * 2)
        made.operand_types, made.result_types = [scalar] * 2, [scalar]
        last = Op("return", op.start, op.end, operands=["r"], operand_starts=[op.start])
        last.operand_types = [scalar]
        return Block([("x", scalar), ("y", scalar)], [made, last])

    def _reducer(self) -> Block:
        self.expect("reducer")
        pairs: list[list[Argument]] = []
        self._scopes.append(set())
        while self.peek("("):
            start = self.pos
            pairs.append(self.arguments([]))
            if len(pairs[-1]) != 2:
                self.fail("a reducer has pairs of arguments", start)
        self._scopes.pop()
        # The left sides of all pairs come first.
        return self.region([p[i] for i in range(2) for p in pairs])

    def _scan(self, op: Op) -> None:
        """Read `(%inputs) inits (%starts) dimension = 0 attributes {..} {region} : types`."""
        self.expect("(")
        self.operands(op, ")")
        count = len(op.operands)
        self.expect("inits")
        self.expect("(")
        self.operands(op, ")")
        self.expect("dimension")
        self.expect("=")
        op.attrs["dimension"] = self._value("i64", op)
        op.attrs["operandSegmentSizes"] = [count, len(op.operands) - count]
        if self.accept("attributes"):
            self.attributes(op)
        op.regions.append(self.region())
        self.expect(":")
        op.operand_types, op.result_types = self.function_type()

    def _barrier(self, op: Op) -> None:
        if self.accept("("):
            self.expect(")")
            return
        self.operands(op)
        self.expect(":")
        op.operand_types = op.result_types = self.types()

    def _returned(self, op: Op) -> None:
        self.operands(op)
        self.expect(":")
        op.operand_types = self.types()

    # --- Shardy ---------------------------------------------------------------------------------

    def _sharding(self, op: Op) -> None:
        start = self.pos
        is_short = self.peek("<")
        op.attrs["sharding"] = Tagged("sdy.sharding", self.sdy_text(), start) if is_short else (
            self.attribute())  # fmt: skip

    def sdy_text(self) -> str:
        """Read one of Shardy's attributes in angle brackets."""
        return self.inlined(self.balanced("<"))

    def _manual_computation(self, op: Op) -> None:
        """Read `(%a) in_shardings=[..] out_shardings=[..] manual_axes={..} (%b: type) {..}`."""
        self.expect("(")
        self.operands(op, ")")
        self._sdy_lists(op, ("in_shardings", "out_shardings", "manual_axes"))
        self._sdy_region(op)

    def _named_computation(self, op: Op) -> None:
        """Read `<"name">(%a) in_shardings=[..] (%b: type) {..}`."""
        self.expect("<")
        op.attrs["name"] = self._value("string", op)
        self.expect(">")
        self.expect("(")
        self.operands(op, ")")
        self._sdy_lists(op, [k for k in ("in_shardings", "out_shardings") if self.peek(k)])
        if self.peek("out_shardings"):
            self._sdy_lists(op, ["out_shardings"])
        self._sdy_region(op)

    def _sdy_lists(self, op: Op, keys: Sequence[str]) -> None:
        for key in keys:
            self.expect(key)
            self.expect("=")
            start = self.pos
            opening = "{" if key == "manual_axes" else "["
            op.attrs[key] = Tagged("", self.inlined(self.balanced(opening)), start)

    def _sdy_region(self, op: Op) -> None:
        self._scopes.append(set())
        arguments = self.arguments([])
        self._scopes.pop()
        op.regions.append(self.region(arguments))
        if self.peek("{"):
            self.attributes(op)
        self.expect(":")
        op.operand_types, op.result_types = self.function_type()

    # --- types ----------------------------------------------------------------------------------

    def _type_function(self, op: Op) -> None:
        op.operand_types, op.result_types = self.function_type()

    def _type_same(self, op: Op) -> None:
        if self.peek("("):
            self._type_function(op)
            return
        kind = self.value_type()
        op.operand_types, op.result_types = [kind] * len(op.operands), [kind]

    def _type_result(self, op: Op) -> None:
        op.result_types = [self.value_type()]

    def _type_operand(self, op: Op) -> None:
        op.operand_types = [self.value_type()]

    def _type_select(self, op: Op) -> None:
        """Read the types of the predicate and of all else, or those of a function."""
        if self.peek("("):
            self._type_function(op)
            return
        predicate = self.value_type()
        self.expect(",")
        kind = self.value_type()
        op.operand_types, op.result_types = [predicate, kind, kind], [kind]

    def _type_complex(self, op: Op) -> None:
        """Read a complex type, of whose parts the operands are, or the types of a function."""
        if self.peek("("):
            self._type_function(op)
            return
        start, kind = self.pos, self.value_type()
        if not isinstance(kind, ArrayShape) or not kind.element_type.is_complex:
            self.fail("expected complex numbers", start, code="type-mismatch")
        part = kind.with_type(complex_part(kind.element_type))
        op.operand_types, op.result_types = [part, part], [kind]

    def _type_tuple(self, op: Op) -> None:
        start, kind = self.pos, self.value_type()
        if not isinstance(kind, TupleShape):
            self.fail("expected the type of a tuple", start, code="type-mismatch")
        op.operand_types, op.result_types = list(kind.elements), [kind]

    def _type_arrow(self, op: Op) -> None:
        """Read one type: of operands while there are any without one, else of the result."""
        kinds: list[Shape] = op.operand_types
        (kinds if len(kinds) < len(op.operands) else op.result_types).append(self.value_type())

    def _type_list(self, op: Op) -> None:
        """Read the types of operands, or of results in parentheses."""
        if self.peek("("):
            op.result_types = self.types_in_parentheses()
        else:
            op.operand_types = self.types()


_Method = Callable[[ShortFormReader, Op], None]
_TYPES: dict[str, _Method] = {
    "<complex>": ShortFormReader._type_complex,
    "<function>": ShortFormReader._type_function,
    "<operand>": ShortFormReader._type_operand,
    "<result>": ShortFormReader._type_result,
    "<same>": ShortFormReader._type_same,
    "<select>": ShortFormReader._type_select,
    "<tuple>": ShortFormReader._type_tuple,
    "<type>": ShortFormReader._type_arrow,
    "<types>": ShortFormReader._type_list,
}
_METHODS: dict[str, _Method] = {
    "BARRIER": ShortFormReader._barrier,
    "CONSTANT": ShortFormReader._constant,
    "DOT_DIMENSIONS": ShortFormReader._dot_dimensions,
    "FLOAT_FORMAT": ShortFormReader._float_format,
    "LABELS": ShortFormReader._labels,
    "MANUAL_COMPUTATION": ShortFormReader._manual_computation,
    "NAMED_COMPUTATION": ShortFormReader._named_computation,
    "PRECISION": ShortFormReader._precision,
    "PRECISION_AND_ALGORITHM": ShortFormReader._precision_and_algorithm,
    "RANGES": ShortFormReader._ranges,
    "REDUCE": ShortFormReader._reduce,
    "RETURNED": ShortFormReader._returned,
    "SCAN": ShortFormReader._scan,
    "SHARDING": ShortFormReader._sharding,
    "WHILE": ShortFormReader._while,
    "WINDOW": ShortFormReader._window,
}
# What a part of a declaration's short form reads, but for words, symbols and attributes.
_PARTS: dict[str, _Method] = {
    "%": ShortFormReader.operand,
    "%*": ShortFormReader.operands,
    "%,": ShortFormReader._operands_before_commas,
    "{}": ShortFormReader._optional_attributes,
    **_TYPES,
    **_METHODS,
}
