"""`hlo-layout`: show where array elements are in memory, and convert files to a layout and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from .command_line.common import (
    BAD_INPUT,
    Tool,
    common_options,
    diagnostics_json,
    emit,
    emit_json,
    note,
)
from .command_line.options import Option

if TYPE_CHECKING:
    import numpy as np

    from hlo.values.types import ArrayShape, TupleShape

_ONE_ELEMENT = ("--svg", "--at", "--place")
# The index of every place is part of --json up to so many places.
_LISTED = 4096


@click.command(
    "hlo-layout", cls=Tool, short_help="show memory layouts of arrays", no_args_is_help=True
)
@click.argument("shape")
@click.option("--svg", metavar="FILE", help="Draw the layout to FILE.")
@click.option(
    "--at",
    cls=Option,
    excludes=["--svg"],
    metavar="I,J,..",
    help="Print only the position of this element.",
)
@click.option("--place", cls=Option, excludes=["--svg", "--at"], metavar="N",
              type=click.IntRange(0),
              help="Print only the element at this position of the buffer.")  # fmt: skip
@click.option(
    "--pack",
    cls=Option,
    requires="--output",
    excludes=_ONE_ELEMENT,
    metavar="IN",
    help="Convert the array in IN to a buffer with the layout of SHAPE.",
)
@click.option(
    "--unpack",
    cls=Option,
    requires="--output",
    excludes=(*_ONE_ELEMENT, "--pack"),
    metavar="IN",
    help="Convert the buffer in IN, with the layout of SHAPE, to an array.",
)
@click.option("-o", "--output", cls=Option, requires=["--pack", "--unpack"], metavar="OUT",
              help="Output of --pack and --unpack: a .npy file, an .npz file with as many "
              "arrays as IN, or raw bytes.")  # fmt: skip
@click.option("--limit", default=16, show_default=True, type=click.IntRange(4, 256), metavar="N",
              help="Show at most about N rows, columns and lines of memory.")  # fmt: skip
@click.option("--letters", is_flag=True, help="Call the elements a, b, c, ... in row-major order.")
@click.option("--padded", metavar="N,M,..", help="Pad the dimensions to these sizes.")
@click.option("--padding-value", metavar="V", help="The value of padding.  [default: zero bits]")
@click.option("--json", "as_json", is_flag=True,
              help="Print facts, the requested element, or errors as JSON on stdout.")  # fmt: skip
@common_options
def main(
    shape: str, svg: str | None, at: str | None, place: int | None, pack: str | None,
    unpack: str | None, output: str | None, limit: int, letters: bool, padded: str | None,
    padding_value: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Show the memory layout of SHAPE: size, padding, and the position of each element.

    SHAPE is an array shape in HLO syntax, such as 'f32[3,5]{1,0:T(2,2)}', or a tuple of them.
    Positions count elements from the start of the buffer, padding included. Files that are
    neither .npy nor .npz contain raw bytes: arrays in row-major order, buffers as they are in
    memory.

    \b
    Example:
      hlo-layout 'f32[3,5]{1,0:T(2,2)}' --svg tiles.svg
      hlo-layout 'bf16[64,200]{1,0:T(8,128)(2,1)}' --pack x.npy -o x.bin
    """
    from hlo.errors import HloError

    files = [name for name in (pack, unpack) if name is not None]
    from hlo.io.formats import need_extension
    from hlo.values.layout.physical import array_shape, layout_errors, parse_shape
    from hlo.values.types import TupleShape

    try:
        if svg is not None:
            need_extension(svg, (".svg",), "--svg")
        with layout_errors():
            whole = parse_shape(shape)
            if isinstance(whole, TupleShape) and not (svg or files or padded or at or place):
                _show_tuple(whole, limit, letters, as_json)
                return 0
            array = array_shape(whole) if padded is None else _padded(array_shape(whole), padded)
            filler = None if padding_value is None else _filler(array, padding_value)
            if pack is not None and output is not None:
                _write(output, _packed(array, filler, pack, output))
            elif unpack is not None and output is not None:
                _write(output, _unpacked(array, unpack, output))
            elif at is not None or place is not None:
                _show_element(array, at, place, as_json)
            else:
                _show(_stored(array), svg, limit, letters, padding_value or "", as_json)
    except HloError as e:
        if not as_json:
            raise
        emit_json({"shape": shape, "errors": diagnostics_json(e)})
        return BAD_INPUT
    if as_json and output is not None:
        emit_json({"shape": shape, "errors": []})
    return 0


def _show(
    shape: ArrayShape, svg: str | None, limit: int, letters: bool, padding: str, as_json: bool
) -> None:
    from hlo.io.files import write_text
    from hlo.reports import explorer

    view = explorer.layout_view(shape, limit, letters=letters, padding=padding)
    if svg is not None:
        write_text(svg, explorer.layout_svg(view))
    if as_json:
        emit_json(view.facts.to_json() | {"indices": _indices(shape, view.facts.places)})
    elif svg is None:
        emit(f"{explorer.facts_text(view.facts)}\n{explorer.layout_text(view)}")


