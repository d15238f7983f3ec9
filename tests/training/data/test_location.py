"""Files that are elsewhere; fsspec's memory stands for a bucket."""

from __future__ import annotations

import re

import numpy as np
import pytest

from netweave.errors import ReadError, UsageError
from netweave.installation import install_command, need
from netweave.job import DataSource
from netweave.training.data import open_source
from netweave.training.data.location import exists, local_copy, part_names, read_files
from netweave.training.data.pack import pack
from netweave.training.data.sources.arrays import Arrays
from tests.training.data.make import pictures

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("cv2")


@pytest.fixture
def bucket(tmp_path):
    system = fsspec.filesystem("memory")
    images = pictures(3).transpose(0, 3, 1, 2)
    pytest.importorskip("lmdb")
    pytest.importorskip("h5py")
    pack(Arrays(images, [3, 4, 5]), tmp_path / "db", "lmdb")
    pack(Arrays(images, [3, 4, 5]), tmp_path / "x.rec", "recordio")
    pack(Arrays(images, [3, 4, 5]), tmp_path / "x.h5", "hdf5")
    system.put(str(tmp_path) + "/", f"/{tmp_path.name}/", recursive=True)
    yield f"memory://{tmp_path.name}"
    system.rm(f"/{tmp_path.name}", recursive=True)


@pytest.mark.parametrize(
    ("kind", "name", "settings"),
    [
        ("lmdb", "db", {}),
        ("recordio", "x.rec", {"color": "bgr"}),
        ("recordio", "x.rec", {"color": "bgr", "index": "x.idx"}),
        ("hdf5", "x.h5", {"datasets": ["data", "label"]}),
    ],
)
def test_sources_elsewhere(bucket, kind, name, settings):
    settings = {key: f"{bucket}/x.idx" if key == "index" else value for key, value in settings.items()}
    with open_source(
        DataSource(kind, ("data", "label"), 1, {"path": f"{bucket}/{name}", **settings})
    ) as source:
        assert len(source) == 3
        pixels, label = source.read(2)
    np.testing.assert_array_equal(pixels, pictures(3)[2])
    assert float(np.ravel(label)[0]) == 5


def test_lists_elsewhere(bucket):
    import cv2

    system = fsspec.filesystem("memory")
    image = cv2.imencode(".png", pictures(1)[0])[1].tobytes()
    folder = bucket.removeprefix("memory:/")
    system.pipe({f"{folder}/list.txt": b"a.png 4\n", f"{folder}/a.png": image})
    settings = {"path": f"{bucket}/list.txt", "root_folder": f"{bucket}/"}
    with open_source(DataSource("images", ("data", "label"), 1, settings)) as source:
        np.testing.assert_array_equal(source.read(0)[0], pictures(1)[0])


def test_what_is_not_there():
    with pytest.raises(ReadError, match=r"memory://nothing/x.rec: there is no such file"):
        open_source(DataSource("recordio", ("data",), 1, {"path": "memory://nothing/x.rec"}))
    with pytest.raises(ReadError, match="memory://nothing/db: there is no such file"):
        open_source(DataSource("lmdb", ("data",), 1, {"path": "memory://nothing/db"}))
    with pytest.raises(ReadError, match="xyz://a: cannot be reached: Protocol not known: xyz"):
        open_source(DataSource("recordio", ("data",), 1, {"path": "xyz://a"}))


def test_a_missing_package_is_named():
    with pytest.raises(
        UsageError,
        match=f"green images need the package no_such_module: {re.escape(install_command('data'))}",
    ):
        need("no_such_module", "green images")


def test_files_elsewhere_come_in_the_order_asked_for(bucket):
    """Not sorted by name, with which images would get the labels of others."""
    system = fsspec.filesystem("memory")
    names = ["c.png", "a.png", "[0]*.png", "b.png"]
    for name in names:
        system.pipe(f"{bucket.removeprefix('memory:/')}/{name}", name.encode())
    wanted = [f"{bucket}/{name}" for name in (*names, "a.png")]
    assert read_files(wanted) == [name.encode() for name in (*names, "a.png")]
    with pytest.raises(ReadError, match=r"d\.png: there is no such file"):
        read_files([*wanted, f"{bucket}/d.png"])


@pytest.mark.parametrize("method", ["exists", "glob", "get"])
def test_errors_of_a_store_are_those_of_the_file(monkeypatch, method):
    def fail(*_given, **_named):
        raise RuntimeError("token expired")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), method, fail)
    look = {"exists": exists, "glob": lambda name: part_names(f"{name}*"), "get": local_copy}[method]
    with pytest.raises(ReadError, match=r"memory://nowhere/x.*token expired"):
        look("memory://nowhere/x")
