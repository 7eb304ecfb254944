"""Functions of LLVM IR over records in memory: loads and stores as attributes, early returns."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hlo.codegen.llvm import Builder, ModuleBuilder, Val, i64
from hlo.llvm import Fence, Function
from hlo.pjrt.entries import ErrorCode
from hlo.pjrt.interface import Struct, interface

NULL = Val("ptr", "null")
# Among all threads.
_SYSTEM = ""


class Record:
    """A struct at an address: an attribute is a field, reading one loads it, setting one stores."""

    b: Writer
    struct: type[Struct]
    at: Val

    def __init__(self, b: Writer, struct: type[Struct], at: Val) -> None:
        self.__dict__.update(b=b, struct=struct, at=at)

    def address(self, field: str) -> Val:
        """Return the address of a field."""
        offset = getattr(self.struct, field).offset
        return Val("ptr", self.b.address(self.at.name, offset)) if offset else self.at

    def __getattr__(self, field: str) -> Val:
        if field not in self.struct.types:
            raise AttributeError(f"{self.struct.__name__} has no field {field}")
        value: Val = self.b.load(self.struct.types[field], self.address(field).name)
        return value

    def __setattr__(self, field: str, value: Val | int) -> None:
        type_ = self.struct.types[field]
        if isinstance(value, int):
            value = NULL if type_ == "ptr" and not value else Val(type_, str(value))
        assert value.type == type_, (field, value, type_)
        self.b.store(value, self.address(field).name)


class Writer(Builder):
    """Writes one function."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.module)
        self.code = code

    def record(self, struct: type[Struct], at: Val) -> Record:
        """Return the struct at an address."""
        return Record(self, struct, at)

    def new(self, struct: type[Struct], extra: Val | int = 0) -> Record:
        """Return a zeroed struct on the heap, with so many bytes after it.

        Where there is no memory the process ends, as it does in JAX's own runtime: these are small.
        """
        size = self.sum(ctypes.sizeof(struct), extra)
        self.module.declare("calloc", "ptr", ["i64", "i64"])
        made = self.call("calloc", [i64(1), size], "ptr")
        with self.when(self.is_null(made)):
            self.module.declare("abort", "void", [], "noreturn")
            self.call_void("abort", [])
        return self.record(struct, made)

    def free(self, address: Val) -> None:
        self.module.declare("free", "void", ["ptr"])
        self.call_void("free", [address])

    def copy(self, target: Val, source: Val, size: Val) -> None:
        """Copy bytes."""
        self.module.declare("memcpy", "ptr", ["ptr", "ptr", "i64"])
        self.call("memcpy", [target, source, size], "ptr")

    # --- values ---------------------------------------------------------------------------------

    def sum(self, a: Val | int, b: Val | int) -> Val:
        """Return the sum of two numbers of 64 bits."""
        x = a if isinstance(a, Val) else i64(a)
        return self.binary("add", x, b if isinstance(b, Val) else i64(b))

    def product(self, a: Val, b: int) -> Val:
        return self.binary("mul", a, i64(b))

    def after(self, address: Val, bytes_: Val | int) -> Val:
        """Return the address so many bytes further on."""
        index = bytes_.name if isinstance(bytes_, Val) else bytes_
        return Val("ptr", self.element_address(address.name, "i8", index))

    def word_at(self, table: Val, index: Val | int) -> Val:
        """Return the address of an element of a table of words."""
        return self.after(table, self.product(_number(index), 8))

    def get(self, table: Val, index: Val | int, type_: str = "ptr") -> Val:
        """Load an element of a table of words."""
        return self.load(type_, self.word_at(table, index).name)

    def put(self, table: Val, index: Val | int, value: Val) -> None:
        """Store an element of a table of words."""
        self.store(value, self.word_at(table, index).name)

    def is_null(self, address: Val) -> Val:
        return self.icmp("eq", address, "null")

    def is_zero(self, value: Val) -> Val:
        return self.icmp("eq", value, 0)

    def is_not_zero(self, value: Val) -> Val:
        return self.icmp("ne", value, "null" if value.type == "ptr" else 0)

    def negated(self, condition: Val) -> Val:
        return self.binary("xor", condition, "true")

    # --- control flow ---------------------------------------------------------------------------

    @contextmanager
    def exit_if(self, condition: Val) -> Iterator[None]:
        """Run the body, which has to return, where a condition holds."""
        then, rest = self.new_label("exit"), self.new_label("rest")
        self.branch(condition, then, rest)
        self.place(then)
        with self.scope():
            yield
        self.place(rest)

    def fail_if(self, condition: Val, code: str, message: str) -> None:
        """Return an error where a condition holds."""
        with self.exit_if(condition):
            self.ret(self.error(code, message))

    def pass_on(self, error: Val) -> None:
        """Return an error if there is one."""
        with self.exit_if(self.is_not_zero(error)):
            self.ret(error)

    def either(self, condition: Val, value: Callable[[], Val], otherwise: Val) -> Val:
        """Return a value that is computed where a condition holds, and another one elsewhere."""
        (found,) = self.choose(condition, lambda: [value()], lambda: [otherwise])
        return found

    def each(self, count: Val, body: Callable[[Val], None]) -> None:
        """Run the body for each number below a count."""
        with self.loop(0, count.name, plain=True) as i:
            body(i64(i))

    # --- errors ---------------------------------------------------------------------------------

    def error(self, code: str, message: str) -> Val:
        """Return a new error."""
        text = self.code.text(message)
        return self.run("error_new", i64(ErrorCode[code]), text, i64(len(message.encode())))

    # --- other threads --------------------------------------------------------------------------

    def atomic_add(self, address: Val, value: int) -> Val:
        """Add to a word that other threads change; returns what it was before."""
        before = self.atomic_update("add", i64(value), address.name, _SYSTEM)
        return before

    def release(self) -> None:
        """What was written before is seen by who sees what is written after."""
        self.write(Fence(_SYSTEM, "release"))

    def acquire(self) -> None:
        """What is read after is at least as new as what was read before."""
        self.write(Fence(_SYSTEM, "acquire"))

    def retain(self, record: Record) -> None:
        """Count one more reference to a record."""
        self.atomic_add(record.address("refs"), 1)

    @contextmanager
    def last_release(self, record: Record) -> Iterator[None]:
        """Count one reference less to a record, and run the body if that was the last one."""
        self.release()
        before = self.atomic_add(record.address("refs"), -1)
        with self.when(self.icmp("eq", before, 1)):
            self.acquire()
            yield

    def lock(self, record: Record) -> None:
        self._posix("pthread_mutex_lock", record.address("mutex"))

    def unlock(self, record: Record) -> None:
        self._posix("pthread_mutex_unlock", record.address("mutex"))

    def wait(self, record: Record) -> None:
        """Wait for `wake`; the record is locked before and after."""
        self._posix("pthread_cond_wait", record.address("condition"), record.address("mutex"))

    def wake(self, record: Record) -> None:
        """Wake all that wait."""
        self._posix("pthread_cond_broadcast", record.address("condition"))

    def _posix(self, function: str, *args: Val) -> None:
        self.module.declare(function, "i32", ["ptr"] * len(args))
        self.call(function, args, "i32")

    # --- functions of this module ---------------------------------------------------------------

    def run(self, name: str, *args: Val) -> Val:
        """Call a function of this module, which returns an address."""
        return self.call(name, args, "ptr")

    def do(self, name: str, *args: Val) -> None:
        """Call a function of this module, which returns nothing."""
        self.call_void(name, args)


