"""The SPMD partitioner: from a program on whole arrays to the one that each device runs.

Every instruction of the program has a sharding (`hlo.spmd.propagation` gives it one); without one
it is replicated. Computations that run on whole values (the entry, loops, branches, calls) are
written anew, instruction by instruction, by the handlers of `hlo.spmd.handlers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo.errors import InferError
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.spmd.builder import Program, SpmdBuilder
from hlo.spmd.contract import REPLICATED, Contract
from hlo.spmd.handlers import load_handlers
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.registry import HANDLERS, Wanted
from hlo.spmd.handlers.structure import forwarded
from hlo.spmd.mesh import DeviceMesh, PartitionSpec, mesh_for
from hlo.spmd.redistribution.reshard import reshard
from hlo.spmd.value import Sharded, Unsharded, Value, map_leaves
from hlo.values.sharding import Sharding, TupleSharding
from hlo.values.types import ArrayShape, TupleShape, compatible

FULL_TO_SHARD = "SPMDFullToShardShape"
SHARD_TO_FULL = "SPMDShardToFullShape"


def leaf_shardings(inst: Instruction) -> list[Sharding | None]:
    """Return the sharding of each leaf of an instruction's result; None where it has none."""
    sharding = inst.annotations.get("sharding")
    count = sum(1 for _ in inst.shape.leaves())
    if isinstance(sharding, TupleSharding):
        return [*sharding.elements, *[None] * count][:count]
    return [sharding] * count


def module_mesh(module: Module) -> DeviceMesh:
    """Return the mesh of a module's shardings over its partitions."""
    replicas, partitions = module.device_counts
    shardings = (s for i in module.instructions() for s in leaf_shardings(i) if s is not None)
    return mesh_for(shardings, partitions, replicas)


def partition_module(module: Module) -> Program:
    """Partition a module, in place; returns what was done.

    Raises:
        InferError: for shardings that do not fit the module's partitions.
    """
    load_handlers()
    program = Program(module, module_mesh(module), reshard)
    program.reserve_channels(max((i.channel_id or 0 for i in module.instructions()), default=0))
    for inst in module.instructions():
        _leave_dynamic_whole(inst, program.mesh)
    old = module.entry
    contract = Contract(
        tuple(old.parameter_shapes),
        tuple(s or REPLICATED for p in old.parameters for s in leaf_shardings(p)),
        old.result_shape,
        tuple(s or REPLICATED for s in leaf_shardings(old.root)),
    )
    replaced = list(dict.fromkeys(_run_on_values(old)))
    written = _Partitioner(program).entry(old)
    module.set_entry(written)
    for comp in replaced:
        module.remove(comp)
    module.attrs.pop("entry_computation_layout", None)
    _keep_equal_aliases(module)
    contract.record(module)
    return program


def _keep_equal_aliases(module: Module) -> None:
    """Drop aliases of a parameter and an output that have become shards of different sizes."""
    aliases = module.attrs.get("input_output_alias", ())
    parameters, result = module.entry.parameter_shapes, module.entry.result_shape
    kept = tuple(
        a for a in aliases
        if compatible(parameters[a.parameter].at(a.index), result.at(a.output))
    )  # fmt: skip
    if kept:
        module.attrs["input_output_alias"] = kept
    else:
        module.attrs.pop("input_output_alias", None)


def _leave_dynamic_whole(inst: Instruction, mesh: DeviceMesh) -> None:
    """Take out of a sharding what cuts a dimension whose size is known when it runs."""
    found = []
    changed = False
    for (_, shape), sharding in zip(inst.shape.leaves(), leaf_shardings(inst), strict=True):
        found.append(sharding or REPLICATED)
        if sharding is None or not isinstance(shape, ArrayShape) or not shape.is_dynamic:
            continue
        sharding.check_leaf(shape, mesh.size)
        spec = mesh.spec(sharding, shape.rank)
        kept = tuple(
            () if shape.is_dynamic_dim(d) else axes for d, axes in enumerate(spec.dims)
        )  # fmt: skip
        if kept != spec.dims:
            found[-1], changed = mesh.tiles(replace(spec, dims=kept)), True
    if changed:
        whole = TupleSharding(tuple(found)) if isinstance(inst.shape, TupleShape) else found[0]
        inst.annotations["sharding"] = whole


def _run_on_values(comp: Computation) -> Iterator[Computation]:
    """Yield a computation and those that it runs on whole values."""
    yield comp
    for inst in comp:
        if inst.spec.has(Trait.CONTROL_FLOW):
            for callee in inst.called_computations:
                yield from _run_on_values(callee)


