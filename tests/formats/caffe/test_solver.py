"""Solvers of every age: what a Job says of them, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from netweave.errors import NetweaveError, ReadError, UnsupportedError, UsageError
from netweave.formats.caffe.job import parse_solver, read_solver
from tests.formats.caffe import solvers

NET = """
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.5 mirror: true crop_size: 4 mean_value: 7 }
  data_param { source: "train_lmdb" batch_size: 8 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST stage: "held-out" }
  transform_param { crop_size: 4 force_gray: true }
  data_param { source: "test_lmdb" batch_size: 5 backend: LMDB } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" }
layer { name: "size" type: "Reduction" bottom: "ip" top: "size" loss_weight: 0.25 include { phase: TRAIN } }
"""
SOLVER = """net: "net.prototxt" base_lr: 0.1 lr_policy: "step" gamma: 0.5 stepsize: 10 max_iter: 20 display: 2
test_iter: 3 test_interval: 5 test_state { stage: "held-out" } momentum: 0.9 iter_size: 2 average_loss: 4
snapshot: 6 snapshot_prefix: "out/net" weights: "a.caffemodel,b.caffemodel" random_seed: 7
test_initialization: false snapshot_after_train: false snapshot_format: HDF5 clip_gradients: 3
"""


def write(folder, solver=SOLVER, net=NET):
    (folder / "net.prototxt").write_text(net)
    path = folder / "solver.prototxt"
    path.write_text(solver)
    return path


def sizes(source):
    return {source.outputs[0]: (source.batch_size, 1, 4, 4)}


def read(path):
    return read_solver(path, probe=sizes)


def test_all_that_a_solver_says(tmp_path):
    job = read(write(tmp_path))
    assert (job.name, job.seed, list(job.phases)) == ("solver", 7, ["train", "test"])
    assert (job.solver.kind, job.solver.accumulate) == ("caffe.sgd", 2)
    assert job.solver.settings == {
        "momentum": 0.9, "weight_decay": 0.0, "regularization_type": "L2", "clip_gradients": 3.0,
    }  # fmt: skip
    assert (job.solver.policy.kind, job.solver.policy.base_rate) == ("caffe.step", 0.1)
    assert job.solver.policy.settings == {"gamma": 0.5, "stepsize": 10}
    schedule = job.schedule
    assert (schedule.max_iterations, schedule.display_interval, schedule.average_loss) == (20, 2, 4)
    assert (schedule.test_interval, schedule.test_at_start) == (5, False)
    kept = job.checkpoints
    assert (kept.interval, kept.at_end, kept.formats) == (6, False, ("caffemodel.h5",))
    assert kept.prefix == str(tmp_path / "out/net")
    assert kept.weights == (str(tmp_path / "a.caffemodel"), str(tmp_path / "b.caffemodel"))


def test_phases_share_keys_and_have_their_own_data_and_losses(tmp_path):
    job = read(write(tmp_path))
    train, test = job.phases["train"], job.phases["test"]
    assert set(train.graph.parameters) == set(test.graph.parameters) == {"ip/0", "ip/1"}
    bias = train.graph.parameters["ip/1"]
    assert (bias.lr_mult, bias.decay_mult) == (2.0, 0.0)
    assert train.losses == {"loss": 1.0, "size": 0.25}
    assert (test.losses, test.num_batches) == ({"loss": 1.0}, 3)
    (source,) = train.data
    assert (source.kind, source.outputs, source.batch_size) == ("lmdb", ("data", "label"), 8)
    assert source.settings == {"path": str(tmp_path / "train_lmdb"), "color": "native"}
    assert [row["kind"] for row in source.transforms] == ["crop", "mirror", "subtract", "scale"]
    assert source.transforms[0]["where"] == "random"
    assert source.place == f"{tmp_path}/net.prototxt:2: layer 'data' (Data)"
    assert test.data[0].settings["color"] == "gray"
    assert test.data[0].transforms == ({"kind": "crop", "height": 4, "width": 4, "where": "centre"},)


def test_stages_and_level_are_those_of_the_training_net(tmp_path):
    """``caffe train`` writes its flags into ``train_state`` (tools/caffe.cpp), and nowhere else."""
    extra = """layer { name: "extra" type: "Power" bottom: "ip" top: "extra"
          include { stage: "more" min_level: 2 } }
        layer { name: "quiet" type: "Silence" bottom: "extra" include { stage: "more" min_level: 2 } }"""
    path = write(tmp_path, net=NET + extra)
    job = read_solver(path, probe=sizes, stages=("more",), level=2)
    assert "extra" in job.phases["train"].graph.layers
    assert "extra" not in job.phases["test"].graph.layers


def test_names_are_found_from_the_folder_that_the_net_is_found_in(tmp_path, monkeypatch):
    (tmp_path / "models" / "small").mkdir(parents=True)
    (tmp_path / "models" / "small" / "net.prototxt").write_text(NET)
    path = tmp_path / "models" / "small" / "solver.prototxt"
    path.write_text(SOLVER.replace("net.prototxt", "models/small/net.prototxt"))
    assert read(path).phases["train"].data[0].settings["path"] == str(tmp_path / "train_lmdb")
    monkeypatch.chdir(tmp_path)
    job = read(path)
    assert (job.phases["train"].data[0].settings["path"], job.checkpoints.prefix) == ("train_lmdb", "out/net")


def test_nets_in_the_solver_itself(tmp_path):
    text = SOLVER.replace('net: "net.prototxt"', f"net_param {{ {NET} }}")
    job = read(write(tmp_path, text))
    assert job.phases["train"].graph.files == (str(tmp_path / "solver.prototxt"),)
    assert list(job.tests) == ["test"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('type: "Adam" momentum2: 0.99', "caffe.adam"),
        ("solver_type: ADAGRAD", "caffe.adagrad"),
        ("", "caffe.sgd"),
    ],
)
def test_types_of_both_ages(tmp_path, line, kind):
    assert read(write(tmp_path, SOLVER + line)).solver.kind == kind


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (('"step"', '"stepearly"'), UnsupportedError, ":1: unknown lr_policy 'stepearly', expected fixed"),
        (("gamma", "gama"), ReadError, ":1: unknown field 'gama' in SolverParameter"),
        (("momentum: 0.9", 'type: "Momentum"'), UnsupportedError, ":2: unknown solver type 'Momentum'"),
        (("momentum: 0.9", 'type: "SGD" solver_type: SGD'), ReadError, "both type and solver_type"),
        (("test_iter: 3", "test_iter: 3 test_iter: 4"), ReadError, "has 1 test_state for 2 test nets"),
        (("test_iter: 3", 'test_net: "net.prototxt"'), ReadError, "has 0 test_iter for 1 test nets"),
        (("test_interval: 5", ""), ReadError, "has test nets and no test_interval"),
        (('net: "net.prototxt"', ""), ReadError, "expected one training net .*, found none"),
        (("momentum: 0.9", 'train_net: "a"'), ReadError, "found net and train_net"),
        (("net.prototxt", "nets.prototxt"), ReadError, ":1: names a net that does not exist: 'nets"),
        (("display: 2", "warmup_iter: 3"), UnsupportedError, ":1: warmup_iter is not supported"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, change, error, message):
    with pytest.raises(error, match=re.escape(str(tmp_path)) + ".*" + message):
        read(write(tmp_path, SOLVER.replace(*change)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("mean_value: 7", 'mean_value: 7 mean_file: "m"'),
            ":2: layer 'data' .* both mean_file and mean_value",
        ),
        (('source: "train_lmdb"', ""), ":2: layer 'data' .* has no source"),
        (("mirror: true", "expand_param {}"), ":2: layer 'data' .* transforms images by expand_param"),
    ],
)
def test_data_layers_that_are_refused(tmp_path, change, message):
    with pytest.raises(NetweaveError, match=message):
        read(write(tmp_path, net=NET.replace(*change)))


def test_a_phase_is_given_its_records_from_elsewhere(tmp_path):
    as_written = read_solver(write(tmp_path), probe=sizes)
    job = read_solver(write(tmp_path), probe=sizes, data={"train": "/data/here"})
    (before,), (after,) = as_written.phases["train"].data, job.phases["train"].data
    assert before.settings["path"].endswith("train_lmdb")
    assert after == replace(before, settings={**before.settings, "path": "/data/here"})
    assert job.phases["test"].data == as_written.phases["test"].data


def test_all_unknown_fields_of_a_solver_are_named(tmp_path):
    text = SOLVER + "richness: 8\nstage_lr: 0.1\nrichnes: 3\n"
    with pytest.raises(
        ReadError, match=r"unknown field 'richness' in .*'stage_lr' in .*'richnes' in "
    ) as told:
        read(write(tmp_path, text))
    assert str(told.value).count("line ") == 2
    text = SOLVER + "warmup_iter: 3 stagelr: 0.1 stageiter: 10"
    with pytest.raises(
        UnsupportedError, match="warmup_iter, stagelr, stageiter are not supported; remove them"
    ):
        read(write(tmp_path, text))


IMAGES = re.sub(
    r"data_param { source: (\S+) batch_size: (\d) backend: LMDB }",
    r'image_data_param { source: \1 batch_size: \2 root_folder: "nowhere/" }',
    NET.replace('type: "Data"', 'type: "ImageData"'),
)


@pytest.mark.parametrize(
    ("net", "kind", "settings"),
    [
        (NET, "images", {"path": "/d/train.txt", "base": "/d", "color": "bgr"}),
        (NET, "folder", {"path": "/d/train.txt", "color": "bgr"}),
        (NET, "hdf5", None),
        (IMAGES, "lmdb", {"path": "/d/train.txt", "color": "bgr"}),
        (IMAGES, "images", {"path": "/d/train.txt", "base": "/d", "color": "bgr"}),
    ],
)
def test_records_of_another_kind_than_the_net_names(tmp_path, net, kind, settings):
    """A list brings its own folder; of what are no pictures, opening them says what is wrong."""
    data = {"": "/d/train.txt"}
    job = read_solver(write(tmp_path, net=net), probe=sizes, data=data, kind_of=lambda path: kind)
    assert {phase.data[0].settings["path"] for phase in job.phases.values()} == {"/d/train.txt"}
    (source,) = job.phases["train"].data
    if settings is not None:
        assert (source.kind, source.settings) == (kind, settings)


def test_the_folder_of_images_that_is_there_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nowhere").mkdir()
    data = {"train": "/d/train.txt"}
    job = read_solver(write(tmp_path, net=IMAGES), probe=sizes, data=data, kind_of=lambda path: "images")
    assert job.phases["train"].data[0].settings["root_folder"] == "nowhere/"


def test_a_mean_file_from_elsewhere(tmp_path):
    net = NET.replace("mean_value: 7", 'mean_file: "gone.binaryproto"')
    job = read_solver(write(tmp_path, net=net), probe=sizes, data={"mean": "/d/mean.binaryproto"})
    rows = [row for row in job.phases["train"].data[0].transforms if row["kind"] == "subtract"]
    assert rows == [{"kind": "subtract", "path": "/d/mean.binaryproto"}]


def test_records_for_a_phase_that_is_not_there(tmp_path):
    message = r"solver.prototxt: data is given for phase 'tset'; expected one of train, test"
    with pytest.raises(UsageError, match=message):
        read_solver(write(tmp_path), probe=sizes, data={"tset": "/data/here"})


def test_records_for_a_phase_that_reads_none(tmp_path):
    net = NET.replace('type: "Data"', 'type: "MemoryData"')
    with pytest.raises(UsageError, match=r"net.prototxt: 0 layers of phase TRAIN read records from a path"):
        read_solver(write(tmp_path, net=net), probe=sizes, data={"train": "/data/here"})


def test_a_net_is_no_solver(tmp_path):
    write(tmp_path)
    with pytest.raises(ReadError, match="is a NetParameter, expected a solver"):
        parse_solver(tmp_path / "net.prototxt")


@pytest.mark.corpus
def test_every_solver_of_the_corpus(corpus, tmp_path):
    found = {name: solvers.outcome(tmp_path, name) for name in solvers.lay_out(corpus, tmp_path)}
    assert found == dict(line.split("\t") for line in solvers.TABLE.read_text().splitlines())


def test_absolute_names_in_the_list_of_an_image_layer(tmp_path):
    cv2 = pytest.importorskip("cv2")
    from netweave.training.data import open_source

    (tmp_path / "photos").mkdir()
    for value, name in enumerate(("photos/a.png", "b.png")):
        cv2.imwrite(str(tmp_path / name), np.full((4, 4, 3), value, np.uint8))
    (tmp_path / "train.txt").write_text(f"{tmp_path}/photos/a.png 0\nb.png 1\n")
    net = NET.replace('type: "Data" top: "data" top: "label" include { phase: TRAIN }',
                      'type: "ImageData" top: "data" top: "label" include { phase: TRAIN }').replace(
        'data_param { source: "train_lmdb" batch_size: 8 backend: LMDB }',
        'image_data_param { source: "train.txt" batch_size: 2 }')  # fmt: skip
    (train,) = read(write(tmp_path, net=net)).phases["train"].data
    with open_source(train) as source:
        assert [int(source.read(index)[0].max()) for index in range(2)] == [0, 1]
