"""The library's front: what `import hlo` offers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hlo.analysis.domains import domains_of
from hlo.analysis.elided import elided_constants
from hlo.compiler import constants
from hlo.compiler.weights import bake_given
from hlo.debug.divergence.record import Divergence
from hlo.debug.trace.finding import Finding
from hlo.debug.trace.record import Trace
from hlo.eval import Host, run_values
from hlo.frontends.programs import takes_programs
from hlo.frontends.sources import read_module, write_module
from hlo.frontends.text import parse as parse_text
from hlo.io.arguments import Parameter, bind_call
from hlo.io.files import write_text
from hlo.io.inputs import Sampler
from hlo.io.module_files import read_file
from hlo.io.random import Distributions
from hlo.ir import Module
from hlo.lenient import verified, verify_as, verify_in_place
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of, pipeline_text
from hlo.passes.validate import Validate
from hlo.support.deadline import check_timeout
from hlo.support.signature import checked
from hlo.support.trees import given_by
from hlo.verifier import verify as verify_module


@checked
def parse(source: str, name: str = "<string>") -> Module:
    """Return the module that a text spells.

    The module may still break rules that `verify` checks.

    Args:
        source: HLO text.
        name: stands for the text in error messages.

    Raises:
        HloError: with all errors of the text.

    >>> hlo.parse("HloModule seven ENTRY e { ROOT c = s32[] constant(7) }")
    <Module seven: () -> s32[], 1 instruction in 1 computation>
    >>> hlo.parse("HloModule seven ENTRY e { ROOT c = s32[] konstant(7) }", "seven.hlo")
    Traceback (most recent call last):
    hlo.errors.HloError: seven.hlo:1:42: error: unknown opcode 'konstant' [unknown-opcode]
      HloModule seven ENTRY e { ROOT c = s32[] konstant(7) }
                                               ^^^^^^^^
      hint: did you mean 'constant'?
    """
    return parse_text(source, name)


@checked
def load(path: str | Path) -> Module:
    """Return the module in a file: HLO text, StableHLO text, or a proto, binary or text.

    The content says which it is, not the name of the file. The module may still break rules that
    `verify` checks.

    Raises:
        HloError: if the file cannot be read; for text, with all its errors.

    >>> hlo.save(hlo.parse("HloModule seven ENTRY e { ROOT c = s32[] constant(7) }"), "seven.pb")
    >>> hlo.load("seven.pb")
    <Module seven: () -> s32[], 1 instruction in 1 computation>
    """
    return read_module(*read_file(path))


@takes_programs
@checked
def save(module: Module, path: str | Path) -> None:
    """Write a module to a file, in the form that the name's end says.

    Args:
        module: a valid module.
        path: `.pb` and `.pbtxt` are protos, `.mlir` is StableHLO, `.mlirbc` a portable
            artifact of it, any other name HLO text.

    Raises:
        HloError: for an invalid module, one that the form cannot express, and where writing fails.

    >>> module = hlo.parse("HloModule seven ENTRY e { ROOT c = s32[] constant(7) }")
    >>> hlo.save(module, "seven.mlir")
    >>> import pathlib
    >>> print(pathlib.Path("seven.mlir").read_text())
    module @seven {
      func.func public @main() -> (tensor<i32>) {
        %0 = "stablehlo.constant"() <{value = dense<7> : tensor<i32>}> : () -> tensor<i32>
        return %0 : tensor<i32>
      }
    }
    <BLANKLINE>
    """
    verify_module(module)
    write_module(path, module)


@takes_programs
@checked
def to_proto(module: Module) -> bytes:
    """Return the bytes of a module's HloModuleProto, as XLA writes and reads it.

    Raises:
        HloError: for an invalid module, and for what protos cannot express.

    >>> data = hlo.to_proto(hlo.parse("HloModule seven ENTRY e { ROOT c = s32[] constant(7) }"))
    >>> b"seven" in data, hlo.from_proto(data)
    (True, <Module seven: () -> s32[], 1 instruction in 1 computation>)
    """
    from hlo.frontends import proto  # not before it is needed: see `hlo.sources`

    verify_module(module)
    return proto.to_proto(module)


@takes_programs
@checked
def to_stablehlo(module: Module) -> str:
    """Return a module as StableHLO text.

    Raises:
        HloError: for an invalid module, and for what StableHLO cannot express.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }")
    >>> print(hlo.to_stablehlo(module))
    module @m {
      func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {
        %0 = "stablehlo.abs"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }
    }
    <BLANKLINE>
    """
    from hlo.frontends import stablehlo  # not before it is needed: see `hlo.sources`

    verify_module(module)
    return stablehlo.to_stablehlo(module)


@takes_programs
@checked
def to_portable_artifact(module: Module, version: str | None = None) -> bytes:
    """Return a module as a portable artifact of StableHLO, as `from_stablehlo` and jaxlib's
    `deserialize_portable_artifact` read it: MLIR bytecode in the dialect VHLO.

    Args:
        module: a valid module.
        version: the version of StableHLO that reads the artifact, and later ones: `1.0.0` to
            `1.20.0`. Without one it is the oldest that has all that the module has.

    Raises:
        HloError: for an invalid module, for a version that is not known, and for what StableHLO, or
            that version of it, cannot express.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }")
    >>> data = hlo.to_portable_artifact(module)
    >>> data[5:21], hlo.from_stablehlo(data).entry.root
    (b'StableHLO_v1.0.0', <Instruction abs = f32[2]{0} abs(arg0)>)
    """
    from hlo.frontends import stablehlo  # not before it is needed: see `hlo.sources`

    verify_module(module)
    return stablehlo.to_portable_artifact(module, version)


@checked
def from_proto(data: bytes, name: str = "<bytes>") -> Module:
    """Return the module in the bytes of a HloModuleProto, a HloProto or a HloSnapshot.

    The module may still break rules that `verify` checks.

    Args:
        data: a binary proto.
        name: stands for the bytes in error messages.

    Raises:
        HloError: at the offset of a byte.

    >>> module = hlo.parse("HloModule seven ENTRY e { ROOT c = s32[] constant(7) }")
    >>> hlo.from_proto(hlo.to_proto(module)).entry.root
    <Instruction c = s32[] constant()>
    """
    from hlo.frontends import proto

    return proto.from_proto(data, name)


@takes_programs
@checked
def verify(module: Module, mode: str = "strict") -> None:
    """Check that a module is valid.

    Args:
        module: any module.
        mode: `strict`, or `lenient`, which takes what XLA takes, where nothing that is computed
            depends on it.

    Raises:
        HloError: with everything that is wrong.

    >>> text = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[3] negate(x) }"
    >>> hlo.verify(hlo.parse(text))
    Traceback (most recent call last):
    hlo.errors.HloError: <string>:1:52: error: y: negate: the result is f32[3], ... [shape-mismatch]
    ...
    """
    verify_as(module, mode)


@takes_programs
@checked
def optimize(
    module: Module, passes: str | Sequence[object] = "default", *, validate: bool = False,
    verify: str = "strict", inplace: bool = False,
) -> Module:  # fmt: skip
    """Verify a module and run passes on a copy of it; returns that.

    Args:
        module: the module; it stays as it is, unless `inplace` is set.
        passes: a pipeline as `a,b{opt=v},fix(c,d)`, or a list of such, of passes
            (`hlo.passes.Pass`, `hlo.passes.Step`, `hlo.passes.Fix`) and of functions that
            `hlo.passes.module_pass` registered; `default` is the one that `compile` uses, and
            fuses.
        validate: run the module before and after each pass, and raise HloError
            (`pass-changed-result`) naming the rule that changed a result.
        verify: as for `hlo.verify`.
        inplace: change the module itself, and return it.

    Raises:
        HloError: for an invalid module or pipeline.
        TypeError: for what is no pass.

    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[2] parameter(0)  y = f32[2] negate(x)  ROOT z = f32[2] negate(y) }''')
    >>> optimized = hlo.optimize(module, "algsimp,dce")
    >>> optimized.entry.root
    <Instruction x = f32[2]{0} parameter()>
    >>> hlo.diff(module, optimized).summary
    '2 removed'
    """
    pipeline = pipeline_of(passes)  # type: ignore[arg-type]
    module = module if inplace else module.clone()
    verify_in_place(module, verify)
    run_pipeline(module, pipeline, [Validate(module)] if validate else [])
    return module


def parameters_of(module: Module) -> list[Parameter]:
    """Return the parameters of a module's entry, as input files and specs address them."""
    return [Parameter(p.parameter_number, p.name, p.shape) for p in module.entry.parameters]


@checked
def fill_constants(
    module: Module, source: str | Path, seed: int = 0, random: Sequence[str] = ()
) -> int:
    """Give elided constants, `constant({...})`, values, in place; returns how many got one.

    Args:
        module: a module whose text was printed without large constants.
        source: a file, npz or safetensors with a key for each instruction's name, or the module in
            any form in which the constants are whole; or `random`. Constants of which the file
            knows nothing stay as they are.
        seed: as for `random_inputs`.
        random: as for `random_inputs`; constants go by their instruction's name.

    Raises:
        HloError: for a file that cannot be read, and values of another shape or type.

    >>> module = hlo.parse("HloModule m ENTRY e { ROOT c = f32[3] constant({...}) }")
    >>> np.savez("weights.npz", c=np.float32([1, 2, 3]))
    >>> hlo.fill_constants(module, "weights.npz"), module.entry.root.literal
    (1, Literal(f32[3] {1, 2, 3}))
    """
    return constants.fill(module, source, seed, random)


@checked
def bake_weights(module: Module, weights: Mapping[str, Any] | str | Path) -> int:
    """Make constants of parameters of a module's entry, in place; returns how many arrays.

    The other parameters move up.

    Args:
        module: a valid module.
        weights: arrays by the parameter's name, by the `op_name` of its metadata, or by its number
            (`3` or `arg3`); a leaf of a tuple has its place behind (`p.0`). Or a file of them, npz
            or safetensors, or a folder of npy files. Each has its parameter's dimensions and type.

    Raises:
        HloError: for an invalid module, a name that is no parameter's, and arrays that do not fit.

    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[2] parameter(0)  w = f32[2] parameter(1)  ROOT y = f32[2] multiply(x, w) }''')
    >>> hlo.bake_weights(module, {"w": np.float32([10, 100])})
    1
    >>> hlo.interpret(module, [1, 2])
    array([ 10., 200.], dtype=float32)
    """
    return bake_given(module, weights)


@takes_programs
@checked
def random_inputs(module: Module, seed: int = 0, random: Sequence[str] = ()) -> list[Any]:
    """Return random arguments for a module's entry, tuples nested; the same for the same seed.

    Args:
        module: a valid module.
        seed: any integer.
        random: distributions as of `hlo-run --random`: `normal`, `uniform`, `LO:HI` for all
            parameters, `PATTERN=...` for those of a name; by default numbers with which the module
            makes sense, as far as it shows: no negative variances, and indices in bounds.

    Raises:
        HloError: for an invalid module, a distribution that is none, and where memory does not
            suffice.

    >>> module = hlo.parse('''HloModule m ENTRY e { x = f32[9] parameter(0)  i = s32[] parameter(1)
    ...   ROOT y = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1} }''')
    >>> x, i = hlo.random_inputs(module, seed=1)
    >>> x.shape, bool(0 <= i < 9)
    ((9,), True)
    """
    verify_module(module)
    sampler = Sampler(seed, Distributions(random), domains_of(module))
    return sampler.values(parameters_of(module))


@takes_programs
@checked
def interpret(
    module: Module, *args: Any, host: Host | None = None, verify: str = "strict",
    timeout: float | None = None, **named: Any,
) -> Any:  # fmt: skip
    """Verify a module and run it on the reference interpreter, which is slow and exact.

    Args:
        module: the module; it stays as it is.
        args: one for each parameter of the entry, tuples nested, or all leaves flat; arrays of the
            parameter's dimensions and dtype, of numpy, JAX, PyTorch or any library that speaks
            DLPack, in logical order whatever the layout (see `hlo.pack` for physical buffers), or
            Python numbers and lists that convert exactly.
        host: custom calls, queues and random state that the module uses; by default a fresh one.
        verify: as for `hlo.verify`.
        timeout: seconds after which the run ends with HloError, code `timeout`, at the next
            operation: one that takes long itself comes to its end first.
        named: parameters by name, `interpret(module, x, w=w)`, but for those called like an
            argument of this function. A module of `from_jax` takes the arguments of the function
            too, and gives its result.

    Returns:
        A numpy array, also for a scalar, or a tuple; an array of dynamic size has its actual size.

    Raises:
        HloError: for an invalid module, arguments that do not fit, and operations that cannot run.
        TypeError: for names that no parameter has.

    Warns (`ElidedConstantsWarning`) where results depend on constants whose values are elided.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }")
    >>> hlo.interpret(module, [1, -2]), hlo.interpret(module, x=np.float32([-0.0, np.inf]))
    (array([1., 2.], dtype=float32), array([ 0., inf], dtype=float32))
    """
    if timeout is not None:
        check_timeout(timeout)
    module = verified(module, verify)
    if elided := elided_constants(module):
        constants.warn_of_elided([inst.name for inst in elided])
    trees = module.usable_trees
    values = bind_call(parameters_of(module), args, named, trees)
    return given_by(trees, run_values(module, values, host, timeout))


@takes_programs
@checked
def trace(
    module: Module, *args: Any, backend: str = "compiled",
    passes: str | Sequence[object] = "default",
    select: Sequence[str] = (), arrays: bool = False, host: Host | None = None,
    threads: int | None = None, verify: str = "strict", **named: Any,
) -> Trace:  # fmt: skip
    """Run a module and return what its instructions computed, in order, in loops by iteration.

    Args:
        module: the module; it stays as it is.
        args: as for `interpret`; several devices get the same.
        backend: `compiled`, native code, or `reference`, the interpreter.
        passes: as for `compile`: the trace is of the module that they make; none if empty.
        select: patterns of names, with * and ?, or of other kinds, `opcode=exp*`, `computation=`,
            `op_name=`, and `iteration=3:5` of the innermost loop. Without, all of the interpreter's
            values, and of native code those that it stores: not what is fused.
        arrays: keep the values, too, not only what is in them.
        host: as for `interpret`; it stays as it is.
        threads: as for `compile`.
        verify: as for `verify`.
        named: parameters by name.

    Returns:
        An `hlo.debug.trace.record.Trace`: `values`, each with `path`, `statistics` and `array`;
        `save` and `load` keep it in an npz.

    Raises:
        HloError: as `compile` and `interpret`, and for a selection that is none.

    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[2] parameter(0)  y = f32[2] log(x)  ROOT z = f32[2] negate(y) }''')
    >>> found = hlo.trace(module, [1, 0], backend="reference", select=["opcode=log"])
    >>> [(v.path, v.statistics.max, v.statistics.infs) for v in found.values]
    [('y', 0.0, 1)]
    """
    from hlo.debug.trace.selection import Selection  # compiles: not before it is needed
    from hlo.debug.trace.tracing import trace_values

    values = bind_call(parameters_of(module), args, named, module.usable_trees)
    return trace_values(
        module, [values] * math.prod(module.device_counts), backend=backend,
        passes=pipeline_text(passes),  # type: ignore[arg-type]
       
        select=Selection.of(select), arrays=arrays, host=host, threads=threads, verify=verify,
    )  # fmt: skip


@takes_programs
@checked
def find_nan(
    module: Module, *args: Any, backend: str = "compiled",
    passes: str | Sequence[object] = "default",
    host: Host | None = None, threads: int | None = None, verify: str = "strict", **named: Any,
) -> Finding | None:  # fmt: skip
    """Run a module and return the first instruction that makes a NaN or an infinity.

    A NaN counts where no operand has a NaN, an infinity where all operands are finite.

    Args:
        module: the module; it stays as it is.
        args: as for `interpret`; several devices get the same.
        backend: `compiled`, native code, or `reference`, the interpreter.
        passes: as for `compile`; if only what they make of the module has a NaN, that is found.
        host: as for `interpret`; it stays as it is.
        threads: as for `compile`.
        verify: as for `verify`.
        named: parameters by name.

    Returns:
        An `hlo.debug.trace.finding.Finding`: `path`, `operands`, `value`, `location`, a runnable
        `module` of the instruction and its `inputs`; None if nothing makes any. Where none is
        made, but a parameter or constant has a NaN, it is that.

    Raises:
        HloError: as `compile` and `interpret`.

    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[2] parameter(0)  y = f32[2] log(x)  ROOT z = f32[2] negate(y) }''')
    >>> found = hlo.find_nan(module, [1, -3], backend="reference")
    >>> found.path, found.kind, found.index, hlo.interpret(found.module, *found.inputs)
    ('y', 'nan', (1,), array([ 0., nan], dtype=float32))
    """
    from hlo.debug.trace.nan import find_nan_values

    values = bind_call(parameters_of(module), args, named, module.usable_trees)
    return find_nan_values(
        module, [values] * math.prod(module.device_counts), backend=backend,
        passes=pipeline_text(passes),  # type: ignore[arg-type]
       
        host=host, threads=threads, verify=verify,
    )  # fmt: skip


@takes_programs
@checked
def report(
    module: Module, path: str | Path, *, passes: str = "default", profile: Any = None,
    device: str | None = None, verify: str = "strict",
) -> None:  # fmt: skip
    """Write a page with all there is to know of a module, which opens offline in a browser.

    It has a summary, the graph, a table of all instructions, a roofline, the memory of compiled
    code over time, what each pass changes, and shardings and collectives if there are any.

    Args:
        module: the module; it stays as it is.
        path: the HTML file.
        passes: the pipeline whose changes it shows.
        profile: measured times: what `hlo.profile` returned, its JSON, or the name of a file of
            `hlo-run --profile=FILE.json`; None for none.
        device: a GPU that need not be here, `h100`: times are estimated for it, the summary has a
            line for each kernel, and the roofline is the device's. Not with a profile.
        verify: as for `hlo.verify`.

    Raises:
        HloError: for an invalid module or pipeline, what is no profile, a device that is not known,
            and files that cannot be read or written.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] abs(x) }")
    >>> hlo.report(module, "m.html")
    >>> hlo.report(module, "m.html", device="h100")
    """
    from hlo.reports.html import read_profile, report_page  # not before it is needed

    module = verified(module, verify)
    measured = read_profile(profile)
    write_text(path, report_page(module, passes=passes, profile=measured, device=device))


@takes_programs
def reduce(
    module: Module, test: Callable[[Module], bool] | str, *, jobs: int | None = None,
    timeout: float | None = None,
) -> Module:  # fmt: skip
    """Return the smallest module on which a test still fails.

    Outputs, instructions, computations and loops are removed, dimensions, constants, types and
    attributes become simpler. Each module that is tested is valid, and what its own text gives back
    when it is parsed; so is the result.

    Args:
        module: a valid module; it stays as it is.
        test: a function that returns True for a module that is still wrong, and False for others;
            it has to return the same for the same module. Or `check` (native code and the
            interpreter differ), `find-nan` (an instruction makes a NaN or an infinity on random
            inputs, as of `find_nan`), `diverges:A,B` (two other ways to run it do, as of
            `first_divergence`), `crash` (a process that compiles and runs it dies), or `pass:NAME`
            (a pass, or pipeline, crashes, leaves an invalid module or changes results).
        jobs: how many modules are tested at a time, each in a process of its own, which it may take
            down; 0 for none but this one. By default 0 for functions, else one a processor.
        timeout: seconds after which the process of a test is ended, which then counts as one that
            does not fail; by default ten times those of the slowest failing test, from 5 to 300.

    Raises:
        HloError: for an invalid module or test, and (`nothing-wrong`) where the test does not fail
            on the module.

    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[8] parameter(0)  y = f32[8] tanh(x)  ROOT z = f32[8] sqrt(y) }''')
    >>> print(hlo.reduce(module, lambda m: any(i.opcode == "tanh" for i in m.instructions())))
    HloModule reduced
    <BLANKLINE>
    ENTRY %main (p0: f32[1]) -> f32[1] {
      %p0 = f32[1]{0} parameter(0)
      ROOT %v1 = f32[1]{0} tanh(%p0)
    }
    <BLANKLINE>
    """
    # Not before it is needed: see `hlo.sources`.
    from hlo.debug.reduction.interestingness.named import test_of
    from hlo.debug.reduction.interestingness.values import OnInputs
    from hlo.debug.reduction.reducer import Reducer
    from hlo.debug.reduction.workers import Workers

    verify_module(module)
    found = test_of(test)
    if test == "find-nan" and isinstance(found, OnInputs):
        found.run_on(module, random_inputs(module))
    if jobs is None and not isinstance(test, str):
        jobs = 0
    return Reducer(module.clone(), found, Workers(jobs, timeout)).run()


@takes_programs
@checked
def first_divergence(
    module: Module, *args: Any, against: str | Module = "reference", backend: str = "compiled",
    passes: str | Sequence[object] = "default", rtol: float | None = None,
    atol: float | None = None, host: Host | None = None, threads: int | None = None,
    verify: str = "strict", **named: Any,
) -> Divergence | None:  # fmt: skip
    """Run a module in two ways and return the first instruction where they diverge, or None.

    Each instruction is judged by what it makes of the same operands on both sides, so that rounding
    that adds up is none. There is no divergence where all results agree.

    Args:
        module: the module; it stays as it is.
        args: as for `interpret`.
        against: the other way: `reference`, the interpreter; `compiled` or `compiled{passes=A,B}`;
            `xla`, where jax is installed; the name of a machine that a package registers; another
            module, which runs as this one does.
        backend: what runs the module, likewise; the interpreter runs it without passes unless
            they are said, as in `reference{passes=A,B}`.
        passes: as for `compile`.
        rtol: what floats may be off by, of their value; by their types if neither is given.
        atol: what floats may be off by besides.
        host: as for `interpret`; it stays as it is.
        threads: as for `compile`.
        verify: as for `verify`.
        named: parameters by name.

    Returns:
        An `hlo.debug.divergence.record.Divergence`: `path`, `counterpart`, `comparison`,
        `operands`, `location`, `rules`, a runnable `module` of the instruction and its `inputs`.

    Raises:
        HloError: as `compile` and `interpret`, for what names nothing to run on, and for modules
            that differ in what they take and give, or run on several devices.

    >>> module = hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[2] parameter(0)  y = f32[2] negate(x)  ROOT z = f32[2] subtract(y, x) }''')
    >>> other = hlo.parse(str(module).replace("subtract(%y, %x)", "subtract(%x, %y)"))
    >>> found = hlo.first_divergence(module, [1, 2], against=other)
    >>> found.path, found.got, found.want
    ('z', array([-2., -4.], dtype=float32), array([2., 4.], dtype=float32))
    """
    from hlo.debug.divergence.search import Search  # compiles: not before it is needed
    from hlo.debug.divergence.sides import beside, left_side
    from hlo.debug.divergence.tolerance import Tolerance

    pipeline = pipeline_text(passes)  # type: ignore[arg-type]
    left = left_side(backend, pipeline, module, verify)
    right = beside(left, against, verify)
    values = bind_call(parameters_of(module), args, named, module.usable_trees)
    return Search(left, right, values, Tolerance(rtol, atol), threads, host).first()
