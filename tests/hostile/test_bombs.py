"""Files that declare or unpack to gigabytes: one typed error, in little time and memory, from every reader.

Scripts make the files, most of them of some hundred bytes. One child process with limits reads them all.
"""

from __future__ import annotations

import bz2
import io
import json
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

from tests.hostile.limited_child import run_limited
from tests.hostile.stores import npy
from tests.hostile.test_mutations import LIMIT_S
from tests.runtime.images.test_declared_size import png

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.multi, pytest.mark.guarded]

MAX_BYTES = 500_000_000
"""Memory of a process that reads a file: the pledge."""

PIECE = 1 << 20
GIGABYTE = 1 << 30

READ = """
from netweave.training.data import open_source
from netweave.job import DataSource

def of_source(kind, settings):
    with open_source(DataSource(kind, ("data", "label"), 1, settings)) as source:
        for index in range(min(len(source), 2)):
            source.read(index)

for name, kind, settings in json.loads(sys.argv[1]):
    call = (of_source, kind, settings) if kind else (netweave.load, settings)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = attempt(*call)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result["seconds"] += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report(name=name, peak=max(peak(), after.ru_maxrss * 1024), **result)
"""


def deflated(head: bytes, num_bytes: int) -> bytes:
    """Return a stream that unpacks to a beginning and so many zeros, a thousandth as long."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)  # refers to nothing before it
    return start + piece * (num_bytes // PIECE) + packer.flush()


def archive(name: str, stream: bytes, *, unpacked: int, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive of one packed stream, which may say anything of its length."""
    sizes = struct.pack("<HHHIIIHH", method, 0, 0, 0, len(stream), unpacked, len(name), 0)
    local = b"PK\3\4" + struct.pack("<HH", 20, 0) + sizes + name.encode() + stream
    central = b"PK\1\2" + struct.pack("<HHH", 20, 20, 0) + sizes + bytes(14) + name.encode()
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


def array_header(*shape: int) -> bytes:
    """Return the header of a ``.npy`` file of float32."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


def safetensors(header: bytes, *, length: int | None = None) -> bytes:
    """Return a header behind its length, which may be a lie."""
    return (len(header) if length is None else length).to_bytes(8, "little") + header


def hdf5() -> bytes:
    """Return a file that declares 4 GB of zeros, which it need not store."""
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("data", shape=(4, 2**14, 2**14), chunks=(1, 64, 64), dtype="f4")
        file["label"] = np.zeros(4, np.float32)
    return content.getvalue()


def packed_hdf5(folder: str, num_bytes: int) -> bytes:
    """Return a file whose chunks really unpack to so many zeros, four megabytes each."""
    chunk = zlib.compress(bytes(4 * PIECE))
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.attrs["layer_names"] = [b"dense"]
        group = file.create_group(folder)
        group.attrs["weight_names"] = [b"dense/0"]
        rows = num_bytes // len(bytes(4 * PIECE))
        data = group.create_dataset("dense/0", (rows, PIECE), "f4", chunks=(1, PIECE), compression="gzip")
        for row in range(rows):
            data.id.write_direct_chunk((row, 0), chunk)
    return content.getvalue()


def recordio(payload: bytes, *, length: int | None = None) -> bytes:
    """Return a record, which may say that it is longer."""
    size = len(payload) if length is None else length
    return struct.pack("<II", 0xCED7230A, size) + payload + bytes(-len(payload) % 4)


def bombs() -> dict[str, tuple[str, bytes]]:
    """Return the files by what they do: a name, and the content."""
    row = {"dtype": "F32", "shape": [2**20, 2**18], "data_offsets": [0, 2**40]}
    image = png(30_000, 30_000)
    idx = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**20, 32, 32)
    packed = deflated(array_header(2**28), GIGABYTE)
    honest, lying = GIGABYTE + len(array_header(2**28)), len(npy(np.zeros(3)))
    squeezed = bz2.compress(bytes(1 << 28))
    gz = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return {
        "npz that declares": ("x.npz", archive("a.npy", array_header(2**40), unpacked=2**31)),
        "npz that unpacks": ("x.npz", archive("a.npy", packed, unpacked=honest)),
        "npz that unpacks to more than it says": ("x.npz", archive("a.npy", packed, unpacked=lying)),
        "npz in bzip2": ("x.npz", archive("a.npy", squeezed, unpacked=lying, method=zipfile.ZIP_BZIP2)),
        "npy": ("x.npy", array_header(2**20, 2**20) + bytes(100)),
        "gz": ("x.gz", gz + deflated(idx, GIGABYTE)),
        "gz of many members": ("x.gz", (gz + deflated(idx, PIECE) + bytes(8)) * 1024),
        "safetensors of a long header": ("x.safetensors", safetensors(b"{}", length=2**40)),
        "safetensors of a large header": ("x.safetensors", safetensors(b"[" + b"{}," * (16 << 20) + b"{}]")),
        "safetensors of large arrays": ("x.safetensors", safetensors(json.dumps({"a": row}).encode())),
        "HDF5": ("x.h5", hdf5()),
        "HDF5 that unpacks": ("x.h5", packed_hdf5("data", GIGABYTE)),
        "weights of Keras": ("x.h5", packed_hdf5("model_weights", GIGABYTE)),
        "weights of Keras 3": ("x.weights.h5", packed_hdf5("layers", GIGABYTE)),
        "weights of Caffe": ("x.caffemodel.h5", packed_hdf5("data", GIGABYTE)),
        "image": ("x.png", image),
        "RecordIO that declares": ("x.rec", recordio(b"", length=2**29 - 1)),
        "RecordIO of an image": ("x.rec", recordio(struct.pack("<IfQQ", 0, 1.0, 0, 0) + image)),
    }


def rows(folder: Path) -> list[tuple[str, str, object]]:
    """Write the files; return each way to read them: a name, a kind of source or none, settings or path."""
    found: list[tuple[str, str, object]] = []
    for number, (name, (file, content)) in enumerate(bombs().items()):
        path = folder / str(number) / file
        path.parent.mkdir()
        path.write_bytes(content)
        (path.parent / "list.txt").write_text(f"{file} 1\n")
        sources = {
            ".npz": ("numpy", {"paths": [str(path)]}),
            ".npy": ("numpy", {"paths": [str(path)]}),
            ".gz": ("mnist", {"image": str(path), "label": str(path)}),
            ".h5": ("hdf5", {"path": str(path), "datasets": ["data", "label"]}),
            ".png": ("images", {"path": str(path.parent / "list.txt")}),
            ".rec": ("recordio", {"path": str(path)}),
        }
        if path.suffix in sources:
            found.append((name, *sources[path.suffix]))
        if path.suffix in {".npz", ".npy", ".safetensors", ".h5"}:
            found.append((f"{name}, as a net", "", str(path)))
    return found


def test_most_bombs_are_small():
    sizes = [len(content) for _, content in bombs().values()]
    assert sum(size < 20_000 for size in sizes) >= 8


def test_bombs_are_refused(tmp_path):
    given = rows(tmp_path)
    results = run_limited(READ, json.dumps(given), timeout_s=60)
    assert [result["name"] for result in results] == [name for name, _, _ in given]
    for result in results:
        assert result["outcome"].startswith(("ReadError", "UnsupportedError")), result
        assert len(result["outcome"]) < 1000, result
        assert result["seconds"] < LIMIT_S, result
        assert result["peak"] < MAX_BYTES, result
