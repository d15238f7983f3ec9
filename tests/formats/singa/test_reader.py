"""Files of SINGA's: which they are, phases, unrolled layers, machines with two directions, checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, ShapeError, UsageError, WeightError
from netweave.files.prototext import parse_text
from netweave.formats.singa.schema import singa_schema
from netweave.formats.singa.unroll import unroll
from netweave.graph import stored_arrays
from tests.formats.singa.nets import check, conf, data, layer, load, normal
from tests.oracles.singa_net import checkpoint

IP = "innerproduct_conf { num_output: 3 }"
RBM = data(6) + (
    layer("kRBMVis", "rbm_conf { hdim: 4 }", sources="data hid", name="vis", params="w b")
    + 'layer { name: "hid" type: kRBMHid srclayers: "vis" rbm_conf { hdim: 4 } '
    'param { name: "w_" share_from: "w" } param { name: "c" } }\n'
)


def dense(name: str = "y", sources: str = "data", params: str = "w b", more: str = "") -> str:
    return layer("kInnerProduct", f"{IP} {more}", name=name, sources=sources, params=params)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nworker_groups: 1\nworkspace: 'x'", "says which machines there are, and no net"),
        ("alg: kBackPropagation neuralnet { layer { name: 'a' } }", "has the words of before SINGA 0.1"),
        ("model { neuralnet { layer { name: 'a' } } }", "has the words of before SINGA 0.1"),
        ("name: 'x' neuralnet { }", "has no layers in its 'neuralnet'"),
        ("neuralnet { layer { type: kReLU } }", r"job\.conf:1: a layer without a name"),
        ("neuralnet { layer { name: 'a' } } train_step: 4", "unknown field 'train_step'.*'train_steps'"),
        ("neuralnet { layer { name: 'a' [b { } } }", r"found '\[', expected the name of a field"),
    ],
)
def test_what_is_no_job_is_said_to_be_none(text, message, tmp_path):
    (tmp_path / "job.conf").write_text(text)
    with pytest.raises(ReadError, match=message):
        netweave.load(tmp_path / "job.conf")


def test_phases_choose_layers(tmp_path):
    text = conf(
        data(6).replace("store_conf", "include: kTrain store_conf"),
        data(5).replace("store_conf", "include: kTest include: kVal store_conf"),
        layer("kReLU", "include: kVal", name="only"),
        dense(),
    )
    sizes = {
        phase: [str(value.shape) for value in load(tmp_path, text, phase=phase).inputs]
        for phase in ("TRAIN", "TEST", "VALIDATE")
    }
    assert sizes == {"TRAIN": ["[N,6]"], "TEST": ["[N,5]"], "VALIDATE": ["[N,5]"]}
    assert "only" in load(tmp_path, text, phase="VALIDATE").layers
    assert str(load(tmp_path, text).layers["y"].origin).endswith("job.conf:7")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            conf(data(6), layer("kReLU", "include: kTrain"), layer("kReLU", "exclude: kTrain", name="z")),
            ReadError,
            r"job\.conf:6: layer 'z' has 'exclude' and layer 'y' \(line 5\) 'include', expected only one",
        ),
        (conf(data(6), data(5)), ReadError, r"'data' appears again in phase kTest, first on line 4"),
        (conf(layer("kReLU", "include: kTrain")), ReadError, "no layer is part of the net in phase kTest"),
        (
            conf(data(6), layer("kReLU", "include: kTrain", name="r"), layer("kReLU", sources="r")),
            ReadError,
            r"reads 'r', which is left out here \(line 5; include: kTrain\)",
        ),
        (
            conf(data(6), layer("kReLU", name="a", sources="b"), layer("kReLU", name="b", sources="a")),
            ReadError,
            "2 layers form a cycle: a, b; only a kRBMVis and its kRBMHid may",
        ),
        (conf(data(6), dense(), dense("z")), ReadError, r"parameter 'w' appears again, first on line 5"),
        (
            conf(data(6), dense().replace('name: "w"', 'name: "w" share_from: "v"')),
            ReadError,
            r"parameter 'w' has share_from: 'v', but there is no parameter of that name",
        ),
        (
            conf(data(6), dense().replace('name: "w"', 'name: "w" share_from: "w"')),
            ReadError,
            "has share_from: 'w', but shares with itself",
        ),
        (
            conf(data(6), dense(), dense("z", "y", "v c").replace('name: "v"', 'name: "v" share_from: "w"')),
            ShapeError,
            r"its parameter 'v' \(3x3\) is shared with 'w' \(3x6\)",
        ),
        (conf(data(0), dense()), ShapeError, r"input 'data' would be 2x0; every size must be 1 or more"),
        (
            conf(data(6), layer("kReLU", "unroll_len: 3", name="r")),
            ReadError,
            r"is copy 1 and reads 'data', which has 1 copy; give both the same 'unroll_len'",
        ),
        (
            conf(data(6), layer("kReLU"), net="unroll_len: 20000"),
            ReadError,
            "'unroll_len' is 20000, expected 1",
        ),
    ],
)
def test_nets_that_do_not_fit_together(text, error, message, tmp_path):
    with pytest.raises(error, match=message):
        load(tmp_path, text)


def test_layers_may_stand_in_any_order(tmp_path):
    text = conf(layer("kSigmoid", sources="y", name="z"), dense(), data(6))
    graph = load(tmp_path, text)
    assert list(graph.layers) == ["data", "y", "z"]
    assert [value.name for value in graph.outputs] == ["z"]


def test_a_shared_parameter_has_the_owners_settings(tmp_path):
    second = dense("z", "data", "v c").replace('name: "v"', 'name: "v" share_from: "w" lr_scale: 9')
    first = dense().replace('name: "w"', 'name: "w" lr_scale: 2 init { type: kGaussian std: 0.5 }')
    graph = load(tmp_path, conf(data(6), first, second))
    assert list(graph.parameters) == ["w", "b", "c"]
    assert graph.parameters["w"].lr_mult == 2
    assert graph.parameters["w"].filler == {"type": "kGaussian", "std": 0.5}
    assert graph.layers["z"].parameters == ("w", "c")


GRU = " ".join(f'param {{ name: "{gate}_{source}" }}' for source in ("x", "h") for gate in "zrc")
CHARACTERS = (
    'layer { name: "data" type: kCharRNN unroll_len: 1 char_rnn_conf { batchsize: 2 unroll_len: 4 } }\n'
    'layer { name: "hot" type: kOneHot srclayers: "data" unroll_conn_type: kUnrollOneToAll '
    "onehot_conf { vocab_size: 7 } }\n"
    'layer { name: "label" type: kRNNLabel srclayers: "data" unroll_conn_type: kUnrollOneToAll }\n'
)


@pytest.mark.parametrize("biases", ["", 'param { name: "bz" } param { name: "br" } param { name: "bc" }'])
def test_unrolled_layers_share_parameters_and_read_the_copy_before(biases, tmp_path):
    text = conf(
        CHARACTERS,
        layer("kGRU", f"gru_conf {{ dim_hidden: 5 }} {GRU} {biases}", sources="hot", name="gru"),
        layer("kInnerProduct", "innerproduct_conf { num_output: 7 }", sources="gru", name="ip", params="w b"),
        layer("kSoftmaxLoss", sources="ip label", name="loss"),
        net="unroll_len: 4",
    )
    characters = np.random.default_rng(0).integers(0, 7, (5, 2)).astype(np.float32)
    walk = check(tmp_path, text, {"data": characters}, phase="TRAIN")
    assert len(walk.metrics) == 8
    graph = load(tmp_path, text)
    assert [layer.call for layer in graph.layers.values() if layer.type == "kGRU"] == [0, 1, 2, 3]
    assert graph.layers["2#gru"].inputs == ("2#hot", "1#gru")
    assert len(graph.parameters) == 8 + biases.count("param")
    assert str(graph.inputs[0].shape) == "[5,N]"


@pytest.mark.parametrize(
    ("wishes", "sources"),
    [
        ("", [("0#a",), ("1#a",), ("2#a",)]),
        ("unroll_conn_type: kUnrollOneToOne shift: 1", [(), ("0#a",), ("1#a",)]),
        ("unroll_conn_type: kUnrollOneToAll", [("0#a", "1#a", "2#a")] * 3),
        ("unroll_conn_type: kUnrollFirstToLast", [("2#a",), (), ()]),
        ("unroll_conn_type: kUnrollCustomized", [(), (), ()]),
        ("unroll_len: 1 unroll_conn_type: kUnrollFirstToLast", [("2#a",)]),
    ],
)
def test_sources_of_copies_follow_their_kind_and_shift(wishes, sources):
    text = f"layer {{ name: 'a' }} layer {{ name: 'b' srclayers: 'a' {wishes} }}"
    layers = parse_text(text.encode(), singa_schema(), "NetProto", place="x")["layer"]
    units = unroll(layers, default=3, of=layers, place="x")
    assert [unit.sources for unit in units if unit.spec["name"] == "b"] == sources


def test_a_machine_is_read_up_and_down_with_tied_weights(tmp_path):
    text = conf(RBM)
    check(tmp_path, text, {"data": normal(3, 6)})
    weights = tmp_path / "step9-worker0"
    arrays = {"w": normal(4, 6), "b": normal(6), "c": normal(4)}
    weights.write_bytes(checkpoint(arrays))
    up = load(tmp_path, text, weights=weights)
    down = load(tmp_path, text, weights=weights, stages=("down",))
    assert {"w", "c"} == set(up.parameters)
    assert {"w", "b"} == set(down.parameters)
    states = normal(3, 4, seed=4)
    (found,) = netweave.run(down, {"hid": states}).values()
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-(states @ arrays["w"] + arrays["b"]))), atol=1e-6)


def test_gaussian_units_have_no_sigmoid(tmp_path):
    check(tmp_path, conf(RBM).replace("hdim: 4", "hdim: 4 gaussian: true"), {"data": normal(3, 6)})


@pytest.mark.parametrize(
    ("text", "message"), [(RBM, "'down' is the only one"), (data(6) + dense(), "with an RBM")]
)
def test_other_stages_are_refused(text, message, tmp_path):
    with pytest.raises(UsageError, match=f"no stage 'up'.*{message}"):
        load(tmp_path, conf(text), stages=("up",))


def test_sizes_are_given_for_inputs_alone(tmp_path):
    graph = load(tmp_path, conf(data(6), dense()), input_shapes={"data": (2, 9)})
    assert graph.parameters["w"].shape == (3, 9)
    with pytest.raises(UsageError, match=r"in phase TEST: no input named 'y'; the inputs are 'data'"):
        load(tmp_path, conf(data(6), dense()), input_shapes={"y": (2, 9)})


def test_parts_of_workers_are_put_together(tmp_path):
    whole = {"w": normal(4, 6), "b": normal(4)}
    text = conf(data(6), dense(more="partition_dim: 1").replace("num_output: 3", "num_output: 4"))
    for worker in (0, 1):
        part = {name: array[2 * worker : 2 * worker + 2] for name, array in whole.items()}
        (tmp_path / f"step8-worker{worker}").write_bytes(checkpoint(part))
    both = tmp_path / f"step8-worker0,{tmp_path}/step8-worker1"
    graph = load(tmp_path, text, weights=both)
    for name, array in stored_arrays(graph).items():
        np.testing.assert_array_equal(array, whole[name])
    assert graph.layers["y"].settings["partition_dim"] == 1
    with pytest.raises(WeightError, match="'w' is 2x6, the net has 4x6; give the files of all workers"):
        load(tmp_path, text, weights=tmp_path / "step8-worker0")


def test_later_checkpoints_replace_what_earlier_ones_have(tmp_path):
    (tmp_path / "step1-worker0").write_bytes(checkpoint({"w": normal(3, 6), "b": normal(3)}))
    (tmp_path / "step2-worker0").write_bytes(checkpoint({"w": normal(3, 6, seed=1)}, version=0))
    graph = load(
        tmp_path, conf(data(6), dense()), weights=tmp_path / f"step1-worker0,{tmp_path}/step2-worker0"
    )
    np.testing.assert_array_equal(stored_arrays(graph)["w"], normal(3, 6, seed=1))
    np.testing.assert_array_equal(stored_arrays(graph)["b"], normal(3))
    assert "SINGA draws 'w' anew, since their version is 0" in graph.notes[0]


def test_a_checkpoint_alone_is_read_as_weights(tmp_path):
    path = tmp_path / "step9-worker0"
    path.write_bytes(checkpoint({"w1": normal(3, 6), "b1": normal(3)}))
    graph = netweave.load(path)
    assert graph.only_weights
    np.testing.assert_array_equal(stored_arrays(graph)["w1"], normal(3, 6))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            checkpoint({"other": normal(3)}),
            "contains no weights for any parameter of .*: it has 'other', the net 'w'",
        ),
        (checkpoint({"w": normal(5, 6)}), "'w' is 5x6, the net has 3x6"),
        (
            checkpoint({"w": normal(3, 6)}).replace(b"\x08\x06", b"\x08\x07"),
            "the sizes 3x7 need 21 values",
        ),
        (checkpoint({"w": normal(3, 6)})[:-5], "truncated, damaged"),
        (b"PK\x03\x04", "is not a SINGA checkpoint"),
    ],
)
def test_checkpoints_that_do_not_fit(content, message, tmp_path):
    (tmp_path / "weights").write_bytes(content)
    with pytest.raises((WeightError, ReadError), match=message):
        load(tmp_path, conf(data(6), dense()), weights=tmp_path / "weights")


def test_a_sampling_net_is_one_step_and_says_so(tmp_path):
    text = conf(
        'layer { name: "data" type: kRNNDummy rnn_dummy_conf { shape: 1 integer: true high: 7 '
        'dynamic_srclayer: "best" } }\n',
        layer("kOneHot", "onehot_conf { vocab_size: 7 }", name="hot"),
        layer("kArgSort", sources="hot", name="best"),
        layer("kCharRNNOutput", 'char_rnn_conf { vocab_path: "v" }', sources="best", name="text"),
    )
    graph = load(tmp_path, text)
    (found,) = netweave.run(graph, {"data": np.array([3], np.float32)}).values()
    np.testing.assert_array_equal(found, [[3]])
    assert "feeds 'best' back into 'data'" in graph.notes[0]
