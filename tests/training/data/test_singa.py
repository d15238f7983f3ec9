"""SINGA's stores, written here byte by byte from its sources, are read; what is damaged is named."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.formats.singa.job import read_job
from netweave.job import DataSource
from netweave.training.data import Pipeline, open_source
from netweave.training.data.pack import pack
from netweave.training.data.source_names import Named, open_named
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.transforms.arithmetic import read_means
from tests.training.data.make import data_base, field, kvfile, pictures, singa_record

IMAGES = pictures(3, height=4, width=5)


def source(kind, path, **settings):
    return open_source(DataSource(kind, ("data", "label"), 1, {"path": str(path), **settings}))


def store(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(kvfile({f"{index:05d}": value for index, value in enumerate(values)}))
    return path


def images():
    return [singa_record(pixels, label, shape=(3, 4, 5)) for label, pixels in enumerate(IMAGES)]


def check(opened):
    with opened:
        assert len(opened) == 3
        for index, pixels in enumerate(IMAGES):
            found, label = opened.read(index)
            np.testing.assert_array_equal(found, pixels)
            assert float(label) == index


def test_a_kvfile(tmp_path):
    check(source("kvfile", store(tmp_path / "train_data.bin", images())))
    check(source("kvfile", tmp_path / "train_data.bin", shape=[3, 4, 5]))
    check(open_named(str(tmp_path / "train_data.bin")))  # it is no file of CIFAR, though called so


def test_a_shard_of_the_first_version(tmp_path):
    """A folder with shard.dat; each value is a Record (type, image) around the record."""
    values = [field(1, 0, 0) + field(5, 2, value) for value in images()]
    store(tmp_path / "shard" / "shard.dat", values)
    check(source("shard", tmp_path / "shard"))
    check(open_named(str(tmp_path / "shard")))


def test_pixels_of_two_axes_are_a_gray_image(tmp_path):
    gray = IMAGES[0][:, :, :1]
    store(tmp_path / "shard" / "shard.dat", [singa_record(gray, 3, shape=(4, 5))])
    opened = source("shard", tmp_path / "shard")
    assert opened.images
    np.testing.assert_array_equal(opened.read(0)[0], gray)
    flat = source("shard", tmp_path / "shard", shape=[20])
    np.testing.assert_array_equal(flat.read(0)[0], gray.reshape(-1))


def test_an_lmdb_of_records(tmp_path):
    pytest.importorskip("lmdb")
    path = data_base(tmp_path / "db", {f"{index:05d}": value for index, value in enumerate(images())})
    check(source("record_lmdb", path))


def test_floats_and_flat_shapes(tmp_path):
    values = [singa_record(data=[1.5, -2, 3, 4, 5, 6], label=-7, shape=(2, 3))]
    opened = source("kvfile", store(tmp_path / "x", values), shape=[6])
    assert not opened.images
    assert [part.tolist() for part in opened.read(0)] == [[1.5, -2, 3, 4, 5, 6], -7]
    np.testing.assert_array_equal(source("kvfile", tmp_path / "x").read(0)[0], [[1.5, -2, 3], [4, 5, 6]])


def test_encoded_pixels(tmp_path):
    cv2 = pytest.importorskip("cv2")
    content = cv2.imencode(".png", IMAGES[0])[1].tobytes()
    value = field(2, 0, 3) + field(3, 2, content)
    pixels, label = source("kvfile", store(tmp_path / "x", [value]), encoded=True).read(0)
    np.testing.assert_array_equal(pixels, IMAGES[0][:, :, ::-1])
    assert float(label) == 3


def test_rows_of_text(tmp_path):
    (tmp_path / "a.csv").write_text("3,1,2.5,-3e2,4\n\n1,5,6,7,8\n")
    opened = source("textfile", tmp_path / "a.csv", shape=[2, 2])
    np.testing.assert_array_equal(
        opened.read_many(np.array([1, 0]))[0], [[[5, 6], [7, 8]], [[1, 2.5], [-300, 4]]]
    )
    assert opened.read(0)[1] == 3
    (tmp_path / "b.csv").write_text("1;2\n3;4\n")
    opened = source("textfile", tmp_path / "b.csv", separator=";", has_label=False)
    assert [part.tolist() for part in opened.read(1)] == [[3, 4], 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3\n1,x,3\n", "a.csv:2: found '1,x,3', expected numbers with ',' between"),
        ("1,2,3\n1,2\n", "a.csv:2: has 2 numbers, expected 3, the first a label"),
        ("1\n", "a.csv:1: has 1 numbers, expected 1, the first a label"),
        ("\n", "a.csv: has no rows"),
    ],
)
def test_bad_rows_of_text(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ReadError, match=message):
        source("textfile", tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x: has no records"),
        (kvfile({"0": b"12345"})[:-2], "x: ends inside of the value at byte 9; was it copied whole"),
        (kvfile({"0": b"12345"})[:12], "x: ends inside of the value at byte 9"),
        (b"abc", "x: ends inside of the key at byte 0"),
        (struct.pack("<Q", 1 << 60) * 400, "the key at byte 0 would have 1,152,921,504,606,846,976 bytes"),
        (kvfile({"k1": b"\xff\xff"}), r"x: record 0 \(key 'k1'\): is not a complete record of SINGA"),
        (kvfile({"k1": singa_record(data=[1, 2], shape=(3,))}), r"\(key 'k1'\): has 2 values, expected 3"),
        (kvfile({"k1": singa_record(label=1)}), r"\(key 'k1'\): has neither pixels nor data"),
    ],
)
def test_bad_stores(tmp_path, content, message):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ReadError, match=message):
        source("kvfile", tmp_path / "x")


def test_packing_writes_what_singa_reads(tmp_path):
    """The bytes are those of the message written here by hand, red first."""
    planes = IMAGES.transpose(0, 3, 1, 2)
    assert pack(Arrays(planes, [0, 1, 2]), tmp_path / "x.bin", "kvfile") == 3
    expected = {
        f"{index:08d}": singa_record(pixels[:, :, ::-1], index, shape=(3, 4, 5))
        for index, pixels in enumerate(IMAGES)
    }
    written = (tmp_path / "x.bin").read_bytes()
    # protobuf may leave out a label of 0, which then is the default
    assert written in {
        kvfile(expected),
        kvfile(expected | {"00000000": expected["00000000"].replace(b"\x10\0", b"", 1)}),
    }
    pack(Arrays(planes / 7, [0, 1, 2]), tmp_path / "floats", "kvfile")
    with source("kvfile", tmp_path / "floats") as opened:
        np.testing.assert_allclose(opened.read(2)[0][:, :, ::-1], IMAGES[2] / 7, rtol=1e-6)


def means_of(tmp_path):
    """Means as 0.2 keeps them (the first record of a kvfile) and as 0.1 does (a Record alone)."""
    means = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    record = singa_record(data=means.ravel(), shape=(3, 4, 5))
    store(tmp_path / "kv_mean.bin", [record])
    (tmp_path / "record_mean.bin").write_bytes(field(1, 0, 0) + field(5, 2, record))
    return means


@pytest.mark.parametrize("name", ["kv_mean.bin", "record_mean.bin"])
def test_means_and_deviations(tmp_path, name):
    means = means_of(tmp_path)
    wanted = [
        {"kind": "subtract", "path": str(tmp_path / name)},
        {"kind": "divide", "path": str(tmp_path / name)},
    ]
    expected = (IMAGES[0].transpose(2, 0, 1) - means) / means
    for pixels, answer in (
        (IMAGES[0], expected.transpose(1, 2, 0)),
        (IMAGES[0].transpose(2, 0, 1).reshape(-1), expected.reshape(-1)),  # a store_conf of shape 60
    ):
        out = np.empty(pixels.shape, np.float32)
        Pipeline(wanted).apply(pixels, out, None, lambda: "here")
        np.testing.assert_allclose(out, answer, rtol=1e-5)


def test_means_of_another_size(tmp_path):
    means_of(tmp_path)
    for kind, what in (("subtract", "means"), ("divide", "deviations")):
        pipeline = Pipeline([{"kind": kind, "path": str(tmp_path / "kv_mean.bin")}])
        with pytest.raises(
            ShapeError, match=rf"here: is \(6, 5, 3\), and the {what} of .*kv_mean.bin are \(4, 5, 3"
        ):
            pipeline.apply(np.zeros((6, 5, 3), np.uint8), np.empty((6, 5, 3)), None, lambda: "here")
    store(tmp_path / "zeros", [singa_record(data=[1, 0], shape=(2,))])
    with pytest.raises(ReadError, match="zeros: has deviations of zero"):
        Pipeline([{"kind": "divide", "path": str(tmp_path / "zeros")}])
    store(tmp_path / "text", [b"\xff"])
    with pytest.raises(ReadError, match="text: is not a complete record"):
        read_means(str(tmp_path / "text"))


JOB = """name: "net" train_steps: 3 train_one_batch { alg: kBP }
updater { type: kSGD learning_rate { type: kFixed base_lr: 0.1 } } cluster { workspace: "run" }
neuralnet { layer { name: "data" %s }
  layer { name: "ip" type: kInnerProduct srclayers: "data" innerproduct_conf { num_output: 3 }
    param { name: "w" init { type: kUniform } } param { name: "b" init { type: kConstant } } }
  layer { name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "data" } }
