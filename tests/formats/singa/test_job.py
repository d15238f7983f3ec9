"""A job.conf as a Job: rules, rates, phases, data, and what one device does otherwise."""

from __future__ import annotations

import pytest

import netweave
from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.job import Job
from tests.formats.singa.nets import conf, data, layer
from tests.formats.singa.test_reader import RBM

LOSS = layer("kSoftmaxLoss", sources="data data", name="loss")
RATE = "learning_rate { base_lr: 0.1 type: kFixed }"
CLUSTER = (
    'cluster { nworker_groups: 2 nworkers_per_group: 3 nservers_per_group: 2 workspace: "run" sync_freq: 4 }'
)


def job(
    folder,
    *,
    updater: str = f"type: kSGD {RATE}",
    alg: str = "kBP",
    more: str = "",
    net: str = data(6) + LOSS,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> Job:
    head = f"train_steps: 90 train_one_batch {{ alg: {alg} }} updater {{ {updater} }} {CLUSTER} {more}"
    (folder / "job.conf").write_text(conf(net, job=head))
    return netweave.load_job(folder / "job.conf", input_shapes=shapes)


@pytest.mark.parametrize(
    ("updater", "kind", "settings"),
    [
        ("type: kSGD momentum: 0.5", "sgd", {"momentum": 0.5, "weight_decay": 0.0}),
        ("type: kNesterov momentum: 0.5 weight_decay: 0.25", "nesterov", {"weight_decay": 0.25}),
        ("type: kAdaGrad clip_low: -5 clip_high: 5", "adagrad", {"clip_low": -5.0, "clip_high": 5.0}),
        ("type: kRMSProp rmsprop_conf { rho: 0.5 }", "rmsprop", {"rho": 0.5, "delta": 1e-8}),
        ("type: kAdaDelta adadelta_conf { rho: 0.5 }", "adadelta", {"rho": 0.5}),
        ("type: kAdam adam_conf { beta1: 0.5 }", "adam", {"beta1": 0.5, "beta2": 0.999}),
        ("type: kAdamMax", "adammax", {"beta1": 0.9}),
    ],
)
def test_updaters(updater, kind, settings, tmp_path):
    found = job(tmp_path, updater=f"{updater} {RATE}").solver
    assert found.kind == f"singa.{kind}"
    assert settings.items() <= found.settings.items()
    assert (found.policy.kind, found.policy.base_rate) == ("singa.fixed", pytest.approx(0.1))


@pytest.mark.parametrize(
    ("rate", "kind", "settings"),
    [
        ("type: kStep step_conf { gamma: 0.5 change_freq: 7 }", "step", {"gamma": 0.5, "change_freq": 7}),
        (
            "type: kFixedStep fixedstep_conf { step: 0 step: 5 step_lr: 1 step_lr: 0.5 }",
            "fixed_step",
            {"step": [0, 5], "step_lr": [1.0, 0.5]},
        ),
        (
            "type: kLinear linear_conf { final_lr: 0.5 change_freq: 7 }",
            "linear",
            {"final_lr": 0.5, "change_freq": 7},
        ),
        ("type: kExponential exponential_conf { change_freq: 7 }", "exponential", {"change_freq": 7}),
        ("type: kInverse inverse_conf { gamma: 0.5 pow: 2 }", "inverse", {"gamma": 0.5, "pow": 2.0}),
        ("type: kInverseT inverset_conf { final_lr: 3 }", "inverse_t", {"final_lr": 3.0}),
    ],
)
def test_policies(rate, kind, settings, tmp_path):
    found = job(tmp_path, updater=f"type: kSGD learning_rate {{ {rate} }}").solver.policy
    assert (found.kind, found.settings) == (f"singa.{kind}", settings)


def test_schedule_cluster_and_checkpoints(tmp_path):
    more = "disp_freq: 5 test_freq: 10 test_steps: 3 validate_freq: 20 validate_steps: 4 checkpoint_freq: 30 "
    found = job(
        tmp_path,
        more=more + 'test_after: 10 checkpoint_path: "first.bin" checkpoint_path: "second.bin" gpu: 0 gpu: 1',
    )
    schedule = found.schedule
    assert (schedule.max_iterations, schedule.display_interval, schedule.test_interval) == (90, 5, 10)
    assert (schedule.validate_interval, schedule.first, schedule.test_at_start) == (20, {"test": 10}, False)
    assert {name: phase.num_batches for name, phase in found.phases.items()} == {
        "train": None,
        "validate": 4,
        "test": 3,
    }
    assert (found.checkpoints.interval, found.checkpoints.weights) == (30, ("first.bin", "second.bin"))
    assert found.checkpoints.prefix == "run/checkpoint/step"
    assert (found.cluster.num_workers, found.cluster.num_servers) == (6, 2)
    assert (found.cluster.sync_every, found.cluster.workers_per_group) == (4, 3)
    graphs = {name: phase.graph for name, phase in found.phases.items()}
    assert Job.from_json(found.to_json(), graphs) == found


def test_records_are_fed_and_the_loss_is_learnt(tmp_path):
    net = (
        data(6).replace("batchsize: 2", "batchsize: 2 batchsize: 3 mean_value: 1 std_value: 4 random_skip: 9")
        + LOSS
    )
    phase = job(tmp_path, net=net).phases["train"]
    (source,) = phase.data
    assert (source.kind, source.outputs, source.batch_size) == ("kvfile", ("data", "label"), 5)
    assert source.order == {"skip": 9}
    assert source.transforms == ({"kind": "subtract", "values": [1.0]}, {"kind": "scale", "factor": 0.25})
    assert phase.losses == {"loss": 1.0}


def test_images_are_cut_at_random_in_training_and_at_the_corner_outside_it(tmp_path):
    net = (
        data(3, 9, 9) + 'layer { name: "image" type: kImagePreprocess srclayers: "data" '
        "rgbimage_conf { cropsize: 7 mirror: true scale: 2 } }\n"
        + layer("kSoftmaxLoss", sources="image data", name="loss")
    )
    phases = job(tmp_path, net=net, more="test_freq: 1 test_steps: 1").phases
    crop = {"kind": "crop", "height": 7, "width": 7}
    scale = {"kind": "scale", "factor": 2.0}
    (train,), (test,) = phases["train"].data, phases["test"].data
    assert train.transforms == (crop | {"where": "random"}, {"kind": "mirror"}, scale)
    assert test.transforms == (crop | {"where": "top left"}, scale)
    assert train.outputs == ("image", "label")


@pytest.mark.parametrize("setting", ["elastic_freq: 100", "resize: 29", "gamma: 15"])
def test_distortions_of_mnist_are_no_silent_loss(setting, tmp_path):
    net = (
        layer("kShardData", "sharddata_conf { path: 'mnist' batchsize: 6 }", sources="", name="records")
        + layer("kMnist", f"mnist_conf {{ norm_a: 2 norm_b: 1 {setting} }}", sources="records", name="images")
        + layer("kLabel", sources="records", name="label")
        + layer("kSoftmaxLoss", sources="images label", name="loss")
    )
    shapes = {"images": (6, 1, 28, 28)}
    wanted = rf"job.conf:\d+: .*distort images \({setting.partition(':')[0]}\), which is not implemented"
    with pytest.raises(UnsupportedError, match=wanted):
        job(tmp_path, net=net, shapes=shapes)
    (source,) = job(tmp_path, net=net.replace(setting, ""), shapes=shapes).phases["train"].data
    assert [row["kind"] for row in source.transforms] == ["scale", "subtract"]


def test_contrastive_divergence_has_a_graph_for_each_way(tmp_path):
    found = job(tmp_path, alg="kCD cd_conf { cd_k: 3 }", net=RBM)
    assert (found.algorithm, found.algorithm_settings) == ("cd", {"cd_k": 3})
    up, down = found.phases["up"].graph, found.phases["down"].graph
    assert set(up.parameters) & set(down.parameters) == {"w"}
    assert set(found.phases["train"].graph.parameters) == {*up.parameters, *down.parameters}
    assert set(found.running) == {"train"}
    assert found.solver.gradient_mult == {"w": 0.5}


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        ({"alg": "kUserAlg"}, UnsupportedError, r"job\.conf:2: the algorithm 'kUserAlg' is user-defined"),
        ({"updater": f'user_type: "mine" {RATE}'}, UnsupportedError, "the updater 'mine' is user-defined"),
        ({"updater": "type: kSGD"}, UnsupportedError, "the change of the learning rate 'kUserChange'"),
        (
            {"updater": "type: kSGD learning_rate { type: kFixedStep fixedstep_conf { step: 0 } }"},
            ReadError,
            "has 1 'step' for 0 'step_lr'",
        ),
        (
            {
                "more": "test_freq: 3 test_steps: 1",
                "net": data(6).replace("store", "include: kTrain store") + LOSS,
            },
            ReadError,
            r"reads 'data', which is left out here .*\(phase kTest\)",
        ),
    ],
)
def test_what_is_no_job(wishes, error, message, tmp_path):
    with pytest.raises(error, match=message):
        job(tmp_path, **wishes)


