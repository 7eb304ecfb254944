"""The definitions of collectives for members whose memory can be read: a function for each kind.

They read everything else from the description, so that a program has one function for all of its
all-reduces. Each member of a group calls it for its own place, at the same time as the others: it
copies what it gets from their operands, or reduces its part of all of them and writes that to the
results of all. A reduction combines the members in the order of their group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hlo.codegen.entry.collectives.structs import ARRAY, CALL, COLLECTIVE
from hlo.codegen.llvm import FALSE, Builder, Index, ModuleBuilder, Val, i32, i64, ptr
from hlo.llvm import Function

# A reduction goes block by block through memory that stays in the first-level cache.
_BLOCK_BYTES = 16384
# Results of at least so many bytes are written around the caches: nobody reads them soon.
_STREAMED_BYTES = 1 << 22
# Bytes of one turn of a loop that does that, of vectors that every target can split.
_STREAM_TURN, _STREAM_TYPE, _STREAM_WIDTH = 128, "<32 x i8>", 32
# Reductions are shared out in multiples of so many elements: whole cache lines of any type.
_SHARE = 64

# Statuses, and what they stand for: the same in the same order for every kind.
ERRORS = (
    ("bad-value", "the members of a group name different roots, or places outside of the group"),
    ("bad-replica-groups", "the updates do not divide evenly among the members"),
    ("index-out-of-range", "a send size is negative"),
    ("index-out-of-range", "a slice is outside of the rows of its array"),
)
_BAD_ROOT, _UNEVEN, _NEGATIVE, _OUTSIDE = range(1, 1 + len(ERRORS))


def define_combine(module: ModuleBuilder, opcode: str) -> str:
    """Add the function of an opcode, if it is not there; returns its name."""
    name = f"hlo.combine.{opcode}"
    if name not in module.functions:
        function = Function(
            name, ["ptr %op", "ptr %members", "i64 %n", "i64 %place"], ("noinline", "nounwind"),
            result="i32", linkage="internal",
        )  # fmt: skip
        module.add(function)
        share = _Share(module)
        _KINDS[opcode](share)
        share.b.ret(i32(0))
        share.b.finish(function)
    return name


class _Share:
    """What a member does, under construction: the arguments, and loops over them."""

    def __init__(self, module: ModuleBuilder) -> None:
        self.b = Builder(module)
        self.n, self.place = "%n", "%place"
        self.operands = COLLECTIVE.load(self.b, "%op", "operands").name

    def fail(self, status: int, condition: Val) -> None:
        """End the function with a status where a condition holds."""
        b = self.b
        stop, go = b.new_label("stop"), b.new_label("go")
        b.branch(condition, stop, go)
        b.place(stop)
        b.ret(i32(status))
        b.place(go)

    def count(self, what: str) -> str:
        """Return the number of operands or results."""
        return COLLECTIVE.load(self.b, "%op", f"num_{what}").name

    def array(self, field: str, number: Index) -> str:
        """Return a number of the description of an operand."""
        return ARRAY.load(self.b, self.operands, field, number).name

    def size(self, field: str, number: Index) -> Index:
        """Return the bytes that so many elements of an operand take."""
        return self.b.mul(self.array(field, number), self.array("element_bytes", number))

    def operand(self, member: Index, number: Index) -> str:
        """Return the address of an operand of a member."""
        return self._address("operands", member, number)

    def result(self, member: Index, number: Index) -> str:
        """Return the address of a result of a member."""
        return self._address("results", member, number)

    def _address(self, table: str, member: Index, number: Index) -> str:
        b = self.b
        call = b.load("ptr", b.element_address("%members", "ptr", member)).name
        addresses = CALL.load(b, call, table).name
        return b.load("ptr", b.element_address(addresses, "ptr", number)).name

    @contextmanager
    def each(self, count: Index) -> Iterator[str]:
        """Run the body for every number below a count."""
        with self.b.loop(0, count, plain=True) as i, self.b.unremembered():
            yield i

    def copy(self, target: str, source: str, size: Index) -> None:
        """Copy bytes."""
        _copy(self.b, target, source, size)

    def clear(self, target: str, size: Index) -> None:
        """Set bytes to zero."""
        b = self.b
        b.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1 immarg"])
        b.call_void("llvm.memset.p0.i64", [ptr(target), Val("i8", "0"), i64(size), FALSE])

    def copy_rows(
        self, target: str, stride: Index, source: str, step: Index, size: Index, rows: Index
    ) -> None:
        """Copy rows of a size in bytes, that lie at distances in bytes from each other."""
        with self.each(rows) as row:
            b = self.b
            self.copy(_at(b, target, b.mul(row, stride)), _at(b, source, b.mul(row, step)), size)


def _at(b: Builder, base: str, offset: Index) -> str:
    """Return an address so many bytes after another."""
    return b.element_address(base, "i8", offset)


def _copy(b: Builder, target: str, source: str, size: Index) -> None:
    b.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1 immarg"])
    b.call_void("llvm.memcpy.p0.p0.i64", [ptr(target), ptr(source), i64(size), FALSE])


# --- gather, exchange, broadcast ----------------------------------------------------------------


def _all_gather(s: _Share) -> None:
    with s.each(s.count("operands")) as i, s.each(s.n) as member:
        b, part, rows = s.b, s.size("part", i), s.array("rows", i)
        target = _at(b, s.result(s.place, i), b.mul(member, part))
        s.copy_rows(target, b.mul(s.n, part), s.operand(member, i), part, part, rows)


def _all_to_all(s: _Share) -> None:
    b = s.b
    in_parts = b.icmp("ne", COLLECTIVE.load(b, "%op", "has_parts"), 0)
    with b.when(in_parts), s.each(s.n) as member:
        part, rows = s.size("part", 0), s.array("rows", 0)
        stride = b.mul(s.n, part)
        source = _at(b, s.operand(member, 0), b.mul(s.place, part))
        target = _at(b, s.result(s.place, 0), b.mul(member, part))
        s.copy_rows(target, stride, source, stride, part, rows)
    whole = b.icmp("eq", COLLECTIVE.load(b, "%op", "has_parts"), 0)
    with b.when(whole), s.each(s.n) as member:
        s.copy(s.result(s.place, member), s.operand(member, s.place), s.size("count", member))


def _collective_permute(s: _Share) -> None:
    b = s.b
    sources = COLLECTIVE.load(b, "%op", "sources").name
    source = b.load("i64", b.element_address(sources, "i64", s.place))
    is_sent = b.icmp("sge", source, 0)
    with s.each(s.count("operands")) as i:
        target, size = s.result(s.place, i), s.size("count", i)
        with b.when(is_sent):
            s.copy(target, s.operand(source.name, i), size)
        with b.when(b.icmp("slt", source, 0)):
            s.clear(target, size)


def _roots(s: _Share) -> Callable[[Index], str]:
    """Check the roots that the members name; returns a function from an array to its root."""
    b, count = s.b, s.count("results")
    dynamic = b.icmp("ne", COLLECTIVE.load(b, "%op", "has_dynamic_root"), 0)
    # A group of one has nothing to choose from.
    chosen = b.binary("and", dynamic, b.icmp("sgt", i64(s.n), 1))

    def said(member: Index, number: Index) -> Val:
        named = s.array("count", count)  # of the operand after the data
        at = b.select(b.icmp("eq", i64(named), 1), i64(0), i64(number)).name
        address = b.element_address(s.operand(member, count), "i32", at)
        return b.cast("sext", b.load("i32", address), "i64")

    with b.when(chosen), s.each(count) as i, s.each(s.n) as member:
        first = said(0, i)
        s.fail(_BAD_ROOT, b.icmp("uge", first, s.n))
        s.fail(_BAD_ROOT, b.icmp("ne", said(member, i), first))

    def root(number: Index) -> str:
        (found,) = b.choose(chosen, lambda: [said(0, number)], lambda: [i64(0)])
        return found.name

    return root


def _collective_broadcast(s: _Share) -> None:
    root = _roots(s)
    with s.each(s.count("results")) as i:
        s.copy(s.result(s.place, i), s.operand(root(i), i), s.size("count", i))


# --- reductions ---------------------------------------------------------------------------------


def _range(s: _Share, count: str) -> tuple[Index, Index]:
    """Return the elements that a member reduces of an array that all of them reduce together."""
    b = s.b
    n = i64(s.n)
    each = b.binary("sdiv", b.binary("add", b.binary("sub", n, 1), count), n)
    share = b.mul(b.udiv(b.add(each.name, _SHARE - 1), _SHARE), _SHARE)
    begin = b.minimum(b.mul(s.place, share), count)
    return begin, b.minimum(b.add(begin, share), count)


_ALL = -1


def _all_reduce(s: _Share) -> None:
    with s.each(s.count("results")) as i:
        begin, end = _range(s, s.array("count", i))
        _reduce_call(s, i, begin, begin, s.b.sub(end, begin), _ALL)


def _reduce_scatter(s: _Share) -> None:
    b = s.b
    with s.each(s.count("results")) as i:
        part = s.array("part", i)
        with s.each(s.array("rows", i)) as row:
            source = b.mul(b.add(b.mul(row, s.n), s.place), part)
            _reduce_call(s, i, source, b.mul(row, part), part, s.place)


def _collective_reduce(s: _Share) -> None:
    b, root_of = s.b, _roots(s)
    with s.each(s.count("results")) as i:
        root = root_of(i)
        begin, end = _range(s, s.array("count", i))
        _reduce_call(s, i, begin, begin, b.sub(end, begin), root)
        with b.when(b.icmp("ne", i64(root), s.place)):
            s.clear(s.result(s.place, i), s.size("count", i))


def _reduce_call(
    s: _Share, number: Index, source: Index, target: Index, count: Index, only: Index
) -> None:
    """Reduce elements of an operand, from `source` on; the results' begin at `target`.

    only: the member whose result gets them, _ALL for every one.
    """
    args = [ptr("%op"), ptr("%members"), *map(i64, (s.n, number, source, target, count, only))]
    s.b.call_void(_define_reduce(s.b.module), args)


def _define_reduce(module: ModuleBuilder) -> str:
    """Add the function that reduces a range of an operand; see `_reduce_call`."""
    name = "hlo.combine.reduce"
    if name in module.functions:
        return name
    numbers = [f"i64 %{x}" for x in ("n", "number", "source", "target", "count", "only")]
    function = Function(
        name, ["ptr %op", "ptr %members", *numbers], ("noinline", "nounwind"), linkage="internal"
    )
    module.add(function)
    s = _Share(module)
    b, number = s.b, "%number"
    width, reduce = s.array("element_bytes", number), ARRAY.load(b, s.operands, "reduce", number)
    held = b.alloca("i8", _BLOCK_BYTES, align=64).name
    block = b.binary("sdiv", i64(_BLOCK_BYTES), width).name
    # Whole results: those of a scattered one are as large together as the operand.
    large = b.icmp("sge", i64(s.size("count", number)), _STREAMED_BYTES)
    to_all = b.icmp("slt", i64("%only"), 0)
    first = b.select(to_all, i64(0), i64("%only")).name
    last = b.select(to_all, i64(s.n), i64(b.add("%only", 1))).name
    blocks = b.binary("sdiv", i64(b.add("%count", b.sub(block, 1))), block).name
    with s.each(blocks) as turn:
        done = b.mul(turn, block)
        count = b.minimum(block, b.sub("%count", done))
        from_ = b.mul(b.add("%source", done), width)
        to = b.mul(b.add("%target", done), width)
        size = b.mul(count, width)
        one = _at(b, s.operand(0, number), from_)
        alone = b.icmp("eq", i64(s.n), 1)
        with b.when(alone):
            s.copy(held, one, size)
        with b.when(b.icmp("ne", i64(s.n), 1)):
            two = _at(b, s.operand(1, number), from_)
            b.call_void_address(reduce, [ptr(one), ptr(two), ptr(held), i64(count)])
        with b.loop(2, s.n, plain=True) as member, b.unremembered():
            other = _at(b, s.operand(member, number), from_)
            b.call_void_address(reduce, [ptr(held), ptr(other), ptr(held), i64(count)])
        with b.loop(first, last, plain=True) as member, b.unremembered():
            place = _at(b, s.result(member, number), to)
            args = [ptr(place), ptr(held), i64(size)]
            with b.when(large):
                b.call_void(_define_stream(module), args)
            with b.when(b.binary("xor", large, "true")):
                s.copy(place, held, size)
        b.poll(_BLOCK_BYTES)
    b.ret()
    b.finish(function)
    return name


def _define_stream(module: ModuleBuilder) -> str:
    """Add the function that copies bytes to memory around the caches."""
    name = "hlo.stream"
    if name in module.functions:
        return name
    function = Function(
        name, ["ptr %target", "ptr %source", "i64 %size"], ("noinline", "nounwind"),
        linkage="internal",
    )  # fmt: skip
    module.add(function)
    b = Builder(module)
    # What such stores can do: whole vectors that are aligned. The rest comes after it.
    low = b.binary("and", b.cast("ptrtoint", ptr("%target"), "i64"), _STREAM_WIDTH - 1)
    fits = b.icmp("eq", low, 0)
    whole = b.mul(b.udiv("%size", _STREAM_TURN), _STREAM_TURN)
    end = b.select(fits, i64(whole), i64(0)).name
    with b.loop(0, end, _STREAM_TURN, plain=True) as at:
        for offset in range(0, _STREAM_TURN, _STREAM_WIDTH):
            here = b.add(at, offset)
            value = b.load(_STREAM_TYPE, _at(b, "%source", here), align=1)
            b.store(value, _at(b, "%target", here), _STREAM_WIDTH, is_nontemporal=True)
    _copy(b, _at(b, "%target", end), _at(b, "%source", end), b.sub("%size", end))
    b.ret()
    b.finish(function)
    return name


# --- ragged -------------------------------------------------------------------------------------

_INPUT, _OUTPUT, _FROM, _SIZES, _TO = range(5)


def _ragged_all_to_all(s: _Share) -> None:
    """Check everything that is sent, then write what this member gets, sender by sender."""
    b = s.b
    updates, width = s.array("count", _FROM), s.array("element_bytes", _INPUT)
    s.fail(_UNEVEN, b.icmp("ne", b.binary("srem", i64(updates), s.n), 0))
    each = b.binary("sdiv", i64(updates), s.n).name
    # Rows are what follows the first dimension.
    rows = [s.array("rows", x) for x in (_INPUT, _OUTPUT)]

    def number(table: int, member: Index, at: Index) -> Val:
        return b.load("i64", b.element_address(s.operand(member, table), "i64", at))

    with s.each(s.n) as member, s.each(updates) as at:
        size = number(_SIZES, member, at)
        s.fail(_NEGATIVE, b.icmp("slt", size, 0))
        for table, limit in ((_FROM, rows[0]), (_TO, rows[1])):
            start = number(table, member, at)
            s.fail(_OUTSIDE, b.icmp("slt", start, 0))
            s.fail(_OUTSIDE, b.icmp("sgt", size, limit))
            s.fail(_OUTSIDE, b.icmp("sgt", start, b.sub(limit, size.name)))
    row = b.mul(s.array("columns", _INPUT), width)
    result = s.result(s.place, 0)
    s.copy(result, s.operand(s.place, _OUTPUT), s.size("count", _OUTPUT))
    first = b.mul(s.place, each)
    with s.each(s.n) as member, s.each(each) as k:
        at = str(b.add(first, k))
        source = _at(b, s.operand(member, _INPUT), b.mul(number(_FROM, member, at).name, row))
        target = _at(b, result, b.mul(number(_TO, member, at).name, row))
        s.copy(target, source, b.mul(number(_SIZES, member, at).name, row))


_KINDS: dict[str, Callable[[_Share], None]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
    "collective-permute": _collective_permute,
    "collective-broadcast": _collective_broadcast,
    "collective-reduce": _collective_reduce,
    "ragged-all-to-all": _ragged_all_to_all,
}
# HLO_ALL_GATHER, ...
KIND_NUMBERS = {opcode: n for n, opcode in enumerate(_KINDS, 1)}
