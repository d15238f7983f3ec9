"""Reading whole nets: files, inputs, weights, layers, and errors that say what to do."""

from __future__ import annotations

import json

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UnsupportedError, UsageError, WeightError
from netweave.files import Source
from netweave.formats.mxnet import match
from netweave.formats.mxnet.reader import find_weights, read
from netweave.runtime.backends import prepare
from tests.formats.mxnet.symbols import node, symbol, variable
from tests.oracles import mxnet_params, recipe


@pytest.fixture
def write(tmp_path):
    """Write a net and, if there are any, its arrays; return its source."""

    def write(nodes, arrays=None, *, epoch=1, input_shapes=None, **options):
        net = tmp_path / "net-symbol.json"
        net.write_text(nodes if isinstance(nodes, str) else symbol(nodes, **options))
        if arrays is not None:
            (tmp_path / f"net-{epoch:04d}.params").write_bytes(mxnet_params.params(arrays))
        return Source(net, input_shapes=input_shapes or {})

    return write


def dense(*, name="fc", hidden=4, **settings):
    """A matrix over the variable 0: nodes and the names of its arrays."""
    return [
        variable("data"),
        variable(f"{name}_weight"),
        variable(f"{name}_bias"),
        node("FullyConnected", name, [0, 1, 2], num_hidden=str(hidden), **settings),
    ]


DENSE_ARRAYS = {"arg:fc_weight": np.ones((4, 3), np.float32), "arg:fc_bias": np.zeros(4, np.float32)}
CONV_ARRAYS = {
    "arg:conv_weight": recipe.weight("conv_weight", (4, 3, 3, 3), "filter"),
    "arg:conv_bias": recipe.weight("conv_bias", (4,), "bias"),
}


def conv(**settings):
    return [
        variable("data"),
        variable("conv_weight"),
        variable("conv_bias"),
        node("Convolution", "conv", [0, 1, 2], kernel="(3,3)", num_filter="4", **settings),
    ]


class TestFiles:
    def test_the_last_epoch_is_taken(self, write, tmp_path):
        for epoch, value in ((1, 1.0), (12, 12.0), (2, 2.0), (10000, 7.0)):
            bias = np.full(4, value, np.float32)
            source = write(dense(), {**DENSE_ARRAYS, "arg:fc_bias": bias}, epoch=epoch)
        assert find_weights(source.net) == tmp_path / "net-10000.params"
        graph = read(source)
        (y,) = prepare(graph).run({"data": np.zeros((1, 3), np.float32)}).values()
        np.testing.assert_array_equal(y, [[7, 7, 7, 7]])

    def test_named_weights_beat_those_beside_the_net(self, write, tmp_path):
        source = write(dense(), DENSE_ARRAYS)
        other = tmp_path / "other.params"
        other.write_bytes(mxnet_params.params({"fc_weight": np.zeros((4, 5)), "fc_bias": np.zeros(4)}))
        graph = read(Source(source.net, other))
        assert graph.parameters["fc_weight"].shape == (4, 5)
        assert graph.files == (str(source.net), str(other))

    def test_files_of_other_nets_are_left_alone(self, tmp_path):
        for name in ("net-symbol.json", "network-0001.params", "net-1.params", "net-0001.params.bak"):
            (tmp_path / name).touch()
        assert find_weights(tmp_path / "net-symbol.json") is None

    @pytest.mark.parametrize(
        ("content", "known"),
        [
            (b'{"nodes": [', True),
            (b'\xef\xbb\xbf \n{\n "arg_nodes": [0],', True),
            (b'{"heads": [[0, 0]], "nodes": []}', True),
            (b'{"a": "nodes"}', False),
            (b"[1, 2]", False),
            (b"", False),
            (b"\x80\x04K\x01.", False),
            (b"\x12\x01" + bytes(22), True),
        ],
    )
    def test_match_looks_at_the_content(self, tmp_path, content, known):
        (tmp_path / "x").write_bytes(content)
        assert match(Source(tmp_path / "x")) is known

    def test_arrays_in_the_place_of_the_net_are_refused(self, tmp_path):
        path = tmp_path / "net-0001.params"
        path.write_bytes(mxnet_params.params(DENSE_ARRAYS))
        with pytest.raises(ReadError, match=r"holds arrays and no net; name the net's file"):
            read(Source(path))


