"""Weights compared as weights: ports of the face-detection nets, planted changes, and formulas."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import netweave
from netweave.comparison import Status, Verdict
from netweave.comparison.layout.tensors import match_stored
from netweave.comparison.layout.wording import describe
from netweave.comparison.stored.comparison import Pairing, stored_arrays
from netweave.errors import UsageError
from netweave.graph import graph_of_weights

RNG = np.random.default_rng(5)
TURNED = " with height and width swapped"
REVERSED = ", input channels reversed (RGB and BGR)"


def forms(corpus, name):
    folder = corpus / "mtcnn"
    return {
        "caffe": netweave.load(folder / f"{name}.prototxt"),
        "mxnet": netweave.load(folder / f"{name}-symbol.json"),
        "tensorflow": netweave.load(folder / f"{name}.npy"),
    }


def texts(comparison):
    return {group.layers_a[0]: group.mapping.text if group.mapping else "" for group in comparison.groups}


@pytest.mark.parametrize("name", ["det1", "det2"])
def test_the_layout_of_a_tensorflow_port_is_told(corpus, name):
    nets = forms(corpus, name)
    found = netweave.compare(nets["caffe"], nets["tensorflow"])
    assert found.verdict is Verdict.EQUAL
    assert found.exit_status == 0
    assert "what is computed with them may still differ" in found.notes[0]
    assert texts(found)["conv1"] == texts(found)["conv3"] == "HWIO for OIHW"
    turned = netweave.compare(nets["mxnet"], nets["tensorflow"])
    assert turned.verdict is Verdict.EQUAL
    assert texts(turned)["conv1"] == f"HWIO for OIHW{TURNED}{REVERSED}"
    assert texts(turned)["conv2"] == f"HWIO for OIHW{TURNED}"
    if name == "det2":
        assert texts(found)["conv4"] == "transposed, inputs flattened as HWC for CHW"
        assert texts(turned)["conv4"] == "transposed, inputs flattened as WHC for CHW"
        back = netweave.compare(nets["tensorflow"], nets["caffe"])
        assert texts(back)["conv4"] == "transposed, inputs flattened as CHW for HWC"
        assert texts(back)["conv2"] == "OIHW for HWIO"


@pytest.mark.parametrize("name", ["det1", "det2"])
def test_the_relations_of_the_ports_are_consistent(corpus, name):
    """What A became in B, and that in C, is what A became in C: element by element, for every array."""
    arrays = {form: stored_arrays(graph) for form, graph in forms(corpus, name).items()}

    def steps(a, b):
        pairing = Pairing(arrays[a], arrays[b])
        pairing.run()
        assert not pairing.only_a
        assert not pairing.only_b
        return {key: (pair.b.key, pair.match.change) for key, pair in pairing.pairs.items()}

    for a, b, c in permutations(arrays, 3):
        first, second, direct = steps(a, b), steps(b, c), steps(a, c)
        for array in arrays[a]:
            key_b, to_b = first[array.key]
            key_c, to_c = second[key_b]
            assert key_c == direct[array.key][0]
            places = np.arange(array.values.size).reshape(array.values.shape)
            assert np.array_equal(to_c.apply(to_b.apply(places)), direct[array.key][1].apply(places))


@pytest.mark.parametrize("name", ["det1", "det2"])
def test_the_matrix_of_the_ports_has_no_contradiction(corpus, name):
    matrix = netweave.compare_all(list(forms(corpus, name).items()))
    assert matrix.exit_status == 0
    assert not matrix.contradictions


FILTERS = RNG.standard_normal((8, 3, 5, 4))
DENSE = RNG.standard_normal((10, 6, 4, 4))  # (outputs, C, H, W)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (FILTERS, FILTERS, ""),
        (FILTERS, FILTERS.transpose(2, 3, 1, 0), "HWIO for OIHW"),
        (FILTERS.transpose(2, 3, 1, 0), FILTERS, "OIHW for HWIO"),
        (FILTERS, FILTERS.transpose(0, 1, 3, 2), "height and width swapped"),
        (FILTERS, FILTERS[:, ::-1], REVERSED.removeprefix(", ")),
        (FILTERS, FILTERS[:, :, ::-1, ::-1], "filters rotated by 180 degrees"),
        (FILTERS, FILTERS.transpose(0, 2, 3, 1), "OHWI for OIHW"),
        (FILTERS[..., 0], FILTERS[..., 0].transpose(2, 1, 0), "WIO for OIW"),
        (DENSE.reshape(10, -1), DENSE.reshape(10, -1).T, "transposed"),
        (
            DENSE.reshape(10, -1),
            DENSE.transpose(2, 3, 1, 0).reshape(-1, 10),
            "transposed, inputs flattened as HWC for CHW",
        ),
        (
            DENSE.reshape(10, -1),
            DENSE.transpose(0, 1, 3, 2).reshape(10, -1),
            "inputs flattened as CWH for CHW",
        ),
        (DENSE, DENSE.transpose(2, 3, 1, 0).reshape(-1, 10), "transposed, inputs flattened as HWC for CHW"),
        (DENSE, DENSE.reshape(10, -1), ""),
        (DENSE.reshape(10, -1), DENSE, ""),
        (RNG.standard_normal((5, 1, 1)), None, ""),
    ],
)
def test_a_change_is_found_and_undone(a, b, text):
    b = a.reshape(-1) if b is None else b
    match = match_stored(a, b)
    assert match.num_different == 0
    assert np.array_equal(match.change.apply(a), b)
    assert describe(match.change) == text


def weights(**arrays):
    return graph_of_weights(arrays, format_name="arrays", file="b.npz")


def test_changed_numbers_are_counted_and_named():
    right = {"conv1/weights": FILTERS.astype("f4"), "fc/weights": DENSE.reshape(10, -1).astype("f4")}
    wrong = {name: x.copy() for name, x in right.items()}
    wrong["conv1/weights"] = np.ascontiguousarray(wrong["conv1/weights"].transpose(2, 3, 1, 0))
    wrong["conv1/weights"][1, 2, 0, 7] += 3
    found = netweave.compare(weights(**right), weights(**wrong))
    assert found.verdict is Verdict.DIFFERENT
    (group,) = [group for group in found.groups if group.status is Status.DIFFERENT]
    assert group.layers_b == ("conv1",)
    assert "1 of 480 numbers of conv1/weights differ, most at [1, 2, 0, 7]" in group.finding.cause
    assert group.finding.fix == "take conv1/weights from A"


def test_arrays_that_only_one_has_are_named():
    a, b = weights(x=FILTERS, y=DENSE), weights(x=FILTERS, z=np.ones(3, "f4"))
    found = netweave.compare(a, b)
    assert found.verdict is Verdict.DIFFERENT
    assert [group.status for group in found.groups] == [Status.EQUAL, Status.ONLY_A, Status.ONLY_B]
    assert "A stores y (10x6x4x4), B has no array like it" in found.sentence


def test_a_net_without_weights_cannot_be_decided(tmp_path):
    net = tmp_path / "net.prototxt"
    net.write_text(
        'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n'
        'layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" '
        "inner_product_param { num_output: 2 } }"
    )
    found = netweave.compare(net, weights(x=FILTERS))
    assert found.verdict is Verdict.UNDECIDED
    assert "A came without weights" in found.sentence


def test_a_part_of_weights_is_not_compared():
    with pytest.raises(UsageError, match="contains only weights; a range of layers"):
        netweave.compare(weights(x=FILTERS), weights(x=FILTERS), first="x")
