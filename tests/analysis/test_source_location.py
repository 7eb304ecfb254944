"""Where instructions come from: lines of HLO and of programs."""

from __future__ import annotations

import pytest

import hlo
from hlo.analysis.source_location import SourceLocation, StackFrame, call_stack, source_location

_TABLES = """HloModule m

FileNames
1 "model.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=2 end_column=3}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY e {
  x = f32[] parameter(0)
  ROOT y = f32[] sqrt(x), metadata={METADATA}
}
"""


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ('op_name="jit(f)/sqrt" stack_frame_id=1', "model.py:12 in f (jit(f)/sqrt), m.hlo:17"),
        ('op_name="sqrt" source_file="a.py" source_line=3', "a.py:3 (sqrt), m.hlo:17"),
        ('source_file="a.py"', "a.py, m.hlo:17"),
        ('op_type="Sqrt"', "Sqrt, m.hlo:17"),
        ("stack_frame_id=7", "m.hlo:17"),
        ("stack_frame_id=-1", "m.hlo:17"),
    ],
)
def test_metadata(metadata: str, expected: str) -> None:
    module = hlo.parse(_TABLES.replace("METADATA", metadata), "m.hlo")
    assert str(source_location(module["y"])) == expected


def test_no_metadata() -> None:
    module = hlo.parse("HloModule m ENTRY e { ROOT c = s32[] constant(7) }")
    assert source_location(module["c"]) == SourceLocation("<string>", 1)


def test_no_text() -> None:
    data = hlo.to_proto(hlo.parse(_TABLES.replace("METADATA", "stack_frame_id=1")))
    assert str(source_location(hlo.from_proto(data)["y"])) == "model.py:12 in f"


def test_the_functions_of_a_program() -> None:
    text = _TABLES.replace('1 "f"', '1 "<module>"\n2 "f.<locals>.<lambda>"')
    location = "{file_name_id=1 function_name_id=2 line=5 end_line=5 column=0 end_column=1}"
    text = text.replace("column=3}", f"column=3}}\n2 {location}")
    frame = "{file_location_id=1 parent_frame_id=1}"
    text = text.replace(frame, f"{frame}\n2 {{file_location_id=2 parent_frame_id=2}}")
    module = hlo.parse(text.replace("METADATA", "stack_frame_id=2"))
    stack = call_stack(module.entry["y"])
    assert stack == (
        StackFrame("model.py", 12, "<module>"), StackFrame("model.py", 5, "f.<locals>.<lambda>")
    )  # fmt: skip
    assert [frame.function_name for frame in stack] == ["", "f"]
    assert call_stack(module.entry["x"]) == ()
    # Frames that call each other, as no program has them, come to an end.
    endless = text.replace("parent_frame_id=1}", "parent_frame_id=3}")
    endless = endless.replace("METADATA", "stack_frame_id=2")
    assert len(call_stack(hlo.parse(endless).entry["y"])) == 2
