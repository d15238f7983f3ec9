"""A store that dies in the middle of a run ends it with one error; the run goes on from its checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")
pytest.importorskip("lmdb")

import fsspec

from netweave import api
from netweave.errors import ReadError
from netweave.training import Saved, Updated
from netweave.training.data import byte_file
from netweave.training.data.pack import pack
from netweave.training.data.sources.arrays import Arrays
from tests.training.data.make import pictures

NET = """layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.01 mirror: true }
  data_param { source: "SOURCE" batch_size: 4 backend: LMDB } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" }
"""
SOLVER = """net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 30 momentum: 0.9 snapshot: 5
snapshot_prefix: "kept/net" random_seed: 2
"""


class Mortal(fsspec.get_filesystem_class("memory")):
    """A store of memory that answers a number of requests and no more."""

    protocol = "mortal"
    answers = 1_000_000

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("mortal://", "memory://"))

    def cat_ranges(self, paths, starts, ends, **options):
        type(self).answers -= 1
        if type(self).answers < 0:
            return [ConnectionResetError(104, "Connection reset by peer")] * len(paths)
        return super().cat_ranges(paths, starts, ends, **options)


def train(folder, events, **options):
    (folder / "net.prototxt").write_text(NET.replace("SOURCE", "mortal://db"))
    (folder / "solver.prototxt").write_text(SOLVER)
    job = api.load_job(folder / "solver.prototxt", allow_urls=["mortal://db"])
    net = api.train(job, watch=events.append, **options)
    return {name: tensor.detach().numpy().copy() for name, tensor in net.params.items()}


def test_a_store_that_dies_in_the_middle(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_file, "PAUSES_S", (0.0, 0.0))
    fsspec.register_implementation("mortal", Mortal, clobber=True)
    pack(Arrays(pictures(30).transpose(0, 3, 1, 2), np.arange(30) % 3), tmp_path / "db", "lmdb")
    system = fsspec.filesystem("mortal")
    system.put(f"{tmp_path}/db", "/", recursive=True)
    try:
        for name in ("whole", "cut"):
            (tmp_path / name).mkdir()
        expected = train(tmp_path / "whole", [])
        Mortal.answers = 30
        events = []
        with pytest.raises(
            ReadError, match=r"mortal://db/data.mdb: bytes .* Connection reset by peer; is"
        ) as told:
            train(tmp_path / "cut", events)
        assert "\n" not in str(told.value)
        done = sum(isinstance(event, Updated) for event in events)
        saved = [event.iteration for event in events if isinstance(event, Saved)]
        assert 5 < done < 30
        assert saved
        Mortal.answers = 1_000_000
        events.clear()
        found = train(tmp_path / "cut", events, resume=True)
        assert [event.iteration for event in events if isinstance(event, Updated)] == list(
            range(saved[-1], 30)
        )
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    finally:
        system.rm("/db", recursive=True)
