"""A module whose text is being edited: instructions are built again only where that is needed.

What an instruction becomes depends on its text, on the shapes of its operands, and on the results
of the computations that it names. After an edit, statements with a new text are built, then those
that depend on what has changed. An instruction that is broken for the moment leaves the others as
they are, so that they are right again together with it; what they said last stays available.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.errors import Diagnostic, HloError, Source, Span
from hlo.frontends.text.build import Builder, Draft
from hlo.frontends.text.reading import Closing, Statement
from hlo.frontends.text.report import Report
from hlo.frontends.text.statements import Statements
from hlo.frontends.text.syntax import (
    ComputationRecord,
    InlineRecord,
    ModuleRecord,
    with_nested,
)
from hlo.frontends.text.units import (
    Built,
    Unit,
    UnitScope,
    bind,
    defined,
    groups,
    is_simple,
    name_span,
    uses_of,
)
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.support.memory import collector_paused

# How often a computation is built because those it calls have other results now.
_MAX_ROUNDS = 64


class IncrementalModule(Builder):
    """The module of a text that is edited.

    Attributes:
        text: its statements.
        units: its computations, in the order of the text.
        result: the module, if the text has no errors.
        diagnostics: what is wrong with the text.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(Report(Source(name, text), limit=None), ModuleRecord())
        self._unknown: set[str] = self._record.dropped
        self.text = Statements(name, text)
        self.units: list[Unit] = []
        self.result: Module | None = None
        self.diagnostics: list[Diagnostic] = []
        self._header_errors: list[Diagnostic] = []
        self._header: Statement | None = None
        self._draft = Module("")
        with collector_paused():
            self._rebuild([])

    def edit(self, start: int, end: int, new: str) -> None:
        """Replace the characters `[start, end)`; after the last of several edits call `update`."""
        self.text.edit(start, end, new)

    def update(self) -> None:
        """Bring everything up to date with the text."""
        with collector_paused():
            self._rebuild(self.text.update())

    def _diagnose(self) -> Iterator[Diagnostic]:
        """Yield what is wrong with the text."""
        yield from self._header_errors
        for statement in self.text.statements:
            if statement.errors:
                yield from statement.errors
        for unit in self.units:
            yield from unit.head_errors
            if unit.is_duplicate:
                continue
            yield from unit.errors
            for statement in unit.statements:
                if statement.built is not None and statement.built.errors:
                    yield from statement.built.errors

    def whole_computations(self) -> set[Computation]:
        """Return the computations of the text that have no errors."""
        whole = set()
        for unit in self.units:
            is_whole = not (unit.head_errors or unit.errors or unit.is_duplicate)
            for statement in (unit.head, *unit.statements):
                built = statement.built
                if statement.errors or (built and (built.errors or not built.is_valid)):
                    is_whole = False
                elif built is not None:
                    whole.update(built.inner)
            if is_whole and unit.comp.has_root:
                whole.add(unit.comp)
        return whole

    # --- after an edit --------------------------------------------------------------------------

    def _rebuild(self, removed: list[Statement]) -> None:
        for statement in removed:
            if statement.built is not None:
                self._retire(statement.built)
        dropped = {name for s in self.text.statements if s.dropped for name in s.dropped}
        changed = dropped ^ self._unknown
        self._unknown.clear()
        self._unknown |= dropped
        self._read_prologue()
        declared = self._declare_units()
        for unit in self.units:
            # What is broken may have said nothing because of a name that is known by now.
            if changed and (
                unit.errors
                or unit.is_unchecked
                or any(s.built and (s.built.errors or not s.built.inst) for s in unit.statements)
            ):
                unit.is_dirty = True
                unit.changed |= changed
            if not unit.calls.isdisjoint(declared):
                unit.is_dirty = True
                unit.changed |= declared
        self._build_units()
        self._settle()

    def _retire(self, built: Built) -> None:
        """Take out what a statement was made into."""
        unit = built.unit
        unit.changed.add(built.name)
        unit.is_dirty = True
        for inst in built.made:
            unit.changed.add(inst.name)
            inst.drop_edges()
        for comp in built.inner:
            self._computations.pop(comp.name, None)

    def _read_prologue(self) -> None:
        first = self.text.statements[0]
        if first is self._header:
            return
        self._header = first
        record = first.prologue or ModuleRecord()
        report = self._report
        report.source, report.diagnostics = first.source, []
        self._draft = Module("", source=first.source)
        if record.single is not None:
            try:
                self._draft = Builder(Report(first.source), record).module()
                self._header_errors = []
            except HloError as e:
                self._header_errors = list(e.diagnostics)
            return
        self._record = record
        self._read_name(self._draft)
        self._read_header(self._draft)
        self._header_errors = report.diagnostics

    # --- computations ---------------------------------------------------------------------------

    def _declare_units(self) -> set[str]:
        """Divide the statements among units; returns the names of changed computations."""
        before = dict(self._computations)
        by_head = {unit.head: unit for unit in self.units}
        by_name = {u.comp.name: u for u in self.units if not u.is_duplicate}
        for name in by_name:
            self._computations.pop(name, None)
        self._heads, self._entry = {}, None
        free = dict.fromkeys(self.units)
        units: list[Unit] = []
        for head, body in groups(self.text.statements):
            report = self._report
            report.source, report.diagnostics = head.source, []
            assert head.heading is not None
            found = self._head(head.heading)
            candidates = (
                by_head.get(head),
                next((s.built.unit for s in body if s.built is not None), None),
                by_name.get(found[0]) if found else None,
            )
            unit = next((u for u in candidates if u in free), None)
            if unit is None:
                unit = Unit(Computation(found[0] if found else "_"), head)
            else:
                del free[unit]
            self._declare_unit(unit, head, body, found)
            units.append(unit)
        self.units = units
        gone = {n for n, c in before.items() if self._computations.get(n) is not c}
        new = {n for n, c in self._computations.items() if before.get(n) is not c}
        if gone or new:
            self._attributes.forget()
        return gone | new

    def _declare_unit(
        self, unit: Unit, head: Statement, body: list[Statement], found: tuple[str, bool] | None
    ) -> None:
        last = body[-1] if body else head
        was_last = unit.statements[-1] if unit.statements else unit.head
        if unit.head is not head or last is not was_last or unit.is_duplicate != (found is None):
            unit.is_dirty = True
        if unit.statements != body:
            unit.is_dirty = True
            self._exchange(unit, body)
        unit.head, unit.statements, unit.is_duplicate = head, body, found is None
        if found is not None:
            name, unit.is_entry = found
            if unit.comp.name != name:
                unit.comp.name, unit.is_dirty = name, True
                # Errors of instructions name the computation.
                unit.changed |= {s.built.name for s in body if s.built and s.built.errors}
            self._computations[name] = unit.comp
        unit.head_errors = self._report.diagnostics

    def _exchange(self, unit: Unit, body: list[Statement]) -> None:
        """Note which names a computation loses with its statements, and which may mean others."""
        before, now = set(unit.statements), set(body)
        unit.changed |= {s.built.name for s in before - now if s.built is not None}
        for statement in now - before:
            # It was in this computation earlier, among other names.
            if statement.built is not None and statement.built.unit is unit:
                self._retire(statement.built)
                statement.built = None

    # --- instructions ---------------------------------------------------------------------------

    def _build_units(self) -> None:
        """Build what has to be, and then what depends on the results, until nothing changes."""
        todo = [unit for unit in self.units if unit.is_dirty]
        left = dict.fromkeys(self.units, _MAX_ROUNDS)
        self._report.elsewhere = bool(self._unknown) or bool(self.diagnostics)
        while todo:
            for unit in todo:
                before = unit.signature
                self._build_unit(unit)
                left[unit] -= 1
                if unit.signature == before or unit.is_duplicate:
                    continue
                for other in self.units:
                    if unit.comp.name in other.calls and left[other]:
                        other.is_dirty = True
                        other.changed.add(unit.comp.name)
            todo = [unit for unit in self.units if unit.is_dirty]

    def _build_unit(self, unit: Unit) -> None:
        unit.is_dirty = False
        if unit.is_duplicate:
            unit.errors = []
            return
        heading = unit.head.heading
        closing = (unit.statements[-1] if unit.statements else unit.head).closing
        assert heading is not None and closing is not None
        changed, unit.changed = unit.changed, set()
        for statement in unit.statements:
            if statement.record is not None:
                built = statement.built
                if built is None or built.unit is not unit:
                    changed.add(defined(statement)[0])
        names: dict[str, Instruction | None] = {}
        unit.names, unit.calls, unit.controlled = names, set(), []
        roots: list[Statement] = []
        for statement in unit.statements:
            if statement.record is None:
                continue
            built = statement.built
            if built is None or built.unit is not unit:
                built = self._build(unit, statement, changed)
            elif built.name in changed or not built.uses.isdisjoint(changed):
                built = self._refresh(unit, statement, changed)
            elif built.is_valid and len(built.made) == 1:
                names.setdefault(built.name, built.inst)
            else:
                bind(unit, built)
            if built.is_root:
                roots.append(statement)
            if built.control is not None:
                unit.controlled.append(statement)
            if built.inst is None or built.inst.spec.computation_attrs:
                unit.calls |= built.uses
        if self._unknown or None in names.values():
            unit.last = {
                name: inst
                for name in (*names, *self._unknown)
                if (inst := names.get(name) or unit.last.get(name)) is not None
            }
        else:
            unit.last = {n: i for n, i in names.items() if i is not None}
        self._complete_unit(unit, roots, heading, closing)
        # What was taken out of it on the way is replaced by now.
        unit.is_dirty = False
        unit.changed.clear()
        parameters = unit.comp.parameter_shapes
        unit.signature = parameters, unit.comp.result_shape if unit.comp.has_root else None

    def _complete_unit(
        self,
        unit: Unit,
        roots: list[Statement],
        heading: ComputationRecord,
        closing: Closing,
    ) -> None:
        """Check a computation as a whole and give it its instructions."""
        report, comp = self._report, unit.comp
        errors: list[Diagnostic] = []
        head, last = unit.head.source, (unit.statements or [unit.head])[-1].source
        token = heading.head
        comp.span = Span(head, token.start_pos, token.end_pos)
        report.source, report.diagnostics = last, errors
        self._read_attributes(comp, closing.attributes)
        for statement in unit.controlled:
            control = statement.built.control
            for other in list(control.inst.control_predecessors):
                control.inst.remove_control_predecessor(other)
            report.source = statement.source
            control.scope.names = unit.names
            self._instructions.connect(control)
        for other in roots[1:]:
            report.source = other.source
            first = name_span(roots[0])
            assert other.record is not None and other.record.definition is not None
            report.error(
                "duplicate-root", f"computation {comp.name} has a ROOT already",
                other.record.definition.start_pos,
                note=("the first one is here", Span(first.source, 0, len("ROOT"))),
            )  # fmt: skip
        report.source = head
        built = [s.built for s in unit.statements if s.record is not None]
        if not built:
            self._check_not_empty(comp)
        said = roots[0].built if roots else built[-1] if built else None
        root = said.inst if said is not None and said.is_valid else None
        if root is not None and unit.names.get(root.name) is not root:
            root = None
        comp.assign((i for i in unit.names.values() if i is not None), root)
        result = self._result(heading)
        if root is not None:
            if not self._dropped and all(i is not None for i in unit.names.values()):
                self._check_parameters(comp)
            if roots or not self._dropped:
                scope = UnitScope(report, unit, self._unknown)
                report.source = head
                self._check_result(scope, Draft(comp, [], result=result), root)
        unit.errors = errors
        unit.is_unchecked = bool(self._dropped)

    def _refresh(self, unit: Unit, statement: Statement, changed: set[str]) -> Built:
        """Give an instruction its operands as they are now, or build it again."""
        built: Built = statement.built
        inst, names = built.inst, unit.names
        if (
            inst is None
            or built.errors
            or not built.is_simple
            or built.name in names
            or built.name in changed
            or inst.spec.computation_attrs
            or inst.spec.has(Trait.ASYNC_CHAIN)
        ):
            return self._build(unit, statement, changed)
        new: list[tuple[int, Instruction]] = []
        is_valid = True
        for index, operand in enumerate(inst.operands):
            if operand.name not in names:
                return self._build(unit, statement, changed)
            now = names[operand.name]
            if now is None:
                is_valid = False
            elif now is not operand:
                if now.shape != operand.shape:
                    return self._build(unit, statement, changed)
                new.append((index, now))
        for index, now in new:
            inst.replace_operand(index, now)
        if built.is_valid != is_valid:
            built.is_valid = is_valid
            changed.add(built.name)
        bind(unit, built)
        return built

    def _build(self, unit: Unit, statement: Statement, changed: set[str]) -> Built:
        """Build the instruction of a statement."""
        record = statement.record
        assert record is not None
        if statement.built is not None:
            self._retire(statement.built)
        report = self._report
        report.source, report.diagnostics = statement.source, []
        has_inner = any(
            type(item) is InlineRecord for r in with_nested([record]) for item in r.attributes
        )
        if has_inner:
            self._declare_inline([Draft(unit.comp, [record])])
        inner = [d for d in self._drafts.values() if d.comp is not unit.comp]
        for draft in inner:
            self._build_computation(draft)
        scope = UnitScope(report, unit, self._unknown)
        place = name_span(statement)
        text = statement.source.text[place.start : place.end]
        name = scope.check_name(text, place.start)
        inst = self._instructions.build(scope, record, name, place.start)
        scope.add(name, inst)
        wrappers = self._wrappers.pop(unit.comp, [])
        control = self._instructions.control.pop() if self._instructions.control else None
        built = statement.built = Built(
            unit, name, defined(statement)[1], uses_of(statement, record), is_simple(record), inst,
            scope.made, [*wrappers, *(d.comp for d in inner)], control, report.diagnostics,
            is_valid=inst is not None,
        )  # fmt: skip
        report.elsewhere = report.has_errors
        self._instructions.control.clear()
        self._drafts.clear()
        self._inline.clear()
        if inst is not None or unit.last.get(name) is not None:
            changed.add(name)
        return built

    # --- the module -----------------------------------------------------------------------------

    def _settle(self) -> None:
        """Put the module together if the text is without errors."""
        first = self.text.statements[0].prologue
        self.diagnostics = list(self._diagnose())
        if self.diagnostics:
            self.result = None
            return
        if first is not None and first.single is not None:
            self.result = self._draft
            return
        module = Module(self._draft.name, attrs=self._draft.attrs, source=self._draft.source)
        module.tables = self._draft.tables
        for unit in self.units:
            inner = [c for s in unit.statements if s.built.inner for c in s.built.inner]
            for comp in (*inner, unit.comp):
                comp.module = None
                module.add(comp)
        entry = next((u for u in self.units if u.is_entry), self.units[-1])
        module.set_entry(entry.comp)
        if self._record.header is None:
            module.name = f"module_{entry.comp.name}"
        self.result = module
