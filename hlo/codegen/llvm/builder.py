"""Structured control flow: loops, branches, and code for what seldom happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.llvm.indices import IndexWriter
from hlo.codegen.llvm.loop_body import Fitness
from hlo.codegen.llvm.module import ModuleBuilder
from hlo.codegen.llvm.starts import with_starts
from hlo.codegen.llvm.unused import without_unused
from hlo.codegen.llvm.values import FALSE, Index, Val, i64
from hlo.codegen.llvm.vectorize import Loop, VectorLoop, vector_loop
from hlo.codegen.llvm.writer import LoopChoice, call
from hlo.llvm import (
    Binary,
    Branch,
    Compare,
    Function,
    Instruction,
    Label,
    Line,
    Phi,
    Store,
    Unary,
)


@dataclass
class Turn:
    """One run of a loop's body: the index, and the values that the loop carries."""

    index: str
    values: list[Val]


# Of one long function in one other.
_INLINED_USES = 4
# Work between two looks whether to go on, in rough scalar operations: tenths of a millisecond. A
# look takes some thirty nanoseconds.
POLLED_COST = 1 << 18


class RareFlag:
    """Whether a loop has met what its code is not made for."""

    def __init__(self, b: Builder) -> None:
        self._slot = b.alloca("i1")
        b.store(FALSE, self._slot.name)

    def raise_if(self, b: Builder, condition: Val) -> None:
        """Raise it where a condition holds."""
        b.store(b.binary("or", self.read(b), condition), self._slot.name)

    def read(self, b: Builder) -> Val:
        return b.load("i1", self._slot.name)


_SCALINGS = frozenset({"mul", "udiv", "sdiv", "urem", "srem"})


def _is_scaled(index: str, lines: Sequence[Line | LoopChoice]) -> bool:
    """Return whether lines multiply or divide an index or a sum with it.

    Elements that lie apart are loaded a vector at a time and shuffled, but with masks one by one.
    """
    sums = {index}
    for line in lines:
        if type(line) is Instruction and type(line.operation) is Binary:
            opcode, flags, type_, operands = line.operation
            if type_ != "i64":
                continue
            if opcode in ("add", "sub") and flags == "nsw" and not sums.isdisjoint(operands):
                sums.add(line.result)
            elif opcode in _SCALINGS and operands[0] in sums and (opcode != "mul" or flags):
                return True
    return False


def _straight(lines: Sequence[Line | LoopChoice]) -> list[Line]:
    """Return the lines of a loop that has none inside."""
    found = [line for line in lines if not isinstance(line, LoopChoice)]
    assert len(found) == len(lines)
    return found


