"""GGUF as weights alone: what llama.cpp's package writes and reads, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, UnsupportedError
from netweave.files.gguf import BLOCK_TYPES, read_gguf

GOLDEN = Path(__file__).parents[2] / "golden" / "gguf"
"""What ``tests/oracles/gguf_arrays.py`` wrote."""

REAL = dict(np.load(GOLDEN / "arrays.npz"))


def text(content: str) -> bytes:
    return struct.pack("<Q", len(content)) + content.encode()


def row(name: str, sizes: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def gguf(
    path: Path, rows: list[bytes], data: bytes = b"", settings: list[bytes] = (), version: int = 3
) -> Path:
    """Write a file with a table of arrays, and its data at the default alignment."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(rows), len(settings)) + b"".join([*settings, *rows])
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


@pytest.mark.parametrize("name", REAL)
def test_arrays_are_the_numbers_that_llama_cpp_reads(name):
    read = read_gguf(GOLDEN / "arrays.gguf")[name]
    assert np.array_equal(read.astype(np.float32), REAL[name])


def test_every_type_of_blocks_is_held_against_llama_cpp():
    assert {f"{kind.name}.weight" for kind in BLOCK_TYPES.values()} <= REAL.keys()


def test_a_file_is_a_net_of_weights():
    graph = netweave.load(GOLDEN / "arrays.gguf")
    assert graph.only_weights
    assert graph.parameters["positions"].shape == (1, 2, 3)
    assert graph.parameters["Q4_K.weight"].shape == (2, 512)
    assert np.array_equal(read_gguf(GOLDEN / "arrays.gguf")["positions"].reshape(-1), np.arange(6))


def test_weights_are_compared_with_the_same_weights_as_npz(tmp_path):
    np.savez(tmp_path / "arrays.npz", **REAL, positions=np.arange(6, dtype=np.int32).reshape(1, 2, 3))
    assert netweave.compare(GOLDEN / "arrays.gguf", tmp_path / "arrays.npz").equal


def test_the_alignment_is_the_file_s(tmp_path):
    setting = text("general.alignment") + struct.pack("<II", 4, 64)
    path = gguf(tmp_path / "x.gguf", [row("w", (2,), 0, 0)], settings=[setting])
    head = path.read_bytes()
    begin = 24 + len(setting) + len(row("w", (2,), 0, 0))
    path.write_bytes(head[:begin] + bytes(-begin % 64) + struct.pack("<2f", 1, 2))
    assert read_gguf(path)["w"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("w", (4,), 0, 0)], r"'w': lies at bytes 64 to 80 of 72; was the file copied whole\?"),
        ([row("w", (2,), 0, 2**63)], "was the file copied whole"),
        ([row("w", (2**40, 2**40), 0, 0)], "which no array can have"),
        ([row("w", (2,) * 70, 0, 0)], "which no array can have"),
        ([row("w", (31,), 8, 0)], r"rows of \(31,\) numbers, which are not blocks of 32"),
        ([row("w", (), 8, 0)], r"not blocks of 32"),
        ([row("w", (1,), 0, 0), row("w", (1,), 0, 0)], "two arrays named 'w'"),
    ],
)
def test_damaged_tables_are_refused(tmp_path, rows, message):
    with pytest.raises(ReadError, match=message):
        read_gguf(gguf(tmp_path / "x.gguf", rows, bytes(8)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([text("general.alignment") + struct.pack("<II", 4, 0)], "general.alignment of 0"),
        ([text("general.alignment") + struct.pack("<I", 8) + text("x")], "general.alignment of 'x'"),
        ([text("a") + struct.pack("<I", 99)], "a setting of type 99"),
        ([text("a") + struct.pack("<IIQ", 9, 4, 2**60)], "its header would go on for"),
        ([text("a") + struct.pack("<IIQ", 9, 8, 2**60)], "its header would go on for"),
    ],
)
def test_damaged_settings_are_refused(tmp_path, settings, message):
    with pytest.raises(ReadError, match=message):
        read_gguf(gguf(tmp_path / "x.gguf", [row("w", (1,), 0, 0)], bytes(4), settings))


def test_what_is_not_read_is_named(tmp_path):
    with pytest.raises(UnsupportedError, match="has the type 19 of ggml, expected numbers or blocks of Q4_0"):
        read_gguf(gguf(tmp_path / "x.gguf", [row("w", (256,), 19, 0)], bytes(66)))
    with pytest.raises(UnsupportedError, match="version 0x1, expected 2 or 3"):
        read_gguf(gguf(tmp_path / "x.gguf", [], version=1))
    nested = text("a") + struct.pack("<IIQ", 9, 9, 1)
    with pytest.raises(UnsupportedError, match="a list of type 9"):
        read_gguf(gguf(tmp_path / "x.gguf", [], settings=[nested]))


def test_a_file_cut_short_anywhere_is_refused_in_one_line(tmp_path):
    content = (GOLDEN / "arrays.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    for end in range(4, len(content) - 64, 97):
        path.write_bytes(content[:end])
        with pytest.raises(ReadError):
            netweave.load(path)
