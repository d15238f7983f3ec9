"""URLs in files: opened only if the user allows them, before anything is asked of a store."""

from __future__ import annotations

import fsspec
import numpy as np
import pytest

from netweave import api
from netweave.errors import NetweaveError, UsageError
from netweave.job import DataSource, checked_source, is_allowed
from netweave.training.data import open_source
from tests.hostile.stores import stores

NET = """layer { name: "data" type: "ImageData" top: "data" top: "label"
  image_data_param { source: "SOURCE" batch_size: 2 } TRANSFORM }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "out/net"\n'


class Counting(fsspec.get_filesystem_class("memory")):
    """A store in memory that counts what is asked of it."""

    protocol = "counting"
    requests = 0

    @classmethod
    def _strip_protocol(cls, path):
        cls.requests += 1
        return super()._strip_protocol(path.replace("counting://", "memory://"))


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return a folder with a solver, and a store with images and a list."""
    monkeypatch.chdir(tmp_path)
    fsspec.register_implementation("counting", Counting, clobber=True)
    system = fsspec.filesystem("counting")
    images = stores()["image list"].files
    for name, content in images.items():
        (tmp_path / name).write_bytes(content)
        system.pipe_file(f"/mine/{name}", content)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    Counting.requests = 0
    yield tmp_path
    system.rm("/mine", recursive=True)


def write(folder, source, transform=""):
    (folder / "net.prototxt").write_text(NET.replace("SOURCE", source).replace("TRANSFORM", transform))


def refused(**options):
    reason = r"names 'counting://mine/[^']+'; a URL in a file is opened only if you allow it"
    with pytest.raises(NetweaveError, match=reason) as told:
        api.load_job("solver.prototxt", **options)
    assert "--allow-url counting://mine" in str(told.value)
    assert Counting.requests == 0


@pytest.mark.parametrize("allowed", [[], ["counting://min"], ["counting://mine/other"], ["s3://"], [""]])
def test_a_url_in_a_net_is_not_opened(store, allowed):
    write(store, "counting://mine/l.txt")
    refused(allow_urls=allowed)


def test_a_url_of_means_is_not_opened(store):
    write(store, "l.txt", 'transform_param { mean_file: "counting://mine/mean.binaryproto" }')
    refused()


def test_urls_in_a_list_are_not_opened(store):
    write(store, "l.txt")
    (store / "l.txt").write_text("0.png 0\ncounting://mine/1.png 1\n")
    refused()


@pytest.mark.parametrize(
    "allowed", [["counting://mine"], ["counting://mine/"], ["counting://"], ["x", "counting://mine"]]
)
def test_what_is_allowed_is_read(store, allowed):
    write(store, "l.txt")
    (store / "l.txt").write_text("0.png 0\ncounting://mine/1.png 1\n")
    job = api.load_job("solver.prototxt", allow_urls=allowed)
    (source,) = job.phases["train"].data
    with open_source(source) as opened:
        np.testing.assert_array_equal(opened.read(1)[0], opened.read(1)[0])
    assert Counting.requests


def test_what_the_user_names_is_read(store):
    """The list is the user's own: images beside it are in the same store."""
    write(store, "missing.txt")
    fsspec.filesystem("counting").pipe_file("/mine/abs.txt", b"counting://mine/0.png 0\n")
    (store / "abs.txt").write_text("counting://mine/0.png 0\n")
    with pytest.raises(NetweaveError, match=r"names 'counting://mine/0\.png'"):
        api.load_job("solver.prototxt", data={"train": "abs.txt"})
    assert api.load_job("solver.prototxt", data={"train": "abs.txt"}, allow_urls=["counting://mine"])


def test_a_program_opens_what_it_names(store):
    wanted = DataSource(
        "images", ("data", "label"), 1, {"path": "counting://mine/l.txt", "base": "counting://mine"}
    )
    with open_source(wanted) as opened:
        assert len(opened) == 4


def test_every_text_of_a_source_is_checked():
    deep = ({"kind": "x", "inner": {"names": ["a", "http://b"]}},)
    for source in (
        DataSource("lmdb", (), 1, {"path": "http://b"}),
        DataSource("numpy", (), 1, {"paths": ["a", "http://b"]}),
        DataSource("lmdb", (), 1, {"path": "a"}, transforms=deep),
    ):
        with pytest.raises(UsageError, match="names 'http://b'"):
            checked_source(source, ["https://b"])
        assert checked_source(source, ["http://b"]) == source


@pytest.mark.parametrize(
    ("url", "allowed", "answer"),
    [
        ("s3://a/b", ["s3://a/b"], True),
        ("s3://a/b", ["s3://a/"], True),
        ("s3://ab/c", ["s3://a"], False),
        ("S3://a/b", ["s3://a"], False),
        ("http://a@evil/x", ["http://a"], False),
        ("http://a.evil/x", ["http://a"], False),
        ("zip://x::http://b", ["zip://", "zip://x"], False),
        ("zip://x::http://b", ["zip://x::http://b"], True),
        ("file:///etc/passwd", [], False),
    ],
)
def test_a_url_is_allowed_as_a_whole_or_by_a_folder_above_it(url, allowed, answer):
    assert is_allowed(url, allowed) is answer
