"""What of a file of weights goes unused, and which parameters find no values in it, is told once."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from netweave import api
from netweave.runtime.engine import SerialEngine
from netweave.training import Note
from tests.training.singa_jobs import CLASSIFIER, TIED, job, records, run
from tests.training.trainers import make_trainer

SOLVER = """
net: "net.prototxt"
base_lr: 0.1 lr_policy: "fixed" max_iter: %d snapshot_prefix: "kept/%s"
"""

LAYER = """
layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "%s"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
"""

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
%s
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "%s" bottom: "label" top: "loss" }
"""


def caffe_job(folder, names, steps=0):
    bottoms = ["data", *names]
    layers = "".join(LAYER % (name, bottom, name) for name, bottom in zip(names, bottoms, strict=False))
    (folder / "net.prototxt").write_text(NET % (layers, names[-1]))
    (folder / "solver.prototxt").write_text(SOLVER % (steps, names[-1]))
    found = api.load_job(folder / "solver.prototxt")
    prefix = str(folder / "kept" / names[-1])
    return replace(found, checkpoints=replace(found.checkpoints, prefix=prefix))


def notes_of(given, weights, data):
    told = []
    begun = replace(given, checkpoints=replace(given.checkpoints, weights=tuple(map(str, weights))))
    with SerialEngine() as engine:
        make_trainer(begun, engine=engine, data={"train": data}, watch=told.append).close()
    return [event.text for event in told if isinstance(event, Note)]


@pytest.mark.parametrize("suffix", ["caffemodel", "checkpoint"])
def test_caffe(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    given = records(8)
    data = {"data": given["data"][:, :4], "label": given["label"]}
    with SerialEngine() as engine:
        trainer = make_trainer(caffe_job(tmp_path, ["a", "b", "c"], 1), engine=engine, data={"train": data})
        trainer.run()
        trainer.close()
    file = tmp_path / f"kept/c_iter_1.{suffix}"
    unused = "'b', 'c'" if suffix == "caffemodel" else "'b/0', 'b/1', 'c/0', 'c/1'"
    assert notes_of(caffe_job(tmp_path, ["a", "new"]), [file], data) == [
        f"{file}: ignoring {unused}, which the net does not have",
        f"{file}: no values for 'new/0', 'new/1', which the run starts from fresh ones",
    ]
    assert notes_of(caffe_job(tmp_path, ["a", "b", "c"]), [file], data) == []


def test_singa(tmp_path):
    run(job(tmp_path, TIED, more="train_steps: 2"))
    file = tmp_path / "checkpoint" / "step2-worker0"
    _, events = run(job(tmp_path, CLASSIFIER, more=f'train_steps: 0 checkpoint_path: "{file}"'))
    assert [event.text for event in events if isinstance(event, Note)] == [
        f"{file}: ignoring 'c', which the net does not have"
    ]
    run(job(tmp_path, CLASSIFIER, more="train_steps: 3"))
    file = tmp_path / "checkpoint" / "step3-worker0"
    _, events = run(job(tmp_path, TIED, more=f'train_steps: 0 checkpoint_path: "{file}"'))
    assert [event.text for event in events if isinstance(event, Note)] == [
        f"{file}: no values for 'c', which the run starts from fresh ones"
    ]