class Builder(IndexWriter):
    """Writes the body of one function. Loops and branches open scopes of values."""

    def __init__(self, module: ModuleBuilder) -> None:
        super().__init__(module)
        self._next_label = 0
        self.label = "entry"
        # See `rarely`.
        self.rare_flag: RareFlag | None = None
        self.is_careful = False
        # The width of the vectors that `loop` makes; 0 if all loops are left to LLVM. What the
        # function gets as `%buf0`, `%buf1`, ... must not overlap where it is written to.
        self.vector_bits = 0
        # Whether addresses in plain loops are what the machine is to compute, see `count`.
        self.keeps_indices = False
        # Whether some loop was none that can be replaced by one over vectors.
        self._has_others = False
        # See `shared`.
        self._uses: Counter[str] = Counter()
        # See `poll`.
        self._budget = ""

    def new_label(self, stem: str) -> str:
        self._next_label += 1
        return f"{stem}{self._next_label}"

    def place(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(Label(label))
        self.label = label

    @contextmanager
    def loop(
        self,
        start: Index,
        end: Index,
        step: int = 1,
        *,
        plain: bool = False,
        rolled: bool = False,
        folded: bool = False,
        apart: bool = False,
        multiple: int = 1,
    ) -> Iterator[str]:
        """Run the body for i = start, start+step, ... below end; yields the name of i.

        plain: keep LLVM from vectorizing and unrolling it. rolled: keep it from unrolling only. See
        `ModuleBuilder.rolled_loop`. folded: no iteration depends on another; see
        `ModuleBuilder.folded_loop`. apart: none reads what those before it have written, however it
        looks. multiple: of what the number of iterations is one.
        """
        with self.carrying(
            start, end, (), step, plain=plain, rolled=rolled, folded=folded, apart=apart,
            multiple=multiple,
        ) as turn:  # fmt: skip
            yield turn.index

    @contextmanager
    def carrying(
        self,
        start: Index,
        end: Index,
        values: Sequence[Val],
        step: int = 1,
        *,
        plain: bool = False,
        rolled: bool = False,
        folded: bool = False,
        apart: bool = False,
        multiple: int = 1,
    ) -> Iterator[Turn]:
        """Run the body like `loop`, with values that it changes from turn to turn.

        The body finds them in the turn's `values` and has to replace them there. After the loop
        they are those of the last turn.
        """
        head, body, done = (self.new_label(s) for s in ("head", "body", "done"))
        before = self.label
        i, following = self.fresh(), self.fresh()
        opening = len(self.lines)
        self.jump(head)
        self.place(head)
        latch = self.new_label("latch")
        first = Phi("i64", (str(start), following), (before, latch))
        self.lines.append(Instruction(i, first))
        # The carried values' second sources are known only after the body.
        phis = len(self.lines)
        carried = [Val(v.type, self.fresh()) for v in values]
        go_on = Val("i1", f"%c{i[1:]}")
        test = Compare("icmp", "slt", "i64", (i, str(end)))
        self.lines.append(Instruction(go_on.name, test))
        self.branch(go_on, body, done)
        self.place(body)
        inside = len(self.lines)
        turn = Turn(i, list(carried))
        with self.scope():
            yield turn
        self.lines[phis:phis] = [
            Instruction(c.name, Phi(c.type, (v.name, n.name), (before, latch)))
            for c, v, n in zip(carried, values, turn.values, strict=True)
        ]
        turn.values = carried
        is_straight = self.label == body
        inside += len(carried)
        opened, written = self.lines[opening:inside], self.lines[inside:]
        phi, lines = phis - 1 - opening, list[Line]()
        # Where turns wait for each other, as in running sums, LLVM's choice of induction variables
        # is worth its time.
        if is_straight and not values and (plain or self.vector_bits):
            del self.lines[opening:]
            lines = with_starts(self, i, _straight(written))
            opening = len(self.lines)
            self.lines += [*opened, *lines]
        ending = len(self.lines)
        self.jump(latch)
        self.place(latch)
        self.lines += self.count(i, following, step, hides=plain and self.keeps_indices)
        metadata = None
        if plain or rolled:
            metadata = self.module.rolled_loop(vectorized=not plain)
        elif folded and not _is_scaled(i, written):
            metadata = self.module.folded_loop()
        self.jump(head, metadata)
        self.place(done)
        if self.vector_bits and is_straight and not plain:
            # LLVM's vectorizer knows more about addresses that it sees whole.
            whole = _straight([*opened, *written, *self.lines[ending:]])
            loop = Loop(i, start, end, before, done, lines, apart, multiple)
            is_simple = step == 1 and not values
            vectors = vector_loop(self, loop) if is_simple else None
            if isinstance(vectors, VectorLoop):
                self._replace_loop(opening, phi, vectors, whole)
            elif vectors is Fitness.ELEMENTS:
                self._keep_elements(self.lines)
            else:
                self.lines[opening:] = whole
                self._has_others = True

    def count(self, index: str, following: str, step: int, *, hides: bool) -> list[Line]:
        """Return what makes the index of the next turn of a loop.

        hides: LLVM's analysis does not see what it is made of. Strength reduction, which looks for
        other indices and takes a quarter of the time of generating code, has nothing to do then.
        """
        name = self.fresh() if hides else following
        lines: list[Line] = [Instruction(name, Binary("add", "nsw", "i64", (index, str(step))))]
        if hides:
            lines.append(Instruction(following, Unary("freeze", "i64", (name,))))
        return lines

    def following(self, address: Val, type_: str, step: Index) -> Val:
        """Return the address that a loop goes on with, so many elements further on.

        Like an index, see `count`.
        """
        new = Val("ptr", self.element_address(address.name, type_, step))
        return self.unary("freeze", new) if self.keeps_indices else new

    def _keep_elements(self, lines: list[Line] | list[Line | LoopChoice]) -> None:
        """Keep LLVM from vectorizing the loop that has just ended."""
        latch = lines[-2]
        assert isinstance(latch, Instruction) and isinstance(latch.operation, Branch)
        metadata = self.module.rolled_loop(vectorized=False)
        lines[-2] = latch._replace(operation=latch.operation._replace(loop=metadata))

    def _replace_loop(self, opening: int, phi: int, vectors: VectorLoop, whole: list[Line]) -> None:
        """Have a loop over vectors, before what is left of the last loop, unless LLVM has to look.

        opening: the line on which the loop begins. phi: that of its index, from there. whole: the
        loop for LLVM.
        """
        new = vectors.lines
        if not vectors.is_all:
            left = _straight(self.lines[opening:])
            index = left[phi]
            assert isinstance(index, Instruction) and isinstance(index.operation, Phi)
            merged = index.operation
            operands = (vectors.index, *merged.operands[1:])
            labels = (vectors.label, *merged.labels[1:])
            left[phi] = index._replace(operation=merged._replace(operands=operands, labels=labels))
            self._keep_elements(left)
            new = [*new, *left]
        self.lines[opening:] = [LoopChoice(new, whole)]

    def finish(self, function: Function) -> Function:
        """Give a function what has been written as its body; returns it."""
        body: list[Line] = [Label("entry")]
        for line in (*self._entry, *self.lines):
            if isinstance(line, LoopChoice):
                # LLVM's vectorizer looks at all of a function, and finds as much.
                body += line.elements if self._has_others else line.vectors
            else:
                body.append(line)
        function.body = without_unused(body)
        # Kernels, and what they are written with, refer to each other in cycles. Without what was
        # written there is little that the cycle collector has to look at.
        self.lines, self._entry, self._known, self._before = [], [], {}, []
        return function

    def poll(self, cost: Index) -> None:
        """Say that the code before costs so much; now and then it looks whether to go on.

        cost: in rough scalar operations. Nothing is done in modules that are not watched.
        """
        if not self.module.is_watched:
            return
        if not self._budget:
            self._budget = self.alloca("i64").name
            begin = Store("i64", (str(POLLED_COST), self._budget))
            self._entry.append(Instruction("", begin))
        # It touches no memory that is known here.
        self.module.declare(
            "hlo.poll", "void", [], "cold nounwind memory(inaccessiblemem: readwrite)"
        )
        before = self.load("i64", self._budget)
        after = self.effect("i64", Binary("sub", "nsw", "i64", (before.name, str(cost))))
        self.store(after, self._budget)
        spent = self.effect("i1", Compare("icmp", "slt", "i64", (after.name, "0")))
        look, go = self.new_label("look"), self.new_label("go")
        self.branch(spent, look, go)
        self.place(look)
        self.call_void("hlo.poll", [])
        self.store(i64(POLLED_COST), self._budget)
        self.jump(go)
        self.place(go)

    @contextmanager
    def repeat(self, condition: Callable[[], Val], *, is_polled: bool = False) -> Iterator[None]:
        """Run the body for as long as a condition holds, which is emitted before each run.

        is_polled: whether it may run for long, see `poll`.
        """
        head, body, done = (self.new_label(s) for s in ("head", "body", "done"))
        self.jump(head)
        self.place(head)
        with self.scope():
            go_on = condition()
            self.branch(go_on, body, done)
            self.place(body)
            inside = len(self.lines)
            yield
            if is_polled:
                self.poll(len(self.lines) - inside)
        # How often it runs is not known beforehand: there is nothing to vectorize.
        self.jump(head, self.module.rolled_loop(vectorized=False))
        self.place(done)

    @contextmanager
    def when(self, condition: Val) -> Iterator[None]:
        """Run the body if the condition holds."""
        then, done = self.new_label("then"), self.new_label("end")
        self.branch(condition, then, done)
        self.place(then)
        with self.scope():
            yield
        self.jump(done)
        self.place(done)

    def choose(
        self, condition: Val, yes: Callable[[], Sequence[Val]], no: Callable[[], Sequence[Val]]
    ) -> list[Val]:
        """Run one of two bodies; returns the values of the one that ran."""
        then, other, done = (self.new_label(s) for s in ("then", "else", "end"))
        self.branch(condition, then, other)
        results, ends = [], []
        for label, body in ((then, yes), (other, no)):
            self.place(label)
            with self.scope():
                results.append(body())
            ends.append(self.label)
            self.jump(done)
        self.place(done)
        merged = []
        for a, b in zip(*results, strict=True):
            name = self.fresh()
            merge = Phi(a.type, (a.name, b.name), (ends[0], ends[1]))
            self.lines.append(Instruction(name, merge))
            merged.append(Val(a.type, name))
        return merged

    def shared(
        self, name: str, args: Sequence[Val], write: Callable[[Builder, Sequence[Val]], Val]
    ) -> Val:
        """Return what `write` makes of arguments: its code here, or after some uses a call of it.

        Where code is straight, or seldom runs, a call costs little, and a program may use the same
        long function a hundred times. `name` with the types of the arguments is its name.
        """
        if not self.is_careful:
            return write(self, args)
        symbol = ".".join([name, *(a.type for a in args)])
        self._uses[symbol] += 1
        if self._uses[symbol] <= _INLINED_USES:
            return write(self, args)
        type_ = self.module.shared.get(symbol)
        if type_ is None:
            b = Builder(self.module)
            b.is_careful = True
            result = write(b, [Val(a.type, f"%a{n}") for n, a in enumerate(args)])
            b.ret(result)
            type_ = self.module.shared[symbol] = result.type
            function = Function(
                symbol, [f"{a.type} %a{n}" for n, a in enumerate(args)],
                ("noinline", "nounwind", "memory(none)"), type_, linkage="internal",
            )  # fmt: skip
            self.module.add(b.finish(function))
        return self.op(type_, call(type_, symbol, args))

    def rarely(
        self, condition: Val, usual: Sequence[Val], rare: Callable[[], Sequence[Val]]
    ) -> list[Val]:
        """Return the usual values, or those of `rare` where a condition holds that seldom does.

        Both are computed and one is selected, so that a loop stays free of branches, unless:
        with a `rare_flag` that is raised if the condition holds, and whoever put it there runs a
        second version of the code then; that version, like code outside of loops, `is_careful`:
        the rare values are branched to.
        """
        if self.rare_flag is not None:
            self.rare_flag.raise_if(self, condition)
            return list(usual)
        if self.is_careful:
            return self.choose(condition, rare, lambda: usual)
        return [self.select(condition, r, u) for r, u in zip(rare(), usual, strict=True)]
