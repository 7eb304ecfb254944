"""A client: data on devices, programs compiled for them, and runs on one device or on several.

    client = hlo.Client(device_count=2)
    x, y = client.transfer_to_server([1.0, 2.0]), client.transfer_to_server([3.0, 4.0], device=1)
    sums = client.execute_replicated(computation, [[x], [y]])  # of a cross_replica_sum, say
    print(client.transfer(sums[0]))

Devices are threads of this process, or of several (`world`). Each has queues, random state and data
of its own; all share the processors. Sources: document 004 (`Client`, `GlobalData`), XLA's
`client.h`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from math import prod
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from hlo.analysis.devices import devices_of
from hlo.analysis.strict_math import ask_for_strict_math
from hlo.api import parameters_of, verify
from hlo.compiler.backends import LoadedModule, Run, Start, machine_of, need_name
from hlo.compiler.partition import Partition, partition
from hlo.compiler.pipeline import compile, on_host
from hlo.errors import HloError, InferError
from hlo.eval import run_values
from hlo.frontends.builder import XlaComputation
from hlo.frontends.builder.coercion import type_of
from hlo.frontends.builder.data import literal_of, literal_of_result
from hlo.host import Host, run_together
from hlo.io.arguments import Parameter, bind_arguments
from hlo.ir import Module
from hlo.mpi.world import World
from hlo.support.deadline import check_timeout
from hlo.support.signature import checked
from hlo.values.literal import Literal
from hlo.values.types import Shape, signature_text
from hlo.values.types import array as array_shape

_T = TypeVar("_T")
# Each is a thread while it runs.
_MOST_DEVICES = 4096


class GlobalData:
    """A value on a device of a client: what runs take and give. Immutable.

    `numpy.asarray` shows an array without copying it; `Client.transfer` makes a literal.

    >>> x = hlo.Client(device_count=2).transfer_to_server([1.0, 2.0], device=1)
    >>> x, x.shape, np.asarray(x)
    (<GlobalData f32[2] on device 1>, <ArrayShape f32[2]{0}>, array([1., 2.], dtype=float32))
    """

    __slots__ = ("_value", "client", "device", "shape")

    def __init__(self, client: Client, device: int, shape: Shape, value: Any) -> None:
        self.client, self.device, self.shape = client, device, shape
        self._value = value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.shape.is_tuple:
            raise TypeError(f"{self!r} is a tuple: take it apart with deconstruct_tuple")
        view = np.asarray(self._value).view()
        view.flags.writeable = False
        return np.array(view, dtype, copy=copy)

    def __repr__(self) -> str:
        return f"<GlobalData {self.shape.to_string(False)} on device {self.device}>"


class LoadedExecutable:
    """A program ready to run on the devices of a client.

    device_counts: the numbers of replicas and of partitions that the module is for. Device n runs
    partition n % P of replica n // P, where P is the number of partitions.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> hlo.Client().compile(module)
    <LoadedExecutable m: (x: f32[]) -> f32[], 1 replicas, 1 partitions>
    """

    def __init__(self, client: Client, module: Module, start: Start) -> None:
        self.client, self.name = client, module.name
        self.parameters: tuple[Parameter, ...] = tuple(parameters_of(module))
        self.result_shape: Shape = module.entry.result_shape
        self.device_counts = module.device_counts
        # Devices never meet in it, so that one may run it alone.
        self.runs_alone = devices_of(module) == (1, 1)
        self._start = start
        self._started: dict[int, Run] = {}

    def on(self, device: int) -> Run:
        """Return the function that runs the program on a device, on bound arguments."""
        if device not in self._started:
            self._started[device] = self._start(self.client.host_of(device))
        return self._started[device]

    def __repr__(self) -> str:
        replicas, partitions = self.device_counts
        named = ((p.name, p.shape) for p in self.parameters)
        return (
            f"<LoadedExecutable {self.name}: {signature_text(named, self.result_shape)}, "
            f"{replicas} replicas, {partitions} partitions>"
        )


Program = XlaComputation | Module | LoadedExecutable
"""What a client executes. What a builder built is compiled once; a module, which may change, each
time: `Client.compile` makes a `LoadedExecutable` of it to run often."""


class Client:
    """Runs programs on devices, each of them a thread of this process, with data and queues of its
    own.

    Methods may be called from any threads; a device runs one program at a time.

    Args:
        device_count: how many devices there are.
        backend: as for `hlo.compile`. Data of devices that are a GPU, which all of them share, are
            in its memory.
        host: has the custom calls and libraries of all devices.
        threads: as for `hlo.compile`.
        cache: as for `hlo.compile`.
        passes: as for `hlo.compile`.
        world: the ranks of an MPI run, `hlo.mpi.World()`: the client has their devices, and every
            rank runs the same program on those of its own, with its own data. All ranks make the
            client, compile, and execute the same in the same order.
        strict: as for `hlo.compile`, of all programs.

    Attributes:
        device_count: how many devices there are, on all ranks.
        devices: the numbers of those of this process.
        hosts: what each device of this process has: its queues, for one.

    Raises:
        HloError: as all methods do.

    >>> client = hlo.Client(device_count=2)
    >>> b = hlo.XlaBuilder("sums")
    >>> program = b.build(b.cross_replica_sum(b.parameter(0, "f32[2]")))
    >>> x = client.transfer_to_server([1.0, 2.0])
    >>> y = client.transfer_to_server([3.0, 4.0], device=1)
    >>> [client.transfer(z) for z in client.execute_replicated(program, [[x], [y]])]
    [Literal(f32[2] {4, 6}), Literal(f32[2] {4, 6})]
    """

    @checked
    def __init__(
        self, device_count: int = 1, *, backend: str = "compiled", host: Host | None = None,
        threads: int | None = None, cache: bool = True,
        passes: str | Sequence[object] = "default", world: World | None = None,
        strict: bool = False,
    ) -> None:  # fmt: skip
        if world is not None:
            device_count = world.device_count
        if not 1 <= device_count <= _MOST_DEVICES:
            raise HloError.at(
                "bad-device", f"a client has 1 to {_MOST_DEVICES} devices, not {device_count}"
            )
        need_name(backend)
        # What has the data of the devices in memory of its own: a GPU, which all of them share.
        self._machine = machine_of(backend)
        shared = host or Host()
        self.device_count = device_count
        self.devices = range(device_count) if world is None else world.devices
        self._world = world
        self.backend = backend
        self.hosts = [Host(shared.custom_calls, shared.libraries) for _ in self.devices]
        self._busy = {device: threading.Lock() for device in self.devices}
        self._is_strict = strict
        self._options: dict[str, Any] = {"threads": threads, "cache": cache, "passes": passes}
        self._compiled: WeakKeyDictionary[
            XlaComputation, dict[tuple[int, int], LoadedExecutable]
        ] = WeakKeyDictionary()

    def __repr__(self) -> str:
        devices = f"{self.device_count} device{'' if self.device_count == 1 else 's'}"
        return f"<Client of {devices}, {self.backend}>"

    # --- data -----------------------------------------------------------------------------------

    @checked
    def transfer_to_server(self, value: Any, device: int = 0) -> GlobalData:
        """Return a copy of a value on a device.

        Args:
            value: a literal, an array of any library, numbers in lists, or a tuple of such.
                Python's numbers become pred, s32, f32 or c64, arrays keep their type.
            device: its number.

        Raises:
            HloError: for another value, and where there is no such device.

        >>> hlo.Client().transfer_to_server((np.eye(2, dtype=np.int8), 1.5))
        <GlobalData (s8[2,2], f32[]) on device 0>
        """
        self._need_device(device)
        literal = _checked(lambda: literal_of(value))
        return GlobalData(self, device, literal.shape, self._put(literal.value))

    @checked
    def transfer_in_process(self, array: np.ndarray, device: int = 0) -> GlobalData:
        """Return an array of this process as a value on a device, without a copy.

        It must not change as long as the value is in use. Raises HloError for an element type that
        HLO has not.

        >>> hlo.Client().transfer_in_process(np.zeros((1000, 1000)))
        <GlobalData f64[1000,1000] on device 0>
        """
        self._need_device(device)
        element_type = _checked(lambda: type_of(array.dtype))
        return GlobalData(self, device, array_shape(element_type, array.shape), self._put(array))

    @checked
    def transfer(self, data: GlobalData) -> Literal:
        """Return a value on a device as a literal. Raises HloError for one of another client.

        >>> client = hlo.Client()
        >>> client.transfer(client.transfer_to_server([1, 2]))
        Literal(s32[2] {1, 2})
        """
        self._need_own(data)
        return literal_of_result(data._value)

    @checked
    def deconstruct_tuple(self, data: GlobalData) -> list[GlobalData]:
        """Return the elements of a tuple on a device, which are not copied. Raises HloError for no
        tuple.

        >>> client = hlo.Client()
        >>> client.deconstruct_tuple(client.transfer_to_server((1, [2.0, 3.0])))
        [<GlobalData s32[] on device 0>, <GlobalData f32[2] on device 0>]
        """
        self._need_own(data)
        elements = getattr(data.shape, "elements", None)
        if elements is None:
            raise HloError.at("type-mismatch", f"{data!r} is not a tuple")
        return [
            GlobalData(self, data.device, shape, value)
            for shape, value in zip(elements, data._value, strict=True)
        ]

    @checked
    def transfer_to_infeed(self, value: Any, device: int = 0) -> None:
        """Put a value at the end of a device's infeed; see `transfer_to_server`.

        >>> module = hlo.parse('''HloModule m ENTRY e {
        ...   t = token[] after-all()  ROOT x = (s32[2], token[]) infeed(t) }''')
        >>> client = hlo.Client()
        >>> client.transfer_to_infeed([1, 2])
        >>> client.execute_and_transfer(module)
        Literal((s32[2], token[]) {...})
        """
        data = self.transfer_to_server(value, device)
        self.host_of(device).infeed.append(_on_host(data._value))

    @checked
    def transfer_from_outfeed(self, device: int = 0) -> Literal:
        """Take the first value out of a device's outfeed. Raises HloError where there is none.

        >>> module = hlo.parse('''HloModule m ENTRY e {
        ...   x = s32[] constant(7)  t = token[] after-all()
        ...   ROOT o = token[] outfeed(x, t), outfeed_shape=s32[] }''')
        >>> client = hlo.Client()
        >>> _ = client.execute(module)
        >>> client.transfer_from_outfeed()
        Literal(s32[] 7)
        """
        self._need_device(device)
        outfeed = self.host_of(device).outfeed
        if not outfeed:
            raise HloError.at("empty-queue", f"the outfeed of device {device} has no value")
        return literal_of_result(outfeed.pop(0))

    # --- programs -------------------------------------------------------------------------------

    @checked
    def compile(
        self, program: XlaComputation | Module, *, num_replicas: int | None = None,
        num_partitions: int | None = None,
    ) -> LoadedExecutable:  # fmt: skip
        """Return a program ready to run.

        Args:
            program: what a builder built, or a module, which stays as it is.
            num_replicas: in place of the number that the module's header names.
            num_partitions: the same of partitions.

        Raises:
            HloError: for an invalid module.

        >>> module = hlo.parse("HloModule m ENTRY e { ROOT r = u32[] replica-id() }")
        >>> client = hlo.Client(device_count=2)
        >>> ids = client.execute_replicated(client.compile(module, num_replicas=2), [[], []])
        >>> [client.transfer(x) for x in ids]
        [Literal(u32[] 0), Literal(u32[] 1)]
        """
        module = program.clone() if isinstance(program, Module) else program.module()
        for key, count in (("replica_count", num_replicas), ("num_partitions", num_partitions)):
            if count is not None:
                module.attrs[key] = count
        if self._is_strict:
            ask_for_strict_math(module)
        with nullcontext() if self._world is None else self._world.settled(program=str(module)):
            verify(module)
        if self.backend == "compiled":
            start = _compiled(module, self._options, self.hosts[0])
        else:
            loaded = compile(
                module, backend=self.backend, passes=self._options["passes"], device_results=True
            )
            assert isinstance(loaded, LoadedModule)
            start = loaded.on
        return LoadedExecutable(self, module, start)

    @checked
    def execute(
        self, program: Program, arguments: Sequence[Any] = (), device: int | None = None,
        timeout: float | None = None,
    ) -> GlobalData:  # fmt: skip
        """Run a program on one device; returns its result there.

        Args:
            program: what a builder built, a module, or what `Client.compile` returned.
            arguments: one for each parameter, or all array leaves flat: values on the device, or
                what functions of `hlo.compile` take.
            device: by default that of the first argument on one.
            timeout: seconds after which the run, not counting what is compiled first or waits for
                the device, ends with HloError, code `timeout`; the device can run programs again.

        Raises:
            HloError: for arguments that do not fit or are elsewhere, and a program for several
                devices.

        >>> module = hlo.parse('''HloModule m ENTRY e {
        ...   x = f32[2] parameter(0)  ROOT y = f32[2] sqrt(x) }''')
        >>> hlo.Client(device_count=2).execute(module, [[4, 9]], device=1)
        <GlobalData f32[2] on device 1>
        """
        if device is None:
            device = next(
                (a.device for a in arguments if isinstance(a, GlobalData)), self.devices.start
            )
        self._need_device(device)
        loaded = self._loaded(program, None)
        if not loaded.runs_alone:
            raise HloError.at(
                "bad-device", f"{loaded.name} runs on {_said(loaded.device_counts)}, execute runs "
                "on one device", hint="execute_replicated takes arguments for each",
            )  # fmt: skip
        return self._run([loaded], [arguments], [device], (1, 1), timeout)[0]

    @checked
    def execute_and_transfer(
        self, program: Program, arguments: Sequence[Any] = (), device: int | None = None,
        timeout: float | None = None,
    ) -> Literal:  # fmt: skip
        """Run a program on one device; returns its result as a literal. See `execute`.

        >>> module = hlo.parse('''HloModule m ENTRY e {
        ...   x = f32[2] parameter(0)  ROOT y = f32[2] sqrt(x) }''')
        >>> hlo.Client().execute_and_transfer(module, [[4, 9]])
        Literal(f32[2] {2, 3})
        """
        return self.transfer(self.execute(program, arguments, device, timeout))

    @checked
    def execute_replicated(
        self, program: Program, arguments: Sequence[Sequence[Any]], timeout: float | None = None
    ) -> list[GlobalData]:
        """Run a program on several devices at the same time; returns the result of each.

        Args:
            program: what a builder built runs on as many replicas as there are arguments; a module
                on as many devices as its header says, which its `replica_count` and
                `num_partitions` are.
            arguments: those of each device, from device 0 on, as for `execute`; with other ranks
                those of the devices of this one, `Client.devices`, whose results are returned.
            timeout: as for `execute`, for all devices.

        Raises:
            HloError: for another number of devices, and arguments that do not fit.

        >>> b = hlo.XlaBuilder("sums")
        >>> program = b.build(b.cross_replica_sum(b.parameter(0, "s32[]")))
        >>> client = hlo.Client(device_count=3)
        >>> [int(np.asarray(x)) for x in client.execute_replicated(program, [[1], [10], [100]])]
        [111, 111, 111]
        """
        count, devices = len(arguments), range(len(arguments))
        if self._world is not None:
            devices = self.devices
            self._world.need_same(number_of_arguments=(count, len(devices)))
            count = self.device_count if count == len(devices) else count
        loaded = self._loaded(program, (max(1, count), 1))
        if count != prod(loaded.device_counts):
            raise HloError.at(
                "argument-count", f"{loaded.name} runs on {_said(loaded.device_counts)}, there are "
                f"arguments for {count}",
            )  # fmt: skip
        self._need_devices(count, loaded.device_counts)
        counts = loaded.device_counts
        return self._run([loaded] * len(devices), arguments, devices, counts, timeout)

    @checked
    def execute_sharded(
        self, program: Partition | Module, arguments: Sequence[Any], timeout: float | None = None
    ) -> Literal:
        """Run a module with shardings on several devices, on whole arrays; returns the whole
        result.

        Args:
            program: what `hlo.partition` returned, or a module, which is partitioned each time.
            arguments: whole values, as for `execute`, none of them on a device.
            timeout: as for `execute`, for all devices.

        Raises:
            HloError: for shardings that do not fit the devices, a module of several replicas, and
                arguments that do not fit.

        >>> module = hlo.parse('''HloModule m, num_partitions=2 ENTRY e {
        ...   x = s32[4] parameter(0), sharding={devices=[2]<=[2]}  ROOT y = s32[4] negate(x) }''')
        >>> hlo.Client(device_count=2).execute_sharded(module, [[1, 2, 3, 4]])
        Literal(s32[4] {-1, -2, -3, -4})
        """
        if isinstance(program, Module):
            program = partition(program)
        replicas, partitions = program.module.device_counts
        if replicas > 1:
            raise HloError.at(
                "bad-device", f"{program.module.name} has {replicas} replicas: their arguments and "
                "results are their own", hint="execute_replicated takes the shards of each device",
            )  # fmt: skip
        contract = program.contract
        values = bind_arguments(program.parameters, arguments)
        shards = [contract.split(values, device) for device in range(partitions)]
        results = self.execute_replicated(program.module, shards, timeout)
        parts = {device: _on_host(data._value) for device, data in enumerate(results)}
        return literal_of_result(contract.join(parts))

    @checked
    def execute_parallel(
        self, instances: Sequence[tuple[Program, Sequence[Any]]], timeout: float | None = None
    ) -> list[GlobalData]:
        """Run a program of its own on each device at the same time; returns the result of each.

        Programs send to each other, on channels that have one sender and one receiver, and meet in
        collectives of one channel.

        Args:
            instances: program and arguments by device, as for `execute`. Programs that name numbers
                of replicas and partitions all name the same.
            timeout: as for `execute`, for all devices.

        Raises:
            HloError: for another number of devices, and arguments that do not fit.

        >>> add = hlo.XlaBuilder("add")
        >>> add = add.build(add.parameter(0, "s32[]") + add.parameter(1, "s32[]"))
        >>> neg = hlo.XlaBuilder("neg")
        >>> neg = neg.build(-neg.parameter(0, "s32[]"))
        >>> client = hlo.Client(device_count=2)
        >>> [int(np.asarray(x)) for x in client.execute_parallel([(add, [1, 2]), (neg, [3])])]
        [3, -3]
        """
        if self._world is not None:
            raise HloError.at(
                "unsupported", "devices of several ranks run one program", hint="with branches on "
                "partition-id or replica-id",
            )  # fmt: skip
        if not instances or any(len(instance) != 2 for instance in instances):
            raise HloError.at(
                "argument-count", "execute_parallel takes programs, each beside its arguments"
            )
        count = len(instances)
        programs = [program for program, _ in instances]
        named = set(map(_named_counts, programs)) - {(1, 1)} or {(count, 1)}
        counts = min(named)
        if len(named) > 1 or prod(counts) != count:
            raise HloError.at(
                "bad-device", f"there are {count} programs, which run on "
                + " and on ".join(map(_said, sorted(named))),
            )  # fmt: skip
        self._need_devices(count, counts)
        # One that names none is for as many as there are; several devices may have the same.
        loaded = {id(p): self._loaded_for(p, counts) for p in programs}
        own = [loaded[id(p)] for p in programs]
        return self._run(own, [args for _, args in instances], range(count), counts, timeout)

    @checked
    def compute_constant(self, program: XlaComputation | Module) -> Literal:
        """Return the result of a program without parameters, found by the interpreter.

        Raises HloError, code `not-constant`, for a program that has some.

        >>> b = hlo.XlaBuilder("squares")
        >>> x = b.iota("s32[4]", 0)
        >>> hlo.Client().compute_constant(b.build(x * x))
        Literal(s32[4] {0, 1, 4, 9})
        """
        module = program if isinstance(program, Module) else program.module()
        verify(module)
        if module.entry.parameters:
            raise HloError.at(
                "not-constant", f"{module.name} depends on parameter "
                f"{module.entry.parameters[0].name}",
            )  # fmt: skip
        return literal_of_result(run_values(module, [], Host()))

    # --- running --------------------------------------------------------------------------------

    def _loaded(self, program: Program, counts: tuple[int, int] | None) -> LoadedExecutable:
        """Return a program ready to run; one that was built is for so many devices."""
        if isinstance(program, LoadedExecutable):
            if program.client is not self:
                raise HloError.at("bad-device", f"{program.name} is of another client")
            return program
        if isinstance(program, Module):
            return self.compile(program)
        replicas, partitions = counts or (1, 1)
        found = self._compiled.setdefault(program, {})
        if (replicas, partitions) not in found:
            found[replicas, partitions] = self.compile(
                program, num_replicas=replicas, num_partitions=partitions
            )
        return found[replicas, partitions]

    def _loaded_for(self, program: Program, counts: tuple[int, int]) -> LoadedExecutable:
        """Return a program ready to run on so many devices, if it does not say on how many."""
        if isinstance(program, Module) and program.device_counts == (1, 1):
            return self.compile(program, num_replicas=counts[0], num_partitions=counts[1])
        return self._loaded(program, counts)

    def _run(
        self, loaded: Sequence[LoadedExecutable], arguments: Sequence[Sequence[Any]],
        devices: Sequence[int], counts: tuple[int, int], timeout: float | None,
    ) -> list[GlobalData]:  # fmt: skip
        if timeout is not None:
            check_timeout(timeout)
        values = [
            bind_arguments(program.parameters, [self._value(a, device) for a in args])
            for program, device, args in zip(loaded, devices, arguments, strict=True)
        ]
        with ExitStack() as stack:
            for device in devices:
                stack.enter_context(self._busy[device])
            runs = [
                partial(p.on(d), v, timeout)
                for p, d, v in zip(loaded, devices, values, strict=True)
            ]
            hosts = [self.host_of(d) for d in devices]
            # What runs alone does so on this rank.
            others = None if counts == (1, 1) else self._world
            results = run_together(hosts, counts, runs, others)
        return [
            GlobalData(self, d, _actual(p.result_shape, r), r)
            for p, d, r in zip(loaded, devices, results, strict=True)
        ]

    # --- checks ---------------------------------------------------------------------------------

    def _value(self, argument: Any, device: int) -> Any:
        if not isinstance(argument, GlobalData):
            return argument
        self._need_own(argument)
        if argument.device != device:
            raise HloError.at(
                "bad-device", f"{argument!r} is an argument on device {device}",
                hint="transfer_to_server(transfer(data), device) copies it there",
            )  # fmt: skip
        return argument._value if self._machine is None else self._machine.taken(argument._value)

    def _put(self, value: Any) -> Any:
        """Return a value as it is kept: on a GPU in its memory."""
        return value if self._machine is None else self._machine.put(value)

    def _need_own(self, data: GlobalData) -> None:
        if not isinstance(data, GlobalData) or data.client is not self:
            raise HloError.at("bad-device", f"{data!r} is not on a device of this client")

    def _need_devices(self, count: int, counts: tuple[int, int]) -> None:
        if count > self.device_count:
            raise HloError.at(
                "bad-device", f"the run takes {_said(counts)}, the client has {self.device_count}",
                hint=f"hlo.Client(device_count={count})",
            )  # fmt: skip

    def host_of(self, device: int) -> Host:
        """Return what a device of this process has besides arguments: its queues, for one.

        >>> hlo.Client(device_count=2).host_of(1).infeed
        deque([])
        """
        return self.hosts[device - self.devices.start]

    def _need_device(self, device: int) -> None:
        if 0 <= device < self.device_count and device not in self.devices:
            raise HloError.at(
                "bad-device", f"device {device} is on another rank, this one has "
                f"{self.devices.start} to {self.devices.stop - 1}",
            )  # fmt: skip
        if not 0 <= device < self.device_count:
            raise HloError.at(
                "bad-device", f"there is no device {device}, the client has {self.device_count}"
            )


def _compiled(module: Module, options: dict[str, Any], host: Host) -> Start:
    executable = compile(module, **options, host=host)
    return lambda host: on_host(executable, host).run_values


def _checked(make: Callable[[], _T]) -> _T:
    """Return what a rule of the op table makes of a value. Raises HloError where it does not."""
    try:
        return make()
    except InferError as e:
        raise HloError.at(e.code, e.message, hint=e.hint) from None


def _named_counts(program: Program) -> tuple[int, int]:
    """Return the numbers of devices that a program names; a built one names none."""
    return (1, 1) if isinstance(program, XlaComputation) else program.device_counts


def _said(counts: tuple[int, int]) -> str:
    if prod(counts) == 1:
        return "one device"
    return f"{prod(counts)} devices ({counts[0]} replicas, {counts[1]} partitions)"


def _on_host(value: Any) -> Any:
    """Return a value with arrays of GPUs copied to the host."""
    if isinstance(value, tuple):
        return tuple(map(_on_host, value))
    return np.asarray(value) if hasattr(value, "__dlpack_device__") else value


def _actual(shape: Shape, value: Any) -> Shape:
    """Return the shape of a result, with the sizes that it has in place of bounds."""
    if not shape.is_dynamic:
        return shape
    return literal_of_result(value).shape
