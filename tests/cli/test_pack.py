"""``netweave pack``: every kind that a user may have, into every kind that can be written."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.training.data.source_names import Named, open_named
from tests.training.data.make import pictures

cv2 = pytest.importorskip("cv2")
pytest.importorskip("lmdb")
h5py = pytest.importorskip("h5py")

IMAGES = pictures(4)
LABELS = [1, 0, 2, 1]


def read(name, **said):
    """Return what a packed file holds: pixels and labels."""
    with open_named(str(name), said=Named(**said)) as source:
        records = [source.read(index) for index in range(len(source))]
    return [np.array(pixels) for pixels, _ in records], [int(np.ravel(label)[0]) for _, label in records]


@pytest.fixture
def folder(tmp_path):
    """The same four images in every form, but those of CIFAR and of MNIST."""
    for index, (pixels, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        path = tmp_path / "classes" / f"class{label}" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), pixels)
    names = [f"class{label}/{index}.png" for index, label in enumerate(LABELS)]
    rows = list(zip(names, LABELS, strict=True))
    (tmp_path / "list.txt").write_text("".join(f"{name} {label}\n" for name, label in rows))
    (tmp_path / "list.lst").write_text(
        "".join(f"{index}\t{label}\t{name}\n" for index, (name, label) in enumerate(rows))
    )
    planes = IMAGES.transpose(0, 3, 1, 2)
    np.savez(tmp_path / "all.npz", label=LABELS, data=planes)
    np.save(tmp_path / "data.npy", planes)
    np.save(tmp_path / "labels.npy", LABELS)
    np.save(tmp_path / "half.npy", planes / 2)
    np.savetxt(tmp_path / "data.csv", planes.reshape(4, -1), "%d", ",")
    np.savetxt(tmp_path / "labels.csv", LABELS, "%d", ",")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["data"], file["label"] = planes.astype(np.float32), np.float32(LABELS)
    return tmp_path


SIZES = "x".join(map(str, IMAGES.transpose(0, 3, 1, 2).shape[1:]))

SOURCES = [
    (["list.txt", "--root", "classes"], LABELS),
    (["list.lst", "--root", "classes"], LABELS),
    (["all.npz"], LABELS),
    (["data.npy", "--labels", "labels.npy"], LABELS),
    (["data.csv", "--labels", "labels.csv", "--shape", SIZES], LABELS),
    (["in.h5"], LABELS),
]


@pytest.mark.parametrize(("source", "labels"), SOURCES, ids=lambda row: str(row[0]))
@pytest.mark.parametrize("target", ["db", "out.rec", "out.h5"])
def test_every_source_becomes_every_target(folder, netweave, monkeypatch, source, labels, target):
    monkeypatch.chdir(folder)
    called = netweave("pack", source[0], target, *source[1:])
    assert (called.status, called.out) == (0, f"{target}: 4 records\n"), called.err
    pixels, found = read(target, color=None if target == "out.h5" else "bgr")
    assert found == labels
    for one, other in zip(pixels, IMAGES, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["list.txt", "list.lst"])
def test_absolute_names_in_a_list(folder, netweave, monkeypatch, tmp_path_factory, name):
    """The list lies elsewhere, and neither its folder nor --root is put before an absolute name."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / name).write_text((folder / name).read_text().replace("class", f"{folder}/classes/class"))
    monkeypatch.chdir(elsewhere)
    for target, options in (("a.rec", []), ("b.rec", ["--root", "/nowhere"])):
        called = netweave("pack", name, target, *options)
        assert (called.status, called.out) == (0, f"{target}: 4 records\n"), called.err
        pixels, found = read(target, color="bgr")
        assert found == LABELS
        np.testing.assert_array_equal(pixels, IMAGES)


