"""What was packed is read again, by Netweave and by the formats' own readers."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UsageError
from netweave.job import DataSource
from netweave.training.data import open_source
from netweave.training.data.pack import pack
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.composed import Indexed
from netweave.training.data.sources.images import ImageFolder
from netweave.training.data.transforms.geometry import Resize
from tests.training.data.make import pictures

cv2 = pytest.importorskip("cv2")


def read_all(kind, **settings):
    with open_source(DataSource(kind, ("data", "label"), 1, settings)) as source:
        return [source.read(index) for index in range(len(source))]


def check(found, pixels, labels):
    assert [float(label) for _, label in found] == labels
    for (one, _), other in zip(found, pixels, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def folder(tmp_path):
    for index, pixels in enumerate(pictures(4)):
        path = tmp_path / "images" / f"class{index % 2}" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), pixels)
    return tmp_path / "images"


ORDER = [0, 2, 1, 3]
LABELS = [0.0, 0.0, 1.0, 1.0]


def test_files_stay_files(folder, tmp_path):
    lmdb = pytest.importorskip("lmdb")
    assert pack(ImageFolder(str(folder)), tmp_path / "db", "lmdb") == 4
    check(read_all("lmdb", path=str(tmp_path / "db")), pictures(4)[ORDER], LABELS)
    with lmdb.open(str(tmp_path / "db"), readonly=True, lock=False) as opened, opened.begin() as transaction:
        keys = [key.decode() for key in transaction.cursor().iternext(values=False)]
        value = transaction.get(keys[0].encode())
    assert keys[1] == "00000001_class0/2.png"
    assert (folder / "class0" / "0.png").read_bytes() in value
    assert pack(ImageFolder(str(folder)), tmp_path / "x.rec", "recordio") == 4
    check(read_all("recordio", path=str(tmp_path / "x.rec"), color="bgr"), pictures(4)[ORDER], LABELS)
    (tmp_path / "x.idx").unlink()
    check(read_all("recordio", path=str(tmp_path / "x.rec"), color="bgr"), pictures(4)[ORDER], LABELS)


def test_bare_pixels(tmp_path):
    pytest.importorskip("lmdb")
    images, labels = pictures(3).transpose(0, 3, 1, 2), np.array([2, 0, 1])
    pack(Arrays(images, labels), tmp_path / "db", "lmdb")
    check(read_all("lmdb", path=str(tmp_path / "db")), pictures(3), [2, 0, 1])
    pack(Arrays(images / 7.0, labels), tmp_path / "floats", "lmdb")
    found = read_all("lmdb", path=str(tmp_path / "floats"))
    np.testing.assert_allclose(found[1][0], pictures(3)[1] / 7.0, rtol=1e-6)
    pack(Arrays(images, labels), tmp_path / "x.rec", "recordio")
    check(read_all("recordio", path=str(tmp_path / "x.rec"), color="bgr"), pictures(3), [2, 0, 1])
    pytest.importorskip("h5py")
    pack(Arrays(images, labels), tmp_path / "x.h5", "hdf5")
    found = read_all("hdf5", path=str(tmp_path / "x.h5"), datasets=["data", "label"])
    np.testing.assert_array_equal(found[2][0], pictures(3)[2])
    assert found[2][1].tolist() == [1]


def test_gray_images_as_mnist(tmp_path):
    gray = pictures(3, channels=1)
    pack(Arrays(gray.transpose(0, 3, 1, 2), [7, 8, 9]), tmp_path / "t-images-idx3-ubyte", "mnist")
    settings = {
        "image": str(tmp_path / "t-images-idx3-ubyte"),
        "label": str(tmp_path / "t-labels-idx1-ubyte"),
    }
    check(read_all("mnist", **settings), gray, [7, 8, 9])


def test_resizing_and_shuffling(folder, tmp_path):
    pytest.importorskip("lmdb")
    pack(
        ImageFolder(str(folder)),
        tmp_path / "db",
        "lmdb",
        resize=Resize(height=5, width=6),
        shuffle=True,
        seed=2,
    )
    found = read_all("lmdb", path=str(tmp_path / "db"))
    assert {pixels.shape for pixels, _ in found} == {(5, 6, 3)}
    small = {cv2.resize(pixels, (6, 5)).tobytes() for pixels in pictures(4)}
    assert {np.ascontiguousarray(pixels).tobytes() for pixels, _ in found} == small
    assert [float(label) for _, label in found] != LABELS


def test_colours_are_kept_where_they_are_rgb(tmp_path):
    from netweave.training.data.sources.arrays import CIFAR

    planes = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    (tmp_path / "x.bin").write_bytes(b"".join(b"\1" + image.tobytes() for image in planes))
    pack(CIFAR([str(tmp_path / "x.bin")]), tmp_path / "x.rec", "recordio")
    check(read_all("recordio", path=str(tmp_path / "x.rec")), planes.transpose(0, 2, 3, 1), [1, 1])


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_encoding_says_nothing(tmp_path, capfd, suffix):
    pack(Arrays(pictures(3).transpose(0, 3, 1, 2), [2, 0, 1]), tmp_path / "x.rec", "recordio", suffix=suffix)
    assert capfd.readouterr() == ("", "")


def test_several_labels(tmp_path):
    source = Indexed([(pictures(1)[0].transpose(2, 0, 1), np.float32([1, 2, 3]))])
    pack(source, tmp_path / "x.rec", "recordio")
    found = read_all("recordio", path=str(tmp_path / "x.rec"), label_width=3)
    assert found[0][1].tolist() == [1, 2, 3]
    with pytest.raises(ReadError, match=r"x.rec: record 0: has 3 labels, expected 1 \(label_width\)"):
        read_all("recordio", path=str(tmp_path / "x.rec"))
    (tmp_path / "x.lst").write_text("0\t9\tx.png\n")
    found = read_all("recordio", path=str(tmp_path / "x.rec"), labels=str(tmp_path / "x.lst"))
    assert found[0][1] == 9


@pytest.mark.parametrize("kind", ["lmdb", "kvfile", "mnist"])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [2.5],
            r"has the label 2\.5, and this format stores integers from .* to .*; pack into a .rec or an .h5",
        ),
        ([3e9], r"has the label 3e\+09, and this format stores integers"),
        ([float("nan")], r"has the label nan, and this format stores integers"),
        ([1, 2], r"has 2 labels, and this format stores one"),
    ],
)
def test_labels_that_a_format_cannot_store(tmp_path, kind, labels, message):
    pytest.importorskip("lmdb")
    source = Indexed([(pictures(1)[0].transpose(2, 0, 1), np.float32(labels))])
    with pytest.raises(UsageError, match=message):
        pack(source, tmp_path / "x", kind)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_or_left_behind(folder, tmp_path):
    (tmp_path / "x.rec").write_text("mine")
    with pytest.raises(UsageError, match=r"x.rec is there already; remove it or give another name"):
        pack(ImageFolder(str(folder)), tmp_path / "x.rec", "recordio")
    assert (tmp_path / "x.rec").read_text() == "mine"
    (folder / "class1" / "9.png").write_bytes(b"no image")
    for kind, name in [("hdf5", "y.h5"), ("mnist", "y-images")]:
        with pytest.raises((ReadError, ShapeError), match="is no image that can be decoded"):
            pack(ImageFolder(str(folder)), tmp_path / name, kind)
    with pytest.raises(ReadError):
        pack(ImageFolder(str(folder)), tmp_path / "y", "lmdb", resize=Resize(height=4, width=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "x.rec"]
    with pytest.raises(
        UsageError, match="cannot pack into 'zip'; expected one of lmdb, recordio, hdf5, mnist"
    ):
        pack(ImageFolder(str(folder)), tmp_path / "z", "zip")


def test_an_index_of_another_file(folder, tmp_path):
    pack(ImageFolder(str(folder)), tmp_path / "x.rec", "recordio")
    for name in ("x.idx.crc32", "x.rec.crc32"):
        (tmp_path / name).unlink()
    (tmp_path / "x.idx").write_text("0\t0\n1\t99999\n")
    with pytest.raises(ReadError, match=r"x.idx: names byte 99,999 of .*x.rec, which has [\d,]+; is"):
        read_all("recordio", path=str(tmp_path / "x.rec"))
    (tmp_path / "x.idx").write_text("0\t4\n")
    with pytest.raises(ReadError, match=r"x.rec: record 0: begins with 0x\w+, expected 0xced7230a"):
        read_all("recordio", path=str(tmp_path / "x.rec"))
    (tmp_path / "x.idx").write_text("0 4\n")
    with pytest.raises(ReadError, match=r"x.idx:1: found '0 4', expected a key, a tab and a byte"):
        read_all("recordio", path=str(tmp_path / "x.rec"))
    (tmp_path / "x.idx").unlink()
    content = (tmp_path / "x.rec").read_bytes()
    (tmp_path / "x.rec").write_bytes(content[:-400])
    with pytest.raises(ReadError, match=r"x.rec: record 3: has [\d,]+ bytes, expected [\d,]+; was the"):
        read_all("recordio", path=str(tmp_path / "x.rec"))
    (tmp_path / "x.rec").write_bytes(b"")
    with pytest.raises(ReadError, match="the file is empty"):
        read_all("recordio", path=str(tmp_path / "x.rec"))


@pytest.mark.parametrize("name", ["mean.binaryproto", "image_mean.bin"])
@pytest.mark.parametrize("given", ["files", "rgb"])
def test_the_mean_of_what_is_packed(folder, tmp_path, name, given):
    """It is that of NumPy, in the order of channels of the framework that subtracts it."""
    from netweave.training.data.sources.arrays import CIFAR
    from netweave.training.data.transforms.arithmetic import read_means

    if given == "files":
        source, bgr = ImageFolder(str(folder)), pictures(4).astype(np.float64)
    else:
        planes = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
        (tmp_path / "x.bin").write_bytes(b"".join(b"\1" + image.tobytes() for image in planes))
        source, bgr = (
            CIFAR([str(tmp_path / "x.bin")]),
            planes[:, ::-1].transpose(0, 2, 3, 1).astype(np.float64),
        )
    pack(source, tmp_path / "x.rec", "recordio", mean=tmp_path / name)
    expected = bgr.mean(axis=0)
    found = read_means(str(tmp_path / name))
    np.testing.assert_allclose(found if "binaryproto" in name else found[:, :, ::-1], expected, rtol=1e-6)


def test_a_mean_needs_one_size(folder, tmp_path):
    cv2.imwrite(str(folder / "class1" / "9.png"), pictures(1, height=4)[0])
    message = r"9.png: is \(4, 12, 3\), the first record \(10, 12, 3\); resize all to one size"
    with pytest.raises(ShapeError, match=message):
        pack(ImageFolder(str(folder)), tmp_path / "x.rec", "recordio", mean=tmp_path / "mean.binaryproto")
    assert not (tmp_path / "mean.binaryproto").exists()
    (tmp_path / "mean.binaryproto").write_text("mine")
    with pytest.raises(UsageError, match=r"mean.binaryproto is there already"):
        pack(ImageFolder(str(folder)), tmp_path / "x.rec", "recordio", mean=tmp_path / "mean.binaryproto")