class TestInputs:
    def test_a_net_of_windows_leaves_height_and_width_open(self, write):
        graph = read(write(conv(), CONV_ARRAYS))
        assert graph.declared == {"data": (None, 3, None, None)}
        for sizes in ((1, 3, 5, 9), (2, 3, 8, 3)):
            (y,) = prepare(graph).run({"data": recipe.image("data", sizes)}).values()
            assert y.shape == (sizes[0], 4, sizes[2] - 2, sizes[3] - 2)

    def test_sizes_are_taken_from_the_caller_then_from_the_file(self, write):
        nodes = conv()
        nodes[0] = variable("data", __shape__="(8, 3, 7, 0)")
        assert read(write(nodes, CONV_ARRAYS)).declared == {"data": (8, 3, 7, None)}
        graph = read(write(nodes, CONV_ARRAYS, input_shapes={"data": (1, 3, 6, 6)}))
        assert str(graph.inputs[0].shape) == "[N,3,6,6]"

    def test_an_unknown_input_is_named(self, write):
        with pytest.raises(UsageError, match="no input named 'dta'; the inputs are 'data'"):
            read(write(conv(), CONV_ARRAYS, input_shapes={"dta": (1, 3, 6, 6)}))

    def test_sizes_that_are_nowhere_given_are_asked_for(self, write):
        nodes = [variable("x"), node("Activation", "act", [0], act_type="relu")]
        with pytest.raises(ShapeError, match=r"json:\d+: layer 'act' \(Activation\): .*--input-shape x=1x3"):
            read(write(nodes))

    def test_the_element_type_of_half_precision_weights_is_that_of_the_input(self, write):
        halves = {name: array.astype(np.float16) for name, array in CONV_ARRAYS.items()}
        graph = read(write(conv(), halves))
        (y,) = prepare(graph).run({"data": np.ones((1, 3, 4, 4), np.float16)}).values()
        assert y.dtype == np.float16

    def test_a_label_takes_its_sizes_from_the_operator(self, write):
        nodes = [*dense(), variable("softmax_label"), node("Softmax", "softmax", [3, 4])]
        graph = read(write(nodes, DENSE_ARRAYS))
        assert [(value.name, str(value.shape)) for value in graph.inputs] == [
            ("data", "[N,3]"),
            ("softmax_label", "[N]"),
        ]

    def test_an_unknown_side_of_a_sum_takes_the_sizes_of_the_other(self, write):
        nodes = [*dense(), variable("label"), node("_Minus", "error", [3, 4])]
        graph = read(write(nodes, DENSE_ARRAYS))
        assert str(graph.inputs[1].shape) == "[N,4]"

    def test_a_written_out_batch_size_is_left_open(self, write):
        nodes = [*dense(hidden=6), node("Reshape", "shaped", [3], shape="(8, 2, 3)")]
        arrays = {"fc_weight": np.ones((6, 3), np.float32), "fc_bias": np.zeros(6, np.float32)}
        graph = read(write(nodes, arrays, input_shapes={"data": (8, 3)}))
        (y,) = prepare(graph).run({"data": np.ones((5, 3), np.float32)}).values()
        assert y.shape == (5, 2, 3)

    def test_a_sequence_has_its_batch_on_axis_one(self, write):
        nodes = [variable(name) for name in ("data", "rnn_parameters", "rnn_state")]
        nodes.append(node("RNN", "rnn", [0, 1, 2], mode="rnn_tanh", state_size="4", num_layers="1"))
        arrays = {"rnn_parameters": recipe.weight("p", (4 * (3 + 4 + 2),), "matrix")}
        graph = read(write(nodes, arrays, input_shapes={"data": (5, 1, 3)}))
        assert [str(value.shape) for value in graph.inputs] == ["[5,N,3]", "[1,N,4]"]
        given = {"data": recipe.image("data", (5, 7, 3)), "rnn_state": np.zeros((1, 7, 4), np.float32)}
        assert prepare(graph).run(given)["rnn_output"].shape == (5, 7, 4)

    def test_a_variable_that_the_caller_gives_sizes_is_an_input(self, write):
        nodes = [variable("data"), variable("conv_weight"), node("Convolution", "conv", [0, 1])]
        nodes[-1]["attrs"] = {"kernel": "(3,3)", "num_filter": "4", "no_bias": "True"}
        shapes = {"data": (1, 3, 5, 5), "conv_weight": (4, 3, 3, 3)}
        graph = read(write(nodes, {"other": np.zeros(1)}, input_shapes=shapes))
        assert [value.name for value in graph.inputs] == ["data", "conv_weight"]


