"""The inputs of a run, from their specifications on the command line."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.errors import HloError, Source, Span, TextError, did_you_mean
from hlo.io.archives import SAFETENSORS, read_archive
from hlo.io.arguments import Parameter, Path, as_leaf, assemble, known_bytes, need_size, zero_array
from hlo.io.files import read_npy, read_raw, read_text
from hlo.io.formats import is_proto_file
from hlo.io.random import Distributions, Domain, random_array
from hlo.support.memory import check_available, enough_memory
from hlo.values.literal import read_literal
from hlo.values.scan import Scanner
from hlo.values.shape_text import read_shape
from hlo.values.types import ELEMENT_TYPES, ArrayShape, Shape, TupleShape, array, compatible

_TARGET = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.-]*|\d+)=(.*)", re.S)
# Some tools say `i32` and the like for `s32`.
_ALIASES = {f"i{n}": f"s{n}" for n in (2, 4, 8, 16, 32, 64)} | {"i1": "pred"}
_TYPES = "|".join(sorted({*ELEMENT_TYPES, *_ALIASES}, key=len, reverse=True))
_FLAT = re.compile(rf"((?:\d+x)*)({_TYPES})(?:=(.*))?", re.S)
_NUMBER = re.compile(r"\([^()]*\)|[^\s,]+")
# Looks more like a file name than like a number.
# Characters of a literal that a hint repeats.
_SHOWN = 60
_FILE = re.compile(r"[\w./-]*[./][\w-]*[A-Za-z_][\w-]*")
_STARTS_WITH_SHAPE = re.compile(r"[(\s]*[a-z][a-z0-9]*\[")

# Reads the arguments of a dumped snapshot by name: `hlo.frontends.sources.read_snapshot`.
ReadSnapshot = Callable[[str], Mapping[str, np.ndarray]]


@dataclass
class Sampler:
    """Generates random values for parameters, each leaf from a seed of its own.

    domains: of leaves, by the parameter's number and index path. assumed: the domains used so far,
    by the leaf's name. working_bytes: further memory of a run on each device, by purpose. zeros:
    missing values are zero, not random.
    """

    seed: int = 0
    distributions: Distributions = field(default_factory=Distributions)
    domains: Mapping[tuple[int, Path], Domain] = field(default_factory=dict)
    assumed: dict[str, Domain] = field(default_factory=dict)
    working_bytes: Mapping[str, int] = field(default_factory=dict)
    devices: int = 1
    zeros: bool = False

    def need_memory(self, sizes: Mapping[str, int]) -> None:
        """Raise HloError unless there is enough memory for random values, and for the run on them.

        sizes: bytes of the values on one device, by name.
        """
        parts = {"random inputs": sum(sizes.values()), **self.working_bytes}
        on = f" on {self.devices} devices" if self.devices > 1 else ""
        check_available(f"the run{on}", {k: v * self.devices for k, v in parts.items()}, sizes)

    def leaf(
        self, parameter: Parameter, path: Path, name: str, shape: Shape, device: int = 0
    ) -> np.ndarray:
        """Return random elements for a leaf of a parameter. Raises HloError.

        device: the number of the device, for values that differ between devices.
        """
        of = need_size(shape, f"input {name}")
        distribution = self.distributions.of(name)
        domain = self.domains.get((parameter.number, path))
        if domain is not None and distribution.narrows(domain, of.element_type):
            self.assumed[name] = domain
        # Seeds from users have fewer bits.
        seed = self.seed + (device << 64)
        with enough_memory(f"input {name}"):
            return random_array(of, [seed, parameter.number, *path], distribution, domain)

    def values(self, parameters: Sequence[Parameter]) -> list[Any]:
        """Return a random value for each parameter, tuples nested. Raises HloError."""
        self.distributions.need_names([name for p in parameters for _, name, _ in p.leaves()])
        self.need_memory({n: known_bytes(s) for p in parameters for _, n, s in p.leaves()})
        return [
            assemble(p.shape, {path: self.leaf(p, path, name, s) for path, name, s in p.leaves()})
            for p in parameters
        ]


def read_inputs(
    parameters: Sequence[Parameter], specs: Sequence[str], archive: str | None, sampler: Sampler,
    device: int = 0, *, vary: bool = False, read_snapshot: ReadSnapshot,
) -> tuple[list[Any], list[str]]:  # fmt: skip
    """Return a value for each parameter, and the names of those generated at random.

    specs: `[name=]SOURCE`; one without a name is for the first parameter without a value.
    SOURCE is `random`, `zeros`, `device-id` (the number of the device), a path ending in `.npy`, an
    HLO literal with or without its shape, `@FILE` containing one, or `2x3xf32=1 2 3 4 5 6` (one
    number fills; `=@FILE` reads raw bytes, or an `.npy`, as IREE's tools do). archive: an npz or
    safetensors file whose keys are `arg0, arg1, ..` or parameter names; the leaves of a tuple have
    keys such as `arg0.1`. Or a snapshot that XLA dumped, which contains the arguments of a call.
    sampler: generates random values. device: the device these inputs are for; vary: random values
    differ between devices. read_snapshot: reads a snapshot's arguments by name. All values are
    checked against the parameters. Raises HloError.
    """
    inputs = _Inputs(parameters, sampler, device, vary, read_snapshot)
    if archive is not None:
        inputs.take_archive(archive)
    # Named inputs first: the others fill the gaps.
    targets = [(spec, *_split_target(spec)) for spec in specs]
    for spec, target, source in sorted(targets, key=lambda t: t[1] is None):
        inputs.take_spec(spec, target, source)
    return inputs.finish()


def _split_target(spec: str) -> tuple[str | None, str]:
    m = _TARGET.fullmatch(spec)
    if m is None or _FLAT.fullmatch(m[1]):
        return None, spec
    return m[1], m[2]


class _Inputs:
    """The values so far, by parameter number and index path."""

    def __init__(
        self, parameters: Sequence[Parameter], sampler: Sampler, device: int, vary: bool,
        read_snapshot: ReadSnapshot,
    ) -> None:  # fmt: skip
        self._parameters = parameters
        self._sampler = sampler
        self._device = device
        self._vary = vary
        self._read_snapshot = read_snapshot
        self._leaves: dict[int, dict[tuple[int, ...], Any]] = {p.number: {} for p in parameters}
        self._made_up: list[str] = []

    def take_archive(self, path: str) -> None:
        keys: dict[str, tuple[Parameter, tuple[int, ...], Shape]] = {}
        for p in self._parameters:
            for index, name, shape in p.leaves():
                number = ".".join([f"arg{p.number}", *map(str, index)])
                # A parameter called arg1 need not be number 1: names take precedence.
                keys.setdefault(number, (p, index, shape))
                keys[name] = (p, index, shape)
        if path.endswith(".npy"):
            raise HloError.at(
                "bad-file", f"{path} holds one array", hint=f"--input {path} takes it"
            )
        # XLA's names for the text form of snapshots end in .txt.
        is_snapshot = is_proto_file(path) or path.endswith(".txt")
        if is_snapshot:
            found = self._read_snapshot(path)
        else:
            found = read_archive(path)
        for key, value in found.items():
            if key not in keys:
                raise HloError.at(
                    "unknown-input", f"{path}: {key!r} is not a parameter",
                    hint=did_you_mean(key, keys) or self._names(),
                )  # fmt: skip
            p, index, shape = keys[key]
            if index in self._leaves[p.number]:
                raise HloError.at("unknown-input", f"{path}: parameter {p.name} is given twice")
            self._leaves[p.number][index] = as_leaf(value, shape, f"{path}: {key}")

    def take_spec(self, spec: str, target: str | None, source: str) -> None:
        parameter = self._next(spec) if target is None else self._named(target)
        if target is not None and self._leaves[parameter.number]:
            raise HloError.at("unknown-input", f"input {parameter.name} is given twice")
        what = f"input {parameter.name}"
        makers = {"random": self._random, "zeros": self._zeros, "device-id": self._number}
        if source in makers:
            for index, name, shape in parameter.leaves():
                make = makers[source]
                self._leaves[parameter.number][index] = make(parameter, index, name, shape)
            return
        value = _read_source(source, parameter.shape, what)
        for index, _, _ in parameter.leaves():
            leaf = value
            for i in index:
                leaf = leaf[i]
            self._leaves[parameter.number][index] = leaf

    def finish(self) -> tuple[list[Any], list[str]]:
        if self._device == 0:
            self._sampler.need_memory(
                {
                    name: known_bytes(shape)
                    for p in self._parameters
                    for index, name, shape in p.leaves()
                    if index not in self._leaves[p.number]
                }
            )
        values = []
        for p in self._parameters:
            leaves = self._leaves[p.number]
            for index, name, shape in p.leaves():
                if index not in leaves and self._sampler.zeros:
                    leaves[index] = self._zeros(p, index, name, shape)
                elif index not in leaves:
                    leaves[index] = self._random(p, index, name, shape)
                    self._made_up.append(name)
            values.append(assemble(p.shape, leaves))
        return values, self._made_up

    def _random(self, p: Parameter, index: Path, name: str, shape: Shape) -> np.ndarray:
        return self._sampler.leaf(p, index, name, shape, self._device if self._vary else 0)

    def _zeros(self, p: Parameter, index: Path, name: str, shape: Shape) -> np.ndarray:
        with enough_memory(f"input {name}"):
            return zero_array(need_size(shape, f"input {name}"))

    def _number(self, p: Parameter, index: Path, name: str, shape: Shape) -> np.ndarray:
        with enough_memory(f"input {name}"):
            dims = need_size(shape, f"input {name}").dims
            filled = as_leaf(np.full(dims, self._device).tolist(), shape, f"input {name}")
            assert isinstance(filled, np.ndarray)
            return filled

    def _next(self, spec: str) -> Parameter:
        for p in self._parameters:
            if not self._leaves[p.number] and any(True for _ in p.leaves()):
                return p
        shown = spec if len(spec) <= 40 else spec[:37] + "..."
        raise HloError.at("argument-count", f"input {shown!r} is one too many: {self._names()}")

    def _named(self, target: str) -> Parameter:
        for p in self._parameters:
            if p.name == target:
                return p
        for p in self._parameters:
            if target in (str(p.number), f"arg{p.number}"):
                return p
        raise HloError.at(
            "unknown-input", f"{target!r} is not a parameter",
            hint=did_you_mean(target, [p.name for p in self._parameters]) or self._names(),
        )  # fmt: skip

    def _names(self) -> str:
        names = [p.name for p in self._parameters]
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return f"the parameters are {shown}" if names else "there are no parameters"


def _read_source(source: str, shape: Shape, what: str) -> Any:
    if source.endswith((".npz", SAFETENSORS)) and not source.startswith("@"):
        raise HloError.at(
            "bad-file",
            f"{what}: {source} contains named arrays",
            hint=f"--inputs {source} takes it",
        )
    if _FILE.fullmatch(source) and os.path.isfile(source) and not source.endswith(".npy"):
        hint = f"@{source} reads a literal from it"
        raise HloError.at("bad-file", f"{what}: {source} has an unknown file format", hint=hint)
    if source.startswith("@") and not source.endswith(".npy"):
        return _literal_value(read_text(source[1:]), shape, source[1:])
    if not source.endswith(".npy") and not _FLAT.fullmatch(source):
        return _literal_value(source, shape, what)
    if not isinstance(shape, ArrayShape):
        raise HloError.at(
            "type-mismatch", f"{what}: {source} is one array, {shape.to_string(False)} is needed",
            hint="give a literal, or an npz with a key for each leaf, such as arg0.1",
        )  # fmt: skip
    if _FLAT.fullmatch(source):
        return _flat_value(source, shape, what)
    path = source.removeprefix("@")
    return as_leaf(read_npy(path), shape, f"{what}: {path}")


def literal_with_shape(text: str, where: str) -> Any:
    """Return the value of an HLO literal after its shape. `where` names it in errors.

    Raises HloError.
    """
    return _literal_value(text, None, where)


def _literal_value(text: str, shape: Shape | None, where: str) -> Any:
    """Return the value of an HLO literal, optionally preceded by its shape."""
    source, at = Source(where, text), 0
    try:
        if shape is None or _STARTS_WITH_SHAPE.match(text):
            scanner = Scanner(text)
            given = read_shape(scanner, before_literal=True)
            at = scanner.pos
            if shape is None:
                shape = given
            elif not compatible(given, shape):
                raise HloError.at(
                    "shape-mismatch",
                    f"it is {given.to_string(False)}, {shape.to_string(False)} is needed",
                    Span(source, 0, at),
                )
        literal = read_literal(text, shape, at, braces=True)
    except TextError as e:
        start = at + e.offset
        hint = e.hint or _literal_hint(text, shape)
        raise HloError.at(e.code, e.message, Span(source, start, start + 1), hint) from None
    if literal.is_elided_in_part:
        raise HloError.at("syntax", "a value cannot be elided", Span(source, 0, len(text)))
    return literal.value


def _literal_hint(text: str, shape: Shape | None) -> str | None:
    """Return what may be meant by a text that is not a literal."""
    several = re.fullmatch(r"([\w-]+),(\w[\w.-]*=.+)", text, re.DOTALL)
    if several is not None:
        return f"each parameter takes an --input of its own: --input {several[2]}"
    if not isinstance(shape, TupleShape) and text.lstrip().startswith(("[", "(")):
        braced = text.strip().translate(str.maketrans("[]()", "{}{}"))
        return f"literals have braces: {braced if len(braced) <= _SHOWN else '{1, 2, 3}'}"
    return None


def _flat_value(source: str, shape: ArrayShape, what: str) -> np.ndarray:
    """Return the value of `2x3xf32=1 2 3 4 5 6`; no numbers mean zeros, one fills it."""
    m = _FLAT.fullmatch(source)
    assert m
    dims = tuple(int(d) for d in m[1].split("x")[:-1])
    given = array(_ALIASES.get(m[2], m[2]), dims)
    if not compatible(given, shape):
        raise HloError.at(
            "shape-mismatch",
            f"{what} is {given.to_string(False)}, {shape.to_string(False)} is needed",
        )
    given = need_size(given, what)
    if m[3] is None:
        return zero_array(given)
    if m[3].startswith("@") and m[3].endswith(".npy"):
        return np.asarray(as_leaf(read_npy(m[3][1:]), given, f"{what}: {m[3][1:]}"))
    if m[3].startswith("@"):
        return np.asarray(as_leaf(read_raw(m[3][1:], given), given, what))
    numbers = re.sub(r"[\[\]]", " ", m[3])
    count = len(_NUMBER.findall(numbers))
    of = array(given.element_type, (1 if count == 1 else math.prod(dims),))
    values = _literal_value(f"{{{numbers}}}", of, what)
    return np.full(dims, values[0]) if count == 1 else values.reshape(dims)