def _number(index: Val | int) -> Val:
    return index if isinstance(index, Val) else i64(index)


class Code:
    """The module that is written."""

    def __init__(self, triple: str, data_layout: str) -> None:
        self.module = ModuleBuilder(target_triple=triple, data_layout=data_layout)
        self.entries: list[str] = []

    def text(self, text: str) -> Val:
        """Return the address of a constant text."""
        content = "".join(f"\\{byte:02X}" for byte in text.encode())
        size = len(text.encode())
        name = f"text{len(self.module.globals)}"
        self.module.define(name, f'private constant [{size} x i8] c"{content}"')
        return Val("ptr", f"@{name}")

    def variable(self, name: str) -> Val:
        """Return the address of a global word, zero at first, that Python sets."""
        self.module.define(name, "global i64 0")
        return Val("ptr", f"@{name}")

    @contextmanager
    def function(
        self, name: str, *types: str, result: str = "ptr", exported: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        """Write a function: yields its writer, and its arguments."""
        b = Writer(self)
        args = [Val(type_, f"%a{n}") for n, type_ in enumerate(types)]
        yield (b, *args)
        function = Function(
            name, [str(a) for a in args], result=result, linkage="" if exported else "internal"
        )
        self.module.add(b.finish(function))

    @contextmanager
    def entry(self, name: str, returns_error: bool = True) -> Iterator[tuple[Writer, Record]]:
        """Write the function of PJRT's table with a name: yields its writer and its arguments.

        Structs that are too small for the arguments, as of callers older than any that is
        supported, are an error, as is null.
        """
        struct = interface().arguments[name]
        with self.function(f"PJRT_{name}", "ptr", exported=True) as (b, at):
            args = b.record(struct, at)
            if returns_error:
                need_arguments(b, args, name)
            yield b, args
            b.ret(NULL)
        self.entries.append(name)


def need_arguments(b: Writer, args: Record, name: str) -> None:
    """Return an error unless there are arguments, of a size that has all their fields."""
    *_, (last, type_, *_) = args.struct._fields_
    least = getattr(args.struct, last).offset + ctypes.sizeof(type_)
    b.fail_if(b.is_null(args.at), "INVALID_ARGUMENT", f"PJRT_{name}: the arguments are null")
    if "struct_size" in args.struct.types:
        b.fail_if(
            b.icmp("ult", args.struct_size, least), "INVALID_ARGUMENT",
            f"PJRT_{name}: the struct of arguments is smaller than in PJRT 0.{interface().minor}",
        )  # fmt: skip


def need(b: Writer, struct: type[Struct], at: Val, tag: int, what: str) -> Record:
    """Return the record of a handle, or have the function return an error.

    It must not be null, and has to have the tag of its kind.
    """
    record = b.record(struct, at)
    b.fail_if(b.is_null(at), "INVALID_ARGUMENT", f"the {what} is null")
    b.fail_if(
        b.icmp("ne", record.tag, tag), "INVALID_ARGUMENT",
        f"the {what} has been destroyed, or is none of this plug-in's",
    )  # fmt: skip
    return record
