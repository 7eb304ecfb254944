"""The reference interpreter: every instruction in order, each by its op-table rule.

Simple rather than fast, since it defines what compiled code has to compute. A computation is
planned once, so that iterations of a loop have little overhead besides their operations.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hlo.analysis.effects import Effects
from hlo.analysis.patterns import OrderTerm, order_terms, picks_an_argument, single_binary_op
from hlo.analysis.source_location import source_location
from hlo.analysis.trips import never_ends
from hlo.errors import HloError, InferError, Span
from hlo.eval import dynamic
from hlo.eval.calls import need_few_calls
from hlo.host import Host, run_together
from hlo.ir import Computation, Instruction, Module
from hlo.library_calls import need_expansion
from hlo.ops import Trait
from hlo.ops.elementwise.conversion import bitcasts_a_scalar
from hlo.ops.rules import need_memory
from hlo.ops.spec import Evaluate, SortKey
from hlo.support.deadline import Deadline
from hlo.values.arrays import DynamicArray
from hlo.values.types import ArrayShape, Shape, TupleShape

# Operations that are no function of their operands alone.
_IMPURE = Trait.SIDE_EFFECT | Trait.NO_FOLD

# Maximum call depth of computations. Some operations recurse on the C stack, so this does not
# grow with memory.
MAX_CALL_DEPTH = 1000
# Upper bound of Python frames per call.
_FRAMES_PER_CALL = 16
# Smaller values are not worth freeing before their computation ends.
_WORTH_FREEING_BYTES = 4096

# Operations that are the identity on a scalar, and so on an array of scalars.
_SCALAR_IDENTITIES = Trait.VIEW | Trait.FORWARDS


class _DeepCalls:
    """Python's limit of recursion, raised while any thread interprets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(self._before + MAX_CALL_DEPTH * _FRAMES_PER_CALL)
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setrecursionlimit(self._before)


_deep_calls = _DeepCalls()


class _Step(NamedTuple):
    """One instruction of a plan: the slot of its value, its evaluation, and the slots that it
    frees.

    Without `evaluate` it is element `operands[1]` of the tuple at `operands[0]`.
    """

    slot: int
    evaluate: Evaluate | None
    inst: Instruction
    operands: tuple[int, ...]
    dying: tuple[int, ...]


class _Plan(NamedTuple):
    """A computation ready to run. Values are in numbered slots, which constants occupy
    initially."""

    initial: list[Any]
    parameters: list[tuple[int, int]]  # slot, parameter number
    steps: list[_Step]
    slots: dict[Instruction, int]
    root: int


# Gets an instruction that has run, the values of its operands, and its own.
Observe = Callable[[Instruction, Sequence[Any], Any], None]


