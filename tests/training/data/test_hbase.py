"""Rows of HBase arrive from a Thrift server that this test starts, ahead of the step that needs them."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from netweave.errors import ReadError, UsageError
from netweave.job import DataSource
from netweave.training.data import open_source
from netweave.training.data.pack import pack
from netweave.training.data.source_names import open_named
from netweave.training.data.sources import hbase
from tests.training.data.make import pictures
from tests.training.data.thrift_gateway import gateway

cv2 = pytest.importorskip("cv2")

IMAGES = pictures(12, height=24, width=24)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)  # the server logs what the test lets it fail by
    monkeypatch.setattr(hbase, "PAUSES_S", (0.0, 0.0))


@pytest.fixture
def table():
    """Twelve rows with images, and one without."""
    rows = {
        f"photo{index:03d}".encode(): {
            b"image:data": cv2.imencode(".png", pixels)[1].tobytes(),
            b"image:label": str(index % 3).encode(),
            b"image:number": (index - 5).to_bytes(4, "big", signed=True),
        }
        for index, pixels in enumerate(IMAGES)
    }
    return rows | {b"note": {b"image:label": b"7"}}


@pytest.fixture
def store(table):
    with gateway({b"photos": table}) as handler:
        yield handler


def url(store, table="photos", query="image=image:data&label=image:label"):
    return f"hbase://127.0.0.1:{store.port}/{table}?{query}"


def test_rows_in_the_order_of_their_keys(store):
    with open_source(DataSource("hbase", ("data", "label"), 1, {"path": url(store)})) as source:
        assert len(source) == 12
        for index in (0, 11, 5):
            pixels, label = source.read(index)
            np.testing.assert_array_equal(pixels, IMAGES[index])
            assert float(label) == index % 3
        calls = len(store.calls)
        found = source.fetch([4, 9, 4, 2])
        assert store.calls[calls:] == ["getRowsWithColumns"], "several rows are one request"
        labels = [source.parse(index, cells)[1] for index, cells in zip([4, 9, 4, 2], found, strict=True)]
        assert [float(label) for label in labels] == [1, 0, 1, 2]
        np.testing.assert_array_equal(source.parse(9, found[1])[0], IMAGES[9])


def test_keys_are_listed_without_the_images(store, monkeypatch):
    monkeypatch.setattr(hbase, "KEYS_AT_ONCE", 5)
    with open_named(url(store, query="image=image:data&label=image:label&prefix=photo00")) as source:
        assert len(source) == 10
    assert store.calls[0] == "scannerOpenWithScan"
    assert "getRowsWithColumns" not in store.calls


def test_threads_share_connections(store):
    def read(start):
        rows = [(start + 7 * step) % 12 for step in range(40)]
        return all(np.array_equal(source.read(row)[0], IMAGES[row]) for row in rows)

    with open_named(url(store)) as source, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))
        assert 1 <= len(source._idle) <= 8


def test_labels_as_integers_and_none(store):
    with open_named(url(store, query="image=image:data&label=image:number&label_type=int")) as source:
        assert [float(source.read(index)[1]) for index in (0, 5, 11)] == [-5, 0, 6]
    with open_named(url(store, query="image=image:data")) as source:
        assert float(source.read(4)[1]) == 0
    with (
        open_named(url(store, query="image=image:data&label=image:number")) as source,
        pytest.raises(
            ReadError, match=r"photos: row 'photo000': has the label .* is no text; for .*label_type=int"
        ),
    ):
        source.read(0)


def test_a_table_can_be_packed(store, tmp_path):
    with open_named(url(store)) as source:
        assert pack(source, tmp_path / "x.rec", "recordio") == 12
    with open_named(str(tmp_path / "x.rec")) as source:
        np.testing.assert_array_equal(source.read(7)[0], IMAGES[7][:, :, ::-1])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("hbase://host/t", "is incomplete, expected hbase://HOST:PORT/TABLE[?]image=FAMILY:NAME"),
        ("hbase://host?image=a:b", "is incomplete"),
        ("hbase://host:x/t?image=a:b", "is incomplete"),
        ("hbase://host/t?image=a:b&labels=a:c", "says labels, which is unknown; known: image, label, prefix"),
        ("hbase://host/t?image=a:b&label_type=float", "label_type is 'float', expected text or int"),
        ("hbase://host:0/t?image=a:b", "is incomplete"),
        ("hbase://host/t?image=a:b&lable=", "says lable, which is unknown"),
        ("hbase://host/t?image=a:b&image=a:c", "has a setting twice"),
        ("hbase://me:word@host/t?image=a:b", "a user's name"),
    ],
)
def test_bad_urls(path, message):
    with pytest.raises(UsageError, match=message):
        open_named(path)


def test_what_is_not_there(store, table):
    with pytest.raises(ReadError, match="has no rows with a cell 'image:none'"):
        open_named(url(store, query="image=image:none"))
    with pytest.raises(
        ReadError, match=r"the Thrift gateway does not answer: .*TableNotFoundException: none"
    ):
        open_named(url(store, table="none"))
    with open_named(url(store)) as source:
        del table[b"photo003"]
        with pytest.raises(ReadError, match="row 'photo003': has no cell 'image:data'; was it deleted"):
            source.read(3)
    with pytest.raises(
        ReadError, match=r"hbase://127.0.0.1:1/t: the Thrift gateway does not answer: .*; is it up"
    ):
        open_named("hbase://127.0.0.1:1/t?image=a:b")


def test_a_gateway_that_is_restarted_is_asked_again(store):
    with open_named(url(store)) as source:
        store.fail_after = 0
        with pytest.raises(ReadError, match="photos: the Thrift gateway does not answer"):
            source.read(0)
        store.fail_after = None
        np.testing.assert_array_equal(source.read(1)[0], IMAGES[1])


@pytest.mark.parametrize("transport", ["buffered", "framed"])
@pytest.mark.parametrize("protocol", ["binary", "compact"])
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(200),
        b"\0\0\0\x40\x80\1\0\2\0\0\0\x07scanner\0\0\0\0\x1e\0\0\x63" + b"\xff" * 80,
        b"\0\0\0\x10\x82\x41\0\1x" + b"\xff" * 80,
        b"\0\0\0\4" + bytes(100),
    ],
    ids=["http", "binary", "compact", "zeros"],
)
def test_a_server_that_speaks_something_else(answer, transport, protocol):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):  # until the test closes the server
                while True:
                    with server.accept()[0] as asked:
                        asked.recv(1 << 16)
                        asked.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        name = f"hbase://127.0.0.1:{server.getsockname()[1]}/t?image=a:b"
        with pytest.raises(ReadError, match=r"/t: the Thrift gateway does not answer"):
            open_named(f"{name}&transport={transport}&protocol={protocol}")
        server.shutdown(socket.SHUT_RDWR)


NET = """layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.01 crop_size: 24 }
  data_param { source: "elsewhere_lmdb" batch_size: 8 backend: LMDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 256 kernel_size: 11 weight_filler { type: "gaussian" std: 0.01 } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv1" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.001 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" }
