"""Small stores of records of every kind, for the tests and the fuzzer to damage."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import cv2
import h5py
import numpy as np

from netweave.formats.caffe.schema import caffe_schema
from netweave.job import DataSource
from netweave.training.data import open_source
from tests.training.data.make import data_base, datum, kvfile, pictures, singa_record
from tests.training.data.make import field as wire_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.training.data.source import Record

IMAGES = pictures(4, height=5, width=6)

LABELS = b"0 0.5 0.5 0.25 0.5\n1 0.25 0.75 0.125 0.25\n"
XML = (
    b"<annotation><size><width>6</width><height>5</height></size><object><name>dog</name><difficult>1</difficult>"
    b"<bndbox><xmin>2</xmin><ymin>1</ymin><xmax>5</xmax><ymax>4</ymax></bndbox></object></annotation>"
)
"""Boxes of one image, in the two forms that Darknet's data have."""

MOST_READ = 50
"""Records that are read of a store."""


@dataclass(frozen=True)
class Store:
    """A store of records.

    Attributes:
        kind: The kind of source.
        damaged: The file that is damaged.
        files: All files by name, before damage.
        settings: Of the source; paths are names of files.
        text: Whether the damaged file is a text.
    """

    kind: str
    damaged: str
    files: Mapping[str, bytes]
    settings: Mapping[str, Any] = field(default_factory=lambda: {"path": "x"})
    text: bool = False

    @property
    def whole(self) -> bytes:
        """The content of the damaged file, before damage."""
        return self.files[self.damaged]

    def write(self, folder: Path, content: bytes | None = None) -> None:
        """Write the files, the damaged one with such a content."""
        for name, whole in self.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content if content is not None and name == self.damaged else whole)

    def read(self) -> list[Record]:
        """Read records from the files in the working folder, in every way that a source has."""
        with open_source(DataSource(self.kind, ("data", "label"), 1, dict(self.settings))) as source:
            count = MOST_READ if source.endless else min(len(source), MOST_READ)
            records = [source.read(index) for index in range(count)]
            source.read_many(np.arange(count))
            for index in range(min(count, 2)):
                source.item(index)
                source.describe(index)
        return records


def png(pixels: np.ndarray) -> bytes:
    """Return pixels as an image file."""
    return encoded(pixels, ".png")


def encoded(pixels: np.ndarray, suffix: str) -> bytes:
    """Return pixels as an image file of a kind."""
    return bytes(cv2.imencode(suffix, pixels)[1])


def annotated_datum(image: bytes) -> bytes:
    """Return an image file with a box as a record of SSD."""
    message = caffe_schema().wire_class("AnnotatedDatum")()
    message.datum.encoded, message.datum.data = True, image
    box = message.annotation_group.add(group_label=1).annotation.add().bbox
    box.xmin, box.ymin, box.xmax, box.ymax = 0.25, 0.25, 0.75, 1.0
    return bytes(message.SerializeToString())


def record(pixels: np.ndarray, number: int) -> bytes:
    """Return an image as a record of MXNet."""
    payload = struct.pack("<IfQQ", 0, float(number), number, 0) + png(pixels)
    return struct.pack("<II", 0xCED7230A, len(payload)) + payload + bytes(-len(payload) % 4)


def npy(array: np.ndarray) -> bytes:
    """Return an array as NumPy writes it."""
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


@cache
def stores() -> dict[str, Store]:
    """Return a small store of each kind."""
    return {**_of_mxnet(), **_of_caffe(), **_of_singa(), **_of_arrays(), **_of_darknet()}


def _of_mxnet() -> dict[str, Store]:
    records = [record(pixels, number) for number, pixels in enumerate(IMAGES)]
    starts = np.cumsum([0, *map(len, records)])[:-1]
    index = "".join(f"{number}\t{start}\n" for number, start in enumerate(starts)).encode()
    whole, path = b"".join(records), {"path": "x.rec"}
    images = {f"{number}.png": png(pixels) for number, pixels in enumerate(IMAGES)}
    of_list = "".join(f"{label}\t{label}.5\t{name}\n" for label, name in enumerate(images)).encode()
    return {
        "recordio": Store("recordio", "x.rec", {"x.rec": whole}, path),
        "recordio with index": Store("recordio", "x.idx", {"x.rec": whole, "x.idx": index}, path, text=True),
        "csv": Store(
            "csv", "x", {"x": b"1,2,3.5,4\n0,5,6,7e3\n"}, {"data": "x", "data_shape": [4]}, text=True
        ),
        "image list of MXNet": Store(
            "images", "l.lst", {"l.lst": of_list, **images}, {"path": "l.lst"}, text=True
        ),
    }


