"""Modules from the programs of other libraries."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.frontends.jax_callbacks import functions_of, give_callbacks
from hlo.frontends.proto import from_proto
from hlo.frontends.tree_mismatch import ARRAY, mismatch
from hlo.ir import Module
from hlo.values.arrays import TOKEN_VALUE


def from_jax(function: Any, *args: Any, **kwargs: Any) -> Module:
    """Return the module that JAX lowers a function to, called with these arguments.

    Arguments become parameters in the order of their leaves, with JAX's names for them; a jitted
    function drops unused ones. The module keeps the trees (`Module.trees`): `hlo.compile(module)`
    and `hlo.interpret` take the function's arguments, by position or name, or the leaves alone, and
    return the function's result as a tree of numpy arrays. Its callbacks into Python, as of
    `jax.pure_callback` and `jax.debug.print`, are called (`Module.custom_calls`).

    Args:
        function: a Python function on arrays, one that `jax.jit` made, or one that was exported.
            The results of `trace`, `lower` and `compile` have their arguments already, as an
            exported function does if none are given here; a compiled one yields the module after
            XLA's optimizations.
        args: arrays, values of `jax.ShapeDtypeStruct`, or trees of them.
        kwargs: the same, by name.

    Raises:
        HloError: for a program that is not HLO, for arguments on which JAX itself fails, and, code
            `missing-extra`, without JAX.
        TypeError: for something that is not a function.

    Exceptions of the function itself propagate unchanged.

    >>> module = hlo.from_jax(lambda x: {"twice": 2 * x}, np.ones(3, np.float32))
    >>> hlo.compile(module)(np.float32([1, 2, 3]))
    {'twice': array([2., 4., 6.], dtype=float32)}
    """
    try:
        import jax
        import jax.export
    except ImportError:
        raise HloError.at(
            "missing-extra", "from_jax needs JAX, which is not installed", None,
            "pip install 'hlo-tools[jax]'",
        ) from None  # fmt: skip
    signature = None
    if isinstance(function, jax.export.Exported):
        if not args and not kwargs:
            specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in function.in_avals]
            args, kwargs = jax.tree.unflatten(function.in_tree, specs)
        function = function.call
    stages = jax.stages
    if isinstance(function, stages.Traced | stages.Lowered | stages.Compiled):
        if args or kwargs:
            raise TypeError(f"a {type(function).__name__} program has its arguments already")
        program = function.lower() if isinstance(function, stages.Traced) else function
    elif callable(function):
        jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
        program = _lowered(function, jitted, args, kwargs)
        signature = _signature_of(function, args, kwargs)
    else:
        raise TypeError(f"from_jax takes a function, not {type(function).__name__}")
    module = from_proto(_hlo_of(program), "JAX's program")
    entry = module.entry
    for parameter in entry.parameters:
        # Drop the number that XLA adds to make names unique, where they already are.
        base, _, number = parameter.name.rpartition(".")
        if base and number.isdecimal() and entry.get(base) is None:
            entry.rename(parameter, base)
    give_callbacks(module, partial(functions_of, program))
    # A program with ordered effects has tokens in front of its leaves.
    tokens = sum(shape.is_token for shape in entry.parameter_shapes)
    module.trees = _trees_of(program, signature, tokens, len(entry.parameters))
    if module.trees and module.trees.parameters == len(entry.parameters):
        module.trees = module.usable_trees
    else:
        module.trees = None
    return module


def _lowered(function: Any, jitted: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Lower a function. Raises HloError if JAX's own code fails before the function runs."""
    try:
        return jitted.lower(*args, **kwargs)
    except (OverflowError, SystemError) as e:
        code = getattr(inspect.unwrap(function), "__code__", None)
        if any(frame.f_code is code for frame, _ in traceback.walk_tb(e.__traceback__)):
            raise
        said = (str(e.__cause__ or e) or type(e).__name__).splitlines()[0]
        message = f"from_jax: JAX rejects the arguments: {said}"
        raise HloError.at("bad-value", message) from None