"""
SOLVER = """net: "net.prototxt" base_lr: 0.001 lr_policy: "fixed" max_iter: %d snapshot: 5
snapshot_prefix: "kept/net" random_seed: 2
"""


def train(folder, path, iterations, **options):
    from netweave import api

    folder.mkdir(exist_ok=True)
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER % iterations)
    job = api.load_job(
        folder / "solver.prototxt", data={"train": path}, input_shapes={"data": (8, 3, 24, 24)}
    )
    net = api.train(job, **options)
    return {name: tensor.detach().numpy().copy() for name, tensor in net.params.items()}


@pytest.mark.slow
def test_the_step_never_waits_for_a_slow_gateway(store, tmp_path):
    """Each batch is decoded before the step that is before its own has ended, as the trace shows."""
    pytest.importorskip("torch")
    store.delay_s = 0.02
    train(tmp_path, url(store), 30, trace=tmp_path / "trace.json")
    events = [event for event in json.loads((tmp_path / "trace.json").read_text()) if event.get("ph") == "X"]
    ready, ended = {}, {}
    for event in events:
        end = event["ts"] + event["dur"]
        if found := re.match(r"batch (\d+), records", event["name"]):
            ready[int(found[1])] = max(end, ready.get(int(found[1]), 0))
        elif found := re.match(r"(?:forward|backward|update) (\d+)", event["name"]):
            ended[int(found[1])] = max(end, ended.get(int(found[1]), 0))
    assert set(ended) == set(range(30))
    waited = [step for step in range(2, 30) if ready[step] > ended[step - 1]]
    assert waited == []
    fetches = [event for event in events if event["name"].startswith("fetch batch")]
    assert {event["cat"] for event in fetches} == {"fetch"}
    assert min(event["dur"] for event in fetches) >= 20_000
    assert set(store.asked[2:]) == {8}, "a batch is one request"


@pytest.mark.slow
def test_a_run_goes_on_after_the_gateway_died(store, tmp_path):
    pytest.importorskip("torch")
    expected = train(tmp_path / "whole", url(store), 25)
    store.fail_after = 25
    with pytest.raises(ReadError, match="photos: the Thrift gateway does not answer") as told:
        train(tmp_path / "cut", url(store), 25)
    assert "\n" not in str(told.value)
    store.fail_after = None
    found = train(tmp_path / "cut", url(store), 25, resume=True)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
