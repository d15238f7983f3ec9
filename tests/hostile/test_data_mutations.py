"""Damaged stores of records: every reader gives records or a NetweaveError, in little time and memory."""

from __future__ import annotations

import contextlib
import io
import struct
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.data import SOURCES, open_source
from netweave.data.transforms.arithmetic import read_means
from netweave.errors import NetweaveError
from netweave.job import DataSource
from tests.data.make import data_base, datum, field, kvfile, pictures, singa_record
from tests.hostile.mutations import damaged_bytes, damaged_text
from tests.hostile.test_mutations import limited

cv2 = pytest.importorskip("cv2")
h5py = pytest.importorskip("h5py")
pytest.importorskip("lmdb")

IMAGES = pictures(4, height=5, width=6)
UNTRIED = {"arrays", "filled", "iterable", "hbase"}
"""Kinds that parse no bytes, and HBase, whose bytes come from a server: ``test_damaged_answers``."""

WINDOWS = """# 0
0.png
3
5
6
3
1 0.9 1 1 3 4
0 0.1 0 0 2 2
2 0.7 0 1 5 4
"""


LABELS = b"0 0.5 0.5 0.25 0.5\n1 0.25 0.75 0.125 0.25\n"
XML = (
    b"<annotation><size><width>6</width><height>5</height></size><object><name>dog</name><difficult>1</difficult>"
    b"<bndbox><xmin>2</xmin><ymin>1</ymin><xmax>5</xmax><ymax>4</ymax></bndbox></object></annotation>"
)


def png(pixels):
    return cv2.imencode(".png", pixels)[1].tobytes()


def record(pixels, number):
    payload = struct.pack("<IfQQ", 0, float(number), number, 0) + png(pixels)
    return struct.pack("<II", 0xCED7230A, len(payload)) + payload + bytes(-len(payload) % 4)


def hdf5_file(**settings):
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("data", data=IMAGES.transpose(0, 3, 1, 2).astype("f4"), **settings)
        file.create_dataset("label", data=np.arange(4.0), **settings)
    return content.getvalue()


@cache
def stores():
    """Return a small store of each kind: the file that is damaged, other files, settings."""
    records = [record(pixels, number) for number, pixels in enumerate(IMAGES)]
    starts = np.cumsum([0, *map(len, records)])[:-1]
    index = "".join(f"{number}\t{start}\n" for number, start in enumerate(starts)).encode()
    values = [singa_record(pixels, label, shape=(3, 5, 6)) for label, pixels in enumerate(IMAGES)]
    named = {f"{number:05d}": value for number, value in enumerate(values)}
    old = {key: field(1, 0, 0) + field(5, 2, value) for key, value in named.items()}
    with TemporaryDirectory() as folder:
        data_base(Path(folder) / "datum", {key: datum(encoded=png(IMAGES[0])) for key in named})
        data_base(Path(folder) / "record", named)
        lmdbs = {kind: (Path(folder) / kind / "data.mdb").read_bytes() for kind in ("datum", "record")}
    planes = IMAGES.transpose(0, 3, 1, 2)
    npy = np.lib.format.header_data_from_array_1_0(planes)
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(str(npy)) + 1) + str(npy).encode() + b"\n"
    idx = bytes([0, 0, 8, 3]) + struct.pack(">3I", 4, 5, 6) + IMAGES[..., 0].tobytes()
    labels = bytes([0, 0, 8, 1]) + struct.pack(">I", 4) + bytes(4)
    cifar = b"".join(bytes([number]) + bytes(3072) for number in range(3))
    boxes = {"path": "l.txt", "classes": 2, "names": ["cat", "dog"]}
    images = {f"{number}.png": png(pixels) for number, pixels in enumerate(IMAGES)}
    of_list = "".join(f"{name} {label}\n" for label, name in enumerate(images)).encode()
    rows = b"1,2,3.5,4\n0,5,6,7e3\n"
    windows = {"path": "w.txt", "batch_size": 2, "crop_size": 4, "context_pad": 1}
    hdf5 = {"path": "x.h5", "datasets": ["data", "label"]}
    whole = b"".join(records)
    return {
        "recordio": ("x.rec", {"x.rec": whole}, {"path": "x.rec"}),
        "recordio with index": ("x.idx", {"x.rec": whole, "x.idx": index}, {"path": "x.rec"}),
        "kvfile": ("x", {"x": kvfile(named)}, {"path": "x"}),
        "shard": ("x", {"x": kvfile(old)}, {"path": "x"}),
        "record_lmdb": ("x", {"x": lmdbs["record"]}, {"path": "x"}),
        "lmdb": ("x", {"x": lmdbs["datum"]}, {"path": "x"}),
        "textfile": ("x", {"x": rows}, {"path": "x", "shape": [3]}),
        "characters": (
            "x",
            {"x": b"the fox and the dog", "v": b"thefoxandg "},
            {"path": "x", "vocab_path": "v", "unroll_len": 4, "batchsize": 2},
        ),
        "csv": ("x", {"x": rows}, {"data": "x", "data_shape": [4]}),
        "numpy": ("x.npy", {"x.npy": head + planes.tobytes()}, {"paths": ["x.npy"]}),
        "mnist": ("x", {"x": idx, "y": labels}, {"image": "x", "label": "y"}),
        "cifar": ("x", {"x": cifar}, {"paths": ["x"]}),
        "images": ("l.txt", {"l.txt": of_list, **images}, {"path": "l.txt"}),
        "images whose files are damaged": ("0.png", {"l.txt": of_list, **images}, {"path": "l.txt"}),
        "folder": ("d/a/0.png", {f"d/a/{name}": image for name, image in images.items()}, {"path": "d"}),
        "windows": ("w.txt", {"w.txt": WINDOWS.encode(), **images}, windows),
        "hdf5": ("x.h5", {"x.h5": hdf5_file()}, hdf5),
        "hdf5 in chunks": ("x.h5", {"x.h5": hdf5_file(chunks=True, compression="gzip")}, hdf5),
        "boxes": ("0.txt", {"l.txt": b"0.png\n1.png\n", "0.txt": LABELS, "1.txt": LABELS, **images}, boxes),
        "boxes with a list": (
            "l.txt",
            {"l.txt": b"0.png\n1.png\n", "0.txt": LABELS, "1.txt": LABELS, **images},
            boxes,
        ),
        "boxes in XML": (
            "Annotations/0.xml",
            {
                "l.txt": b"JPEGImages/0.png\n" * 2,
                "Annotations/0.xml": XML,
                "JPEGImages/0.png": images["0.png"],
            },
            boxes,
        ),
    }


