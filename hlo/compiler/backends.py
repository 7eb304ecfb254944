"""What runs modules besides native code: the reference interpreter, and machines of other packages.

A package registers a machine by an entry point of the group `hlo.targets`, whose object is a
`Backend`, or a class of one that takes no arguments:

    [project.entry-points."hlo.targets"]
    mine = "my_package:Mine"

`hlo-run --backend mine`, `hlo.compile(module, target="mine")` and `hlo.Client(backend="mine")` run
modules on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, NoReturn

from hlo.analysis.devices import devices_of, unused_devices
from hlo.analysis.domains import domains_of
from hlo.analysis.elided import elided_constants
from hlo.analysis.strict_math import has_strict_math
from hlo.compiler.lowering import Clock, parameters_of
from hlo.compiler.planned import Backend, Call, Execute, Loaded, PlannedBackend, Run, Start
from hlo.errors import HloError
from hlo.eval import run_values
from hlo.host import Host
from hlo.io.arguments import bind_call, known_bytes
from hlo.io.notebook import program_html
from hlo.ir import Module
from hlo.lenient import verified
from hlo.support.deadline import check_timeout
from hlo.support.trees import Trees, given_by
from hlo.support.user_code import located
from hlo.values.types import Shape, signature_text

if TYPE_CHECKING:
    from hlo.compiler.gpu import Machine
    from hlo.runtime.cache import Cache

GROUP = "hlo.targets"
NATIVE, REFERENCE = "compiled", "reference"
# This machine's processor, by what code for it is called as a target.
PROCESSOR = "cpu"
GPU, GPU_EMULATED = "gpu", "gpu-emulated"
BUILT_IN = (NATIVE, REFERENCE, GPU, GPU_EMULATED)


class Interpreter(Backend):
    """The reference interpreter, which runs the module itself, without passes."""

    has_strict_math = True

    def load(self, module: Module, passes: str, verify: str, clock: Clock) -> Loaded:
        with clock("verify"):
            module = verified(module, verify)

        def run(host: Host, values: Sequence[Any], timeout: float | None) -> Any:
            return run_values(module, values, host, timeout)

        results = {"results": known_bytes(module.entry.result_shape)}
        return Loaded(lambda host: partial(run, host), working_bytes=results)


# --- which there are ----------------------------------------------------------------------------


def names() -> list[str]:
    """Return the names of all backends: those built in, then those of packages."""
    registered = {e.name for e in entry_points(group=GROUP)}
    return [*BUILT_IN, *sorted(registered.difference(BUILT_IN))]


def need_name(name: str) -> None:
    """Raise HloError, code `bad-value`, unless there is a backend of that name."""
    if name not in BUILT_IN and not entry_points(group=GROUP, name=name):
        raise HloError.at(
            "bad-value", f"{name!r} is not a backend",
            hint=f"one of {', '.join(names())}",
        )  # fmt: skip


def backend_of(target: str, backend: str | None) -> str:
    """Return the backend for a machine.

    target: `cpu`, this processor, or the name of the backend that is the machine. backend: as
    given beside it. Raises HloError, code `bad-value`.
    """
    machines = [PROCESSOR, *(n for n in names() if n not in (NATIVE, REFERENCE))]
    if target not in machines:
        raise HloError.at(
            "bad-value", f"target {target!r} is not a machine that code runs on here",
            hint=f"one of {', '.join(machines)}; hlo-compile writes code for others",
        )  # fmt: skip
    found = NATIVE if target == PROCESSOR else target
    if backend not in (None, found):
        raise HloError.at(
            "bad-value", f"target {target!r} is backend {found!r}, but backend is {backend!r}",
            hint="give one of them",
        )  # fmt: skip
    return found


def machine_of(name: str) -> Machine | None:
    """Return the machine of a backend that keeps data in memory of its own, None for others.

    Raises HloError, code `no-device`, if it is not there.
    """
    if name not in (GPU, GPU_EMULATED):
        return None
    from hlo.compiler.gpu import emulated, real

    return real() if name == GPU else emulated()


def _found(name: str, store: Cache | None) -> tuple[Backend, str]:
    """Return a backend other than native code, and what errors are to call it."""
    if name == REFERENCE:
        return Interpreter(), ""
    machine = machine_of(name)
    if machine is not None:
        from hlo.compiler.gpu import GpuBackend

        return GpuBackend(machine, store), ""
    need_name(name)
    first, *others = entry_points(group=GROUP, name=name)
    said = f"backend {name!r} of {_origin(first)}"
    if others:
        raise HloError.at(
            "bad-backend", f"backend {name!r} is registered by {_origin(first)} and "
            f"by {' and by '.join(map(_origin, others))}",
        )  # fmt: skip
    with _guarded(said):
        found = first.load()
        if isinstance(found, type) and issubclass(found, Backend):
            found = found()
    if not isinstance(found, Backend):
        raise HloError.at(
            "bad-backend",
            f"{said}: {first.value} is neither an hlo.compiler.backends.Backend nor a class of one",
        )
    return found, said


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


@contextmanager
def _guarded(said: str) -> Iterator[None]:
    """Make what goes wrong in another package an error that names it."""
    try:
        yield
    except (HloError, MemoryError):
        raise
    except (Exception, SystemExit) as e:
        raise HloError.at("bad-backend", f"{said}: {located(e)}") from e


# --- loaded modules -----------------------------------------------------------------------------


class LoadedModule:
    """A module on a backend, called as an `Executable` is: `hlo.compile` returns it.

    It takes an argument for each parameter, as arrays, Python numbers or lists, tuples nested or
    all array leaves flat, also by name; and returns numpy arrays.

    Args:
        timeout: seconds after which a call ends with HloError, code `timeout`, at the next kernel
            or operation.

    On a GPU, arrays that are there already, of this or another library, are used in place; then,
    and with `device_results=True` at compilation, results are `hlo.gpu.arrays.DeviceArray`s.

    Raises:
        HloError: for arguments that do not fit, and where the run fails.
        TypeError: for names that no parameter has.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> run = hlo.compile(module, backend="reference")
    >>> run(4), run(x=np.float32(9))
    (array(2., dtype=float32), array(3., dtype=float32))
    """

    def __init__(
        self, module: Module, backend: str, loaded: Loaded, said: str, device_results: bool = False
    ) -> None:
        self.name, self.backend = module.name, backend
        self.parameters = parameters_of(module)
        # Those of the module's stack frames.
        self.tables = module.tables
        self.result_shape: Shape = module.program_shapes[1]
        # The numbers of replicas and of partitions that a run needs.
        self.device_counts = devices_of(module)
        self.unused_devices = unused_devices(module)
        self.domains = domains_of(module)
        self.elided = tuple(inst.name for inst in elided_constants(module))
        self.cost, self.working_bytes = loaded.cost, loaded.working_bytes
        self.trees: Trees | None = None
        self.compile_seconds: dict[str, float] = {}
        self._start, self._said, self._taken = loaded.start, said, loaded.taken
        # For profiles, where the machine times launches: see `Loaded`.
        self.timed, self.kernels = loaded.timed, loaded.kernels
        if device_results and loaded.start_resident is not None:
            self._start = loaded.start_resident
        self._run = self.on(Host())

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self.name} is loaded on {self.backend} by this process: copy or pickle its module, "
            "and compile it"
        )

    def on(self, host: Host) -> Run:
        """Return the function that runs the program beside a host."""
        if not self._said:
            return self._start(host)
        with _guarded(self._said):
            run = self._start(host)

        def guarded(values: Sequence[Any], timeout: float | None = None) -> Any:
            with _guarded(self._said):
                return run(values, timeout)

        return guarded

    def beside(self, host: Host) -> LoadedModule:
        """Return the program as another device runs it."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._run = self.on(host)
        return other

    def __call__(self, *args: Any, timeout: float | None = None, **named: Any) -> Any:
        """Run on arguments; see the class."""
        if timeout is not None:
            check_timeout(timeout)
        taken = self._taken
        args, named = tuple(map(taken, args)), {n: taken(v) for n, v in named.items()}
        values = bind_call(self.parameters, args, named, self.trees)
        result = self._run(values, timeout)
        return result if self.trees is None else given_by(self.trees, result)

    def run_values(self, values: Sequence[Any], timeout: float | None = None) -> Any:
        """Run on one checked value for each parameter, as `bind_arguments` returns them."""
        return self._run(values, timeout)

    def _repr_html_(self) -> str:
        return program_html(repr(self).strip("<>"), self.parameters, self.result_shape)

    def __repr__(self) -> str:
        named = ((p.name, p.shape) for p in self.parameters)
        text = signature_text(named, self.result_shape)
        return f"<LoadedModule {self.name} on {self.backend}: {text}>"


