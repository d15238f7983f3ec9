"""Sources read what others wrote, and name the record that is wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.job import DataSource
from netweave.training.data import SOURCES, EndOfDataError, open_source
from netweave.training.data.sources.arrays import CSV, Arrays, NumpyFiles
from netweave.training.data.sources.composed import Indexed, Iterated
from netweave.training.data.sources.hdf5 import OPEN_FILES
from tests.training.data.make import data_base, datum, pictures

cv2 = pytest.importorskip("cv2")
lmdb = pytest.importorskip("lmdb")


def source(kind, **settings):
    return open_source(DataSource(kind, ("data", "label"), 1, settings, place="net.prototxt:3"))


def png(pixels):
    return cv2.imencode(".png", pixels)[1].tobytes()


def test_an_lmdb_of_raw_and_encoded_records(tmp_path):
    a, b = pictures(2)
    records = {
        "00000001_b": datum(encoded=png(b), label=2),
        "00000000_a": datum(a, label=1),
        "00000002_c": datum(floats=[0.5, -1.5, 2.0, 3.0], shape=(1, 2, 2), label=-3),
        "00000003_d": datum(encoded=png(a[:, :, 0]), label=4),
    }
    with source("lmdb", path=data_base(tmp_path / "db", records)) as opened:
        assert len(opened) == 4
        found = [opened.read(index) for index in range(4)]
    np.testing.assert_array_equal(found[0][0], a)
    np.testing.assert_array_equal(found[1][0], b)
    np.testing.assert_array_equal(found[2][0], [[[0.5], [-1.5]], [[2.0], [3.0]]])
    np.testing.assert_array_equal(found[3][0], a[:, :, :1])
    assert [float(label) for _, label in found] == [1, 2, -3, 4]


def test_encoded_records_can_be_forced_to_a_colour(tmp_path):
    gray = pictures(1, channels=1)[0]
    path = data_base(tmp_path / "db", {"0": datum(encoded=png(gray))})
    np.testing.assert_array_equal(
        source("lmdb", path=path, color="bgr").read(0)[0], np.repeat(gray, 3, axis=2)
    )
    assert source("lmdb", path=path, color="native").read(0)[0].shape == (10, 12, 1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\xff\xff\xff", r"db: record 0 \(key 'k'\): is not a complete Datum: truncated, damaged"),
        (
            datum(pictures(1)[0], shape=(3, 4, 5)),
            r"record 0 \(key 'k'\): has 360 values, but declares \(3, 4, 5\)",
        ),
        (datum(encoded=b"GIF89a"), r"is no image that can be decoded \(6 bytes, the first are b'GIF89a'\)"),
        (datum(encoded=b""), "has 0 values|is no image that can be decoded"),
    ],
)
def test_a_bad_record_of_an_lmdb(tmp_path, value, message):
    opened = source("lmdb", path=data_base(tmp_path / "db", {"k": value}))
    with pytest.raises(ReadError, match=message):
        opened.read(0)


def test_what_is_no_lmdb(tmp_path):
    with pytest.raises(ReadError, match=r"nothing: there is no such file"):
        source("lmdb", path=str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReadError, match="empty: cannot be opened as an LMDB"):
        source("lmdb", path=str(tmp_path / "empty"))
    with pytest.raises(ReadError, match="is an LMDB without records"):
        source("lmdb", path=data_base(tmp_path / "bare", {}))
    (tmp_path / "level").mkdir()
    (tmp_path / "level" / "CURRENT").write_text("MANIFEST-000001\n")
    with pytest.raises(UnsupportedError, match="is a LevelDB, expected an LMDB"):
        source("lmdb", path=str(tmp_path / "level"))


def test_image_lists(tmp_path):
    a, b = pictures(2)
    (tmp_path / "a b.png").write_bytes(png(a))
    (tmp_path / "c.png").write_bytes(png(b))
    (tmp_path / "list.txt").write_text("a b.png 3\n\nc.png 0\n")
    opened = source("images", path=str(tmp_path / "list.txt"), root_folder=f"{tmp_path}/")
    np.testing.assert_array_equal(opened.read(0)[0], a)
    assert [float(opened.read(index)[1]) for index in range(2)] == [3, 0]
    (tmp_path / "list.lst").write_text("7\t1.5\t2\tc.png\n8\t3\t4\ta b.png\n")
    opened = source("images", path=str(tmp_path / "list.lst"), root_folder=f"{tmp_path}/", color="rgb")
    np.testing.assert_array_equal(opened.read(0)[0], b[:, :, ::-1])
    np.testing.assert_array_equal(opened.read(1)[1], [3, 4])


@pytest.mark.parametrize("suffix", [".txt", ".lst"])
def test_absolute_names_stay_as_they_are(tmp_path, suffix):
    a, b = pictures(2)
    for folder, pixels in (("list", a), ("elsewhere", b)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.png").write_bytes(png(pixels))
    names = ("x.png", f"{tmp_path}/elsewhere/x.png")
    rows = [f"{name} 1\n" if suffix == ".txt" else f"0\t1\t{name}\n" for name in names]
    (tmp_path / "list" / f"l{suffix}").write_text("".join(rows))
    opened = source("images", path=f"{tmp_path}/list/l{suffix}", base=f"{tmp_path}/list")
    np.testing.assert_array_equal(opened.read(0)[0], a)
    np.testing.assert_array_equal(opened.read(1)[0], b)


def test_caffes_root_folder_is_put_before_every_name(tmp_path):
    """A list with "/a.png" and a root_folder without its slash is how Caffe's users write them."""
    (tmp_path / "a.png").write_bytes(png(pictures(1)[0]))
    (tmp_path / "l.txt").write_text("/a.png 0\n")
    opened = source("images", path=str(tmp_path / "l.txt"), root_folder=str(tmp_path))
    np.testing.assert_array_equal(opened.read(0)[0], pictures(1)[0])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("l.txt", "cat.png 0\ndog.png\n", "l.txt:2: found 'dog.png', expected a file, a space and a label"),
        ("l.lst", "0\tx\tcat.png\n", "l.lst:1: found .* expected number, labels and file"),
        ("l.lst", "0\t1\ta.png\n1\t1\t2\tb.png\n", r"l.lst: has lines with \[1, 2\] labels"),
        ("l.txt", "\n", "l.txt: lists no images"),
    ],
)
def test_bad_lists(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ReadError, match=message):
        source("images", path=str(tmp_path / name))


