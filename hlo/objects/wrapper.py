"""The C++ header of a compiled module: a class around the C functions, for C++17 and later."""

from __future__ import annotations

from hlo.objects.header import comment, guard
from hlo.objects.interface import Interface, Leaf, c_type, identifiers
from hlo.values.types import ArrayShape
from hlo.version import __version__

# Suffixes of C++ headers.
SUFFIXES = (".hpp", ".hh", ".hxx")

_SHARED = """\
#ifndef HLO_CPP_TYPES
#define HLO_CPP_TYPES

namespace hlo {

/* What a call that fails throws. */
class Error : public std::runtime_error {
 public:
  Error(int status, const std::string &what) : std::runtime_error(what), status_(status) {}
  /* What the C function returned; 0 where it was not called. */
  int status() const noexcept { return status_; }

 private:
  int status_;
};

[[noreturn]] inline void fail(int status, const std::string &what) {
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
  throw Error(status, what);
#else
  std::fprintf(stderr, "hlo: %s (status %d)\\n", what.c_str(), status);
  std::abort();
#endif
}

/* Elements that lie in memory one after the other, which somebody else owns: of an address and a
 * number, an array, a vector or anything else with data() and size(). */
template <class T>
class Span {
 public:
  constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N>
  constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  template <class C, class = decltype(static_cast<T *>(std::data(std::declval<C &>()))),
            class = std::enable_if_t<!std::is_same_v<std::remove_cv_t<C>, Span>>>
  constexpr Span(C &container) noexcept
      : data_(std::data(container)), size_(std::size(container)) {}
  template <class C, class = std::enable_if_t<std::is_const_v<T> && !std::is_same_v<C, Span>>,
            class = decltype(static_cast<T *>(std::data(std::declval<const C &>())))>
  constexpr Span(const C &container) noexcept
      : data_(std::data(container)), size_(std::size(container)) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T *data_;
  std::size_t size_;
};

/* Memory that is aligned, and given back when its owner goes. */
class Arena {
 public:
  Arena(std::size_t bytes, std::size_t alignment)
      : memory_(bytes == 0 ? nullptr : ::operator new(bytes, std::align_val_t{alignment}),
                Free{std::align_val_t{alignment}}) {}
  void *get() const noexcept { return memory_.get(); }

 private:
  struct Free {
    std::align_val_t alignment;
    void operator()(void *at) const noexcept { ::operator delete(at, alignment); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace hlo

#endif
"""


def wrapper(interface: Interface, source: str, file: str, c_header: str) -> str:
    """Return the text of a C++ header.

    source: what the module was read from. file: name of the header itself. c_header: that of the C
    header that it includes.
    """
    name = interface.symbol
    (class_name,) = identifiers([name], ("Error", "Span", "Arena", "fail"))
    once = guard(file)
    return "\n".join(
        [
            f"/* {comment(file)}: made by hlo-tools {__version__} from {comment(source)}.",
            f" * A class around the functions of {comment(c_header)}. C++17 or later. */",
            f"#ifndef {once}",
            f"#define {once}",
            "",
            "#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)",
            '#error "this header needs C++17"',
            "#endif",
            "",
            *(f"#include <{h}>" for h in _INCLUDES),
            "",
            f'#include "{c_header}"',
            *(['#include "hlo_ffi.h"'] if interface.uses_host else []),
            "",
            _SHARED,
            "namespace hlo {",
            "",
            *_class(interface, class_name),
            "",
            "}  // namespace hlo",
            "",
            "#endif",
            "",
        ]
    )


_INCLUDES = (
    "complex", "cstddef", "cstdint", "cstdio", "cstdlib", "iterator", "memory", "new", "stdexcept",
    "string", "type_traits", "utility", "vector",
)  # fmt: skip


# Other member names of the class.
_MEMBERS = (
    "Arena", "Error", "Results", "Span", "arena_", "call", "check", "fail", "has_threads_", "hlo",
    "host_", "inputs", "need", "outputs", "results", "run", "run_into", "set_threads", "std",
    "threads_",
)  # fmt: skip