class TestChannelsLast:
    """Nets written for ``layout=NHWC`` are the same nets on transposed images and filters."""

    @pytest.mark.parametrize("op", ["Convolution", "Pooling"])
    def test_images_with_channels_last(self, write, op):
        first, last = [], []
        for layout, found in (("NCHW", first), ("NHWC", last)):
            settings = {"kernel": "(3,2)", "stride": "(2,1)", "pad": "(1,0)", "layout": layout}
            weight = CONV_ARRAYS["arg:conv_weight"][..., :2]
            x = recipe.image("data", (2, 3, 7, 6))
            if layout == "NHWC":
                weight, x = weight.transpose(0, 2, 3, 1), x.transpose(0, 2, 3, 1)
            nodes = [variable("data"), variable("conv_weight"), node(op, "op", [0, 1], **settings)]
            if op == "Convolution":
                nodes[-1]["attrs"] |= {"num_filter": "4", "no_bias": "True"}
            else:
                nodes[-1]["inputs"].pop()
            graph = read(write(nodes, {"conv_weight": weight}, input_shapes={"data": x.shape}))
            found.append(prepare(graph).run({"data": x})["op_output"])
        np.testing.assert_allclose(last[0].transpose(0, 3, 1, 2), first[0], rtol=1e-5)

    def test_the_channels_of_an_input_without_sizes_are_last(self, write):
        arrays = {"conv_weight": np.ones((4, 3, 3, 3), np.float32), "conv_bias": np.zeros(4, np.float32)}
        graph = read(write(conv(layout="NHWC"), arrays))
        assert graph.declared == {"data": (None, None, None, 3)}


class TestWeights:
    def test_missing_arrays_are_all_named(self, write):
        message = r"net-0001.params: does not hold 'fc_weight', 'fc_bias', which .*; it contains 'other'"
        with pytest.raises(WeightError, match=message):
            read(write(dense(), {"arg:other": np.zeros(3)}))

    def test_an_array_of_other_sizes_is_refused(self, write):
        arrays = {**DENSE_ARRAYS, "arg:fc_bias": np.zeros(5, np.float32)}
        with pytest.raises(WeightError, match=r"'fc_bias' has the shape 5 in .*, expected 4; are these"):
            read(write(dense(), arrays))

    def test_names_may_be_bare_and_arrays_may_be_more(self, write):
        arrays = {name.removeprefix("arg:"): array for name, array in DENSE_ARRAYS.items()}
        assert read(write(dense(), {**arrays, "extra": np.zeros(2)})).loaded

    def test_without_a_file_they_are_drawn(self, write):
        graph = read(write(dense(), input_shapes={"data": (1, 3)}))
        assert not graph.loaded
        assert graph.parameters["fc_weight"].shape == (4, 3)
        first, second = (prepare(graph).run({"data": np.ones((2, 3), np.float32)}) for _ in range(2))
        np.testing.assert_array_equal(first["fc_output"], second["fc_output"])
        assert np.abs(first["fc_output"]).max() > 0

    def test_multipliers_and_first_values_are_kept(self, write):
        nodes = dense()
        nodes[1] = variable(
            "fc_weight", __lr_mult__="0.5", __wd_mult__="2", __init__='["constant", {"value": 3}]'
        )
        parameter = read(write(nodes, DENSE_ARRAYS)).parameters["fc_weight"]
        assert (parameter.lr_mult, parameter.decay_mult) == (0.5, 2.0)
        assert parameter.filler == {"type": "constant", "value": 3}

    def test_an_array_of_two_layers_is_one_parameter(self, write):
        nodes = [*dense(hidden=3), node("FullyConnected", "again", [3, 1, 2], num_hidden="3")]
        arrays = {"fc_weight": recipe.weight("w", (3, 3), "matrix"), "fc_bias": np.ones(3, np.float32)}
        graph = read(write(nodes, arrays))
        assert graph.num_parameters == 12
        weight, bias = arrays.values()
        x = recipe.image("data", (2, 3))
        expected = (x @ weight.T + bias) @ weight.T + bias
        np.testing.assert_allclose(prepare(graph).run({"data": x})["again_output"], expected, rtol=1e-5)

    def test_a_fixed_gamma_is_one_whatever_is_stored(self, write):
        names = ("gamma", "beta", "moving_mean", "moving_var")
        arrays = {f"bn_{name}": np.full(2, 4.0, np.float32) for name in names}
        nodes = [variable("data"), *(variable(name) for name in arrays)]
        nodes.append(node("BatchNorm", "bn", [0, 1, 2, 3, 4], eps="0"))
        graph = read(write(nodes, arrays, input_shapes={"data": (1, 2)}))
        (y,) = prepare(graph).run({"data": np.full((1, 2), 8.0, np.float32)}).values()
        np.testing.assert_array_equal(y, [[(8 - 4) / 2 + 4] * 2])
        gamma = graph.parameters["bn_gamma"]
        assert (gamma.loaded, gamma.trainable) == (True, False)
        assert graph.layers["bn"].parameters == tuple(arrays)

    def test_weights_that_the_net_computes_are_laid_out_by_the_net(self, write):
        nodes = dense(flatten="False")
        nodes[1:2] = [variable("w"), node("_mul_scalar", "twice", [1], scalar="2")]
        nodes[-1]["inputs"] = [[0, 0, 0], [2, 0, 0], [3, 0, 0]]
        arrays = {"w": recipe.weight("w", (4, 3), "matrix"), "fc_bias": np.zeros(4, np.float32)}
        graph = read(write(nodes, arrays, input_shapes={"data": (1, 2, 3)}))
        x = recipe.image("data", (2, 2, 3))
        found = prepare(graph).run({"data": x})["fc_output"]
        np.testing.assert_allclose(found, x @ (2 * arrays["w"]).T, rtol=1e-5)