def _of_caffe() -> dict[str, Store]:
    images = {f"{number}.png": png(pixels) for number, pixels in enumerate(IMAGES)}
    of_list = "".join(f"{name} {label}\n" for label, name in enumerate(images)).encode()
    window = b"# 0\n0.png\n3\n5\n6\n3\n1 0.9 1 1 3 4\n0 0.1 0 0 2 2\n2 0.7 0 1 5 4\n"
    planes = IMAGES.transpose(0, 3, 1, 2)
    with TemporaryDirectory() as folder:
        values = {f"{number:05d}": datum(encoded=png(pixels)) for number, pixels in enumerate(IMAGES)}
        data_base(Path(folder) / "datum", values | {"00009": datum(IMAGES[0])})
        lmdb = (Path(folder) / "datum" / "data.mdb").read_bytes()
        boxes = {f"{number:05d}": annotated_datum(png(pixels)) for number, pixels in enumerate(IMAGES)}
        data_base(Path(folder) / "boxes", boxes)
        annotated = (Path(folder) / "boxes" / "data.mdb").read_bytes()
    windows = {"path": "w", "batch_size": 2, "crop_size": 4, "context_pad": 1}
    folders = {f"{name[0]}/{name}": content for name, content in images.items()}
    kinds = {"png": "png", "jpeg": "jpg", "bmp": "bmp", "webp": "webp", "tiff": "tif"}
    hdf5_settings = {"path": "x.h5", "datasets": ["data", "label"]}
    listed = {"path": "l.txt"}
    gray = png(IMAGES[0][..., :1])
    return {
        "lmdb": Store("lmdb", "x", {"x": lmdb}),
        "lmdb with boxes": Store("annotated_lmdb", "x", {"x": annotated}),
        "label images": Store("label_images", "0.png", {"l.txt": b"0.png 0.png\n", "0.png": gray}, listed),
        "list of label images": Store(
            "label_images", "l.txt", {"l.txt": b"0.png 0.png\n", "0.png": gray}, listed, text=True
        ),
        "hdf5": Store("hdf5", "x.h5", {"x.h5": hdf5(planes)}, hdf5_settings),
        "hdf5 in chunks": Store("hdf5", "x.h5", {"x.h5": hdf5(planes, chunks=True)}, hdf5_settings),
        "image list": Store("images", "l.txt", {"l.txt": of_list, **images}, listed, text=True),
        "image folder": Store("folder", "0/0.png", folders, {"path": "."}),
        "windows": Store("windows", "w", {"w": window, **images}, windows, text=True),
        **{name: Store("images", f"0.{suffix}", _image(suffix), listed) for name, suffix in kinds.items()},
    }


def _image(suffix: str) -> dict[str, bytes]:
    """Return a list of one image, and the image."""
    return {"l.txt": f"0.{suffix} 1\n".encode(), f"0.{suffix}": encoded(IMAGES[0], f".{suffix}")}


def _of_singa() -> dict[str, Store]:
    values = [singa_record(pixels, label, shape=(3, 5, 6)) for label, pixels in enumerate(IMAGES)]
    named = {f"{number:05d}": value for number, value in enumerate(values)}
    old = {key: wire_field(1, 0, 0) + wire_field(5, 2, value) for key, value in named.items()}
    with TemporaryDirectory() as folder:
        data_base(Path(folder) / "record", named)
        lmdb = (Path(folder) / "record" / "data.mdb").read_bytes()
    words = {"x": b"the fox and the dog", "v": b"thefoxandg "}
    return {
        "kvfile": Store("kvfile", "x", {"x": kvfile(named)}),
        "shard": Store("shard", "x", {"x": kvfile(old)}),
        "record_lmdb": Store("record_lmdb", "x", {"x": lmdb}),
        "textfile": Store(
            "textfile", "x", {"x": b"1,2,3.5,4\n0,5,6,7e3\n"}, {"path": "x", "shape": [3]}, text=True
        ),
        "characters": Store(
            "characters",
            "x",
            words,
            {"path": "x", "vocab_path": "v", "unroll_len": 4, "batchsize": 2},
            text=True,
        ),
    }


def _of_arrays() -> dict[str, Store]:
    planes = IMAGES.transpose(0, 3, 1, 2)
    npz = io.BytesIO()
    np.savez(npz, data=planes, label=np.arange(4))
    idx = bytes([0, 0, 8, 3]) + struct.pack(">3I", 4, 5, 6) + IMAGES[..., 0].tobytes()
    labels = bytes([0, 0, 8, 1]) + struct.pack(">I", 4) + bytes(4)
    cifar = b"".join(bytes([number]) + bytes(3072) for number in range(3))
    return {
        "numpy": Store("numpy", "x.npy", {"x.npy": npy(planes)}, {"paths": ["x.npy"]}),
        "npz": Store("numpy", "x.npz", {"x.npz": npz.getvalue()}, {"paths": ["x.npz"]}),
        "mnist": Store("mnist", "x", {"x": idx, "y": labels}, {"image": "x", "label": "y"}),
        "cifar": Store("cifar", "x", {"x": cifar}, {"paths": ["x"]}),
    }


def _of_darknet() -> dict[str, Store]:
    """Return lists of images with boxes beside them, in Darknet's form and in that of Pascal VOC."""
    settings = {"path": "l.txt", "classes": 2, "names": ["cat", "dog"]}
    images = {f"{number}.png": png(pixels) for number, pixels in enumerate(IMAGES)}
    labelled = {"l.txt": b"0.png\n1.png\n", "0.txt": LABELS, "1.txt": LABELS, **images}
    voc = {
        "l.txt": b"JPEGImages/0.png\n" * 2,
        "Annotations/0.xml": XML,
        "JPEGImages/0.png": images["0.png"],
    }
    return {
        "boxes": Store("boxes", "0.txt", labelled, settings, text=True),
        "boxes with a list": Store("boxes", "l.txt", labelled, settings, text=True),
        "boxes in XML": Store("boxes", "Annotations/0.xml", voc, settings, text=True),
        "boxes in XML for SSD": Store(
            "annotated_images",
            "Annotations/0.xml",
            voc,
            {"path": "l.txt", "names": ["background", *settings["names"]]},
            text=True,
        ),
    }


def hdf5(planes: np.ndarray, *, chunks: bool = False) -> bytes:
    """Return images and labels as Caffe's HDF5 data has them; the images packed in chunks, or not."""
    content = io.BytesIO()
    packed = {"chunks": True, "compression": "gzip"} if chunks else {}
    with h5py.File(content, "w") as file:
        file.create_dataset("data", data=planes.astype(np.float32), **packed)
        file.create_dataset(
            "label", data=np.arange(len(planes), dtype=np.float32), chunks=(2,), compression="gzip"
        )
    return content.getvalue()