def _class(interface: Interface, name: str) -> list[str]:
    symbol, host = interface.symbol, interface.uses_host
    inputs, outputs = interface.inputs, interface.outputs
    results = [leaf.ident for leaf in outputs]
    names = identifiers([leaf.ident for leaf in inputs], (name, *results, *_MEMBERS))
    taken = [f"Span<const {_type(x.shape)}> {n}" for x, n in zip(inputs, names, strict=True)]
    given = [f"Span<{_type(leaf.shape)}> {leaf.ident}" for leaf in outputs]
    sizes = [
        f'    need("{n}", {n}.size(), {_size(interface, leaf)});'
        for leaf, n in zip((*inputs, *outputs), (*names, *results), strict=True)
    ]
    resized = [f"    results.{x.ident}.resize({_size(interface, x)});" for x in outputs]
    passed = ", ".join([*names, *(f"results.{n}" for n in results)])
    return [
        "/* The compiled module, with the memory that a call works in: one call at a time. Several",
        " * objects may run at the same time. */",
        f"class {name} {{",
        " public:",
        *_results(interface),
        *_constructor(interface, name),
        "  /* Runs on several threads from now on. The results are the same. */",
        "  void set_threads(const hlo_threads &threads) noexcept {",
        "    threads_ = threads;",
        "    has_threads_ = true;",
        "  }",
        "",
        "  /* Arguments and results, with their names, types and sizes. */",
        f"  static Span<const hlo_array> inputs() noexcept {{ return {{{symbol}_inputs, "
        f"{symbol}_INPUTS}}; }}",
        f"  static Span<const hlo_array> outputs() noexcept {{ return {{{symbol}_outputs, "
        f"{symbol}_OUTPUTS}}; }}",
        "",
        "  /* Computes into tables of addresses in the order of inputs() and outputs(). Returns",
        f"   * what {symbol}_call does. */",
        "  [[nodiscard]] int call(const void *const *in, void *const *out) noexcept {",
        f"    return {symbol}_call(in, out, arena_.get(), has_threads_ ? &threads_ : nullptr"
        f"{', host_' if host else ''});",
        "  }",
        "",
        "  /* Computes into memory of the caller's. Throws Error; so do wrong sizes. */",
        *_declared("  void run_into(", [*taken, *given]),
        *sizes,
        f"    const void *in[{symbol}_INPUTS + 1] = {{{_addresses(names)}}};",
        f"    void *out[{symbol}_OUTPUTS + 1] = {{{_addresses(results)}}};",
        "    check(call(in, out));",
        "  }",
        "",
        "  /* Computes into memory of its own. Throws Error. */",
        *_declared("  Results run(", taken),
        "    Results results;",
        *resized,
        f"    run_into({passed});",
        "    return results;",
        "  }",
        "",
        " private:",
        *_private(interface),
        "};",
    ]


def _results(interface: Interface) -> list[str]:
    members = [f"    std::vector<{_type(x.shape)}> {x.ident};" for x in interface.outputs]
    return ["  struct Results {", *members, "  };", ""]


def _constructor(interface: Interface, name: str) -> list[str]:
    symbol = interface.symbol
    arena = f"arena_({symbol}_WORKSPACE_BYTES, {symbol}_WORKSPACE_ALIGNMENT)"
    if interface.uses_host:
        lines = [
            "  /* host: the functions that the module calls, for as long as this object lives. */",
            f"  explicit {name}(const hlo_host &host) : {arena}, host_(&host) {{",
        ]
    else:
        lines = [f"  {name}() : {arena} {{"]
    if interface.asks_processor:
        lines += [
            f"    if ({symbol}_processor() == nullptr)",
            f'      fail(HLO_BAD_PROCESSOR, "{symbol}: the processor lacks instructions of it");',
        ]
    lines.append("  }")
    return [*lines, ""]


def _private(interface: Interface) -> list[str]:
    symbol = interface.symbol
    lines = [
        "  static void need(const char *what, std::size_t size, std::size_t wanted) {",
        "    if (size != wanted)",
        f'      fail(0, std::string("{symbol}: ") + what + " has " + std::to_string(size) +',
        '                  " elements, " + std::to_string(wanted) + " are needed");',
        "  }",
    ]
    if not interface.inputs and not interface.outputs:
        lines = []
    lines += ["  void check(int status) const {"]
    said = f'"{symbol} returns " + std::to_string(status)'
    if interface.uses_host:
        said += (
            ' + (status > 0 && host_->message != nullptr ? std::string(": ") + host_->message : "")'
        )
    lines += [f"    if (status != 0) fail(status, {said});", "  }", "", "  Arena arena_;"]
    if interface.uses_host:
        lines.append("  const hlo_host *host_;")
    return [*lines, "  hlo_threads threads_{};", "  bool has_threads_ = false;"]


def _declared(start: str, params: list[str]) -> list[str]:
    """Return the header of a function, wrapped at the line length."""
    lines, line = [], start
    for n, param in enumerate(params):
        text = param + ("" if n + 1 == len(params) else ",")
        if len(line) + len(text) > 94 and not line.endswith("("):
            lines.append(line.rstrip())
            line = "      "
        line += text + " "
    return [*lines, line.rstrip() + ") {"]


def _addresses(names: list[str]) -> str:
    return ", ".join([*(f"{name}.data()" for name in names), "nullptr"])


def _size(interface: Interface, leaf: Leaf) -> str:
    return f"{interface.symbol}_BYTES_{leaf.ident} / sizeof({_type(leaf.shape)})"


def _type(shape: ArrayShape) -> str:
    """Return the C++ type of an array's elements."""
    plain = c_type(shape)
    if shape.element_type.is_complex:
        return f"std::complex<{plain}>"
    return plain if plain in ("float", "double") else f"std::{plain}"
