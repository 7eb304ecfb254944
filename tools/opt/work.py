"""What `hlo-opt` does with each module, and in which form it writes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..command_line.passes import PassFlags, run_passes
from .device_cost import device_cost
from .stages import Machine, is_compiled, is_hlo, stage_content

if TYPE_CHECKING:
    from hlo.frontends.text import PrintOptions
    from hlo.ir import Module

    from ..command_line.debug_options import DebugOptions
    from ..command_line.partition_report import PartitionReports


@dataclass(frozen=True)
class Work:
    """What the options ask for, for each module alike.

    verify: by all rules, or by those of structure alone. output: a file that holds one module,
    whose extension is the format; None for a text. settings: of a report.
    """

    flags: PassFlags
    debug_options: DebugOptions
    verify: bool
    lenient: bool
    partitions: PartitionReports
    extract: str | None
    output: str | None
    quiet: bool
    report: str | None
    settings: str
    device: str | None
    emit_proto: bool
    stage: str | None
    machine: Machine
    options: PrintOptions
    as_json: bool

    @property
    def strictness(self) -> str:
        """The strictness of the verifier where one has to be named."""
        return "lenient" if self.lenient or not self.verify else "strict"

    def content(self, module: Module, number: int) -> bytes:
        """Verify a module, run passes on it, and return what is written. Raises HloError.

        number: of the module in its file, for dumps.
        """
        from hlo.frontends.sources import module_content

        changes = self.report is not None or self.flags.passes is not None
        _verify(module, rules=self.verify, lenient=self.lenient, in_place=changes)
        if self.partitions.path is not None:
            module = self.partitions.partitioned(module)
        if self.flags.passes is not None:
            run_passes(
                module, self.flags, number, self.debug_options,
                is_compiled=is_compiled(self.stage), lenient=self.lenient,
            )  # fmt: skip
        if self.extract is not None:
            module = _extract(module, self.extract)
        if self.output is not None:
            return module_content(self.output, module)
        return b"" if self.quiet or self.partitions.to_stdout else self._shown(module)

    def _shown(self, module: Module) -> bytes:
        if self.device is not None:
            text = device_cost(
                module, self.device, self.flags.passes, self.strictness, self.as_json
            )
        elif self.report is not None:
            text = _report(module, self.report, self.settings, self.as_json)
        elif self.emit_proto:
            text = _debug_string(module)
        elif self.stage is not None and not is_hlo(self.stage):
            return stage_content(module, self.stage, self.machine)
        else:
            text = _print(module, self.options)
        return text.encode()


def _verify(module: Any, *, rules: bool, lenient: bool, in_place: bool) -> None:
    """Check a module, or its graph alone, without which nothing terminates.

    in_place: a lenient module is repaired, for what comes next; else it is printed as it is.
    """
    from hlo.lenient import verify_as, verify_in_place
    from hlo.verifier import verify_structure

    if rules:
        check = verify_in_place if in_place else verify_as
        check(module, "lenient" if lenient else "strict")
    else:
        verify_structure(module)


def _debug_string(module: Module) -> str:
    from hlo.frontends.proto import to_debug_string

    return to_debug_string(module)


def _print(module: Any, options: PrintOptions) -> str:
    from hlo.frontends.text import print_module

    return print_module(module, options)


def _extract(module: Module, wanted: str) -> Module:
    """Return the module of one instruction, given as [COMPUTATION/]NAME[:HEIGHT]."""
    from hlo.errors import HloError, did_you_mean
    from hlo.ir.extract import extract

    name, colon, height = wanted.rpartition(":")
    if not colon:
        name, height = wanted, ""
    if height and not height.isdecimal():
        raise click.UsageError(f"--extract {wanted}: {height!r} is not a number of operations.")
    where, _, name = name.lstrip("%").rpartition("/")
    comps = [c for c in module.computations if where in ("", c.name)]
    # The entry first: names are unique in their computation only.
    comps.sort(key=lambda c: c is not module.entry)
    inst = next((i for c in comps if (i := c.get(name)) is not None), None)
    if inst is None:
        hint = did_you_mean(name, (i.name for c in comps for i in c))
        raise HloError.at("unknown-instruction", f"there is no instruction {name}", None, hint)
    return extract(inst, int(height) if height else None)


def _report(module: Module, report: str, settings: str, as_json: bool) -> str:
    """Return a report as text. settings: of the network of `stats`, or of `simulate`."""
    if report == "signature":
        from .analysis import signature, signature_text

        types = signature(module)
        return _shown(types, signature_text(types), as_json)
    if report == "simulate":
        from hlo.reports.simulation import read_setup, simulated_run

        run = simulated_run(module, read_setup(settings))
        return _shown(run.as_dict(), str(run), as_json)
    from hlo.analysis.network.costs import read_network
    from hlo.reports.module import module_cost, statistics

    if report == "stats":
        stats = statistics(module, read_network(settings))
        return _shown(stats.as_dict(), repr(stats), as_json)
    cost = module_cost(module)
    return _shown(cost.as_rows(), repr(cost), as_json)


def _shown(value: Any, text: str, as_json: bool) -> str:
    return (json.dumps(value) if as_json else text) + "\n"