class _Partitioner:
    """Writes the computations of one module."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.mesh = program.mesh

    def entry(self, old: Computation) -> Computation:
        """Write the entry: its parameters and its result are shards as their shardings say."""
        comp = self.program.module.add(Computation(old.name))
        b = SpmdBuilder(comp, self.program)
        values: dict[Instruction, Value] = {}
        for parameter in old.parameters:
            b.original = parameter
            value = self._parameter(b, parameter, self.specs(parameter))
            values[parameter] = self._placed(b, value, leaf_shardings(parameter), inward=True)
        root = self._write(b, old, values)
        b.original = old.root
        root = self._placed(
            b, self._resharded(b, root, self.specs(old.root)), leaf_shardings(old.root),
            inward=False,
        )  # fmt: skip
        comp.set_root(b.packed(root))
        return comp

    def called(self, old: Computation, parameters: Sequence[Wanted], wanted: Wanted) -> Computation:
        """Write a computation whose parameters and result have given specs.

        parameters: the spec of each leaf of each parameter.
        """
        comp = self.program.module.add(Computation(old.name))
        b = SpmdBuilder(comp, self.program)
        values: dict[Instruction, Value] = {}
        for parameter, specs in zip(old.parameters, parameters, strict=True):
            b.original = parameter
            values[parameter] = self._parameter(b, parameter, specs)
        root = self._write(b, old, values)
        b.original = old.root
        comp.set_root(b.packed(self._resharded(b, root, wanted)))
        return comp

    def _write(self, b: SpmdBuilder, old: Computation, values: dict[Instruction, Value]) -> Value:
        """Append what the devices do for a computation; returns the value of its root."""
        b.values = values
        written: dict[Instruction, list[Instruction]] = {}
        for inst in old.in_order():
            start = len(b.built)
            if inst not in values:
                b.original = inst
                values[inst] = self._instruction(b, inst, [values[o] for o in inst.operands])
            written[inst] = b.built[start:]
            for before in inst.control_predecessors:
                if written[before] and written[inst]:
                    written[inst][0].add_control_predecessor(written[before][-1])
        return values[old.root]

    # --- instructions -----------------------------------------------------------------------------

    def _instruction(self, b: SpmdBuilder, inst: Instruction, operands: list[Value]) -> Value:
        wanted = self.specs(inst)
        opcode = inst.opcode
        if opcode == "tuple":
            return tuple(operands)
        if opcode == "get-tuple-element":
            (whole,) = operands
            if isinstance(whole, Unsharded):  # of what an asynchronous operation hands on
                part = b.element(whole.local, inst.tuple_index)
                specs = map(PartitionSpec.replicated, (len(w.dims) for w in wanted))
                return self._resharded(b, b.unpacked(part, inst.shape, specs), wanted)
            assert isinstance(whole, tuple)
            return self._resharded(b, whole[inst.tuple_index], wanted)
        if opcode == "while":
            return self._while(b, inst, operands[0], wanted)
        if opcode == "conditional":
            return self._conditional(b, inst, operands, wanted)
        if opcode == "call":
            return self._call(b, inst, operands, wanted)
        if opcode == "custom-call" and inst.custom_call_target in (FULL_TO_SHARD, SHARD_TO_FULL):
            (operand,) = operands
            assert isinstance(operand, Sharded)
            return self._regional(b, inst, operand, wanted[0])
        operands = [self._in_region(v, wanted) for v in operands]
        handler = HANDLERS.get(opcode, by_factors)
        if opcode == "custom-call" and inst.spec.factors(inst).structural:
            handler = forwarded  # it has said where its operand is
        return self._resharded(b, handler(b, inst, operands, wanted), wanted)

    def _while(self, b: SpmdBuilder, inst: Instruction, init: Value, wanted: Wanted) -> Value:
        state = b.packed(self._resharded(b, init, wanted))
        (parameter,) = inst.body.parameters
        body = self.called(inst.body, [wanted], wanted)
        manual = self.specs(inst.condition.root)[0].manual
        condition = self.called(inst.condition, [wanted], [PartitionSpec((), manual)])
        loop = b.append(
            inst.clone([state], shape=state.shape, attrs={"body": body, "condition": condition})
        )
        return b.unpacked(loop, parameter.shape, iter(wanted))

    def _conditional(
        self, b: SpmdBuilder, inst: Instruction, operands: list[Value], wanted: Wanted
    ) -> Value:
        which, *arguments = operands
        assert isinstance(which, Sharded)
        branches: dict[Computation, Computation] = {}
        passed = []
        for branch, argument in zip(inst.called_computations, arguments, strict=True):
            specs = self.specs(branch.parameters[0])
            passed.append(b.packed(self._resharded(b, argument, specs)))
            if branch not in branches:
                branches[branch] = self.called(branch, [specs], wanted)
        shape = next(iter(branches.values())).root.shape
        local = inst.clone([b.replicated(which).local, *passed], shape=shape)
        local.replace_called(branches)
        return b.unpacked(b.append(local), inst.shape, iter(wanted))

    def _call(
        self, b: SpmdBuilder, inst: Instruction, operands: list[Value], wanted: Wanted
    ) -> Value:
        specs = [self.specs(p) for p in inst.to_apply.parameters]
        passed = [b.packed(self._resharded(b, v, s)) for v, s in zip(operands, specs, strict=True)]
        callee = self.called(inst.to_apply, specs, wanted)
        local = inst.clone(passed, shape=callee.root.shape, attrs={"to_apply": callee})
        return b.unpacked(b.append(local), inst.shape, iter(wanted))

    def _regional(
        self, b: SpmdBuilder, inst: Instruction, operand: Sharded, wanted: PartitionSpec
    ) -> Value:
        """Enter or leave a region in which the program is written per device, along manual axes.

        Outside, those axes cut dimensions, as the major ones, or devices have parts of a sum along
        them; inside, the shard is the array.
        """
        enters = inst.custom_call_target == FULL_TO_SHARD
        outer = operand.spec if enters else wanted
        inner = wanted if enters else operand.spec
        manual = tuple(a for a in inner.manual if a not in outer.manual)
        cut = [tuple(a for a in axes if a in manual) for axes in outer.dims]
        partial = {a for a in outer.unreduced if a in manual}
        whole = PartitionSpec(
            tuple((*axes, *rest) for axes, rest in zip(cut, inner.dims, strict=True)), outer.manual,
            tuple(sorted({*inner.unreduced, *partial})),
        )  # fmt: skip
        if enters:
            local = b.reshard(operand, whole).local
            return b.sharded(local, inner)
        return self._resharded(b, b.sharded(operand.local, whole), [wanted])

    def _in_region(self, value: Value, wanted: Wanted) -> Value:
        """Return a value that has all of its array along the manual axes of a result, as one there.

        Constants and scalars from outside are such.
        """
        manual = next((w.manual for w in wanted), ())
        if isinstance(value, tuple):
            return tuple(self._in_region(v, wanted) for v in value)
        if isinstance(value, Sharded) and value.spec.manual != manual:
            if set(value.spec.axes) & set(manual):
                raise InferError(
                    "an operand is distributed along axes that are manual in the result",
                    code="bad-sharding",
                )
            return replace(value, spec=replace(value.spec, manual=manual))
        return value

    # --- values -----------------------------------------------------------------------------------

    def specs(self, inst: Instruction) -> list[PartitionSpec]:
        """Return the spec of each leaf of an instruction's result."""
        found = []
        shapes = [s for _, s in inst.shape.leaves()]
        for shape, sharding in zip(shapes, leaf_shardings(inst), strict=True):
            if not isinstance(shape, ArrayShape):
                found.append(PartitionSpec(()))
                continue
            if sharding is not None:
                sharding.check_leaf(shape, self.mesh.size)
            found.append(self.mesh.spec(sharding, shape.rank))
        return found

    def _parameter(self, b: SpmdBuilder, inst: Instruction, specs: Wanted) -> Value:
        shapes = iter(specs)
        local = inst.clone([], shape=b.local_shape(inst.shape, shapes))
        return b.unpacked(b.append(local), inst.shape, iter(specs))

    def _resharded(self, b: SpmdBuilder, value: Value, wanted: Wanted) -> Value:
        """Return a value in the specs of its leaves."""
        specs = iter(wanted)

        def leaf(v: Sharded | Unsharded) -> Value:
            spec = next(specs)
            if not isinstance(v, Sharded):
                return v
            value = self._in_region(v, [spec])
            assert isinstance(value, Sharded)
            return b.reshard(value, spec)

        return map_leaves(value, leaf)

    def _placed(
        self, b: SpmdBuilder, value: Value, shardings: list[Sharding | None], *, inward: bool
    ) -> Value:
        """Move shards to the devices of the mesh from those of their shardings, or back."""
        order = iter(shardings)

        def leaf(v: Sharded | Unsharded) -> Value:
            sharding = next(order)
            if not isinstance(v, Sharded):
                return v
            sources = self.mesh.placement(sharding, v.shape.rank)
            if sources is None:
                return v
            pairs = [(d, s) if inward else (s, d) for d, s in enumerate(sources)]
            return replace(v, local=b.permute(v.local, pairs))

        return map_leaves(value, leaf)
