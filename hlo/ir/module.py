"""A program: computations, one of them the entry, and the module's header."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from hlo.errors import Source
from hlo.ir.computation import Computation, callees_first, counted, unknown_name
from hlo.ir.instruction import Instruction
from hlo.support.signature import need
from hlo.support.trees import Trees
from hlo.values.types import Shape, with_layouts_of


def need_module(value: object) -> None:
    """Raise TypeError unless a value is a module."""
    if not isinstance(value, Module):
        hint = ": hlo.parse makes one from text" if isinstance(value, str) else ""
        raise TypeError(f"a Module is needed, not {type(value).__name__}{hint}")


class Module:
    """An HLO module: computations by name, one of which is the entry. Iterates over computations.

    Attributes:
        attrs: the header's attributes by text name, decoded (`is_scheduled`, `input_output_alias`,
            `entry_computation_layout`, ...); absent ones have no entry.
        tables: the stack-frame index: lists of entries by table name (`FileNames`, `FunctionNames`,
            `FileLocations`, `StackFrames`); absent ones have no entry.
        unprinted: fields of protos that the text does not have (device assignments, profiles, ...),
            by name, kept for writing a proto.
        trees: the nesting of arguments and results of the program that `hlo.from_jax` converted;
            copies keep it, text does not.
        custom_calls: Python functions for the module's custom calls, by target, as of
            `hlo.Host(custom_calls=...)`: the callbacks of a JAX program that `hlo.from_jax`
            converted. Those of the host take precedence. Copies keep it, text does not.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> module["y"].operands, [inst.opcode for inst in module.instructions()]
    ([<Instruction x = f32[] parameter()>], ['parameter', 'sqrt'])
    >>> module.stats().peak_bytes, module.stats().opcodes
    (8, {'parameter': 1, 'sqrt': 1})
    """

    def __init__(
        self, name: str, *, attrs: Mapping[str, Any] | None = None, source: Source | None = None,
        custom_calls: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        need(name, str, "Module: name")
        self.name = name
        self.attrs: dict[str, Any] = dict(attrs) if attrs else {}
        self.tables: dict[str, list[Any]] = {}
        self.unprinted: dict[str, Any] = {}
        self.trees: Trees | None = None
        self.custom_calls: dict[str, Any] = dict(custom_calls) if custom_calls else {}
        self.source = source
        self._computations: dict[str, Computation] = {}
        self._entry: Computation | None = None

    @property
    def entry(self) -> Computation:
        """The entry computation. Raises ValueError until it is set."""
        if self._entry is None:
            raise ValueError(f"module {self.name} has no entry yet")
        return self._entry

    @property
    def has_entry(self) -> bool:
        """True when an entry has been set."""
        return self._entry is not None

    @property
    def is_scheduled(self) -> bool:
        """True when the order of instructions is the order of execution."""
        return bool(self.attrs.get("is_scheduled"))

    @property
    def device_counts(self) -> tuple[int, int]:
        """The numbers of replicas and of partitions that the header names."""
        return self.attrs.get("replica_count", 1), self.attrs.get("num_partitions", 1)

    @property
    def program_shapes(self) -> tuple[list[Shape], Shape]:
        """The shapes of the parameters and of the result, with the layouts that callers see.

        They are the header's `entry_computation_layout`, or the entry's own shapes without it.
        """
        own, result = self.entry.parameter_shapes, self.entry.result_shape
        said = self.attrs.get("entry_computation_layout")
        if said is None:
            return list(own), result
        outside = [with_layouts_of(a, b) for a, b in zip(own, said.parameters, strict=True)]
        return outside, with_layouts_of(result, said.result)

    @property
    def usable_trees(self) -> Trees | None:
        """`trees`, if the entry still has as many results as they have leaves."""
        if self.trees is None:
            return None
        count = sum(1 for _ in self.entry.result_shape.leaves())
        return self.trees if count == self.trees.results else None

    @property
    def computations(self) -> list[Computation]:
        """The computations in order of addition."""
        return list(self._computations.values())

    def get(self, name: str) -> Computation | None:
        """Return the computation called `name`, or None."""
        return self._computations.get(name)

    def __iter__(self) -> Iterator[Computation]:
        return iter(self.computations)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, str):
            return bool(self._called(item))
        if isinstance(item, Instruction):
            item = item.parent
        return isinstance(item, Computation) and item.module is self

    def __getitem__(self, name: str) -> Computation | Instruction:
        """Return the computation of a name, or the instruction if there is no such computation.

        Names of instructions are unique in their computation only: the entry takes precedence, and
        `computation/instruction` is never ambiguous. Raises KeyError, with similar names, if there
        is none, or more than one outside of the entry.
        """
        if not isinstance(name, str):
            raise TypeError(f"parts of a module are accessed by name, not by {type(name).__name__}")
        found = self._called(name)
        if len(found) == 1:
            return found[0]
        if found:
            paths = [f"{i.parent.name}/{i.name}" for i in found if i.parent is not None]
            raise KeyError(f"{name} is in several computations: {', '.join(paths)}")
        known = [*self._computations, *(i.name for i in self.instructions())]
        raise unknown_name(f"module {self.name}", name, known)

    def _called(self, name: str) -> list[Any]:
        """Return everything that a name may mean: more than one if it is ambiguous."""
        where, _, last = name.rpartition("/")
        where, last = where.removeprefix("%"), last.removeprefix("%")
        if not where and last in self._computations:
            return [self._computations[last]]
        comps = [c for c in self.computations if where in ("", c.name)]
        found = {c: i for c in comps if (i := c.get(last)) is not None}
        return [found[self.entry]] if self._entry in found else list(found.values())

    def _ipython_key_completions_(self) -> list[str]:
        return [*self._computations, *(self.entry._instructions if self._entry else ())]

    def instructions(self) -> Iterator[Instruction]:
        """Yield the instructions of all computations."""
        for comp in self.computations:
            yield from comp

    def call_sites(self) -> Iterator[Instruction]:
        """Yield the instructions of all computations that may name computations."""
        for comp in self.computations:
            yield from comp.call_sites

    def add(self, comp: Computation, *, entry: bool = False) -> Computation:
        """Append a computation, renamed if the name is taken. Returns the computation.

        Raises ValueError if it is already in a module.
        """
        if comp.module is not None:
            raise ValueError(f"{comp.name} is in module {comp.module.name} already")
        base, number = comp.name, len(self._computations)
        while comp.name in self._computations:
            comp.name = f"{base}.{number}"
            number += 1
        self._computations[comp.name] = comp
        comp.module = self
        if entry:
            self._entry = comp
        return comp

    def adopt(self, instructions: Iterable[Instruction]) -> list[Computation]:
        """Add the computations without a module that instructions call, and what those call.

        Returns them, callees before callers.
        """
        todo, joined = list(instructions), []
        while todo:
            for callee in todo.pop().called_computations:
                if callee.module is None:
                    joined.append(self.add(callee))
                    todo.extend(callee.call_sites)
        return joined[::-1]

    def remove(self, comp: Computation) -> None:
        """Remove a computation, which must not have calls. Raises ValueError for the entry."""
        self._need(comp)
        if comp is self._entry:
            raise ValueError(f"{comp.name} is the entry of module {self.name}")
        del self._computations[comp.name]
        comp.module = None

    def rename(self, comp: Computation, name: str) -> None:
        """Rename a computation; its place in the order does not change.

        Raises ValueError for a computation of another module, and for a name that is taken.
        """
        self._need(comp)
        if self._computations.get(name, comp) is not comp:
            raise ValueError(f"module {self.name} has a computation called {name}")
        self._computations = {
            (name if c is comp else c.name): c for c in self._computations.values()
        }
        comp.name = name

    def set_entry(self, comp: Computation) -> None:
        """Make a computation the entry. Raises ValueError for one of another module."""
        self._need(comp)
        self._entry = comp

    def _need(self, comp: Computation) -> None:
        if comp.module is not self:
            raise ValueError(f"{comp.name} is not in module {self.name}")

    def callees_first(self) -> list[Computation]:
        """Return the computations, each after those that its instructions call.

        Call cycles, which only an invalid module has, are broken where the traversal meets them.
        """
        return callees_first(self.computations)

    def callers(self) -> dict[Computation, list[Instruction]]:
        """Return the instructions that call each computation."""
        found: dict[Computation, list[Instruction]] = {c: [] for c in self.computations}
        for inst in self.call_sites():
            for callee in inst.called_computations:
                found.setdefault(callee, []).append(inst)
        return found

    def clone(self) -> Module:
        """Return a deep copy; sources and immutable values are shared."""
        copy = Module(
            self.name, attrs=self.attrs, source=self.source, custom_calls=self.custom_calls
        )
        copy.tables = {k: list(v) for k, v in self.tables.items()}
        copy.unprinted, copy.trees = dict(self.unprinted), self.trees
        made: dict[Computation, Computation] = {}
        for comp in self.callees_first():
            made[comp] = comp.clone(comp.name)
            for inst in made[comp]:
                inst.replace_called(made)
        for comp in self.computations:
            copy.add(made[comp], entry=comp is self._entry)
        return copy

    def assign(self, other: Module) -> None:
        """Make this module a copy of another one: its name, header and computations.

        The computations that were here before have no module any more.
        """
        copy = other.clone()
        for comp in self.computations:
            comp.module = None
        for comp in copy.computations:
            comp.module = self
        vars(self).update(vars(copy))

    def __copy__(self) -> Module:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        return self.clone()

    def __reduce__(self) -> tuple[Callable[[str], Module], tuple[str]]:
        return type(self).from_text, (str(self),)

    # Set by `hlo.frontends.text`, a higher layer: `str(module)` parses back.
    to_text: ClassVar[Callable[[Module], str]]
    from_text: ClassVar[Callable[[str], Module]]

    def __str__(self) -> str:
        return type(self).to_text(self)

    # Set by `hlo.reports.module`, a higher layer as well.
    stats: ClassVar[Callable[..., Any]]
    cost: ClassVar[Callable[[Module], Any]]
    graph: ClassVar[Callable[[Module], Any]]
    _repr_html_: ClassVar[Callable[[Module], str]]

    def __repr__(self) -> str:
        entry = f" {self._entry.signature}," if self._entry is not None else ""
        count = sum(len(c) for c in self.computations)
        return (
            f"<Module {self.name}:{entry} {counted(count, 'instruction')} in "
            f"{counted(len(self._computations), 'computation')}>"
        )
