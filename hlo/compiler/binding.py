"""Binding of a program's external functions on a host: functions of libraries, or Python's.

Everything without a native function is run by its op-table rule, as in the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from hlo.codegen.entry.collectives.combine import ERRORS
from hlo.codegen.entry.collectives.descriptor import Described
from hlo.errors import HloError, InferError
from hlo.eval.interpreter import Interpreter, error_at
from hlo.frontends.text import parse, print_module
from hlo.host import Host
from hlo.ir import Computation, Instruction, Module
from hlo.library_calls import is_library_target, keep_call, need_expansion
from hlo.ops.collective.device_groups import absent_devices
from hlo.ops.collective.rules import PARTIAL
from hlo.ops.host.custom import find_target
from hlo.ops.host.custom_targets import builtin_target
from hlo.ops.host.ffi_attributes import API_NUMBERS
from hlo.runtime.collectives import Collective
from hlo.runtime.outside import Function, Import, Outside, native_function, python_function
from hlo.runtime.program import array_leaves
from hlo.values.arrays import TOKEN_VALUE, at_bounds
from hlo.values.types import ArrayShape, Shape, TupleShape


def import_of(inst: Instruction, device_counts: tuple[int, int]) -> Import:
    """Return the import for an instruction that runs on the host.

    device_counts: the numbers of replicas and partitions that the program is for.
    """
    return Import(
        inst.opcode,
        str(inst.attrs.get("custom_call_target", "")),
        API_NUMBERS.get(str(inst.attrs.get("api_version")), 0),
        print_module(alone(inst, device_counts)),
    )


def alone(
    inst: Instruction, device_counts: tuple[int, int], custom_calls: Mapping[str, Any] = {}
) -> Module:
    """Return a module whose root is a copy of an instruction of flat code, on parameters.

    device_counts: as of `import_of`. custom_calls: the module's own functions.
    """
    module, comp = Module("outside", custom_calls=custom_calls), Computation("main")
    if device_counts != (1, 1):
        module.attrs["replica_count"], module.attrs["num_partitions"] = device_counts
    operands = [
        comp.create("parameter", o.shape, (), {"number": n}, name=f"p{n}")
        for n, o in enumerate(inst.operands)
    ]
    comp.set_root(comp.add(inst.clone(operands)))
    module.add(comp, entry=True)
    for callee in inst.called_computations:
        _add_with_callees(module, callee)
    return module


def _add_with_callees(module: Module, comp: Computation) -> None:
    if comp.module is None:
        module.add(comp)
        for inst in comp:
            for callee in inst.called_computations:
                _add_with_callees(module, callee)


def check_targets(module: Module, host: Host) -> None:
    """Raise HloError, with its location, if a custom call of a module has an unknown target."""
    for inst in module.instructions():
        if inst.opcode == "custom-call":
            try:
                find_target(inst, host, _computes)
            except InferError as e:
                raise error_at(inst, e) from None


def _computes(op: Any) -> Callable[..., Any] | None:
    """Return a function for what compiled code computes itself, None for other targets."""
    computation = need_expansion(op)
    return None if computation is None else lambda op, args: computation


def replaced_targets(host: Host) -> list[str]:
    """Return the targets of vendors' libraries for which a host has functions of its own."""
    return sorted(filter(is_library_target, host.custom_calls))


def with_functions_of(host: Host, module: Module) -> Module:
    """Return a module in which a host's own functions stand for calls of vendors' libraries."""
    names = replaced_targets(host)

    def own(module: Module) -> list[Instruction]:
        return [
            inst
            for inst in module.instructions()
            if inst.opcode == "custom-call" and inst.custom_call_target in names
        ]

    if not names or not own(module):
        return module
    copy = module.clone()
    for inst in own(copy):
        keep_call(inst)
    return copy


def need_no_replacement(host: Host) -> None:
    """Raise HloError if a host replaces a target that compiled code implements itself."""
    for name in host.custom_calls:
        if builtin_target(name) is not None:
            raise HloError.at(
                "unsupported", f"custom call {name!r} has a meaning in native code, which no "
                "function replaces", hint="the interpreter would call the function",
            )  # fmt: skip


def bind(
    imports: Sequence[Import], host: Host, collectives: Sequence[Collective] = (),
    custom_calls: Mapping[str, Any] = {},
) -> Outside:  # fmt: skip
    """Return what a program calls outside, on a host. Raises HloError.

    custom_calls: the functions of the module that the program was made from.
    """

    def absent(collective: Collective) -> HloError:
        groups = collective.groups
        devices = next((g for g in groups if host.device in g), groups[0] if groups else ())
        has = "one device" if host.exchange is None else f"{host.exchange.count} devices"
        e = absent_devices(collective.opcode, devices, has)
        return HloError.at(e.code, f"{collective.name}: {e.message}", None, e.hint)

    functions = [_function(i, host, custom_calls) for i in imports]
    return Outside(
        imports, functions, collectives, lambda: (host.replica_id, host.partition_id),
        lambda: host.device, lambda: host.exchange, absent,
    )  # fmt: skip


def collective_of(described: Described) -> Collective:
    """Return what a run has to know of a collective of a program."""
    inst = described.inst
    is_partial = inst.opcode in PARTIAL or "source_target_pairs" in inst.attrs
    shapes = ", ".join(s.to_string(False) for s in inst.operand_shapes)
    return Collective(
        inst.name, inst.opcode, inst.channel_id, shapes, described.groups, is_partial, ERRORS
    )


def _function(which: Import, host: Host, custom_calls: Mapping[str, Any]) -> Function:
    if which.opcode == "custom-call" and not (
        which.target in host.custom_calls or builtin_target(which.target)
    ):
        address = host.address_of(which.target)
        if address is not None:
            return native_function(address, which.api_version)
    module = parse(which.text)
    module.custom_calls.update(custom_calls)
    op = module.entry.root
    if which.opcode == "custom-call":
        try:
            find_target(op, host, _computes)
        except InferError as e:
            _raise(op, e)
    context = Interpreter(host, module.device_counts)

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        leaves = iter(inputs)
        values = [_nested(s, leaves) for s in op.operand_shapes]
        try:
            return list(_leaves(op.spec.evaluate(op, values, context), op.shape))
        except InferError as e:
            _raise(op, e)

    operands = [s for shape in op.operand_shapes for s in array_leaves(shape)]
    return python_function(run, operands, array_leaves(op.shape))


def _raise(op: Instruction, error: InferError) -> NoReturn:
    message = f"{op.name}: {error.message}"
    raise HloError.at(error.code, message, None, error.hint) from error.__cause__


def _nested(shape: Shape, leaves: Iterator[np.ndarray]) -> Any:
    if isinstance(shape, TupleShape):
        return tuple(_nested(s, leaves) for s in shape.elements)
    return next(leaves) if isinstance(shape, ArrayShape) else TOKEN_VALUE


def _leaves(value: Any, shape: Shape) -> Iterator[np.ndarray]:
    if isinstance(shape, TupleShape):
        parts: Sequence[Any] = value
        for v, s in zip(parts, shape.elements, strict=True):
            yield from _leaves(v, s)
    elif isinstance(shape, ArrayShape):
        yield at_bounds(value)