def test_a_missing_or_damaged_image(tmp_path):
    (tmp_path / "bad.png").write_bytes(png(pictures(1)[0])[:60])
    (tmp_path / "l.txt").write_text("none.png 0\nbad.png 0\n")
    opened = source("images", path=str(tmp_path / "l.txt"), root_folder=f"{tmp_path}/")
    with pytest.raises(ReadError, match=r"l.txt: record 0 \(.*none.png\): there is no such file"):
        opened.read(0)
    with pytest.raises(ReadError, match=r"l.txt: record 1 \(.*bad.png\): is (no|a damaged) image"):
        opened.read(1)


def test_a_folder_of_classes(tmp_path):
    for name in ("dogs/2.png", "cats/1.png", "cats/deep/0.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(png(pictures(1)[0]))
    (tmp_path / "cats" / "notes.txt").write_text("no image")
    opened = source("folder", path=str(tmp_path))
    assert opened.classes == ["cats", "dogs"]
    assert [float(opened.read(index)[1]) for index in range(len(opened))] == [0, 0, 1]
    with pytest.raises(ReadError, match="has no subfolders with images, expected one per class"):
        source("folder", path=str(tmp_path / "dogs"))


def idx(array, type_code=8):
    return (
        bytes([0, 0, type_code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def test_mnist(tmp_path):
    images = pictures(3, 4, 5, 1)[..., 0]
    (tmp_path / "images.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "labels").write_bytes(idx(np.array([7, 8, 9], np.uint8)))
    settings = {"image": str(tmp_path / "images.gz"), "label": str(tmp_path / "labels")}
    opened = source("mnist", **settings)
    np.testing.assert_array_equal(opened.read(1)[0][:, :, 0], images[1])
    assert opened.read(2)[1] == 9
    assert source("mnist", **settings, flat=True).read(0)[0].shape == (20,)
    with pytest.raises(ReadError, match=r"labels: holds an array of \(3,\), and .*images.gz one of \(3, 4"):
        source("mnist", image=settings["label"], label=settings["image"])


def test_idx_of_other_types_is_big_endian(tmp_path):
    from netweave.training.data.sources.arrays import read_idx

    (tmp_path / "x").write_bytes(idx(np.array([[1.5, -2.0]], ">f4"), 0x0D))
    np.testing.assert_array_equal(read_idx(str(tmp_path / "x")), [[1.5, -2.0]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG", "begins with b'.x89PNG', which is not the magic number of an idx file"),
        (b"\0\0\x08\x03\0\0", "has 6 bytes, expected 16 before the data"),
        (idx(np.zeros(3, np.uint8))[:-1], r"has 10 bytes, expected 11 for \(3,\)"),
    ],
)
def test_bad_idx(tmp_path, content, message):
    from netweave.training.data.sources.arrays import read_idx

    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ReadError, match=message):
        read_idx(str(tmp_path / "x"))


def test_cifar(tmp_path):
    planes = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    (tmp_path / "ten.bin").write_bytes(
        b"".join(bytes([label]) + p.tobytes() for label, p in zip((3, 9), planes, strict=False))
    )
    opened = source("cifar", paths=[str(tmp_path / "ten.bin")])
    np.testing.assert_array_equal(opened.read(1)[0], planes[1].transpose(1, 2, 0))
    assert opened.read(1)[1] == 9
    (tmp_path / "hundred.bin").write_bytes(b"\x04\x63" + planes[0].tobytes())
    for label, expected in [("coarse", 4), ("fine", 99)]:
        assert source("cifar", paths=[str(tmp_path / "hundred.bin")], label=label).read(0)[1] == expected
    with pytest.raises(ReadError, match=r"hundred.bin: has 3,074 bytes, expected a multiple of 3,073"):
        source("cifar", paths=[str(tmp_path / "hundred.bin")])


def test_csv(tmp_path):
    (tmp_path / "d.csv").write_text("1,2,3,4\n5,6,7,8\n")
    (tmp_path / "l.csv").write_text("0\n1\n")
    opened = source("csv", data=str(tmp_path / "d.csv"), data_shape=[1, 2, 2], label=str(tmp_path / "l.csv"))
    np.testing.assert_array_equal(opened.read(1)[0][:, :, 0], [[5, 6], [7, 8]])
    assert opened.read(1)[1] == 1
    assert CSV(str(tmp_path / "d.csv"), [4]).read(0)[1] == 0
    with pytest.raises(ReadError, match=r"d.csv: has an array of \(2, 4\), expected rows of 3 numbers"):
        CSV(str(tmp_path / "d.csv"), [3])
    (tmp_path / "l.csv").write_text("0\n")
    with pytest.raises(ReadError, match=r"l.csv: has 1 rows, and .*d.csv has 2"):
        CSV(str(tmp_path / "d.csv"), [4], str(tmp_path / "l.csv"))
    (tmp_path / "d.csv").write_text("1,x\n")
    with pytest.raises(ReadError, match=r"d.csv: could not convert string 'x' to float32 at row 0, column 2"):
        CSV(str(tmp_path / "d.csv"), [2])


def test_arrays():
    images, labels = pictures(3).transpose(0, 3, 1, 2), np.arange(3)
    opened = Arrays(images, labels)
    np.testing.assert_array_equal(opened.read(2)[0], images[2].transpose(1, 2, 0))
    many = opened.read_many(np.array([2, 0]))
    np.testing.assert_array_equal(many[0], images[[2, 0]].transpose(0, 2, 3, 1))
    assert not Arrays(np.zeros((3, 4))).images
    with pytest.raises(UsageError, match=r"arrays in memory: have \[3, 2\] records, expected equal numbers"):
        Arrays(np.zeros((3, 4)), np.zeros(2))
    with pytest.raises(UsageError, match="at least 1"):
        Arrays(np.zeros((0, 4)))


def test_numpy_files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    np.save(tmp_path / "y.npy", np.arange(3))
    opened = source("numpy", paths=[str(tmp_path / "x.npy"), str(tmp_path / "y.npy")])
    assert opened.read(1)[0].tolist() == [2, 3]
    np.savez(tmp_path / "both.npz", b=np.arange(3), a=np.ones((3, 1)))
    assert source("numpy", paths=[str(tmp_path / "both.npz")], names=["a", "b"]).read(2)[1] == 2
    with pytest.raises(ReadError, match=r"both.npz: has no array 'c', only b, a"):
        NumpyFiles([str(tmp_path / "both.npz")], ["c"])
    (tmp_path / "bad.npy").write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(ReadError, match=r"bad.npy: is not a complete .npy file"):
        NumpyFiles([str(tmp_path / "bad.npy")])
    np.save(tmp_path / "z.npy", np.arange(4))
    with pytest.raises(ReadError, match=r"x.npy and .*z.npy: have \[3, 4\] records"):
        NumpyFiles([str(tmp_path / "x.npy"), str(tmp_path / "z.npy")])


def test_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    arrays = np.random.default_rng(0).normal(size=(5, 2, 3, 4))
    for name, rows in [("a.h5", slice(0, 3)), ("b.h5", slice(3, 5))]:
        with h5py.File(tmp_path / name, "w") as file:
            file["data"], file["label"] = arrays[rows], np.arange(5)[rows]
    (tmp_path / "list.txt").write_text(f"{tmp_path}/a.h5\n{tmp_path}/b.h5\n")
    opened = source("hdf5", path=str(tmp_path / "list.txt"), datasets=["data", "label"])
    assert (len(opened), opened.groups) == (5, (3, 2))
    many = opened.read_many(np.array([4, 0, 2]))
    np.testing.assert_array_equal(many[0], arrays[[4, 0, 2]].astype(np.float32).transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(opened.read(3)[0], arrays[3].astype(np.float32).transpose(1, 2, 0))
    assert many[1].tolist() == [4, 0, 2]
    assert opened.describe(4).endswith("b.h5: row 1")
    with pytest.raises(ReadError, match=r"a.h5: has no dataset labels, only data, label"):
        source("hdf5", path=str(tmp_path / "list.txt"), datasets=["data", "labels"])
    (tmp_path / "b.h5").write_bytes(b"no")
    with pytest.raises(ReadError, match=r"b.h5: cannot be opened as HDF5"):
        source("hdf5", path=str(tmp_path / "list.txt"), datasets=["data", "label"])


def test_objects_with_a_length():
    opened = Indexed([{"x": np.zeros((3, 4, 5)), "y": label} for label in range(4)], names=["x", "y"])
    assert opened.images
    assert opened.read(2)[0].shape == (4, 5, 3)
    assert opened.read(2)[1] == 2
    assert len(opened) == 4
    with pytest.raises(ReadError, match="list in memory: record 0: has no part 'z', only x"):
        Indexed([{"x": 1}], names=["z"])


def test_iterables_begin_again():
    class Three:
        def __iter__(self):
            return iter([(np.zeros(2), label) for label in range(3)])

    opened = Iterated(Three())
    assert opened.peek()[1] == 0
    assert [int(opened.read(index)[1]) for index in (1, 0, 3, 2, 5)] == [1, 0, 0, 2, 2]
    opened.seek(10)
    assert int(opened.read(10)[1]) == 10 % 3
    with pytest.raises(ReadError, match="Three of Python: record 0: was already read once"):
        opened.read(0)


def test_generators_come_to_an_end():
    opened = Iterated(np.float32([i]) for i in range(3))
    assert [float(opened.read(index)[0][0]) for index in range(3)] == [0, 1, 2]
    with pytest.raises(EndOfDataError):
        opened.read(3)
    with pytest.raises(EndOfDataError):
        Iterated([])


def test_every_kind_can_be_loaded():
    import importlib

    for module, name in SOURCES.values():
        assert getattr(importlib.import_module(f"netweave.training.data.sources.{module}"), name)


def test_wrong_settings():
    with pytest.raises(
        UsageError, match=r"net.prototxt:3: unknown kind of data 'leveldb'; expected one of lmdb, "
    ):
        source("leveldb")
    with pytest.raises(UsageError, match="'lmdb': missing a required argument: 'path'; it takes: path, c"):
        source("lmdb")
    with pytest.raises(UsageError, match="'lmdb': got an unexpected keyword argument 'batch'"):
        source("lmdb", path="x", batch=3)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files")
def test_few_files_of_a_list_are_open_at_once(tmp_path):
    h5py = pytest.importorskip("h5py")
    names = [tmp_path / f"{number}.h5" for number in range(3 * OPEN_FILES)]
    for number, name in enumerate(names):
        with h5py.File(name, "w") as file:
            file["data"] = np.full((2, 3), number, np.float32)
    (tmp_path / "list.txt").write_text("\n".join(map(str, names)))

    def opened():
        links = [link.resolve() for link in Path(f"/proc/{rows._process._child.pid}/fd").iterdir()]
        return len({link for link in links if link.suffix == ".h5"})

    with source("hdf5", path=str(tmp_path / "list.txt"), datasets=["data"]) as rows:
        assert 0 < opened() <= OPEN_FILES
        for row in (0, 2 * len(names) - 1, 1):
            assert rows.read(row)[0].tolist() == [row // 2] * 3
        assert opened() <= OPEN_FILES
        child = rows._process._child
    assert child.returncode is not None


def test_caffes_own_hdf5(corpus, tmp_path):
    """As Caffe's test_hdf5data_layer.cpp expects: numbers in order, labels from 1 and from 2."""
    pytest.importorskip("h5py")
    names = ["sample_data.h5", "sample_data_2_gzip.h5"]
    paths = [corpus / "caffe" / "head-1.0" / f"src__caffe__test__test_data__{name}" for name in names]
    (tmp_path / "list.txt").write_text("".join(f"{path}\n" for path in paths))
    opened = source("hdf5", path=str(tmp_path / "list.txt"), datasets=["data", "label", "label2"])
    assert opened.groups == (10, 10)
    for index in range(20):
        pixels, label, label2 = opened.read(index)
        assert pixels.transpose(2, 0, 1).ravel().tolist() == list(range(240 * index, 240 * index + 240))
        assert (label.tolist(), label2.tolist()) == ([index % 10 + 1], [index % 10 + 2])


def test_one_data_base_is_read_by_several_at_once(tmp_path):
    """Nets that train and test on the same records are common; LMDB opens a data base once a process."""
    pytest.importorskip("lmdb")
    from netweave import pack

    pack((np.zeros((3, 1, 2, 2), np.uint8), [4, 5, 6]), tmp_path / "db")
    wanted = DataSource("lmdb", ("data", "label"), 1, {"path": str(tmp_path / "db")})
    first, second = open_source(wanted), open_source(wanted)
    first.close()
    first.close()
    assert int(second.read(2)[1]) == 6
    second.close()
    with open_source(wanted) as third:
        assert len(third) == 3
