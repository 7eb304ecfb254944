"""`hlo.jax.transform`: our passes, and functions on our IR, inside XLA's own pipeline.

XLA calls one `_Stage` for each stage of its pipeline and choice of platforms. It reads the module,
runs the active transformations in order, and returns the module's bytes, or None if they are the
same: XLA then goes on with what it has.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from hlo.compiler.keys import sources
from hlo.errors import HloError, InferError, TextError
from hlo.frontends.proto.rewrite import Rewriter
from hlo.ir import Module
from hlo.jax.private import need_jax, transformations
from hlo.passes import Fix, Pass, Step, run_pipeline, step
from hlo.passes.default import pipeline_of
from hlo.passes.registry import registered
from hlo.passes.rules import unfused
from hlo.passes.validate import Validate
from hlo.support.signature import checked

Function = Callable[[Module], object]

# The stages of XLA's pipeline, by the names that JAX has for them.
STAGES = {"pre-scheduler": "PRE_SCHEDULER", "post-scheduler": "POST_SCHEDULER"}


@checked
def transform(
    passes: str | Sequence[object] | Function,
    *,
    stage: str = "pre-scheduler",
    platforms: str | Sequence[str] | None = None,
    validate: bool = False,
) -> Transform:
    """Run passes, or a function on the IR, on each module that XLA compiles for JAX from now on.

    Args:
        passes: a pipeline or a list of passes, as for `hlo.optimize`, or a function that takes a
            module: it may edit the module, or return another one in its place; anything else that
            it returns is kept as a report.
        stage: when XLA does this: `pre-scheduler`, after its optimizations, or `post-scheduler`,
            when the order of instructions is the order of execution.
        platforms: for which of JAX's platforms, such as `cpu`; by default for all that can.
        validate: run the module before and after each pass, as `hlo.optimize` does.

    Returns:
        A `Transform`, which is active until `remove()`; `with` removes it at the end, and inside of
        it functions that were compiled before are compiled again. Several are run in the order in
        which they were made.

    Raises:
        HloError: for an invalid pipeline or stage, a platform that there is not, and, code
            `missing-extra`, without JAX or with one that is too old.
        TypeError: for what is no pass.

    A module that is the same afterwards is not replaced. Parameters and result of the entry have to
    stay as they are. An exception in a pass ends the compilation: JAX raises its `JaxRuntimeError`,
    and a `with` statement the HloError itself.

    >>> import jax
    >>> def sines(module):
    ...     return sum(inst.opcode == "sine" for inst in module.instructions())
    >>> with hlo.jax.transform(sines, platforms="cpu") as transform:
    ...     jax.jit(jax.numpy.sin)(1.0)
    Array(0.84147096, dtype=float32, weak_type=True)
    >>> transform.runs[-1].module, transform.runs[-1].value
    ('jit_sin', 1)
    """
    need_jax("hlo.jax.transform")
    if stage not in STAGES:
        message = f"hlo.jax.transform: stage is {' or '.join(STAGES)}, not {stage!r}"
        raise HloError.at("bad-value", message)
    if platforms is not None:
        platforms = (platforms,) if isinstance(platforms, str) else tuple(platforms)
    made = Transform(passes, _stage(stage, platforms), validate)
    made.activate()
    return made


@dataclass(frozen=True)
class TransformRun:
    """What a transformation did to one module.

    module: its name. changed: whether it is another one now. value: what the function returned; of
    passes, how many rewrites they did.

    >>> import jax
    >>> with hlo.jax.transform("dce", platforms="cpu") as transform:
    ...     _ = jax.jit(jax.numpy.cos)(1.0)
    >>> transform.runs[-1].module, transform.runs[-1].changed
    ('jit_cos', False)
    """

    module: str
    changed: bool
    value: object


class Transform:
    """Passes, or a function, that XLA runs on each module; made by `hlo.jax.transform`.

    At the end of the last `with` that has it, it is removed.

    runs: what it did, by module, in the order of compilation. error: the last one that it raised.

    >>> import jax
    >>> with hlo.jax.transform(lambda module: len(module.entry.parameters), platforms="cpu") as t:
    ...     _ = jax.jit(jax.numpy.hypot)(3.0, 4.0)
    >>> t.runs[-1].value, t.error
    (2, None)
    """

    def __init__(
        self, passes: str | Sequence[object] | Function, stage: _Stage, validate: bool
    ) -> None:
        self.runs: list[TransformRun] = []
        self.error: HloError | None = None
        self._stage, self._validate = stage, validate
        self._function: Function | None = None
        self._pipeline: list[Step | Fix] = []
        if not callable(passes):
            self._pipeline = pipeline_of(passes)  # type: ignore[arg-type]
        elif registered(passes) is not None:
            self._pipeline = pipeline_of([passes])  # type: ignore[list-item]
        else:
            self._function = passes
        is_of_user = self._function is not None or any(map(_is_of_user, self._pipeline))
        # Names it in the keys of JAX's caches. The passes of others may do something else in the
        # next process under the same name.
        text = ",".join(map(str, self._pipeline))
        own = uuid.uuid4().bytes if is_of_user else sources().encode()
        self.key = f"{stage.name}:{text}:{hashlib.sha256(own).hexdigest()}"
        self._blocks = 0
        self._entered = threading.local()

    def __repr__(self) -> str:
        state = "active" if self in self._stage.active else "removed"
        return f"<Transform {self._what} at {self._stage.name}, {state}>"

    def activate(self) -> None:
        """Run on the modules that are compiled from now on."""
        self._stage.add(self)

    def remove(self) -> None:
        """Run on no other module. What was compiled stays as it is."""
        self._stage.remove(self)

    def __enter__(self) -> Self:
        self.activate()
        with _LOCK:
            self._blocks += 1
        self.error = None
        context = transformations.compiled_apart(_active_keys())
        context.__enter__()
        # Blocks may be inside of one another, and in several threads.
        self._entered.__dict__.setdefault("contexts", []).append(context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._entered.contexts.pop().__exit__(kind, error, traceback)
        with _LOCK:
            self._blocks -= 1
        if not self._blocks:
            self.remove()
        if self.error is not None and str(self.error) in str(error):
            raise self.error from error

    @property
    def _what(self) -> str:
        """Its function or its passes, by name."""
        if self._function is None:
            return ",".join(map(str, self._pipeline))
        return getattr(self._function, "__name__", type(self._function).__name__).strip("_")

    def run(self, rewriter: Rewriter) -> None:
        """Transform the module of a rewriter. Raises HloError."""
        module, values = rewriter.module, list[object]()
        entry = module.entry
        outside = (entry.parameter_shapes, entry.result_shape)
        pipeline = self._pipeline
        if self._function is not None:
            pipeline = [Step(_as_pass(self._function, self._what, values.append))]
        observers = [Validate(module)] if self._validate else []
        with _kept_copies(module) if self._function is None else nullcontext():
            runs = run_pipeline(module, pipeline, observers)
        entry = module.entry
        if (entry.parameter_shapes, entry.result_shape) != outside:
            raise HloError.at(
                "signature-mismatch", f"the entry is {entry.signature} after {self._what}, which "
                "has to keep its parameters and its result: JAX passes what it has compiled for",
            )  # fmt: skip
        value = values[0] if values else sum(len(run.rewrites) for run in runs)
        changed = rewriter.update()
        if changed and _restore_invariants(module):
            rewriter.update()
        self.runs.append(TransformRun(module.name, changed, value))


def _restore_invariants(module: Module) -> bool:
    """Give a module what XLA's buffer assignment relies on, and no later pass of XLA provides.

    Returns whether it changed.
    """
    pipeline = [step("flatten_call_graph"), step("copy_insertion")]
    return any(run.changed for run in run_pipeline(module, pipeline))


@contextmanager
def _kept_copies(module: Module) -> Iterator[None]:
    """Keep passes from removing copies, or from taking two of them for one.

    At both stages XLA has inserted the copies that its buffer assignment relies on. A dependence on
    what is copied says nothing, but passes leave instructions with control dependences alone.
    """
    for comp in unfused(module):
        for inst in comp:
            if inst.opcode == "copy":
                inst.add_control_predecessor(inst.operands[0])
    yield
    for inst in module.instructions():
        if inst.opcode == "copy" and inst.operands[0] in inst.control_predecessors:
            inst.remove_control_predecessor(inst.operands[0])


def _as_pass(function: Function, name: str, keep: Callable[[object], None]) -> Pass:
    """Return the pass that calls a function on a module.

    keep: takes what the function returns, None for a module.
    """

    @functools.wraps(function)
    def run(module: Module, _: object) -> None:
        result = function(module)
        if isinstance(result, Module) and result is not module:
            module.assign(result)
        keep(None if isinstance(result, Module) else result)

    # So that it counts as a user's, whatever kind of object the function is.
    run.__module__ = getattr(function, "__module__", None) or "__main__"
    return Pass(name, "", {}, run)


def _is_of_user(item: Step | Fix) -> bool:
    if isinstance(item, Fix):
        return any(map(_is_of_user, item.steps))
    return item.spec.is_of_user


# --- what XLA calls -----------------------------------------------------------------------------

# Stages last as long as the process: XLA may be about to call one that is removed.
_STAGES: dict[tuple[str, tuple[str, ...] | None], _Stage] = {}
_LOCK = threading.Lock()


def _stage(name: str, platforms: tuple[str, ...] | None) -> _Stage:
    with _LOCK:
        return _STAGES.setdefault((name, platforms), _Stage(name, platforms))


def _active_keys() -> tuple[str, ...]:
    """Return the keys of the transformations that are active."""
    return tuple(t.key for stage in list(_STAGES.values()) for t in stage.active)


class _Stage:
    """The transformations at one stage of XLA's pipeline, for some platforms.

    active: those that are run, in order; replaced as a whole, since XLA compiles in threads.
    """

    def __init__(self, name: str, platforms: tuple[str, ...] | None) -> None:
        self.name = name
        self.active: tuple[Transform, ...] = ()
        self._registration = transformations.Registration(
            self, f"hlo.jax.transform {platforms}", STAGES[name], platforms
        )

    def add(self, transform: Transform) -> None:
        with _LOCK:
            transformations.add_to_cache_key(_cache_key)
            if transform not in self.active:
                self._registration.add()
                self.active += (transform,)

    def remove(self, transform: Transform) -> None:
        with _LOCK:
            self.active = tuple(t for t in self.active if t is not transform)
            if not self.active:
                self._registration.remove()

    def __call__(self, data: bytes) -> bytes | None:
        active = self.active
        if not active:
            return None
        transform, name = active[0], "of XLA"
        try:
            rewriter = Rewriter(data)
            name = rewriter.module.name
            with transformations.no_compilation():
                for transform in active:
                    transform.run(rewriter)
            return rewriter.data
        except HloError as e:
            error = _in_module(e, name)
        except (InferError, TextError) as e:  # of the reader and the writer
            error = HloError.at(e.code, f"module {name}: {e.message}", None, e.hint)
        transform.error = error
        raise error from None


def _cache_key() -> str:
    return "".join(_active_keys())


def _in_module(error: HloError, name: str) -> HloError:
    """Return an error that names the module as well."""
    first, *others = error.diagnostics
    first = dataclasses.replace(first, message=f"module {name}: {first.message}")
    return HloError([first, *others])
