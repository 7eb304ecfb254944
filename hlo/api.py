"""The library's front: what `import hlo` offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hlo import constants
from hlo.analysis.domains import domains_of
from hlo.analysis.elided import elided_constants
from hlo.arguments import Parameter, bind_call
from hlo.deadline import check_timeout
from hlo.distribution import Distributions
from hlo.eval import Host
from hlo.eval import interpret as evaluate
from hlo.files import read_bytes
from hlo.inputs import Sampler
from hlo.ir import Module
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.passes.validate import Validate
from hlo.signature import checked
from hlo.sources import read_module, write_module
from hlo.text import parse as parse_text
from hlo.trees import given_by
from hlo.values import DynamicArray
from hlo.verifier import verify as verify_module
from hlo.verifier import verify_as
from hlo.weights import bake_given


@checked
def parse(source: str, name: str = "<string>") -> Module:
    """Return the module that a text spells. `name` stands for the text in error messages.

    Raises HloError with all errors of the text. The module may still break rules that `verify`
    checks.
    """
    return parse_text(source, name)


@checked
def load(path: str | Path) -> Module:
    """Return the module in a file: HLO text, StableHLO text, or a proto, binary or text.

    The content says which it is, not the name of the file.

    Raises HloError if it cannot be read, for text with all its errors. The module may still break
    rules that `verify` checks.
    """
    return read_module(read_bytes(path), str(path))


@checked
def save(module: Module, path: str | Path) -> None:
    """Write a module to a file, as a proto for `.pb` and `.pbtxt`, as StableHLO for `.mlir`, as HLO
    text for other names.

    Raises HloError for an invalid module, one that the form cannot say, and where writing fails.
    """
    verify_module(module)
    write_module(path, module)


@checked
def to_proto(module: Module) -> bytes:
    """Return the bytes of a module's HloModuleProto, as XLA writes and reads it.

    Raises HloError for an invalid module and for what protos cannot say.
    """
    from hlo import proto  # not before it is needed: see `hlo.sources`

    verify_module(module)
    return proto.to_proto(module)


@checked
def to_stablehlo(module: Module) -> str:
    """Return a module as StableHLO text.

    Raises HloError for an invalid module and for what StableHLO cannot say.
    """
    from hlo import stablehlo  # not before it is needed: see `hlo.sources`

    verify_module(module)
    return stablehlo.to_stablehlo(module)


@checked
def from_proto(data: bytes, name: str = "<bytes>") -> Module:
    """Return the module in the bytes of a HloModuleProto, a HloProto or a HloSnapshot.

    name: stands for the bytes in error messages. Raises HloError at the offset of a byte. The
    module may still break rules that `verify` checks.
    """
    from hlo import proto

    return proto.from_proto(data, name)


@checked
def verify(module: Module, mode: str = "strict") -> None:
    """Check that a module is valid. Raises HloError with everything that is wrong.

    mode: `lenient` takes what XLA takes, where nothing that is computed depends on it.
    """
    verify_as(module, mode)


@checked
def optimize(
    module: Module, passes: str | Sequence[object] = "default", *, validate: bool = False,
    verify: str = "strict",
) -> Module:  # fmt: skip
    """Verify a module and run passes on it, in place; returns the module.

    passes: a pipeline as `a,b{opt=v},fix(c,d)`, or a list of such, of passes (`hlo.passes.Pass`,
    `Step`, `Fix`) and of functions that `hlo.passes.module_pass` registered; `default` is the one
    that `compile` uses, and fuses. validate: run the module before and after each pass, and raise
    HloError (`pass-changed-result`) naming the rule that changed a result. verify: as for
    `hlo.verify`.
    Raises HloError for an invalid module or pipeline, TypeError for what is no pass.
    """
    pipeline = pipeline_of(passes)  # type: ignore[arg-type]
    verify_as(module, verify)
    run_pipeline(module, pipeline, [Validate(module)] if validate else [])
    return module


def parameters_of(module: Module) -> list[Parameter]:
    """Return the parameters of a module's entry, as input files and specs address them."""
    return [Parameter(p.attrs["number"], p.name, p.shape) for p in module.entry.parameters]