def test_a_net_without_an_updater_trains_nothing(tmp_path):
    (tmp_path / "job.conf").write_text(conf(data(6), LOSS))
    with pytest.raises(ReadError, match="has no 'updater', so it cannot be trained"):
        netweave.load_job(tmp_path / "job.conf")


def test_records_are_where_the_caller_says(tmp_path):
    job(tmp_path)
    found = netweave.load_job(tmp_path / "job.conf", data={"train": "elsewhere"})
    assert [source.settings["path"] for source in found.phases["train"].data] == ["elsewhere"]
    with pytest.raises(UsageError, match=r"job\.conf: data is given for phase 'tets'; there are: train"):
        netweave.load_job(tmp_path / "job.conf", data={"tets": "elsewhere"})


def test_names_are_relative_to_a_folder_above_the_file(tmp_path, monkeypatch):
    (tmp_path / "home" / "deep").mkdir(parents=True)
    (tmp_path / "home" / "x").touch()
    found = job(tmp_path / "home" / "deep", more='checkpoint_path: "a"')
    assert found.phases["train"].data[0].settings["path"] == str(tmp_path / "home" / "x")
    assert found.checkpoints.prefix == str(tmp_path / "home" / "run" / "checkpoint" / "step")
    assert found.checkpoints.weights == (str(tmp_path / "home" / "a"),)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").touch()
    assert netweave.load_job("home/deep/job.conf").checkpoints.prefix == "run/checkpoint/step"


