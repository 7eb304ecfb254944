"""LLVM IR as data: modules, functions, instructions, and their text.

Code generation makes these records; the runtime splits and prints them for LLVM, object files add
exported functions and debug information. Text is how they get into LLVM, which from Python is the
fastest way; it is only ever written here, never read.
"""

from hlo.llvm.compiled import Compiled, CompiledFunctions, Origin
from hlo.llvm.function import Body, Function, Line, Loop, with_operands
from hlo.llvm.instructions import (
    Alloca,
    AtomicUpdate,
    Binary,
    Branch,
    Call,
    Cast,
    Compare,
    ExtractElement,
    ExtractValue,
    Fence,
    GetElementPtr,
    InsertElement,
    Instruction,
    Label,
    Load,
    Location,
    LoopMetadata,
    Operation,
    Phi,
    Return,
    Select,
    ShuffleVector,
    Store,
    Switch,
    Unary,
    pointer_type,
)
from hlo.llvm.module import Global, LlvmModule, Node
from hlo.llvm.types import VectorType, as_vector, byte_size, overload, vector_type

__all__ = [
    "Alloca", "AtomicUpdate", "Binary", "Body", "Branch", "Call", "Cast", "Compare", "Compiled",
    "CompiledFunctions", "ExtractElement", "ExtractValue", "Fence", "Function", "GetElementPtr",
    "Global", "InsertElement", "Instruction", "Label", "Line", "LlvmModule", "Load", "Location",
    "Loop", "LoopMetadata", "Node", "Operation", "Origin", "Phi", "Return", "Select",
    "ShuffleVector", "Store", "Switch", "Unary", "VectorType", "as_vector", "byte_size", "overload",
    "pointer_type", "vector_type", "with_operands",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
