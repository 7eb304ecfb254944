"""HLO, the operation language of XLA: parse, walk, edit, verify, optimize and run it.

    module = hlo.load("model.hlo")
    run = hlo.compile(module)  # native code
    result = run(x, y)
    print(hlo.optimize(module))

Names load their part of the package on first use, so `import hlo` itself costs nothing. Every error
that an input can cause is an `HloError`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from hlo.version import __version__ as __version__

if TYPE_CHECKING:
    from hlo.api import (
        bake_weights,
        fill_constants,
        find_nan,
        first_divergence,
        from_proto,
        interpret,
        load,
        optimize,
        parse,
        random_inputs,
        reduce,
        report,
        save,
        to_portable_artifact,
        to_proto,
        to_stablehlo,
        trace,
        verify,
    )
    from hlo.client import Client, GlobalData
    from hlo.compiler.library import load_library
    from hlo.compiler.partition import Partition, partition
    from hlo.compiler.pipeline import compile
    from hlo.debug.difference import diff
    from hlo.errors import Diagnostic, ElidedConstantsWarning, HloError
    from hlo.eval import Host
    from hlo.frontends.builder import XlaBuilder, XlaComputation, XlaOp
    from hlo.frontends.jax import from_jax
    from hlo.frontends.stablehlo import from_stablehlo
    from hlo.frontends.text import PrintOptions, print_module
    from hlo.ir import Computation, Instruction, Module
    from hlo.ops import OPS
    from hlo.profiler.benchmark import bench
    from hlo.profiler.measure import profile
    from hlo.profiler.memory import memory_timeline
    from hlo.values.layout.physical import pack, parse_shape, unpack
    from hlo.values.literal import Literal
    from hlo.values.types import ArrayShape, Layout, Shape, TupleShape

__all__ = [
    "OPS",
    "ArrayShape",
    "Client",
    "Computation",
    "Diagnostic",
    "ElidedConstantsWarning",
    "GlobalData",
    "HloError",
    "Host",
    "Instruction",
    "Layout",
    "Literal",
    "Module",
    "Partition",
    "PrintOptions",
    "Shape",
    "TupleShape",
    "XlaBuilder",
    "XlaComputation",
    "XlaOp",
    "bake_weights",
    "bench",
    "compile",
    "diff",
    "fill_constants",
    "find_nan",
    "first_divergence",
    "from_jax",
    "from_proto",
    "from_stablehlo",
    "interpret",
    "load",
    "load_library",
    "memory_timeline",
    "optimize",
    "pack",
    "parse",
    "parse_shape",
    "partition",
    "print_module",
    "profile",
    "random_inputs",
    "reduce",
    "report",
    "save",
    "to_portable_artifact",
    "to_proto",
    "to_stablehlo",
    "trace",
    "unpack",
    "verify",
]

_HOMES = {
    "hlo.api": (
        "bake_weights",
        "fill_constants",
        "find_nan",
        "first_divergence",
        "from_proto",
        "interpret",
        "load",
        "optimize",
        "parse",
        "random_inputs",
        "report",
        "reduce",
        "save",
        "to_portable_artifact",
        "to_proto",
        "to_stablehlo",
        "trace",
        "verify",
    ),
    "hlo.frontends.builder": ("XlaBuilder", "XlaComputation", "XlaOp"),
    "hlo.client": ("Client", "GlobalData"),
    "hlo.compiler.partition": ("Partition", "partition"),
    "hlo.compiler.pipeline": ("compile",),
    "hlo.profiler.benchmark": ("bench",),
    "hlo.profiler.measure": ("profile",),
    "hlo.profiler.memory": ("memory_timeline",),
    "hlo.debug.difference": ("diff",),
    "hlo.errors": ("Diagnostic", "ElidedConstantsWarning", "HloError"),
    "hlo.eval": ("Host",),
    "hlo.frontends.jax": ("from_jax",),
    "hlo.ir": ("Computation", "Instruction", "Module"),
    "hlo.values.literal": ("Literal",),
    "hlo.compiler.library": ("load_library",),
    "hlo.ops": ("OPS",),
    "hlo.values.layout.physical": ("pack", "parse_shape", "unpack"),
    "hlo.frontends.stablehlo": ("from_stablehlo",),
    "hlo.frontends.text": ("PrintOptions", "print_module"),
    "hlo.values.types": ("ArrayShape", "Layout", "Shape", "TupleShape"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # what checks types is to know which names there are

    def __getattr__(name: str) -> Any:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'hlo' has no attribute {name!r}")
        from hlo.support.imports import first_import

        with first_import(home):
            if home != "hlo.errors":
                from hlo.support.memory import need_address_space

                need_address_space("hlo")
            value = globals()[name] = getattr(importlib.import_module(home), name)
            if "hlo.ir" in sys.modules:
                importlib.import_module("hlo.reports.module")  # has methods of modules
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