def _signature_of(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> _Signature | None:
    """Return the signature of a function; None if Python cannot determine it."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(p.kind in several for p in signature.parameters.values()):
        return None
    return _Signature(signature, len(args), tuple(bound.arguments))


@dataclass(frozen=True)
class _Signature:
    """A function's signature, and the arguments a program was made with, in order: positional ones
    first."""

    signature: inspect.Signature
    positional: int
    names: tuple[str, ...]

    def arranged(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call, positional or named as the program was made."""
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return tuple(args), dict(kwargs)
        if given.keys() != set(self.names):
            return tuple(args), dict(kwargs)
        by_position, by_name = self.names[: self.positional], self.names[self.positional :]
        return tuple(given[n] for n in by_position), {n: given[n] for n in by_name}


def _trees_of(
    program: Any, signature: _Signature | None, tokens: int, count: int
) -> JaxTrees | None:
    """Return the trees of what JAX lowered or compiled, for a module of so many parameters.

    tokens: how many of them, and of the results, are tokens.

    JAX has no public interface to the arguments it dropped. If the known private one is missing,
    and some were dropped, there are no trees. Of a compiled program with ordered effects its public
    `out_info` fails, so results are read from what it is made from.
    """
    import jax

    inner = getattr(program, "_executable", None) or getattr(program, "_lowering", None)
    kept = getattr(inner, "_kept_var_idx", None)
    if kept is None:
        kept = getattr(inner, "compile_args", {}).get("kept_var_idx")
    leaves = program.in_tree.num_leaves
    if kept is None and leaves + tokens != count:
        return None
    dynamic, named = program.args_info
    if signature and (len(dynamic), len(dynamic) + len(named)) != (
        signature.positional, len(signature.names)
    ):  # fmt: skip
        signature = None  # some arguments are static
    results = getattr(inner, "out_avals", None) or jax.tree.leaves(program.out_info)
    return JaxTrees(
        program.in_tree, tuple(sorted(range(leaves) if kept is None else kept)), program.out_tree,
        tuple(o.dtype for o in results), signature, tokens,
    )  # fmt: skip


class JaxTrees:
    """The pytrees of a function's arguments and of its result; see `hlo.support.trees`.

    in_tree: of positional and named arguments. kept: which of its leaves are parameters.
    out_tree: of the result. dtypes: of its leaves, as JAX has them. tokens: how many the module
    takes and returns besides; callers neither pass nor get them.
    """

    def __init__(
        self, in_tree: Any, kept: tuple[int, ...], out_tree: Any, dtypes: Sequence[Any],
        signature: _Signature | None, tokens: int = 0,
    ) -> None:  # fmt: skip
        self.in_tree, self.out_tree = in_tree, out_tree
        self.parameters, self.results = len(kept) + tokens, out_tree.num_leaves + tokens
        self._kept, self._dtypes, self._signature = kept, dtypes, signature

    def __repr__(self) -> str:
        return f"<JaxTrees {self.in_tree} -> {self.out_tree}>"

    def leaves(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any] | None:
        """Return the leaves of a call's arguments; see `hlo.support.trees.Trees`."""
        import jax

        call: Any = (tuple(args), dict(named))
        if self._signature is not None:
            call = self._signature.arranged(*call)
        leaves, tree = jax.tree.flatten(call)
        if tree == self.in_tree:
            return [leaves[n] for n in self._kept]
        if jax.tree_util.all_leaves([*args, *named.values()]):
            return None
        needed = jax.tree.unflatten(self.in_tree, [ARRAY] * self.in_tree.num_leaves)
        names = self._signature.names if self._signature is not None else ()
        raise HloError.at("type-mismatch", mismatch(call, needed, names))

    def result(self, leaves: Sequence[Any]) -> Any:
        """Return the function's result, with numpy arrays as leaves."""
        import jax

        arrays = [a for a in leaves if a is not TOKEN_VALUE]
        parts = [_as_in_jax(a, d) for a, d in zip(arrays, self._dtypes, strict=True)]
        return jax.tree.unflatten(self.out_tree, parts)


def as_jax_reads(tree: Any) -> Any:
    """Return arguments with numpy arrays of the types that JAX reads: f32 for f64, by default."""
    import jax

    def leaf(value: Any) -> Any:
        if not isinstance(value, np.ndarray | np.generic):
            return value
        return np.asarray(value, jax.dtypes.canonicalize_dtype(value.dtype))

    return jax.tree.map(leaf, tree)


def _as_in_jax(array: Any, dtype: Any) -> Any:
    """Return a leaf as in JAX: typed keys, and float0 for derivatives of integers."""
    import jax

    if dtype == jax.dtypes.float0:
        return np.zeros(array.shape, jax.dtypes.float0)
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(array, impl=dtype._impl.name)
    return array


def _hlo_of(program: Any) -> bytes:
    """Return the HloModuleProto of a program that JAX lowered or compiled. Raises HloError."""
    import jax

    if isinstance(program, jax.stages.Compiled):
        executable = program.runtime_executable()
        modules = executable.hlo_modules() if executable is not None else []
        if len(modules) != 1:
            raise HloError.at(
                "unsupported", f"the compiled program has {len(modules)} modules, one is needed"
            )
        return bytes(modules[0].as_serialized_hlo_module_proto())
    try:
        return bytes(program.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())
    except jax.errors.JaxRuntimeError as e:
        # Symbolic sizes, for example. The following lines refer to JAX's own text.
        raise HloError.at("unsupported", "JAX's program is not valid HLO: "
                                         f"{str(e).splitlines()[0]}",
                          None, "sizes of arrays have to be numbers") from None  # fmt: skip
