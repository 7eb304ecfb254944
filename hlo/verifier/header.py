"""The module's header: schedule, entry layout, aliases, device counts.

Source: XLA's `hlo_verifier.cc`, `hlo_input_output_alias_config.cc`, `hlo_buffer_donor_config.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hlo.errors import Diagnostic, InferError, Span
from hlo.ir import Computation, Instruction, Module
from hlo.values.layout import physical_bytes
from hlo.values.layout.bitcasts import layout_of
from hlo.values.types import ArrayShape, Layout, Shape
from hlo.verifier.report import Report, VerifyOptions
from hlo.verifier.shapes import mismatch, same, shape_problem, shown, without_space

Index = tuple[int, ...]


def check_header(
    module: Module, scheduled: Iterable[Computation], options: VerifyOptions, report: Report
) -> None:
    """Check the header against the computations; of `scheduled` ones the order of instructions."""
    header = _Header(module, options, report)
    for key in ("replica_count", "num_partitions"):
        count = module.attrs.get(key, 1)
        if count < 1:
            header.add("bad-value", key, f"{count} is not a number of devices")
    header.check_entry_layout()
    header.check_aliases()
    header.check_donors()
    if module.is_scheduled:
        for comp in scheduled:
            _check_schedule(comp, report)


class _Header:
    def __init__(self, module: Module, options: VerifyOptions, report: Report) -> None:
        self._module = module
        self._options = options
        self._report = report
        entry = module.entry
        self._parameters: Sequence[Shape] = entry.parameter_shapes
        self._result: Shape = entry.result_shape
        # The entry computation's shapes, with the layouts that callers see.
        self._outside, self._outside_result = self._parameters, self._result
        layout = module.attrs.get("entry_computation_layout")
        if layout is not None and len(layout.parameters) == len(self._parameters):
            self._outside, self._outside_result = layout.parameters, layout.result

    def add(self, code: str, key: str, message: str) -> None:
        """Record an error at an attribute of the header."""
        source, span = self._module.source, None
        if source is not None:
            m = re.search(rf"\b{key}\s*=", source.text)
            span = Span(source, m.start(), m.start() + len(key)) if m else Span(source, 0, 0)
        self._report.diagnostics.append(Diagnostic(code, f"{key}: {message}", span))

    def check_entry_layout(self) -> None:
        key = "entry_computation_layout"
        layout = self._module.attrs.get(key)
        if layout is None:
            return
        if len(layout.parameters) != len(self._parameters):
            self.add(
                "bad-entry-layout", key,
                f"it has {len(layout.parameters)} parameters, the entry has "
                f"{len(self._parameters)}",
            )  # fmt: skip
        sides = [
            (f"parameter {i}", want, have)
            for i, (want, have) in enumerate(zip(layout.parameters, self._parameters, strict=False))
        ]
        for what, want, have in [*sides, ("the result", layout.result, self._result)]:
            problem = shape_problem(want)
            if problem is not None:
                self.add(problem[0], key, f"{what}: {problem[1]}")
            elif not self._agrees(want, have):
                what, said, found = mismatch(
                    what, want, have, layouts=self._options.layout_sensitive
                )
                self.add("bad-entry-layout", key, f"{what} is {said}, in the entry it is {found}")

    def _agrees(self, want: Shape, have: Shape) -> bool:
        if not same(want, have, layouts=False):
            return False
        return not self._options.layout_sensitive or all(
            _settled(layout_of(a)) == _settled(layout_of(b))
            for (_, a), (_, b) in zip(want.leaves(), have.leaves(), strict=True)
            if isinstance(a, ArrayShape) and isinstance(b, ArrayShape)
        )

    def check_aliases(self) -> None:
        key, code = "input_output_alias", "bad-alias"
        outputs: set[Index] = set()
        inputs: set[tuple[int, Index]] = set()
        for alias in self._module.attrs.get(key, ()):
            source = self._leaf(key, alias.parameter, alias.index)
            target = self._array(key, f"the output at {_index(alias.output)}", self._outside_result,
                                 alias.output)  # fmt: skip
            if alias.output in outputs:
                self.add(code, key, f"the output at {_index(alias.output)} has two aliases")
            place = f"parameter {alias.parameter} at {_index(alias.index)}"
            if (alias.parameter, alias.index) in inputs:
                self.add(code, key, f"{place} is the alias of two outputs")
            outputs.add(alias.output)
            inputs.add((alias.parameter, alias.index))
            if source is None or target is None:
                continue
            both = f"{place} is {source}, the output at {_index(alias.output)} is {target}"
            try:
                differ = self._size(source) != self._size(target)
            except InferError as e:
                self.add(e.code, key, f"{both}: {e.message}")
                continue
            if differ:
                self.add(code, key, f"{both}: they differ in size")
            elif alias.must and not same(source, target, layouts=True):
                self.add(code, key, f"{both}: a must-alias needs the same shape and layout")

    def check_donors(self) -> None:
        key, code = "buffer_donor", "bad-alias"
        aliased = {(a.parameter, a.index) for a in self._module.attrs.get("input_output_alias", ())}
        seen: set[tuple[int, Index]] = set()
        for donor in self._module.attrs.get(key, ()):
            place = (donor.parameter, donor.index)
            self._leaf(key, *place)
            where = f"parameter {donor.parameter} at {_index(donor.index)}"
            if place in seen:
                self.add(code, key, f"{where} is repeated")
            elif place in aliased:
                self.add(code, key, f"{where} is the alias of an output already")
            seen.add(place)

    def _size(self, shape: ArrayShape) -> int:
        """Return the size of an array in bytes, in its layout if layouts are final."""
        if self._options.layout_sensitive:
            return physical_bytes(shape)
        return shape.num_elements * shape.element_type.bits

    def _leaf(self, key: str, parameter: int, index: Index) -> ArrayShape | None:
        """Return the array of a parameter that an attribute names, or report and return None."""
        if not 0 <= parameter < len(self._parameters):
            self.add(
                "index-out-of-range", key,
                f"parameter {parameter} is not in [0, {len(self._parameters)})",
            )  # fmt: skip
            return None
        return self._array(key, f"parameter {parameter} at {_index(index)}",
                           self._outside[parameter], index)  # fmt: skip

    def _array(self, key: str, what: str, shape: Shape, index: Index) -> ArrayShape | None:
        try:
            leaf = shape.at(index)
        except IndexError:
            self.add("index-out-of-range", key, f"{what} is not in {shown(shape)}")
            return None
        if not isinstance(leaf, ArrayShape):
            self.add("bad-alias", key, f"{what} is {leaf.to_string(False)}, an array is needed")
            return None
        return leaf


def _settled(layout: Layout) -> Layout:
    """Return the layout without what is filled in late, so that an entry layout may be without."""
    return replace(without_space(layout), tail_padding=1)


def _index(index: Index) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def _check_schedule(comp: Computation, report: Report) -> None:
    """Check that the order of the text is a valid schedule."""
    seen: set[Instruction] = set()
    for inst in comp:
        for before in inst.predecessors():
            if before not in seen:
                report.add(
                    "bad-schedule",
                    f"the module is scheduled, and {before.name} comes after it", inst,
                    notes=[(f"{before.name} is here", before)],
                )  # fmt: skip
        seen.add(inst)