def load(
    module: Module, backend: str, *, host: Host | None = None, passes: str = "default",
    verify: str = "strict", clock: Clock | None = None, device_results: bool = False,
    store: Cache | None = None,
) -> LoadedModule:  # fmt: skip
    """Return a module on a backend other than native code, ready to run.

    passes, verify, host, device_results: as for `hlo.compile`. Raises HloError: for no such backend
    (`bad-value`), one that does not work (`bad-backend`), and a module that it cannot run. store:
    where programs for GPUs are kept.
    """
    clock = clock or Clock()
    if host is not None and host.custom_calls:
        from hlo.compiler.binding import with_functions_of

        module = with_functions_of(host, module)
    found, said = _found(backend, store)
    if has_strict_math(module) and not found.has_strict_math:
        raise HloError.at("unsupported", f"backend {backend!r} has no strict arithmetic")
    if said:
        with _guarded(said):
            loaded = found.load(module, passes, verify, clock)
        if not isinstance(loaded, Loaded):
            raise HloError.at(
                "bad-backend", f"{said}: load does not return an hlo.compiler.backends.Loaded"
            )
    else:
        loaded = found.load(module, passes, verify, clock)
    program = LoadedModule(module, backend, loaded, said, device_results)
    program.compile_seconds = clock.seconds
    return program if host is None else program.beside(host)


__all__ = [
    "Backend", "Call", "Execute", "Interpreter", "Loaded", "LoadedModule", "PlannedBackend", "Run",
    "Start", "load", "names", "need_name",
]  # fmt: skip