def test_several_files_and_stores_of_singa(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    # every record is larger than a part, however well images are compressed
    called = netweave("pack", "all.npz", "train.rec", "--split-size", "0.01KB")
    assert called.out == "train.rec: 4 records in 4 files, train-00000.rec to train-00003.rec\n", called.err
    np.testing.assert_array_equal(read("train.rec", color="bgr")[0], IMAGES)
    assert (
        netweave("pack", "train.rec", "train_data.bin", "--to", "kvfile").out == "train_data.bin: 4 records\n"
    )
    pixels, labels = read("train_data.bin")
    np.testing.assert_array_equal(pixels, IMAGES[:, :, :, ::-1])
    assert labels == LABELS
    called = netweave("pack", "list.txt", "x.rec", "--split-size", "few")
    assert called.status == 2
    assert "few" in called.err


def test_a_folder_of_classes_resized_gray_and_encoded(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    assert netweave("pack", "classes", "db", "--resize", "5x6", "--gray", "--encode", ".png").status == 0
    pixels, labels = read("db")
    assert labels == sorted(LABELS)
    assert {one.shape for one in pixels} == {(5, 6, 1)}
    gray = cv2.imread(str(folder / "classes" / "class0" / "1.png"), cv2.IMREAD_GRAYSCALE)
    np.testing.assert_array_equal(pixels[0][:, :, 0], cv2.resize(gray, (6, 5)))
    assert netweave("pack", "db", "small.rec", "--resize", "4").status == 0
    assert {one.shape[:2] for one in read("small.rec")[0]} == {(4, 4)}  # 5 x 6, the shorter side to 4


def test_rows_of_numbers_become_columns_of_hdf5(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    np.savetxt("rows.csv", np.arange(12.0).reshape(4, 3) / 8, delimiter=",")
    assert netweave("pack", "rows.csv", "rows.h5", "--shape", "3", "--labels", "labels.csv").status == 0
    with h5py.File("rows.h5") as file:
        np.testing.assert_array_equal(file["data"][:], np.arange(12.0).reshape(4, 3) / 8)
        assert file["label"][:].ravel().tolist() == LABELS
    assert netweave("pack", "rows.csv", "rows_lmdb", "--shape", "3").status == 0
    assert read("rows_lmdb")[0][3].ravel().tolist() == [9 / 8, 10 / 8, 11 / 8]


def test_mnist_and_cifar_by_their_names(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    assert netweave("pack", "classes", "t-images-idx3-ubyte", "--as", "mnist", "--resize", "8x8").status == 0
    assert netweave("pack", "t-images-idx3-ubyte", "mnist_lmdb").status == 0
    assert read("mnist_lmdb")[1] == sorted(LABELS)
    planes = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    records = [b"\7" + planes[0].tobytes(), b"\2" + planes[1].tobytes()]
    for index, record in enumerate(records):
        (folder / f"data_batch_{index}.bin").write_bytes(record)
    assert netweave("pack", "data_batch_0.bin,data_batch_1.bin", "cifar_lmdb").status == 0
    pixels, labels = read("cifar_lmdb")
    assert labels == [7, 2]
    np.testing.assert_array_equal(pixels[1], planes[1].transpose(1, 2, 0))


def test_a_file_elsewhere_is_fetched(folder, netweave, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.chdir(folder)
    memory = fsspec.filesystem("memory")
    memory.pipe("/pack/all.npz", (folder / "all.npz").read_bytes())
    assert netweave("pack", "memory://pack/all.npz", "db").status == 0
    assert read("db")[1] == LABELS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "db"], "nothing: there is no such file; check the name and the folder"),
        (["nothing.npz", "db"], "nothing.npz: there is no such file"),
        (["data.npy", "db"], "data.npy: holds one array; give the file of the labels: --labels FILE.npy"),
        (["data.csv", "db"], "data.csv: give the shape of a record, such as --shape 3x32x32"),
        (["list.txt", "db"], "class1/0.png): there is no such file"),
        (["all.npz", "classes"], "classes is there already; remove it or give another name"),
        (
            ["all.npz", "db", "--as", "zip"],
            "cannot pack into 'zip'; expected one of lmdb, recordio, hdf5, mnist",
        ),
        (
            ["all.npz", "db", "--from", "zip"],
            "all.npz: unknown kind of data 'zip'; expected one of lmdb, recordio",
        ),
        (
            ["half.npy", "x.rec", "--labels", "labels.npy"],
            "type float64 that are not integers",
        ),
        (["all.npz", "db", "--resize", "1x2x3"], "cannot resize to 1x2x3; give HEIGHTxWIDTH"),
        (["all.npz", "db", "--resize", "big"], "'big' is not SIZES"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(folder, netweave, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    called = netweave("pack", *arguments)
    assert (called.status, called.out) == (2, "")
    assert message in called.err
    assert sorted(path.name for path in folder.iterdir()) == before