class TestLayers:
    def test_a_layer_for_each_operator_with_its_place(self, write):
        source = write([*dense(), node("Activation", "act", [3], act_type="relu")], DENSE_ARRAYS)
        graph = read(source)
        assert list(graph.layers) == ["fc", "act"]
        layer = graph.layers["fc"]
        assert layer.settings == {"num_hidden": "4"}
        assert (layer.inputs, layer.outputs) == (("data",), ("fc_output",))
        line = source.net.read_text().split('"FullyConnected"')[0].count("\n")
        assert (layer.origin.file, layer.origin.line) == (str(source.net), line)

    def test_calls_of_one_name_are_told_apart(self, write):
        nodes = [*dense(hidden=3), node("FullyConnected", "fc", [3, 1, 2], num_hidden="3")]
        arrays = {"fc_weight": np.eye(3, dtype=np.float32), "fc_bias": np.zeros(3, np.float32)}
        graph = read(write(nodes, arrays))
        assert [(layer.key, layer.name, layer.call) for layer in graph.layers.values()] == [
            ("fc", "fc", 0),
            ("fc#1", "fc", 1),
        ]
        assert graph.outputs[0].name == "fc_output@1"

    def test_what_no_output_needs_is_left_out(self, write):
        nodes = [*dense(), node("Unheard", "of", [0]), node("Activation", "act", [3], act_type="relu")]
        assert list(read(write(nodes, DENSE_ARRAYS)).layers) == ["fc", "act"]

    def test_an_output_that_is_an_input_and_one_that_is_named_twice(self, write):
        text = json.loads(symbol(dense()))
        text["heads"] = [[3, 0, 0], [0, 0, 0], [3, 0, 0]]
        graph = read(write(json.dumps(text), DENSE_ARRAYS))
        x = np.ones((1, 3), np.float32)
        first, data, again = prepare(graph).run({"data": x}).values()
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(data, x)


class TestRefusals:
    def test_unknown_operators_are_all_named(self, write):
        nodes = [
            variable("data"),
            node("Unheard", "one", [0]),
            node("Unheard", "two", [1]),
            node("_contrib_ROIAlign", "anchors", [2]),
        ]
        with pytest.raises(UnsupportedError) as caught:
            read(write(nodes))
        assert str(caught.value).split("net-symbol.json: ")[1] == (
            "has 2 operator types that Netweave does not read: Unheard ('one' on line 9, 'two' on line 21); "
            "_contrib_ROIAlign ('anchors' on line 33; a layer of R-CNN: not read yet); "
            "see docs/how-to/add-an-mxnet-operator.md"
        )

    def test_unknown_settings_are_all_named_and_harmless_ones_are_not(self, write):
        nodes = [*dense(unheard="of", workspace="512", __ctx_group__="a", fc_lr_mult="2")]
        nodes.append(node("Activation", "act", [3], act_type="relu", also="new"))
        message = r"settings .*: unheard='of' \(FullyConnected 'fc' on line \d+\); also='new' \(.* 'act'"
        with pytest.raises(ReadError, match=message):
            read(write(nodes, DENSE_ARRAYS))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"num_hidden": "4.5"}, r"'num_hidden' is '4.5', expected an integer"),
            ({"num_hidden": "-1"}, r"'num_hidden' is '-1', expected an integer of at least 1"),
            ({"no_bias": "maybe"}, r"'no_bias' is 'maybe', expected True or False"),
            ({"no_bias": "True"}, r"has 3 inputs, expected 2: data, weight"),
        ],
    )
    def test_settings_that_cannot_be_are_named_with_their_line(self, write, settings, message):
        nodes = dense()
        nodes[-1]["attrs"].update(settings)
        with pytest.raises(
            ReadError, match=rf"net-symbol.json:\d+: layer 'fc' \(FullyConnected\): {message}"
        ):
            read(write(nodes, DENSE_ARRAYS))

    def test_sizes_beyond_all_bounds_are_refused(self, write):
        nodes = dense(hidden=2**31)
        with pytest.raises(ShapeError, match="elements; check the sizes in the file"):
            read(write(nodes, input_shapes={"data": (1, 2**31)}))

    def test_an_output_that_is_not_made_is_refused(self, write):
        nodes = [*dense(), node("Activation", "act", [(3, 1)], act_type="relu")]
        with pytest.raises(UnsupportedError, match=r"reads output 1 of 'fc' \(FullyConnected\), of which"):
            read(write(nodes, DENSE_ARRAYS))