def _stored(shape: ArrayShape) -> ArrayShape:
    """Return the shape whose places can be shown: another one if the layout names it."""
    from hlo.values.layout.physical import array_shape

    if shape.layout is None or shape.layout.physical_shape is None:
        return shape
    stored = array_shape(shape.layout.physical_shape)
    note(f"{shape} lies in the memory of {stored}, which is shown: what is where depends on values")
    return stored


def _show_tuple(shape: TupleShape, limit: int, letters: bool, as_json: bool) -> None:
    from hlo.reports import explorer
    from hlo.values.types import ArrayShape

    views = [
        (list(index), explorer.layout_view(leaf, limit, letters=letters))
        for index, leaf in shape.leaves() if isinstance(leaf, ArrayShape)
    ]  # fmt: skip
    total = sum(view.facts.bytes for _, view in views)
    if as_json:
        arrays = [{"index": index} | view.facts.to_json() for index, view in views]
        emit_json({"shape": str(shape), "bytes": total, "arrays": arrays})
        return
    emit(f"{len(views)} arrays, {total} bytes\n")
    for index, view in views:
        at = ",".join(map(str, index))
        emit(f"\n{{{at}}} {explorer.facts_text(view.facts)}\n{explorer.layout_text(view)}")


def _padded(shape: ArrayShape, sizes: str) -> ArrayShape:
    from hlo.values.layout import with_padded_dims

    return with_padded_dims(shape, _index("--padded", sizes))


def _filler(shape: ArrayShape, value: str) -> np.ndarray:
    """Return a literal of the element type as an array of no dimensions."""
    from hlo.errors import HloError, TextError
    from hlo.values.literal import read_literal
    from hlo.values.types import array

    try:
        return read_literal(value, array(shape.element_type, ())).array
    except TextError as e:
        raise HloError.at(e.code, f"--padding-value {value}: {e.message}") from None


def _indices(shape: ArrayShape, places: int) -> list[tuple[int, ...] | None] | None:
    """Return the index of the element in each place, None where padding is; None for many."""
    from hlo.values.layout import multi_index

    return [multi_index(shape, place) for place in range(places)] if places <= _LISTED else None


# --- one element --------------------------------------------------------------------------------


def _show_element(shape: ArrayShape, at: str | None, place: int | None, as_json: bool) -> None:
    from hlo.reports.explorer import layout_facts
    from hlo.values.layout import linear_index, multi_index

    if place is None:
        place = int(linear_index(shape, _index("--at", at or "")))
    index = multi_index(shape, place)
    byte = layout_facts(shape).byte_label(place)
    if as_json:
        emit_json({"shape": str(shape), "place": place, "byte": byte, "index": index})
    else:
        what = "padding" if index is None else f"index {','.join(map(str, index)) or '()'}"
        emit(f"place {place}, byte {byte}: {what}\n")


def _index(option: str, text: str) -> tuple[int, ...]:
    """Return the index that a text spells: `2,3`, or nothing for the element of a scalar."""
    inside = text.strip().removeprefix("(").removesuffix(")")
    try:
        return tuple(int(i) for i in inside.split(",")) if inside else ()
    except ValueError:
        raise click.UsageError(f"{option} {text} is not a list of numbers, such as 2,3.") from None


# --- files --------------------------------------------------------------------------------------


def _packed(
    shape: ArrayShape, filler: np.ndarray | None, source: str, output: str
) -> dict[str, np.ndarray]:
    """Return the buffers of the arrays in a file, by name."""
    from hlo.io.arguments import as_leaf
    from hlo.io.files import read_raw
    from hlo.values.arrays import actual
    from hlo.values.layout.packing import pack

    arrays = _read(source, output, lambda: read_raw(source, shape))
    return {
        name: pack(actual(as_leaf(array, shape, f"{source}{name and f': {name}'}")), shape, filler)
        for name, array in arrays.items()
    }


def _unpacked(shape: ArrayShape, source: str, output: str) -> dict[str, np.ndarray]:
    """Return the arrays whose buffers are in a file, by name."""
    import numpy as np

    from hlo.io.files import read_bytes
    from hlo.values.layout.packing import unpack

    buffers = _read(source, output, lambda: np.frombuffer(read_bytes(source), np.uint8))
    # Buffers may come as elements of any type: what counts is their bytes.
    return {
        name: unpack(np.frombuffer(buffer.tobytes(), np.uint8), shape)
        for name, buffer in buffers.items()
    }


def _read(source: str, output: str, raw: Callable[[], np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays in a file, by name; one without names is called `` alone."""
    from hlo.io.files import need_places, read_npy, read_npz

    need_places([output], [source])
    if source.endswith(".npz"):
        arrays = read_npz(source)
        if not output.endswith(".npz") and len(arrays) != 1:
            raise click.UsageError(
                f"-o {output}: {source} has {len(arrays)} arrays, which need an .npz."
            )
        return arrays
    return {"": read_npy(source) if source.endswith(".npy") else raw()}


def _write(output: str, arrays: dict[str, np.ndarray]) -> None:
    from hlo.io.files import write_files, write_npy, write_npz

    if output.endswith(".npz"):
        write_npz(output, {name or "arr_0": array for name, array in arrays.items()})
        return
    (array,) = arrays.values()
    if output.endswith(".npy"):
        write_npy(output, array)
    else:
        write_files({output: array.tobytes()})