def test_files_of_the_workers_of_a_step_are_one_checkpoint(tmp_path):
    paths = ["a/step9-worker0", "a/step9-worker1", "b/step9-worker0"]
    found = job(tmp_path, more=" ".join(f'checkpoint_path: "{path}"' for path in paths))
    assert found.checkpoints.weights == ("a/step9-worker0,a/step9-worker1", "b/step9-worker0")


NOTES = [
    ("", "6 workers and 2 servers are started with --devices cpu:6; one device computes whole batches"),
    ("", "'sync_freq' changes nothing: one server group has no other to be synchronised with"),
    ("gpu: 0", "'gpu' is ignored; choose devices with --gpu or --devices"),
    ("resume: true", "'resume' is ignored; --resume goes on from the latest checkpoint"),
    ("reset_param_version: false", "'reset_param_version' changes nothing"),
    ("test_freq: 5", "'test_freq' is set and 'test_steps' is 0, so there is no such phase"),
]


@pytest.mark.parametrize(("more", "note"), NOTES)
def test_notes(more, note, tmp_path):
    assert any(text.startswith(note) for text in job(tmp_path, more=more).notes)


def test_location_and_partition_dim_stay_with_the_layers(tmp_path):
    net = data(6) + LOSS.replace("kSoftmaxLoss", "kSoftmaxLoss location: 1")
    text = conf(
        net, net="partition_dim: 1", job=f"train_one_batch {{ alg: kBP }} updater {{ type: kSGD {RATE} }}"
    )
    (tmp_path / "job.conf").write_text(f"{text} {CLUSTER}")
    found = netweave.load_job(tmp_path / "job.conf")
    settings = {layer.name: layer.settings for layer in found.phases["train"].graph.layers.values()}
    assert (
        settings["data"]["partition_dim"]
        == settings["loss"]["partition_dim"]
        == settings["loss"]["location"]
        == 1
    )
    assert [(cut.name, cut.partition_dim, cut.location) for cut in found.cluster.cuts] == [
        ("data", 1, None),
        ("loss", 1, 1),
    ]
    assert (
        "'location' of 'loss': each worker computes its own layers; one device computes all of them"
        in found.notes
    )
    assert (
        "'partition_dim' 1 of 'data', 'loss': each worker computes some of the units; one device computes all"
        in found.notes
    )


@pytest.mark.parametrize("where", ["net", "layer"])
def test_another_dimension_of_partition_is_refused(where, tmp_path):
    layers = data(6) + (
        LOSS.replace("kSoftmaxLoss", "kSoftmaxLoss partition_dim: 4") if where == "layer" else LOSS
    )
    text = conf(
        layers,
        net="partition_dim: 4" if where == "net" else "",
        job=f"train_one_batch {{ alg: kBP }} updater {{ type: kSGD {RATE} }}",
    )
    (tmp_path / "job.conf").write_text(f"{text} {CLUSTER}")
    with pytest.raises(ReadError, match=r"job.conf:\d+: 'partition_dim' is 4, expected -1, 0 .the batch., 1"):
        netweave.load_job(tmp_path / "job.conf")


@pytest.mark.parametrize(
    ("word", "other", "message"),
    [
        ("neuralnet", "net", r":3: unknown field 'net' in JobProto; did you mean 'neuralnet'\?"),
        ("srclayers", "srclayer", r"unknown field 'srclayer' in LayerProto; did you mean 'srclayers'\?"),
        ("kRBMVis", "kVisLayer", r"found kVisLayer as the value of 'type'.*did you mean 'kRBMVis'\?"),
    ],
)
def test_words_of_the_documents_get_the_word_of_the_files(word, other, message, tmp_path):
    job(tmp_path, alg="kCD", net=RBM)
    text = (tmp_path / "job.conf").read_text()
    (tmp_path / "job.conf").write_text(text.replace(word, other))
    with pytest.raises(ReadError, match=message):
        netweave.load_job(tmp_path / "job.conf")
