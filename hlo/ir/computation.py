"""A function: instructions in order, parameters by number, one root."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hlo.errors import Span, did_you_mean
from hlo.ir.instruction import Instruction
from hlo.values.types import TYPE_NAMES, Shape, signature_text

if TYPE_CHECKING:
    from hlo.ir.module import Module


class Computation:
    """A computation. Instructions are in the order of the text or of building.

    That order is a valid schedule as long as passes only append; `in_order()` falls back to a
    post-order when a replacement has made an instruction use a later one.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> entry = module.entry
    >>> entry.create("negate", entry.root.shape, [entry.root], root=True)
    <Instruction negate = f32[] negate(y)>
    >>> entry.parameters, entry.result_shape
    ([<Instruction x = f32[] parameter()>], <ArrayShape f32[]>)
    """

    def __init__(
        self, name: str, *, execution_thread: str = "main", span: Span | None = None
    ) -> None:
        self.name = name
        self.execution_thread = execution_thread
        # Newer XLA's backend configuration, as instructions have it.
        self.backend_config = ""
        self.span = span
        self.module: Module | None = None
        self._instructions: dict[str, Instruction] = {}
        self._parameters: list[Instruction] = []
        self._call_sites: dict[Instruction, None] = {}
        # How many instructions of each opcode there are.
        self._opcodes: dict[str, int] = {}
        self._root: Instruction | None = None
        # True while the instructions are known to be after what they need. What changes edges
        # says that it is not known any more.
        self._is_ordered = True
        # The next suffix to try for a name that is taken.
        self._numbers: dict[str, int] = {}

    # --- reading --------------------------------------------------------------------------------

    @property
    def root(self) -> Instruction:
        """The instruction whose value is the result. Raises ValueError until it is set."""
        if self._root is None:
            raise ValueError(f"computation {self.name} has no root yet")
        return self._root

    @property
    def has_root(self) -> bool:
        """True when a result has been set."""
        return self._root is not None

    @property
    def parameters(self) -> Sequence[Instruction]:
        """The parameters in the order of their numbers."""
        return self._parameters

    @property
    def parameter_shapes(self) -> list[Shape]:
        """The shapes of the parameters, in the order of their numbers."""
        return [p.shape for p in self._parameters]

    @property
    def call_sites(self) -> Sequence[Instruction]:
        """The instructions that may name computations in their attributes, in order."""
        return list(self._call_sites)

    def has_opcode(self, opcodes: Container[str]) -> bool:
        """Return whether any instruction has one of some opcodes, without looking at each."""
        return any([count and opcode in opcodes for opcode, count in self._opcodes.items()])

    @property
    def result_shape(self) -> Shape:
        """The shape of the root."""
        return self.root.shape

    @property
    def signature(self) -> str:
        """Parameters and result for messages, without layouts, truncated if long."""
        return signature_text(((p.name, p.shape) for p in self._parameters), self.result_shape)

    def __len__(self) -> int:
        return len(self._instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(list(self._instructions.values()))

    def __contains__(self, inst: object) -> bool:
        if isinstance(inst, str):
            return inst.removeprefix("%") in self._instructions
        return isinstance(inst, Instruction) and inst.parent is self

    def get(self, name: str) -> Instruction | None:
        """Return the instruction called `name`, or None."""
        return self._instructions.get(name)

    def __getitem__(self, name: str) -> Instruction:
        """Return the instruction called `name`. Raises KeyError, with similar names."""
        if not isinstance(name, str):
            raise TypeError(f"instructions are accessed by name, not by {type(name).__name__}")
        found = self._instructions.get(name.removeprefix("%"))
        if found is None:
            raise unknown_name(f"computation {self.name}", name, self._instructions)
        return found

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._instructions)

    def post_order(self) -> list[Instruction]:
        """Return every instruction after its operands and control predecessors.

        Cycles, which only an invalid module has, are broken where the traversal meets them.
        """
        done: set[Instruction] = set()
        order: list[Instruction] = []
        for start in self._instructions.values():
            if start in done:
                continue
            done.add(start)
            stack = [(start, start.predecessors())]
            while stack:
                inst, rest = stack[-1]
                for before in rest:
                    if before not in done:
                        done.add(before)
                        stack.append((before, before.predecessors()))
                        break
                else:
                    order.append(inst)
                    stack.pop()
        return order

    def in_order(self) -> list[Instruction]:
        """Return the instructions in their own order if that is valid, else in post-order."""
        if self._is_ordered:
            return list(self._instructions.values())
        seen: set[Instruction] = set()
        for inst in self._instructions.values():
            for before in inst.operands:
                if before not in seen:
                    return self.post_order()
            for before in inst.control_predecessors:
                if before not in seen:
                    return self.post_order()
            seen.add(inst)
        self._is_ordered = True
        return list(self._instructions.values())

    # --- building -------------------------------------------------------------------------------

    def add(self, inst: Instruction, *, root: bool = False) -> Instruction:
        """Append an instruction, renamed if the name is taken. Returns the instruction.

        Raises ValueError if it is already in a computation.
        """
        if inst._parent is not None:
            raise ValueError(f"{inst.name} is in computation {inst._parent.name} already")
        inst.name = name = self._free_name(inst.name)
        self._instructions[name] = inst
        inst._parent = self
        if self._is_ordered:
            # It may be added before what it needs.
            if inst.control_predecessors:
                self._is_ordered = False
            for operand in inst.operands:
                if operand._parent is not self:
                    self._is_ordered = False
        opcode = inst.opcode
        self._opcodes[opcode] = self._opcodes.get(opcode, 0) + 1
        if inst.spec.computation_attrs:
            self._call_sites[inst] = None
        if opcode == "parameter":
            self._add_parameter(inst)
        if root:
            self._root = inst
        return inst

    def create(
        self,
        opcode: str,
        shape: Shape,
        operands: Iterable[Instruction] = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        like: Instruction | None = None,
        root: bool = False,
    ) -> Instruction:
        """Build an instruction and append it. `like` provides metadata and source location."""
        inst = Instruction(name or opcode, opcode, shape, operands, attrs)
        if like is not None:
            inst.span = like.span
            if "metadata" in like.annotations:
                inst.annotations["metadata"] = like.annotations["metadata"]
        return self.add(inst, root=root)

    def set_root(self, inst: Instruction) -> None:
        """Make `inst` the result of this computation. Raises ValueError for one of another."""
        self._need(inst)
        self._root = inst

    def remove(self, inst: Instruction) -> None:
        """Remove an instruction. Raises ValueError if it is used, or the root."""
        self._need(inst)
        if inst.num_users:
            users = ", ".join(u.name for u in inst.users)
            raise ValueError(f"{inst.name} still has users: {users}")
        if self._root is inst:
            raise ValueError(f"{inst.name} is the root of {self.name}")
        inst.drop_edges()
        del self._instructions[inst.name]
        self._call_sites.pop(inst, None)
        self._opcodes[inst.opcode] -= 1
        inst._parent = None
        if inst.opcode == "parameter":
            # The caller renumbers the others: the numbers are part of the signature.
            self._parameters.remove(inst)

    def rename(self, inst: Instruction, name: str) -> None:
        """Rename an instruction, to a unique name; its position in the order does not change.

        Raises ValueError for an instruction of another computation.
        """
        self._need(inst)
        if inst.name == name:
            return
        new = self._free_name(name)
        self._instructions = {
            (new if k == inst.name else k): v for k, v in self._instructions.items()
        }
        inst.name = new

    def assign(self, instructions: Iterable[Instruction], root: Instruction | None) -> None:
        """Make these the instructions, in this order, and `root` the result.

        Their names have to be different. Those that were here before and are not among them have
        no computation any more; their edges stay.
        """
        for inst in self._instructions.values():
            inst._parent = None
        named = {inst.name: inst for inst in instructions}
        self._set_order(named)
        self._parameters = []
        self._root = root
        for inst in named.values():
            inst._parent = self
            if inst.spec.name == "parameter":
                self._add_parameter(inst)

    def reorder(self, order: Sequence[Instruction]) -> None:
        """Reorder the instructions. Raises ValueError unless each occurs once."""
        named = {i.name: i for i in order}
        if len(order) != len(named) or set(order) != set(self._instructions.values()):
            raise ValueError(f"an order of {self.name} must contain each of its instructions once")
        self._set_order(named)

    def sort(self) -> None:
        """Reorder the instructions to a valid schedule, close to the current order."""
        order = self.in_order()
        if not self._is_ordered:
            self._set_order({i.name: i for i in order})

    def _set_order(self, named: dict[str, Instruction]) -> None:
        self._instructions = named
        self._call_sites = {i: None for i in named.values() if i.spec.computation_attrs}
        self._opcodes = dict(Counter([i.opcode for i in named.values()]))
        self._is_ordered = False  # and of a cycle there is no valid order

    def clone(
        self, name: str, replace: Callable[[Instruction], Instruction | None] | None = None
    ) -> Computation:
        """Return a copy without a module; called computations are shared.

        `replace` may return a new instruction, with the original's operands, to use instead.
        """
        copy = Computation(name, execution_thread=self.execution_thread, span=self.span)
        copy.backend_config = self.backend_config
        made: dict[Instruction, Instruction] = {}
        for inst in self.in_order():
            new = (replace and replace(inst)) or inst
            made[inst] = copy.add(new.clone([made[o] for o in new.operands]))
            for before in inst.control_predecessors:
                made[inst].add_control_predecessor(made[before])
        if self._root is not None:
            copy.set_root(made[self._root])
        return copy

    def _need(self, inst: Instruction) -> None:
        if inst.parent is not self:
            raise ValueError(f"{inst.name} is not in computation {self.name}")

    def _add_parameter(self, inst: Instruction) -> None:
        number = inst.parameter_number
        at = len(self._parameters)
        while at and self._parameters[at - 1].parameter_number > number:
            at -= 1
        self._parameters.insert(at, inst)

    def _free_name(self, name: str) -> str:
        if name in TYPE_NAMES:
            name += "_"  # as in XLA
        if name not in self._instructions:
            return name
        base = name.rsplit(".", 1)[0] if name.rsplit(".", 1)[-1].isdigit() else name
        # Starting at the size of the computation, the first try is likely to be free.
        number = max(len(self._instructions), self._numbers.get(base, 0))
        while f"{base}.{number}" in self._instructions:
            number += 1
        self._numbers[base] = number + 1
        return f"{base}.{number}"

    # Set by `hlo.frontends.text`, a higher layer.
    to_text: ClassVar[Callable[[Computation], str]]

    def __str__(self) -> str:
        return type(self).to_text(self)

    # Set by `hlo.reports.module`, a higher layer as well.
    _repr_html_: ClassVar[Callable[[Computation], str]]

    def __repr__(self) -> str:
        what = f"{self.name}: {self.signature}" if self._root is not None else self.name
        return f"<Computation {what}, {counted(len(self), 'instruction')}>"


def callees_first(
    starts: Iterable[Computation], known: Container[Computation] = ()
) -> list[Computation]:
    """Return computations and all that they call, each after those that its instructions call.

    known: those that are left out, with what only they call. Call cycles, which only an invalid
    module has, are broken where the traversal meets them.
    """
    done: set[Computation] = set()
    order: list[Computation] = []

    def callees(comp: Computation) -> Iterator[Computation]:
        for inst in comp.call_sites:
            attrs = inst.attrs  # without a list for each of them: all passes come here
            for key in inst.spec.computation_attrs:
                value = attrs[key]
                if isinstance(value, tuple):
                    yield from value
                elif value is not None:
                    yield value

    for start in starts:
        if start in done or start in known:
            continue
        done.add(start)
        stack = [(start, callees(start))]
        while stack:
            comp, rest = stack[-1]
            for callee in rest:
                if callee not in done and callee not in known:
                    done.add(callee)
                    stack.append((callee, callees(callee)))
                    break
            else:
                order.append(comp)
                stack.pop()
    return order


def counted(count: int, what: str) -> str:
    """Return a count with its noun: `1 operand`, `2 operands`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def unknown_name(where: str, name: str, known: Iterable[str]) -> KeyError:
    """Return the error for an unknown name, with similar ones."""
    hint = did_you_mean(name, known)
    return KeyError(f"{where} has nothing called {name!r}{f'; {hint}' if hint else ''}")
