"""Inputs that several first layers read, or that reach them in roundabout ways."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import netweave
from netweave.comparison import Status, Verdict, compare
from tests.formats.onnx.models import model, node

DEPTH = {"w1": 3, "w2": 3, "w3": 3, "v": 12}


def weights(**changed):
    rng = np.random.default_rng(5)
    drawn = {key: rng.standard_normal((4, depth, 3, 3)) / 5 for key, depth in DEPTH.items()}
    return {key: np.ascontiguousarray(array, np.float32) for key, array in (drawn | changed).items()}


def tail(pieces):
    """Return nodes that join three convolutions of an input, and a convolution behind them."""
    firsts = [
        node("Conv", f"{piece} w{i}", f"y{i}", name=f"first{i}", pads=[1] * 4)
        for i, piece in enumerate(pieces, 1)
    ]
    return [
        *firsts,
        node("Concat", "y1 y2 y3", "joined", name="join", axis=1),
        node("Relu", "joined", "z", name="relu"),
        node("Conv", "z v", "y", name="last", pads=[1] * 4),
    ]


def load(tmp_path, name, proto):
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(proto.SerializeToString())
    return netweave.load(path)


def one_image(arrays):
    return model(tail(["x"] * 3), {"x": ["N", 3, 11, 9]}, ["y"], arrays)


def reversed_channels(arrays, *names):
    return arrays | {name: np.ascontiguousarray(arrays[name][:, ::-1]) for name in names}


def wrong(found):
    effective = {Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B, Status.UNKNOWN}
    return [group.finding for group in found.groups if group.status in effective]


def test_first_layers_that_agree_tell_the_input(tmp_path):
    a, b = one_image(weights()), one_image(reversed_channels(weights(), "w1", "w2", "w3"))
    found = compare(load(tmp_path, "a", a), load(tmp_path, "b", b))
    assert found.verdict is Verdict.EQUAL
    assert [mapping.channel_order for mapping in found.inputs] == [(2, 1, 0)]


@pytest.mark.parametrize(
    ("changed", "order", "layer"),
    [
        (("w1", "w2"), (2, 1, 0), "first3"),
        (("w1", "w3"), (2, 1, 0), "first2"),
        (("w2", "w3"), (2, 1, 0), "first1"),
        (("w2",), None, "first2"),
        (("w1",), None, "first1"),
    ],
)
def test_the_first_layers_that_contradict_the_others_are_wrong(tmp_path, changed, order, layer):
    """One layer of three whose channels are in another order than the image that all three read."""
    a, b = one_image(weights()), one_image(reversed_channels(weights(), *changed))
    found = compare(load(tmp_path, "a", a), load(tmp_path, "b", b))
    assert found.verdict is Verdict.DIFFERENT
    (finding,) = wrong(found)
    assert (finding.mismatch, finding.layer_b) == ("channel-order", layer)
    assert [mapping.channel_order for mapping in found.inputs] == [order]


def test_slices_may_stand_in_another_order(tmp_path):
    arrays = weights()

    def net(sources):
        cut = [node("Split", "x sizes", "p0 p1 p2", name="cut", axis=1)]
        pieces = [f"p{source}" for source in sources]
        stored = arrays | {"sizes": np.array([3, 3, 3])}
        return model([*cut, *tail(pieces)], {"x": ["N", 9, 11, 9]}, ["y"], stored)

    a, b = net([0, 1, 2]), net([1, 2, 0])
    found = compare(load(tmp_path, "a", a), load(tmp_path, "b", b))
    assert found.verdict is Verdict.EQUAL, found.sentence
    (mapping,) = found.inputs
    check(a, b, mapping, (2, 9, 11, 9))


def test_images_may_stand_along_an_axis_of_their_own(tmp_path):
    """(N, images, channels, height, width), each image taken out by Gather, all of them BGR for RGB."""
    arrays = weights()

    def net(stored):
        cut = [node("Gather", f"x i{i}", f"p{i}", name=f"take{i}", axis=1) for i in range(3)]
        stored = stored | {f"i{i}": np.array(i) for i in range(3)}
        return model([*cut, *tail(["p0", "p1", "p2"])], {"x": ["N", 3, 3, 11, 9]}, ["y"], stored)

    a, b = net(arrays), net(reversed_channels(arrays, "w1", "w2", "w3"))
    found = compare(load(tmp_path, "a", a), load(tmp_path, "b", b))
    assert found.verdict is Verdict.EQUAL, found.sentence
    (mapping,) = found.inputs
    assert mapping.orders == ((2, (2, 1, 0)),)
    check(a, b, mapping, (2, 3, 3, 11, 9))


@pytest.mark.parametrize("first_is_last", [True, False])
def test_either_net_may_take_channels_last(tmp_path, first_is_last):
    arrays = weights()

    def net(stored, *, last):
        turned = [node("Transpose", "x", "t", name="turn", perm=[0, 3, 1, 2])] if last else []
        sizes = ["N", 11, 9, 3] if last else ["N", 3, 11, 9]
        return model([*turned, *tail(["t" if last else "x"] * 3)], {"x": sizes}, ["y"], stored)

    a = net(arrays, last=first_is_last)
    b = net(reversed_channels(arrays, "w1", "w2", "w3"), last=not first_is_last)
    found = compare(load(tmp_path, "a", a), load(tmp_path, "b", b))
    assert found.verdict is Verdict.EQUAL, found.sentence
    (mapping,) = found.inputs
    assert "channels reversed (RGB and BGR)" in mapping.text
    check(a, b, mapping, (2, 11, 9, 3) if first_is_last else (2, 3, 11, 9))


def test_channels_that_are_reversed_inside_the_port_are_seen_through(tmp_path):
    """B takes RGB and reverses the channels itself, for filters that see BGR: the same net."""
    arrays = weights()
    flip = [node("Gather", "x order", "bgr", name="flip", axis=1)]
    stored = reversed_channels(arrays, "w1", "w2", "w3") | {"order": np.array([2, 1, 0])}
    b = model([*flip, *tail(["bgr"] * 3)], {"x": ["N", 3, 11, 9]}, ["y"], stored)
    found = compare(load(tmp_path, "a", one_image(arrays)), load(tmp_path, "b", b))
    assert found.equal, found.sentence
    assert all(mapping.is_identity for mapping in found.inputs)


def check(a, b, mapping, shape):
    """Hold the mapping against ONNX Runtime: B on the mapped input makes what A makes."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    wanted, made = (
        onnxruntime.InferenceSession(net.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, {"x": np.ascontiguousarray(given)}
        )[0]
        for net, given in ((a, x), (b, mapping.apply(x)))
    )
    np.testing.assert_allclose(made, wanted, atol=1e-5)


