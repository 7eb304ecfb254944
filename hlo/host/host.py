"""The world outside a module: device numbers, queues, random state, custom-call targets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Protocol

from hlo.errors import HloError
from hlo.host import foreign, lapack
from hlo.host.exchange import Exchange, run_devices
from hlo.ops.collective.device_groups import Line
from hlo.ops.spec import OpView

Target = Callable[..., Any] | Mapping[int, Callable[..., Any]]

# Each replica has two to this random-number counters.
_REPLICA_BITS = 96


@dataclass
class Host:
    """What a run can access besides its arguments. A new one is a single device with empty queues.

    Attributes:
        custom_calls: target name -> `f(op, args) -> value`, on numpy arrays; for the callbacks of a
            JAX program, which share a target, `{number: f}` with `f(*arrays) -> arrays`.
        libraries: files of native functions, for targets not in `custom_calls`; see
            `hlo/include/hlo_ffi.h`. "process" is the process itself.
        infeed: values in the order they will be read.
        outfeed: values in the order they were written.
        channels: values sent and not yet received, by channel id.
        rng_state: the 128-bit counter of `rng-get-and-update-state`, which `rng` draws from too;
            each replica has its own part of the counters.
        replica_id: with `partition_id`, which device it is.
        exchange: connects it to the other devices of its run; None for a single device.
        receiving: by channel, the connections on which a receive has started; None for a device
            that receives nothing.

    >>> host = hlo.Host(custom_calls={"flip": lambda op, args: args[0][::-1].copy()})
    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[3] parameter(0)  ROOT y = f32[3] custom-call(x), custom_call_target="flip" }''')
    >>> hlo.interpret(module, [1, 2, 3], host=host)
    array([3., 2., 1.], dtype=float32)
    """

    custom_calls: dict[str, Target] = field(default_factory=dict)
    libraries: list[str] = field(default_factory=list)
    infeed: deque[Any] = field(default_factory=deque)
    outfeed: list[Any] = field(default_factory=list)
    channels: dict[int, deque[Any]] = field(default_factory=dict)
    rng_state: int = 0x7012395  # where XLA:CPU starts
    replica_id: int = 0
    partition_id: int = 0
    exchange: Exchange | None = None
    receiving: dict[int, deque[Line | None]] = field(default_factory=dict)
    device: int = field(default=0, init=False, repr=False)

    def begin(self, device: int, device_counts: tuple[int, int], exchange: Exchange | None) -> None:
        """Prepare for a run as one of its devices, which communicate through an exchange.

        device_counts: the numbers of replicas and of partitions of the run.
        """
        before = self.replica_id
        self.device = device
        self.replica_id, self.partition_id = divmod(device, device_counts[1])
        # The counters of replicas are so far apart that they never overlap.
        distance = (self.replica_id - before) << _REPLICA_BITS
        self.rng_state = (self.rng_state + distance) % 2**128
        self.exchange = exchange
        self.receiving.clear()

    def address_of(self, name: str) -> int | None:
        """Return the address of a custom-call target in the libraries. Raises HloError."""
        return foreign.address_of(self.libraries, name) if self.libraries else None

    @property
    def known_targets(self) -> list[str]:
        """Names of the custom calls that need no library."""
        return [*self.custom_calls, *lapack.lapack_targets()]

    def target_of(self, op: OpView) -> Callable[..., Any] | None:
        """Return the function of a custom call from the libraries, or LAPACK's.

        Raises HloError for a library that cannot be loaded, InferError where LAPACK is missing.
        """
        name = op.custom_call_target
        address = self.address_of(name)
        if address is not None:
            foreign.need_version(op)
            return partial(foreign.call, address)
        target = lapack.target(name)
        if target is not None:
            lapack.need_library()
        return target


# Each device is a thread. A larger count comes from a header that was not meant to run here.
MAX_DEVICES = 1024


def need_devices(device_counts: tuple[int, int]) -> None:
    """Raise HloError for more devices than one process can run."""
    count = prod(device_counts)
    if count > MAX_DEVICES:
        raise HloError.at(
            "too-large",
            f"the module runs on {count} devices ({device_counts[0]} replicas, {device_counts[1]} "
            f"partitions), {MAX_DEVICES} can run together here",
            hint="replica_count and num_partitions of the module say how many; "
            "--replicas and --partitions of hlo-run change them",
        )


class Others(Protocol):
    """The devices of other processes that take part in a run: `hlo.mpi.World`."""

    @property
    def devices(self) -> range:
        """The numbers of the devices of this process."""

    def need_counts(self, counts: tuple[int, int]) -> None:
        """Raise HloError unless there are as many devices as replicas times partitions."""

    def exchange(self) -> Exchange:
        """Return what connects those devices with each other and with all others in a run."""


def run_together(
    hosts: Sequence[Host], device_counts: tuple[int, int], runs: Sequence[Callable[[], Any]],
    others: Others | None = None,
) -> list[Any]:  # fmt: skip
    """Run a program on several devices at the same time; returns the result of each.

    device_counts: the numbers of replicas and of partitions: there is a host for each device, and a
    function that runs the program with it. others: with devices in other processes, hosts and
    functions are those of this process. Raises HloError, which names the device.
    """
    exchange: Exchange | None
    if others is None:
        need_devices(device_counts)
        devices = range(prod(device_counts))
        exchange = Exchange(devices) if len(devices) > 1 else None
    else:
        devices, exchange = others.devices, others.exchange()
    assert len(hosts) == len(runs) == len(devices)
    for device, host in zip(devices, hosts, strict=True):
        host.begin(device, device_counts, exchange)
    try:
        return [runs[0]()] if exchange is None else run_devices(exchange, devices, runs)
    finally:
        for host in hosts:
            host.exchange = None