@checked
def fill_constants(
    module: Module, source: str | Path, seed: int = 0, random: Sequence[str] = ()
) -> int:
    """Give elided constants, `constant({...})`, values, in place; returns how many got one.

    source: a file, npz or safetensors with a key for each instruction's name, or the module in any
    form in which the constants are whole; or `random`. Constants of which the file knows nothing
    stay as they are. seed, random: as for `random_inputs`; constants go by their instruction's
    name. Raises HloError.
    """
    return constants.fill(module, source, seed, random)


@checked
def bake_weights(module: Module, weights: Mapping[str, Any] | str | Path) -> int:
    """Make constants of parameters of a module's entry, in place; returns how many arrays.

    weights: arrays by the parameter's name, by the `op_name` of its metadata, or by its number (`3`
    or `arg3`); a leaf of a tuple has its place behind (`p.0`). Or a file of them, npz or
    safetensors, or a folder of npy files. The other parameters move up. Raises HloError, also for
    an invalid module and for a name that is no parameter's.
    """
    return bake_given(module, weights)


@checked
def random_inputs(module: Module, seed: int = 0, random: Sequence[str] = ()) -> list[Any]:
    """Return random arguments for a module's entry, tuples nested; the same for the same seed.

    random: distributions as of `hlo-run --random`: `normal`, `uniform`, `LO:HI` for all parameters,
    `PATTERN=...` for those of a name; by default numbers with which the module makes sense, as far
    as it shows: no negative variances, and indices inside of what they index. Raises HloError for
    an invalid module, a distribution that is none, and where memory does not suffice.
    """
    verify_module(module)
    sampler = Sampler(seed, Distributions(random), domains_of(module))
    return sampler.values(parameters_of(module))


def run_values(
    module: Module, values: Sequence[Any], host: Host | None = None, timeout: float | None = None
) -> Any:
    """Run a verified module on checked values; returns what `interpret` does.

    timeout: as of `interpret`.
    """
    return _visible(evaluate(module, values, host, timeout))


@checked
def interpret(
    module: Module, *args: Any, host: Host | None = None, verify: str = "strict",
    timeout: float | None = None, **named: Any,
) -> Any:  # fmt: skip
    """Verify a module and run it on the reference interpreter.

    args: one for each parameter of the entry, tuples nested, or all leaves flat; arrays of the
    parameter's dimensions and dtype, of numpy, JAX, PyTorch or any library that speaks DLPack, in
    logical order whatever the layout (see `hlo.pack` for physical buffers), or Python numbers and
    lists that convert exactly.
    verify: as for `hlo.verify`.
    timeout: seconds after which the run ends with HloError, code `timeout`, at the next operation:
    one that takes long itself comes to its end first.
    named: parameters by name, `interpret(module, x, w=w)`, but for those called like an argument of
    this function. A module of `from_jax` takes the arguments of the function too, and gives its
    result.
    Returns a numpy array, also for a scalar, or a tuple; an array of dynamic size has its actual
    size. Raises HloError for arguments that do not fit and operations that cannot run, TypeError
    for names that no parameter has. Warns
    (`ElidedConstantsWarning`) where results depend on constants whose values are elided.
    """
    if timeout is not None:
        check_timeout(timeout)
    verify_as(module, verify)
    if elided := elided_constants(module):
        constants.warn_of_elided([inst.name for inst in elided], 3)
    trees = module.usable_trees
    values = bind_call(parameters_of(module), args, named, trees)
    return given_by(trees, run_values(module, values, host, timeout))


def _visible(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_visible(v) for v in value)
    return value.actual if isinstance(value, DynamicArray) else value