class Interpreter:
    """Evaluates computations. Implements `ops.spec.EvalContext`."""

    def __init__(
        self, host: Host | None = None, counts: tuple[int, int] = (1, 1),
        deadline: Deadline | None = None, observe: Observe | None = None,
    ) -> None:  # fmt: skip
        """Begin with nothing evaluated.

        host: what a run depends on besides its arguments. counts: the numbers of replicas and
        partitions, for computations outside any module. deadline: checked before each operation.
        observe: gets each instruction that runs, with the values of its operands and its own; of
        computations that are applied to elements those of many elements at once.
        """
        self._observe = observe
        self._host = host or Host()
        self._deadline = deadline
        self._plans: dict[Computation, _Plan] = {}
        self._known: dict[Computation, str | None] = {}
        self._picks: dict[Computation, bool] = {}
        self._orders: dict[Computation, list[OrderTerm] | None] = {}
        self._endless: dict[Instruction, bool] = {}
        self._library_calls: dict[Instruction, Computation | None] = {}
        self._whole: dict[Computation, bool] = {}
        self._effects = Effects()
        self._fixed: dict[Computation, list[Any]] = {}
        self._dynamic: dict[Module | Computation, bool] = {}
        self._depth = 0
        self._device_counts = counts

    @property
    def host(self) -> Host:
        return self._host

    @property
    def device_counts(self) -> tuple[int, int]:
        """Numbers of replicas and of partitions that the running module is for."""
        return self._device_counts

    def call(self, computation: Computation, args: Sequence[Any]) -> Any:
        """Evaluate a computation on values; returns its result value.

        Raises HloError at the innermost instruction that cannot run.
        """
        if not self._depth:
            return self._outermost_call(computation, args)
        plan = self._plans.get(computation) or self._make_plan(computation)
        if self._depth > MAX_CALL_DEPTH:
            raise InferError(
                f"calls are nested more than {MAX_CALL_DEPTH} levels deep",
                code="call-depth",
            )
        self._depth += 1
        values = plan.initial.copy()
        for slot, number in plan.parameters:
            values[slot] = args[number]
        inst, deadline = None, self._deadline
        try:
            for slot, evaluate, inst, operands, dying in plan.steps:
                if evaluate is None:
                    values[slot] = values[operands[0]][operands[1]]
                else:
                    if deadline is not None:
                        deadline.check()
                    values[slot] = evaluate(inst, [values[o] for o in operands], self)
                for gone in dying:
                    values[gone] = None
        except (InferError, MemoryError, RecursionError) as e:
            assert inst is not None
            raise error_at(inst, e) from e.__cause__
        finally:
            self._depth -= 1
        return values[plan.root]

    def evaluate(self, inst: Instruction, operands: Sequence[Any]) -> Any:
        """Return the value of one instruction, no parameter, on values of its operands.

        Raises HloError at the innermost instruction that cannot run.
        """
        home = inst.parent
        is_dynamic = home is not None and self._is_dynamic(home)
        evaluate = dynamic.evaluate if is_dynamic else inst.spec.evaluate
        if home is not None and home.module is not None:
            self._device_counts = home.module.device_counts
        if self._deadline is not None:
            self._deadline.check()
        try:
            return evaluate(inst, operands, self)
        except (InferError, MemoryError, RecursionError) as e:
            raise error_at(inst, e) from e.__cause__

    def _outermost_call(self, computation: Computation, args: Sequence[Any]) -> Any:
        self._depth = 1
        if computation.module is not None:
            self._device_counts = computation.module.device_counts
        try:
            with _deep_calls:
                return self.call(computation, args)
        finally:
            self._depth = 0

    def known_op(self, computation: Computation) -> str | None:
        """Return the opcode of a body that is `op(p0, p1)` on scalars of one type, else None."""
        if self._observe is not None:
            return None  # its instruction is to be seen
        if computation not in self._known:
            self._known[computation] = single_binary_op(computation)
        return self._known[computation]

    def projection(self, computation: Computation) -> tuple[int, ...] | None:
        """Return the numbers of the parameters that are the result (or its tuple), else None."""
        root = computation.root
        parts = root.operands if root.opcode == "tuple" else [root]
        if any(p.opcode != "parameter" for p in parts):
            return None
        return tuple(p.parameter_number for p in parts)

    def picks(self, computation: Computation) -> bool:
        """True for a function of 2n scalars whose result i is always argument i or n + i."""
        if computation not in self._picks:
            self._picks[computation] = picks_an_argument(computation)
        return self._picks[computation]

    def never_ends(self, op: Any) -> bool:
        """True for a `while` that never ends once its body has been entered."""
        if op not in self._endless:
            self._endless[op] = never_ends(op)
        return self._endless[op]

    def library_call(self, op: Any) -> Computation | None:
        """Return the computation that a call of a vendor's library stands for, None without one."""
        if op not in self._library_calls:
            self._library_calls[op] = need_expansion(op)
        return self._library_calls[op]

    def sort_keys(self, computation: Computation, arrays: Sequence[Any]) -> list[SortKey] | None:
        """Return the keys by which a comparator orders the elements of arrays, first key first.

        None when it is not a lexicographic order of keys.
        """
        if computation not in self._orders:
            self._orders[computation] = order_terms(computation)
        terms = self._orders[computation]
        if terms is None or not self._applies_whole(computation):
            return None
        # The keys are functions of the even parameters; the values of the odd ones do not matter.
        args = [arrays[i // 2] for i in range(len(computation.parameters))]
        values = self._whole_values(computation, args, np.shape(arrays[0]))
        slots = self._plans[computation].slots
        return [SortKey(values[slots[t.key]], t.descending, t.total_order) for t in terms]

    def apply(self, computation: Computation, args: Sequence[Any]) -> Any:
        """Apply a computation on scalars to arrays of equal shape, element by element.

        Bodies of elementwise operations, tuples and calls run once on whole arrays, with the same
        result for each element. Any other body runs once per element, in row-major order.
        """
        arrays = np.broadcast_arrays(*args) if args else []
        dims = arrays[0].shape if arrays else ()
        if self._applies_whole(computation):
            return _broadcast(self._apply_whole(computation, arrays, dims), dims)
        results = [
            # The ellipsis keeps an element an array of rank 0.
            self.call(computation, [a[(*index, ...)] for a in arrays])
            for index in np.ndindex(dims)
        ]
        return _stacked(results, computation.result_shape, dims)

    # --- plans ----------------------------------------------------------------------------------

    def _make_plan(self, comp: Computation) -> _Plan:
        order, repeated = comp.in_order(), self._repeated_calls(comp)
        slots = {inst: slot for slot, inst in enumerate(order)}
        slots |= {inst: slots[earlier] for inst, earlier in repeated.items()}
        last: dict[int, int] = {}
        for at, inst in enumerate(order):
            for operand in inst.operands:
                last[slots[operand]] = at
        last.pop(slots[comp.root], None)
        initial: list[Any] = [None] * len(order)
        parameters: list[tuple[int, int]] = []
        steps: list[_Step] = []
        for slot, inst in enumerate(order):
            opcode = inst.opcode
            if opcode == "parameter":
                parameters.append((slot, inst.parameter_number))
                continue
            if inst in repeated:
                continue
            try:
                need_memory(inst, inst.shape)
                if opcode == "constant":
                    initial[slot] = inst.spec.evaluate(inst, [], self)
                    continue
            except (InferError, MemoryError) as e:
                raise error_at(inst, e) from e.__cause__
            dying = tuple(
                slots[o]
                for o in dict.fromkeys(inst.operands)
                if last.get(slots[o]) == slot
                and o.opcode != "constant"
                and _is_worth_freeing(o.shape)
            )
            operands = tuple(slots[o] for o in inst.operands)
            if opcode == "get-tuple-element":
                step = _Step(slot, None, inst, (*operands, inst.tuple_index), dying)
            else:
                evaluate = dynamic.evaluate if self._is_dynamic(comp) else inst.spec.evaluate
                if self._observe is not None:
                    evaluate = _observed(evaluate, self._observe)
                step = _Step(slot, evaluate, inst, operands, dying)
            steps.append(step)
        plan = self._plans[comp] = _Plan(initial, parameters, steps, slots, slots[comp.root])
        return plan

    def _repeated_calls(self, comp: Computation) -> dict[Instruction, Instruction]:
        """Return calls that were made before with the same operands, and the first of each.

        Calls that double in each of forty computations would not end.
        """
        calls = [inst for inst in comp if inst.opcode == "call"]
        if len(calls) < 2:
            return {}
        first: dict[tuple[Computation, tuple[Instruction, ...]], Instruction] = {}
        found: dict[Instruction, Instruction] = {}
        for inst in comp.in_order():
            if inst.opcode == "call" and self._effects.is_foldable(inst):
                operands = tuple(found.get(o, o) for o in inst.operands)
                earlier = first.setdefault((inst.called_computations[0], operands), inst)
                if earlier is not inst:
                    found[inst] = earlier
        return found

    def _is_dynamic(self, comp: Computation) -> bool:
        """True when arrays of dynamic size may come up in the module of a computation."""
        home = comp.module or comp
        if home not in self._dynamic:
            computations = home.computations if isinstance(home, Module) else [home]
            self._dynamic[home] = any(map(dynamic.may_be_dynamic, computations))
        return self._dynamic[home]

    # --- scalar computations on arrays ----------------------------------------------------------

    def _applies_whole(self, comp: Computation) -> bool:
        found = self._whole.get(comp)
        if found is None:
            found, fixed = True, set[Instruction]()
            for inst in comp.in_order():  # not `all`: a chain of calls would recurse on the C stack
                if _is_fixed(inst, fixed):
                    fixed.add(inst)
                elif not self._step_applies_whole(inst):
                    found = False
                    break
            self._whole[comp] = found
        return found

    def _fixed_values(self, comp: Computation, plan: _Plan) -> list[Any]:
        """Return the initial slots of a plan: constants and values computed from them.

        These may be arrays: they are the same for every element that the computation is applied to.
        """
        values = self._fixed.get(comp)
        if values is None:
            values = plan.initial.copy()
            fixed = {inst for inst in comp if inst.opcode == "constant"}
            for slot, evaluate, inst, operands, _ in plan.steps:
                if not _is_fixed(inst, fixed):
                    continue
                fixed.add(inst)
                if evaluate is None:
                    values[slot] = values[operands[0]][operands[1]]
                    continue
                try:
                    values[slot] = evaluate(inst, [values[o] for o in operands], self)
                except (InferError, MemoryError) as e:
                    raise error_at(inst, e) from e.__cause__
            self._fixed[comp] = values
        return values

    def _step_applies_whole(self, inst: Instruction) -> bool:
        if any(isinstance(leaf, ArrayShape) and leaf.dims for _, leaf in inst.shape.leaves()):
            return False
        if inst.opcode in ("parameter", "constant", "tuple", "get-tuple-element"):
            return True
        if inst.spec.has(Trait.CALL):
            return self._applies_whole(inst.called_computations[0])
        if inst.spec.has(_SCALAR_IDENTITIES):
            return _is_scalar(inst.shape) and inst.operand_shapes[0] == inst.shape
        if inst.opcode == "bitcast-convert":
            # Elementwise unless a change of width adds or takes a dimension.
            return _is_scalar(inst.shape) and _is_scalar(inst.operand_shapes[0])
        if inst.opcode == "bitcast":
            return bitcasts_a_scalar(inst)
        # A collective or a random number is not a function of the element alone.
        return inst.spec.has(Trait.ELEMENTWISE) and not inst.spec.has(
            Trait.SIDE_EFFECT | Trait.NO_FOLD
        )

    def _apply_whole(self, comp: Computation, args: Sequence[Any], dims: tuple[int, ...]) -> Any:
        values = self._whole_values(comp, args, dims)
        return values[self._plans[comp].root]

    def _whole_values(
        self, comp: Computation, args: Sequence[Any], dims: tuple[int, ...]
    ) -> list[Any]:
        """Return the value in every slot of a plan, on arrays in place of scalars."""
        plan = self._plans.get(comp) or self._make_plan(comp)
        # Constants take the shape of the arrays too (without memory of their own), so that every
        # operation sees operands of one shape, as it does on scalars.
        values = [_broadcast(v, dims) for v in self._fixed_values(comp, plan)]
        for slot, number in plan.parameters:
            values[slot] = args[number]
        for slot, evaluate, inst, operands, _ in plan.steps:
            if values[slot] is not None:
                continue
            if evaluate is None:
                values[slot] = values[operands[0]][operands[1]]
            elif inst.spec.has(_SCALAR_IDENTITIES):
                values[slot] = values[operands[0]]
            elif inst.spec.has(Trait.CALL):
                callee = inst.called_computations[0]
                values[slot] = self._apply_whole(callee, [values[o] for o in operands], dims)
            else:
                try:
                    values[slot] = evaluate(inst, [values[o] for o in operands], self)
                except (InferError, MemoryError) as e:
                    raise error_at(inst, e) from e.__cause__
        return values


def _observed(evaluate: Evaluate, observe: Observe) -> Evaluate:
    """Return the evaluation of an instruction that tells of it."""

    def run(inst: Any, args: Sequence[Any], ctx: Any) -> Any:
        value = evaluate(inst, args, ctx)
        observe(inst, args, value)
        return value

    return run


def error_at(inst: Instruction, error: InferError | MemoryError | RecursionError) -> HloError:
    """Return the error of an instruction that cannot run, with its source location."""
    if isinstance(error, RecursionError):
        message = f"{inst.name}: the computations that {inst.opcode} calls are nested too deep"
        return HloError.at("call-depth", message, inst.span)
    if isinstance(error, MemoryError):
        message = f"{inst.name}: not enough memory for {inst.opcode} of shape {inst.shape}"
        return HloError.at("out-of-memory", message, inst.span)
    where: Span | None = inst.span
    if inst.span is not None and error.operand is not None:
        where = inst.span.operand(error.operand)
    elif inst.span is not None and error.attr is not None:
        where = inst.span.attr(error.attr)
    message = f"{inst.name}: {error.message}"
    if error.code == "unknown-custom-call" and (source := source_location(inst).said):
        message += f"; {source} calls it"
    return HloError.at(error.code, message, where, error.hint)


def _is_fixed(inst: Instruction, fixed: Container[Instruction]) -> bool:
    """True for an instruction whose value is the same in each call, as those in `fixed` are."""
    if inst.opcode == "constant":
        return True
    if inst.called_computations or inst.spec.has(_IMPURE):
        return False
    return bool(inst.operands) and all(o in fixed for o in inst.operands)


def _is_scalar(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and not shape.dims


def _is_worth_freeing(shape: Shape) -> bool:
    arrays = [leaf for _, leaf in shape.leaves() if isinstance(leaf, ArrayShape)]
    return sum(s.byte_size for s in arrays) >= _WORTH_FREEING_BYTES


def _broadcast(value: Any, dims: tuple[int, ...]) -> Any:
    """Return scalars as arrays; arrays, and what is no value, stay."""
    if isinstance(value, tuple):
        return tuple(_broadcast(v, dims) for v in value)
    return value if value is None or np.ndim(value) else np.broadcast_to(value, dims)


def _stacked(results: list[Any], shape: Shape, dims: tuple[int, ...]) -> Any:
    """Return the results for the elements of an array as one array, or as a tuple of arrays."""
    if isinstance(shape, TupleShape):
        return tuple(
            _stacked([r[i] for r in results], s, dims) for i, s in enumerate(shape.elements)
        )
    assert isinstance(shape, ArrayShape)
    out = np.empty(len(results), shape.element_type.dtype)
    for i, result in enumerate(results):
        out[i] = result
    return out.reshape(dims)


def interpret(
    module: Module, args: Sequence[Any], host: Host | None = None, timeout: float | None = None,
    observe: Observe | None = None,
) -> Any:  # fmt: skip
    """Run a module's entry on values in parameter order; returns the result value.

    Shapes: each argument has its parameter's shape and dtype (the caller checks); a dimension that
    is dynamic may be smaller than its bound. timeout: seconds after which the run ends, at the next
    operation. Raises HloError for an operation that cannot run, with its place in the text, and
    (`timeout`) for a run that takes longer. observe: as of `Interpreter`.
    """
    need_few_calls(module)
    deadline = None if timeout is None else Deadline(module.name, timeout)
    shapes = module.entry.parameter_shapes
    values = [dynamic.bind(a, s) for a, s in zip(args, shapes, strict=True)]
    return Interpreter(host, deadline=deadline, observe=observe).call(module.entry, values)


def run_values(
    module: Module, values: Sequence[Any], host: Host | None = None, timeout: float | None = None,
    observe: Observe | None = None,
) -> Any:  # fmt: skip
    """Run a verified module on checked values; an array of dynamic size has its actual size.

    host, timeout, observe: as of `interpret`.
    """
    return _visible(interpret(module, values, host, timeout, observe))


def _visible(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_visible(v) for v in value)
    return value.actual if isinstance(value, DynamicArray) else value


def interpret_devices(
    module: Module, args: Sequence[Sequence[Any]], device_counts: tuple[int, int]
) -> list[Any]:
    """Run a module's entry on several devices at the same time; returns the result of each.

    args: the values for each device, as for `interpret`. device_counts: the numbers of replicas and
    of partitions. Raises HloError.
    """
    hosts = [Host() for _ in args]
    runs = [partial(interpret, module, own, h) for own, h in zip(args, hosts, strict=True)]
    return run_together(hosts, device_counts, runs)
