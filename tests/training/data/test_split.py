"""Records split over several files are the records of one file, in the same order and batches."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UsageError
from netweave.job import DataSource
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data import Loader, Order, open_source
from netweave.training.data.pack import pack
from netweave.training.data.source_names import open_named
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.composed import Parts
from tests.training.data.make import pictures

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("cv2")
pytest.importorskip("lmdb")
pytest.importorskip("h5py")

COUNT = 41
IMAGES = pictures(COUNT, height=20, width=30).transpose(0, 3, 1, 2)
KINDS = [("lmdb", "db"), ("recordio", "x.rec"), ("hdf5", "x.h5"), ("kvfile", "x.bin")]
GIVEN = {"hdf5": {"datasets": ["data", "label"]}, "recordio": {"color": "bgr"}}


def records():
    return Arrays(IMAGES, np.arange(COUNT))


def size(path):
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def batches(kind, path, count=30):
    """Return the labels and the sum of the pixels of some shuffled batches."""
    source = open_source(DataSource(kind, ("data", "label"), 4, {"path": str(path), **GIVEN.get(kind, {})}))
    order = Order(num_records=len(source), batch_size=4, shuffle=True, seed=3)
    with ThreadedEngine() as engine, Loader(source, ("data", "label"), engine=engine, order=order) as loader:
        taken = (loader.take().arrays for _ in range(count))
        return [(batch["label"].ravel().tolist(), float(batch["data"].sum())) for batch in taken]


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_parts_are_read_as_one(tmp_path, kind, name):
    limit = 160_000 if kind == "hdf5" else 25_000
    assert pack(records(), tmp_path / "one" / name, kind) == COUNT
    assert pack(records(), tmp_path / "parts" / name, kind, split_bytes=limit) == COUNT
    stem, dot, suffix = name.partition(".")
    names = sorted(
        path.name for path in (tmp_path / "parts").iterdir() if path.suffix not in {".idx", ".crc32"}
    )
    assert names == [f"{stem}-{number:05d}{dot}{suffix}" for number in range(len(names))]
    sizes = [size(tmp_path / "parts" / part) for part in names]
    assert len(names) >= 3
    assert max(sizes) <= limit
    assert min(sizes[:-1]) > 0.5 * limit, "parts are not much smaller than allowed"
    if kind != "hdf5":  # whose files are shuffled one by one, as in Caffe
        expected = batches(kind, tmp_path / "one" / name)
        assert batches(kind, tmp_path / "parts" / name) == expected
        assert batches(kind, tmp_path / "parts" / f"{stem}-*{dot}{suffix}") == expected
    path = {"path": str(tmp_path / "parts" / name), **GIVEN.get(kind, {})}
    with open_source(DataSource(kind, ("data", "label"), 1, path)) as source:
        assert len(source) == COUNT
        found = [float(np.ravel(source.read(index)[1])[0]) for index in range(COUNT)]
    assert found == list(range(COUNT))


def test_parts_elsewhere_are_fetched_ahead(tmp_path):
    pack(records(), tmp_path / "x.rec", "recordio")
    pack(records(), tmp_path / "parts" / "x.rec", "recordio", split_bytes=40_000)
    system = fsspec.filesystem("memory")
    system.put(f"{tmp_path}/parts", f"/{tmp_path.name}", recursive=True)
    try:
        expected = batches("recordio", tmp_path / "x.rec")
        assert batches("recordio", f"memory://{tmp_path.name}/x.rec") == expected
        assert batches("recordio", f"memory://{tmp_path.name}/x-*.rec") == expected
    finally:
        system.rm(f"/{tmp_path.name}", recursive=True)


def test_rows_of_several_files_are_read_together(tmp_path):
    pack(records(), tmp_path / "x.h5", "hdf5", split_bytes=140_000)
    with open_named(str(tmp_path / "x.h5")) as source:
        assert len(source.groups) >= 3
        data, labels = source.read_many(np.array([40, 0, 17, 1]))
    np.testing.assert_array_equal(data, IMAGES[[40, 0, 17, 1]].transpose(0, 2, 3, 1))
    assert labels.ravel().tolist() == [40, 0, 17, 1]


def test_a_record_larger_than_a_part_has_one_of_its_own(tmp_path):
    pack(records(), tmp_path / "x.bin", "kvfile", split_bytes=10)
    assert len([path for path in tmp_path.iterdir() if path.suffix != ".crc32"]) == COUNT


def test_nothing_is_left_behind_or_overwritten(tmp_path):
    class Bad(Arrays):
        def item(self, index):
            if index == 30:
                raise ReadError("is bad", place="record 30")
            return super().item(index)

    for kind, name in KINDS:
        with pytest.raises(ReadError, match="record 30: is bad"):
            pack(Bad(IMAGES, np.arange(COUNT)), tmp_path / name, kind, split_bytes=40_000)
    assert list(tmp_path.iterdir()) == []
    pack(records(), tmp_path / "x.rec", "recordio", split_bytes=40_000)
    with pytest.raises(UsageError, match=r"x-00000.rec is there already; remove it"):
        pack(records(), tmp_path / "x.rec", "recordio", split_bytes=40_000)
    with pytest.raises(UsageError, match="files of this kind cannot be split; leave out --split-size"):
        pack(Arrays(IMAGES[:, :1], np.arange(COUNT)), tmp_path / "images", "mnist", split_bytes=40_000)
    assert not [path for path in tmp_path.iterdir() if "images" in path.name]


def test_parts_of_another_kind(tmp_path):
    with pytest.raises(ReadError, match=r"holds records of another kind than .*; all parts must be alike"):
        Parts("all", [records(), Arrays(np.zeros((3, 5)), np.zeros(3))])


def test_rows_of_other_types_and_shapes(tmp_path):
    """Not cut to the type of the first part, nor repeated to its shape."""
    halves = np.full((3, 2), 0.5, np.float32)
    sources = [Arrays(np.ones((3, 2), np.uint8), np.zeros(3)), Arrays(halves, np.zeros(3))]
    order = Order(num_records=6, batch_size=6)
    with (
        ThreadedEngine() as engine,
        Loader(Parts("all", sources), ("data", "label"), engine=engine, order=order) as loader,
    ):
        assert loader.take().arrays["data"].tolist() == [[1, 1]] * 3 + [[0.5, 0.5]] * 3
    sources = [Arrays(np.ones((3, 2)), np.zeros(3)), Arrays(np.ones((3, 1)), np.zeros(3))]
    with (
        ThreadedEngine() as engine,
        Loader(Parts("all", sources), ("data", "label"), engine=engine, order=order) as loader,
        pytest.raises(ShapeError, match="is 1 after its transforms, expected 2"),
    ):
        loader.take()


def test_a_missing_part_is_named_and_other_files_are_none(tmp_path):
    folder = tmp_path / "run[1]"
    target = folder / "x.rec"
    pack(records(), target, "recordio", split_bytes=40_000)
    (folder / "x-2019.rec").write_bytes(b"of another set")
    with open_named(str(target)) as source:
        assert len(source) == COUNT
    (folder / "x-00001.rec").unlink()
    with pytest.raises(ReadError, match=r"x-00001.rec: is missing, one of the \d+ parts of .*x.rec"):
        open_named(str(target))


def test_texts_of_characters_keep_the_axis_of_steps(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text("abab" * 10)
    (tmp_path / "vocabulary").write_text("ab")
    settings = {"vocab_path": str(tmp_path / "vocabulary"), "unroll_len": 4, "batchsize": 2}
    path = str(tmp_path / "[01]*.txt")
    with open_source(DataSource("characters", ("data",), 2, {"path": path, **settings})) as source:
        assert source.batch_axis == 1