def test_of_two_layers_that_contradict_each_other_the_first_is_believed(tmp_path):
    """As many layers tell that the image is turned as that it is not, so it is taken as it is."""
    rng = np.random.default_rng(5)
    arrays = {"w": rng.standard_normal((4, 3, 3, 3)), "v": rng.standard_normal((6, 4, 3, 3))}
    arrays = {key: np.asarray(array / 5, np.float32) for key, array in arrays.items()}
    nodes = [
        node("Conv", "x w", "p", name="first", pads=[1] * 4),
        node("Relu", "p", "q", name="relu"),
        node("Conv", "q v", "r", name="second", pads=[1] * 4),
        node("GlobalAveragePool", "r", "y", name="mean"),
    ]
    turned = arrays | {"v": np.ascontiguousarray(arrays["v"].swapaxes(2, 3))}
    nets = [model(nodes, {"x": ["N", 3, 11, 9]}, ["y"], stored) for stored in (arrays, turned)]
    found = compare(load(tmp_path, "a", nets[0]), load(tmp_path, "b", nets[1]))
    assert [(finding.mismatch, finding.layer_b) for finding in found.findings] == [("axis-order", "second")]
    assert all(mapping.is_identity for mapping in found.inputs)


def test_the_axes_of_an_image_are_seen_through_padding_of_a_computed_width(tmp_path):
    """One channel says nothing of where the channels are; the first filters do, behind a Pad."""
    weight = np.random.default_rng(1).standard_normal((4, 1, 3, 3)).astype(np.float32)
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)}
    computed = [
        node("Shape", "x", "sizes"),
        node("Sub", "sizes sizes", "zeros"),
        node("Concat", "zeros zeros", "none", axis=0),
        node("Add", "none pads", "computed"),
        node("Pad", "x computed", "padded"),
        node("Conv", "padded w", "y", name="first"),
    ]
    last = [
        node("Transpose", "x", "image", perm=[0, 3, 1, 2]),
        node("Pad", "image pads", "padded"),
        node("Conv", "padded w", "y", name="first"),
    ]
    a = load(tmp_path, "a", model(computed, {"x": ["N", 1, "H", "W"]}, ["y"], {"w": weight} | pads))
    b = load(tmp_path, "b", model(last, {"x": ["N", 15, 18, 1]}, ["y"], {"w": weight} | pads))
    for first, second in ((a, b), (b, a)):
        found = compare(first, second)
        assert found.equal
        assert "channels last" in str(found) or "channels first" in str(found)