"""


def data_of(tmp_path, layer):
    (tmp_path / "job.conf").write_text(JOB % layer)
    return read_job(tmp_path / "job.conf").phases["train"].data[0]


def test_the_stores_of_a_job(tmp_path):
    """What a job.conf says of its data opens the store, with skip, means and shape."""
    means = means_of(tmp_path)
    path = store(tmp_path / "train", images())
    conf = 'store_conf { backend: "%s" path: "%s" batchsize: 2 shape: 3 shape: 4 shape: 5 random_skip: 2 %s }'
    mean = f'mean_file: "{tmp_path}/kv_mean.bin"'
    found = data_of(tmp_path, "type: kRecordInput " + conf % ("kvfile", path, mean))
    assert (found.kind, dict(found.order), found.batch_size) == ("kvfile", {"skip": 2}, 2)
    with open_source(found) as opened:
        out = np.empty((4, 5, 3), np.float32)
        Pipeline(found.transforms).apply(opened.read(1)[0], out, None, lambda: "here")
    np.testing.assert_allclose(out, IMAGES[1] - means.transpose(1, 2, 0), rtol=1e-5)
    (tmp_path / "rows").write_text("1;2;3\n0;4;5\n")
    rows = f'path: "{tmp_path}/rows" separator: ";" batchsize: 2 shape: 2'
    layer = f'type: kCSVInput store_conf {{ backend: "textfile" {rows} }}'
    with open_source(data_of(tmp_path, layer)) as opened:
        assert opened.read(1)[0].tolist() == [4, 5]
    message = r"layer 'data'.* kind 'hdfsfile', expected kvfile or lmdb; pack them again"
    with pytest.raises(UnsupportedError, match=message):
        data_of(tmp_path, "type: kRecordInput " + conf % ("hdfsfile", path, ""))


def test_a_shape_that_the_user_says(tmp_path):
    store(tmp_path / "x.kvfile", images())
    with open_named(str(tmp_path / "x.kvfile"), said=Named(shape=(60,))) as opened:
        assert opened.read(0)[0].shape == (60,)
