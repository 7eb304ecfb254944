"""Files of values: what is broken, or says to be more than it is, is one error of ours."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.io.files import read_npy, read_npz
from tests.sweeps.fuzz_files import failure, mutants


def npy(
    shape: str, dtype: str = "'<f4'", order: str = "False", content: bytes = bytes(24)
) -> bytes:
    """Return an npy of 24 bytes whose header has these words."""
    head = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + content


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        npy("(2, 3)", content=bytes(23)),
        npy("(True, 6)"),
        npy("(2.0, 3)"),
        npy("(-2, -3)"),
        npy("2"),
        npy("(2, 3"),
        npy("(10**30,)"),
        npy("(9223372036854775807, 3)"),
        npy("(99999999999999999999999, 0)"),
        npy("(2, 3)", dtype="'|O'"),
        npy("(2, 3)", dtype="'<f99'"),
        npy("(2, 3)", dtype="('<f4', (10**9, 10**9))"),
        npy("(2, 3)", order="1"),
        npy("(2, 3)")[:9],
        npy("(2, 3), '''"),
        npy("(" * 500),
    ],
    ids=range(18),
)
@pytest.mark.parametrize("compression", [None, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_broken_npy_is_an_error(data: bytes, compression: int | None, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if compression is None:
        path.write_bytes(data)
    else:
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("x.npy", data)
    with pytest.raises(HloError) as caught:
        read_npy(path) if compression is None else read_npz(path)
    assert caught.value.code in ("bad-file", "out-of-memory")
    assert str(path) in str(caught.value)


def test_an_archive_that_lies_about_its_size_is_an_error(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.zeros(1 << 22, np.float32))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content.getvalue())
    data = bytearray(packed.getvalue())
    at = data.rfind(b"PK\1\2") + 24
    for size in (0, 100):
        data[at : at + 4] = size.to_bytes(4, "little")
        (tmp_path / "x.npz").write_bytes(data)
        with pytest.raises(HloError):
            read_npz(tmp_path / "x.npz")


@pytest.mark.parametrize("seed", range(2))
def test_mutated_files_give_values_or_our_errors(seed: int) -> None:
    """tests/sweeps/fuzz_files.py does more of them."""
    for number, data in enumerate(mutants(198, seed)):
        if number % 100 != 99:
            found = failure(data)
            assert found is None, f"{found}\n{data[:2000]!r}"
