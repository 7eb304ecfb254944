"""Structured control flow: loops, branches, and code for what seldom happens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.llvm.loop_body import Fitness
from hlo.codegen.llvm.module import Module
from hlo.codegen.llvm.values import Index, Val
from hlo.codegen.llvm.vectorize import Loop, VectorLoop, vector_loop
from hlo.codegen.llvm.writer import Writer


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
        b.write(f"store i1 false, ptr {self._slot.name}")

    def raise_if(self, b: Builder, condition: Val) -> None:
        """Raise it where a condition holds."""
        held = b.op("i1", f"or {self.read(b)}, {condition.name}")
        b.write(f"store {held}, ptr {self._slot.name}")

    def read(self, b: Builder) -> Val:
        return b.effect("i1", f"load i1, ptr {self._slot.name}")


_SUM = re.compile(r"  (%\w+) = (?:add|sub) nsw i64 (\S+), (\S+)")
_SCALED = re.compile(r"  %\w+ = (?:mul nsw|u?s?div|u?s?rem) i64 (\S+), ")


def _is_scaled(index: str, lines: Sequence[str]) -> bool:
    """Return whether lines multiply or divide an index or a sum with it.

    Elements that lie apart are loaded a vector at a time and shuffled, but with masks one by one.
    """
    sums = {index}
    for line in lines:
        if (m := _SUM.match(line)) and not sums.isdisjoint(m.groups()[1:]):
            sums.add(m[1])
        elif (m := _SCALED.match(line)) and m[1] in sums:
            return True
    return False


class Builder(Writer):
    """Writes the body of one function. Loops and branches open scopes of values."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._next_label = 0
        self.label = "entry"
        # See `rarely`.
        self.rare_flag: RareFlag | None = None
        self.is_careful = False
        # The width of the vectors that `loop` makes; 0 if all loops are left to LLVM. What the
        # function gets as `%buf0`, `%buf1`, ... must not overlap where it is written to.
        self.vector_bits = 0
        # By the text of each loop over vectors, what it was made of; and whether some loop was none
        # that can be so replaced.
        self._loops: dict[str, str] = {}
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
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str, loop: str = "") -> None:
        """End the block: go on at another. loop: metadata of the loop of which it is the end."""
        self.write(f"br label %{label}" + (f", !llvm.loop {loop}" if loop else ""))

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
    ) -> Iterator[str]:
        """Run the body for i = start, start+step, ... below end; yields the name of i.

        plain: keep LLVM from vectorizing and unrolling it. rolled: keep it from unrolling only. See
        `Module.rolled_loop`. folded: no turn depends on another; see `Module.folded_loop`.
        """
        with self.carrying(start, end, (), step, plain=plain, rolled=rolled, folded=folded) as turn:
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
        self.lines.append(f"  {i} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]")
        # The carried values' second sources are known only after the body.
        phis = len(self.lines)
        carried = [Val(v.type, self.fresh()) for v in values]
        self.write(f"%c{i[1:]} = icmp slt i64 {i}, {end}")
        self.write(f"br i1 %c{i[1:]}, label %{body}, label %{done}")
        self.place(body)
        inside = len(self.lines)
        turn = Turn(i, list(carried))
        with self.scope():
            yield turn
        self.lines[phis:phis] = [
            f"  {c.name} = phi {c.type} [ {v.name}, %{before} ], [ {n.name}, %{latch} ]"
            for c, v, n in zip(carried, values, turn.values, strict=True)
        ]
        turn.values = carried
        is_straight = self.label == body
        lines = self.lines[inside:]
        self.jump(latch)
        self.place(latch)
        self.lines.append(f"  {following} = add nsw i64 {i}, {step}")
        note = ""
        if plain or rolled:
            note = f", !llvm.loop {self.module.rolled_loop(vectorized=not plain)}"
        elif folded and not _is_scaled(i, self.lines[phis:]):
            fold = self.module.folded_loop()
            note = f", !llvm.loop {fold}" if fold else ""
        self.write(f"br label %{head}{note}")
        self.place(done)
        if self.vector_bits and is_straight and not plain:
            loop = Loop(i, start, end, before, done, lines)
            is_simple = step == 1 and not values
            vectors = vector_loop(self, loop, self.lines[:opening]) if is_simple else None
            if isinstance(vectors, VectorLoop):
                self._replace_loop(opening, phis - 1, vectors)
            elif vectors is Fitness.ELEMENTS:
                self._keep_elements(self.lines)
            else:
                self._has_others = True

    def _keep_elements(self, lines: list[str]) -> None:
        """Keep LLVM from vectorizing the loop that has just ended."""
        branch = lines[-2].split(",")[0]
        lines[-2] = f"{branch}, !llvm.loop {self.module.rolled_loop(vectorized=False)}"

    def _replace_loop(self, opening: int, phi: int, vectors: VectorLoop) -> None:
        """Have a loop over vectors, before what is left of the last loop, unless LLVM has to look.

        opening: the line on which the loop begins. phi: that of its index.
        """
        whole = self.lines[opening:]
        new = vectors.lines
        if not vectors.is_all:
            left = list(whole)
            source = f"[ {vectors.index}, %{vectors.label} ]"
            left[phi - opening] = re.sub(r"\[ \S+, %\S+ \]", source, left[phi - opening], count=1)
            self._keep_elements(left)
            new = [*new, *left]
        text = "\n".join(new)
        self._loops[text] = "\n".join(whole)
        self.lines[opening:] = [text]

    def finish(self, header: str) -> str:
        """Return the function; `header` is its first line without the brace."""
        if self._has_others:
            # LLVM's vectorizer looks at all of a function, and finds as much.
            self.lines = [self._loops.get(line, line) for line in self.lines]
        return super().finish(header)

    def poll(self, cost: Index) -> None:
        """Say that the code before costs so much; now and then it looks whether to go on.

        cost: in rough scalar operations. Nothing is done in modules that are not watched.
        """
        if not self.module.is_watched:
            return
        if not self._budget:
            self._budget = self.alloca("i64").name
            self._entry_allocas.append(f"  store i64 {POLLED_COST}, ptr {self._budget}")
        # It touches no memory that is known here.
        self.module.declare(
            "hlo.poll", "void", [], "cold nounwind memory(inaccessiblemem: readwrite)"
        )
        before = self.effect("i64", f"load i64, ptr {self._budget}")
        after = self.effect("i64", f"sub nsw {before}, {cost}")
        self.write(f"store {after}, ptr {self._budget}")
        spent = self.effect("i1", f"icmp slt {after}, 0")
        look, go = self.new_label("look"), self.new_label("go")
        self.write(f"br i1 {spent.name}, label %{look}, label %{go}")
        self.place(look)
        self.write("call void @hlo.poll()")
        self.write(f"store i64 {POLLED_COST}, ptr {self._budget}")
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
            self.write(f"br i1 {go_on.name}, label %{body}, label %{done}")
            self.place(body)
            inside = len(self.lines)
            yield
            if is_polled:
                self.poll(len(self.lines) - inside)
        # How often it runs is not known beforehand: there is nothing to vectorize.
        self.write(f"br label %{head}, !llvm.loop {self.module.rolled_loop(vectorized=False)}")
        self.place(done)

    @contextmanager
    def when(self, condition: Val) -> Iterator[None]:
        """Run the body if the condition holds."""
        then, done = self.new_label("then"), self.new_label("end")
        self.write(f"br i1 {condition.name}, label %{then}, label %{done}")
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
        self.write(f"br i1 {condition.name}, label %{then}, label %{other}")
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
            self.lines.append(
                f"  {name} = phi {a.type} [ {a.name}, %{ends[0]} ], [ {b.name}, %{ends[1]} ]"
            )
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
            b.write(f"ret {result}")
            type_ = self.module.shared[symbol] = result.type
            parameters = ", ".join(f"{a.type} %a{n}" for n, a in enumerate(args))
            self.module.functions[symbol] = b.finish(
                f"define internal {type_} @{symbol}({parameters}) noinline nounwind memory(none)"
            )
        return self.op(type_, f"call {type_} @{symbol}({', '.join(map(str, args))})")

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