TEXTS = {"recordio with index", "textfile", "csv", "images", "windows"}
TEXTS |= {"boxes", "boxes with a list", "boxes in XML"}


def read_all(name, content, folder, monkeypatch_chdir):
    damaged, files, given = stores()[name]
    for file, whole in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content if file == damaged else whole)
    monkeypatch_chdir(folder)
    with open_source(DataSource(name.split()[0], ("data", "label"), 1, given)) as source:
        count = 20 if source.endless else len(source)
        read = [source.read(index) for index in range(min(count, 50))]
        for index in range(min(count, 2)):
            source.item(index)
    return read


def damage(name, content):
    with (
        TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        limited(),
        contextlib.suppress(NetweaveError),
    ):
        read_all(name, content, Path(folder), patch.chdir)


@st.composite
def damaged_stores(draw):
    name = draw(st.sampled_from(sorted(stores())))
    damaged, files, _ = stores()[name]
    ways = [damaged_bytes(files[damaged])] + [damaged_text(files[damaged])] * (2 * (name in TEXTS))
    return name, draw(st.one_of(ways))


@pytest.mark.parametrize("name", stores())
def test_the_undamaged_stores_are_read(name, tmp_path, monkeypatch):
    damaged, files, _ = stores()[name]
    assert len(read_all(name, files[damaged], tmp_path, monkeypatch.chdir)) >= 2


@given(damaged_stores())
@settings(max_examples=60, deadline=None)
def test_a_damaged_store_is_read_or_refused(drawn):
    damage(*drawn)


@pytest.mark.slow
@given(damaged_stores())
@settings(max_examples=1500, deadline=None)
def test_many_damaged_stores_are_read_or_refused(drawn):
    damage(*drawn)


@pytest.mark.parametrize("name", stores())
def test_a_store_cut_short_anywhere_is_read_or_refused(name):
    damaged, files, _ = stores()[name]
    for place in range(24):
        damage(name, files[damaged][: place * len(files[damaged]) // 24])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_means_are_read_or_refused(data):
    image = singa_record(data=np.arange(1, 91), shape=(3, 5, 6))
    whole = data.draw(st.sampled_from([kvfile({"mean": image}), field(1, 0, 0) + field(5, 2, image)]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mean.bin"
        path.write_bytes(data.draw(damaged_bytes(whole)))
        with limited(), contextlib.suppress(NetweaveError):
            read_means(str(path))


def test_every_kind_takes_part():
    tried = {name.split()[0] for name in stores()}
    assert tried | UNTRIED >= set(SOURCES)
    assert not tried & UNTRIED
