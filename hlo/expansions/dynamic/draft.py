"""Computations under construction whose values have sizes; what rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hlo.errors import HloError, InferError
from hlo.expansions.draft import Draft, expand
from hlo.expansions.dynamic.sized import (
    SIZED_CALLS,
    Flags,
    Size,
    Sized,
    Value,
    either,
    flags_of,
    may_be_dynamic,
    need_bounds,
    packed_shape,
    static,
    static_array,
)
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.ops.host.custom_targets import verify_target
from hlo.ops.movement.dimension_sizes import SIZE_OPS
from hlo.values.types import PRED, S32, ArrayShape, ElementType, Shape, TupleShape

# How many calls may be in each other.
_MAX_DEPTH = 100

# Rules return the value of an instruction for operands of which some vary. Custom calls go by their
# targets.
Rule = Callable[["SizedDraft", Instruction, list[Value]], Value]
RULES: dict[str, Rule] = {}


def sized(*opcodes: str) -> Callable[[Rule], Rule]:
    """Register the rule of some operations."""

    def add(rule: Rule) -> Rule:
        for opcode in opcodes:
            assert opcode not in RULES, opcode
            RULES[opcode] = rule
        return rule

    return add


class SizedDraft(Draft):
    """A computation under construction, in values with sizes."""

    def __init__(self, like: Instruction, depth: int = 0) -> None:
        super().__init__(like, [])
        self.depth = depth
        self._bounded: dict[tuple[Instruction, int], Instruction] = {}

    def run(self, comp: Computation, args: Sequence[Value]) -> Value:
        """Append what a computation does with values; returns its result."""
        if self.depth > _MAX_DEPTH:
            raise HloError.at(
                "call-depth", f"calls are nested more than {_MAX_DEPTH} deep",
                comp.root.span,
            )  # fmt: skip
        values: dict[Instruction, Value] = {}
        for inst in comp.in_order():
            self.inst = inst
            operands = [values[o] for o in inst.operands]
            if inst.opcode == "parameter":
                values[inst] = args[inst.parameter_number]
                continue
            try:
                values[inst] = self._value(inst, operands)
            except InferError as e:
                raise HloError.at(e.code, f"{inst.name}: {e.message}", inst.span) from None
        return values[comp.root]

    def _value(self, inst: Instruction, args: list[Value]) -> Value:
        match inst.opcode:
            case "tuple":
                return tuple(args)
            case "get-tuple-element":
                return args[0][inst.tuple_index]
            case _ if inst.spec.has(Trait.FORWARDS):
                return args[0]
            case "copy" if isinstance(args[0], Sized):
                return Sized(self.relaid(args[0].data, static(inst.shape)), args[0].sizes)
            case _ if inst.spec.has(Trait.CALL):
                return self.inlined(inst.called_computations[0], args)
            case "async-start":
                result = self.inlined(inst.called_computations[0], args)
                assert isinstance(inst.shape, TupleShape)
                return tuple(args), result, *map(self.zeros, inst.shape.elements[2:])
            case "async-update":
                return args[0]
            case "async-done":
                return args[0][1]
            case "while":
                return self._loop(inst, args[0])
            case "conditional":
                return self._branches(inst, args)
        need_bounds(inst)
        if inst.opcode == "custom-call":
            verify_target(inst)
        rule = RULES.get(_kind(inst))
        if rule is not None and (_kind(inst) in _ALWAYS or any(map(_varies, args))):
            return rule(self, inst, args)
        if any(map(_varies, args)) or any(map(may_be_dynamic, inst.called_computations)):
            expanded = expand(inst) if inst.opcode != "custom-call" else None
            if expanded is None:
                raise InferError(
                    f"{inst.opcode}: no static form for operands of dynamic size",
                    code="unsupported",
                )
            return self.inlined(expanded, args)
        return self.plain(inst, args)

    def inlined(self, comp: Computation, args: Sequence[Value]) -> Value:
        """Append what a computation does with operands, in the place of the instruction."""
        like = self.inst
        self.depth += 1
        result = self.run(comp, args)
        self.depth -= 1
        self.inst = like
        return result

    def plain(self, inst: Instruction, args: Sequence[Value]) -> Value:
        """Append an instruction on operands at their bounds, which are all that is meant."""
        return whole(self, self.clone(inst, [self.at_bounds(a) for a in args]))

    def clone(
        self, inst: Instruction, operands: Sequence[Instruction], **attrs: Any
    ) -> Instruction:
        """Append an instruction at its bounds, on other operands."""
        return self.comp.add(inst.clone(operands, shape=static(inst.shape), attrs=attrs))

    def at_bounds(self, value: Value) -> Instruction:
        """Return the instruction of a value without its sizes."""
        if isinstance(value, tuple):
            return self.op("tuple", *(self.at_bounds(v) for v in value))
        return value.data if isinstance(value, Sized) else value

    # --- between computations -------------------------------------------------------------------

    def packed(self, value: Value, flags: Flags) -> Instruction:
        """Return one instruction for a value and the sizes of the flagged dimensions."""
        if isinstance(value, tuple):
            parts = [self.packed(v, f) for v, f in zip(value, flags, strict=True)]
            return self.op("tuple", *parts)
        if not any(flags):
            return value.data if isinstance(value, Sized) else value
        sizes = [self.size(n) for n, f in zip(value.sizes, flags, strict=True) if f]
        return self.op("tuple", value.data, *sizes)

    def unpacked(self, inst: Instruction, shape: Shape, flags: Flags) -> Value:
        """Return the value that an instruction made by `packed` holds."""
        if isinstance(shape, TupleShape):
            parts = [self.op("get-tuple-element", inst, index=n) for n in range(len(flags))]
            return tuple(
                self.unpacked(p, s, f) for p, s, f in zip(parts, shape.elements, flags, strict=True)
            )
        if not isinstance(shape, ArrayShape):
            return inst
        if not any(flags):
            return Sized(inst, shape.dims)
        data = self.op("get-tuple-element", inst, index=0)
        rest: Iterator[int] = iter(range(1, 1 + sum(flags)))
        return Sized(
            data,
            tuple(
                self.inside(self.op("get-tuple-element", inst, index=next(rest)), bound)
                if f
                else bound
                for bound, f in zip(shape.dims, flags, strict=True)
            ),
        )

    def _function(self, comp: Computation, shape: Shape, flags: Flags) -> tuple[SizedDraft, Value]:
        """Begin a computation of one parameter; returns it and its result."""
        d = SizedDraft(self.inst, self.depth + 1)
        attrs = {"number": 0}
        parameter = d.comp.create("parameter", packed_shape(shape, flags), (), attrs)
        return d, d.run(comp, [d.unpacked(parameter, shape, flags)])

    def _loop(self, inst: Instruction, init: Value) -> Value:
        condition, body = inst.condition, inst.body
        shape, flags = inst.shape, flags_of(init)
        while True:
            d, result = self._function(body, shape, flags)
            found = either(flags, flags_of(result))
            if found == flags:
                break
            flags = found  # what the body makes vary does so in the next iteration
        test, go_on = self._function(condition, shape, flags)
        made = self.op(
            "while", self.packed(init, flags), shape=packed_shape(shape, flags),
            condition=test.done(test.packed(go_on, ())), body=d.done(d.packed(result, flags)),
        )  # fmt: skip
        return self.unpacked(made, shape, flags)

    def _branches(self, inst: Instruction, args: Sequence[Value]) -> Value:
        built = []
        for comp, value in zip(inst.called_computations, args[1:], strict=True):
            built.append(self._function(comp, comp.parameter_shapes[0], flags_of(value)))
        flags = flags_of(built[0][1])
        for _, result in built[1:]:
            flags = either(flags, flags_of(result))
        branches = [d.done(d.packed(result, flags)) for d, result in built]
        if isinstance(args[0].shape, ArrayShape) and args[0].shape.element_type is PRED:
            attrs: dict[str, Any] = dict(
                zip(("true_computation", "false_computation"), branches, strict=True)
            )
        else:
            attrs = {"branch_computations": tuple(branches)}
        operands = [self.packed(a, flags_of(a)) for a in args]
        shape = packed_shape(inst.shape, flags)
        made = self.op("conditional", *operands, shape=shape, **attrs)
        return self.unpacked(made, inst.shape, flags)

    # --- sizes ----------------------------------------------------------------------------------

    def size(self, n: Size) -> Instruction:
        """Return a size as a scalar."""
        return self.constant(S32, n) if isinstance(n, int) else n

    def inside(self, n: Instruction, bound: int) -> Instruction:
        """Return a size that is neither negative nor above its bound."""
        found = self._bounded.get((n, bound))
        if found is None:
            found = self.op("clamp", self.constant(S32, 0), n, self.constant(S32, bound))
            self._bounded[n, bound] = found
        return found

    def checked(self, n: Instruction, bound: int, dim: int) -> Instruction:
        """Return a size that an operation gives a dimension; outside its bound it is an error."""
        is_new = (n, bound) not in self._bounded
        found = self.inside(n, bound)
        if is_new and not is_known_inside(n, bound):
            self.need_at_most(
                n, self.constant(S32, bound), f"the size of dimension {dim} is outside [0, {bound}]"
            )
        return found

    def known(self, n: Instruction, size: int, dim: int) -> int:
        """Return the size of a static dimension; another that an operation gives is an error."""
        missing = self.op("subtract", self.constant(S32, size), n)
        message = f"the size of dimension {dim} is not {size}, as its shape has it"
        self.need_at_most(missing, self.constant(S32, 0), message)
        return size

    def arithmetic(self, opcode: str, a: Size, b: Size) -> Size:
        """Return a binary operation on sizes: add, subtract, multiply, divide, minimum, maximum."""
        if isinstance(a, int) and isinstance(b, int):
            return _KNOWN[opcode](a, b)
        return self.op(opcode, self.size(a), self.size(b))

    def is_equal(self, a: Size, b: Size) -> Instruction:
        """Return whether two sizes are equal."""
        return self.compare(self.size(a), self.size(b), "EQ")

    def positions(self, like: ArrayShape, dim: int) -> Instruction:
        """Return the index along a dimension for every element of a shape."""
        return self.op("iota", shape=like.with_type(S32), iota_dimension=dim)

    def meant(self, like: ArrayShape, sizes: Sequence[Size]) -> Instruction | None:
        """Return which elements of a shape are within sizes, None if all are."""
        result: Instruction | None = None
        for dim, n in enumerate(sizes):
            if n == like.dims[dim]:
                continue
            here = self.compare(self.positions(like, dim), self.broadcast(self.size(n), like), "LT")
            result = here if result is None else self.op("and", result, here)
        return result

    def covered(self, x: Instruction, sizes: Sequence[Size], fill: Instruction) -> Instruction:
        """Return an array with a scalar wherever an index is not within sizes."""
        shape = static_array(x.shape)
        there = self.meant(shape, sizes)
        if there is None:
            return x
        return self.op("select", there, x, self.broadcast(fill, shape), shape=shape)


_KNOWN: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a // b if b else -1,
    "minimum": min,
    "maximum": max,
}
# These make or read sizes.
_ALWAYS = SIZE_OPS | {"scan", *SIZED_CALLS}


def is_known_inside(n: Instruction, bound: int) -> bool:
    """True for a constant size that is neither negative nor above its bound."""
    return n.opcode == "constant" and 0 <= int(n.literal.array) <= bound


def whole(d: SizedDraft, inst: Instruction) -> Value:
    """Return the value of an instruction of which everything is meant."""
    if isinstance(inst.shape, TupleShape):
        return tuple(
            whole(d, d.op("get-tuple-element", inst, index=n))
            for n in range(len(inst.shape.elements))
        )
    return Sized(inst, inst.shape.dims) if isinstance(inst.shape, ArrayShape) else inst


def _kind(inst: Instruction) -> str:
    if inst.opcode != "custom-call":
        return inst.opcode
    return str(inst.custom_call_target)


def _varies(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(map(_varies, value))
    return isinstance(value, Sized) and value.varies


# --- what rules share -----------------------------------------------------------------------------


def unsupported(inst: Instruction, what: str) -> InferError:
    """Return the error for operands that vary in a way that has no native code."""
    return InferError(
        f"{inst.opcode}: no static form for {what} of dynamic size", code="unsupported"
    )


def shared_size(d: SizedDraft, sizes: Sequence[Size]) -> Size:
    """Return the one size with which dimensions take part: the least of those that vary."""
    varying = list(dict.fromkeys(n for n in sizes if isinstance(n, Instruction)))
    if not varying:
        return min(sizes)  # type: ignore[type-var]
    size: Size = varying[0]
    for other in varying[1:]:
        size = d.arithmetic("minimum", size, other)
    return size


def zero(d: SizedDraft, et: ElementType) -> Instruction:
    """Return a scalar zero."""
    return d.constant(et, 0)
