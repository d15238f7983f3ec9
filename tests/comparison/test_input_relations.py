"""Ports that take their input in another layout, whole and damaged: what was planted is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import netweave
from netweave.comparison import Status, Verdict, compare
from netweave.comparison.execution.pair_run import PairRunner
from tests.comparison.damaged_inputs import (
    DAMAGES,
    ORIENTATIONS,
    Relation,
    applied,
    load_pair,
    original,
    run_onnx,
    run_torch,
)
from tests.comparison.onnx_text import read_text
from tests.time_limits import many

SWAPPED = "height and width swapped"
REVERSED = (2, 1, 0)

CHANNELS_OF_SLICES = "channels reversed within each of 5 slices of 3"
EQUAL: dict[str, tuple[int, int, Relation, str]] = {
    "BGR": (1, 3, Relation(orders=(REVERSED,)), "channels reversed (RGB and BGR)"),
    "swapped": (1, 3, Relation(SWAPPED), SWAPPED),
    "swapped, BGR": (1, 3, Relation(SWAPPED, (REVERSED,)), f"{SWAPPED}, channels reversed (RGB and BGR)"),
    "flipped": (1, 3, Relation("flipped left to right"), "flipped left to right"),
    "upside down": (1, 3, Relation("flipped top to bottom"), "flipped top to bottom"),
    "turned": (1, 3, Relation("rotated by 180 degrees"), "rotated by 180 degrees"),
    "RGBA as BGRA": (1, 4, Relation(orders=((2, 1, 0, 3),)), "channels in the order 2, 1, 0, 3"),
    "ARGB": (1, 4, Relation(SWAPPED, ((3, 0, 1, 2),)), f"{SWAPPED}, channels in the order 3, 0, 1, 2"),
    "NHWC, BGR": (
        1, 3, Relation(orders=(REVERSED,), channels_last=True),
        "channels last (NHWC), channels reversed (RGB and BGR)",
    ),
    "slices": (5, 3, Relation(SWAPPED, (REVERSED,) * 5), f"{SWAPPED}, {CHANNELS_OF_SLICES}"),
    "slices, not swapped": (5, 3, Relation(orders=(REVERSED,) * 5), CHANNELS_OF_SLICES),
    "slices, turned round": (
        3, 3, Relation(orders=((1, 2, 0),) * 3), "channels in the order 1, 2, 0 within each of 3 slices of 3"
    ),
    "slices, each its own way": (
        3, 3, Relation(orders=(REVERSED, (0, 1, 2), (1, 2, 0))),
        "channels in the order 2, 1, 0, 3, 4, 5, 7, 8, 6",
    ),
    "slices, flipped, NHWC": (
        3, 3, Relation("flipped left to right", (REVERSED,) * 3, channels_last=True),
        "channels last (NHWC), flipped left to right, channels reversed within each of 3 slices of 3",
    ),
}  # fmt: skip
"""Slices of the input, channels of each, the relation, and its words."""

FORMS = [("onnx", "onnx"), ("caffe", "onnx"), ("caffe", "caffe"), ("onnx", "caffe")]


def mapping_of(found):
    (mapping,) = found.to_json()["inputs"]
    return mapping


def culprits(found):
    """Return mismatch, layer and cause of everything that is wrong."""
    effective = {Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B, Status.UNKNOWN}
    findings = [group.finding for group in found.groups if group.status in effective]
    return [(finding.mismatch, finding.layer_b, finding.cause) for finding in findings]


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "pooled"])
@pytest.mark.parametrize("case", EQUAL.values(), ids=EQUAL)
def test_the_relation_is_found_said_and_true(tmp_path, case, dense):
    patches, depth, relation, words = case
    net = original(3, patches=patches, depth=depth, dense=dense)
    port = relation.port(net)
    a, b = load_pair((net, port), ("onnx", "onnx"), tmp_path)
    found = compare(a, b)
    assert found.verdict is Verdict.EQUAL, found.sentence
    assert not found.findings
    assert f"given input 'data' with {words}; the output agrees" in found.sentence
    # ONNX Runtime alone, on an image mapped as the JSON says and on one mapped as it was planted
    height, width = net.shape
    x = np.random.default_rng(0).standard_normal((2, net.channels, height, width)).astype(np.float32)
    if dense:
        mapped = applied(mapping_of(found), x)
        np.testing.assert_array_equal(mapped, relation.image(net, x))
    wanted, made = (run_onnx(n, i, tmp_path) for n, i in ((net, x), (port, relation.image(net, x))))
    np.testing.assert_allclose(made, wanted, atol=1e-5)


@pytest.mark.parametrize("alike", [True, False], ids=["one width", "other widths"])
@pytest.mark.parametrize("forms", FORMS, ids="-".join)
def test_slices_are_found_in_files_of_other_formats(tmp_path, forms, alike):
    net = original(4, patches=5, alike=alike)
    port = Relation(SWAPPED, (REVERSED,) * 5).port(net)
    a, b = load_pair((net, port), forms, tmp_path)
    found = compare(a, b)
    assert found.verdict is Verdict.EQUAL, found.sentence
    assert f"{SWAPPED}, {CHANNELS_OF_SLICES}" in found.sentence


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("layer", ["conv1", "conv2"])
@pytest.mark.parametrize(
    "relation",
    [
        Relation(),
        Relation(orders=(REVERSED,)),
        Relation(SWAPPED),
        Relation(SWAPPED, (REVERSED,), channels_last=True),
        Relation("flipped left to right"),
    ],
    ids=["as it is", "BGR", "swapped", "swapped, NHWC, BGR", "flipped"],
)
def test_a_damaged_layer_is_blamed_and_not_the_input(tmp_path, relation, layer, damage):
    net = original(1)
    check_damage(tmp_path, net, relation, layer, damage, forms=("onnx", "onnx"))


@pytest.mark.parametrize("layer", ["", "conv1", "conv2", "fc"])
@pytest.mark.parametrize(
    "relation",
    [Relation(), Relation(orders=(REVERSED,)), Relation(SWAPPED, (REVERSED,), channels_last=True)],
    ids=["as it is", "BGR", "swapped, NHWC, BGR"],
)
def test_one_run_is_enough_where_no_weights_contradict(tmp_path, monkeypatch, relation, layer):
    """Running B is what takes the time; a filter that is scaled leaves no doubt of the input."""
    net = original(2)
    port = relation.port(net)
    damaged = port.changed(f"{layer}.weight", DAMAGES["filter doubled"][0]) if layer else port
    a, b = load_pair((net, damaged), ("onnx", "onnx"), tmp_path)
    runs = []
    run = PairRunner.run
    monkeypatch.setattr(
        PairRunner, "run", lambda *args, **settings: runs.append(args) or run(*args, **settings)
    )
    assert compare(a, b, one_size=True).equal is not bool(layer)
    assert len(runs) == 2  # one for each order of the nets


def check_damage(folder, net, relation, layer, damage, *, forms):
    change, mismatch, words = DAMAGES[damage]
    port = relation.port(net).changed(f"{layer}.weight", change)
    a, b = load_pair((net, port), forms, folder)
    found = compare(a, b)
    assert found.verdict is Verdict.DIFFERENT, found.sentence
    ((kind, place, cause),) = culprits(found)
    assert kind == mismatch
    assert words in cause
    assert layer in place  # PyTorch gives a module its name, with what it does behind it
    x = np.zeros((1, net.channels, *net.shape), np.float32)
    x[:] = np.arange(x.size).reshape(x.shape)
    np.testing.assert_array_equal(applied(mapping_of(found), x), relation.image(net, x))


ORDERS = st.permutations(range(3)).map(tuple)

NO_SHRINKING = [Phase.reuse, Phase.generate]  # it takes minutes


@st.composite
def relations(draw, patches, channels_last):
    orders = draw(st.one_of(st.just(()), st.tuples(*[ORDERS] * patches)))
    return Relation(draw(st.sampled_from(sorted(ORIENTATIONS))), orders, draw(channels_last))


@pytest.mark.slow
@settings(max_examples=many(40, in_ci=15), deadline=None, phases=NO_SHRINKING)
@given(data=st.data())
def test_random_relations_and_damages(tmp_path_factory, data):
    """Relation, damage, layer and formats are drawn; verdict, layer and mapping are the planted ones."""
    folder = tmp_path_factory.mktemp("nets")
    patches = data.draw(st.sampled_from([1, 1, 3, 5]))
    forms = data.draw(st.tuples(*[st.sampled_from(["onnx", "caffe", "pytorch"])] * 2))
    last = st.just(value=False) if forms[1] == "caffe" else st.booleans()
    relation = data.draw(relations(patches, last))
    alike = data.draw(st.booleans())
    net = original(data.draw(st.integers(0, 99)), patches=patches, alike=alike)
    damage = data.draw(st.sampled_from(["", *DAMAGES]))
    if damage:
        layer = data.draw(st.sampled_from([*net.firsts, "conv2"]))
        check_damage(folder, net, relation, layer, damage, forms=forms)
        return
    port = relation.port(net)
    a, b = load_pair((net, port), forms, folder)
    found = compare(a, b)
    assert found.equal, found.sentence
    assert not found.findings
    x = np.random.default_rng(0).standard_normal((2, net.channels, *net.shape)).astype(np.float32)
    mapped = applied(mapping_of(found), x)
    np.testing.assert_array_equal(mapped, relation.image(net, x))
    run = run_torch if "pytorch" in forms else lambda n, i: run_onnx(n, i, folder)
    np.testing.assert_allclose(run(port, mapped), run(net, x), atol=1e-5)


def test_a_dense_layer_before_one_transpose_or_two_reads_the_same_input(tmp_path):
    weights = ", ".join(map(str, np.random.default_rng(0).standard_normal(32).round(3)))
    net = f"g (float[N,9,8] x) => (float[9,N,4] y) <float[8,4] w = {{{weights}}}> {{ d = MatMul(x, w) BODY }}"
    once, second = "t = Transpose<perm=[1,0,2]>(d) ", "u = Transpose<perm=[1,0,2]>(d) "
    sums = ("r = Relu(t) s = Sigmoid(t) y = Add(r, s)", "r = Relu(t) s = Sigmoid(u) y = Add(r, s)")
    bodies = (once + sums[0], once + second + sums[1])
    a, b = (
        read_text(net.replace("BODY", body), tmp_path, name) for name, body in zip("ab", bodies, strict=True)
    )
    assert netweave.compare(a, b).verdict is netweave.compare(b, a).verdict is Verdict.IDENTICAL


def test_a_dense_layer_before_a_transpose_or_behind_it_reads_the_same_input(tmp_path):
    weights = ", ".join(map(str, np.random.default_rng(0).standard_normal(32).round(3)))
    net = f"g (float[N,9,8] x) => (float[9,N,4] y) <float[8,4] w = {{{weights}}}> {{ BODY y = Relu(z) }}"
    turn = "= Transpose<perm=[1,0,2]>"
    bodies = (f"d = MatMul(x, w) z {turn}(d)", f"t {turn}(x) z = MatMul(t, w)")
    a, b = (
        read_text(net.replace("BODY", body), tmp_path, name) for name, body in zip("ab", bodies, strict=True)
    )
    assert netweave.compare(a, b).verdict is netweave.compare(b, a).verdict is Verdict.LATENT


def test_swapped_filters_behind_the_first_of_a_square_image_are_told(tmp_path):
    draws = np.random.default_rng(0)
    first, second = (draws.standard_normal(shape).round(3) for shape in ((4, 1, 5, 5), (6, 4, 5, 5)))
    nets = []
    for name, filters in (("a", second), ("b", second.swapaxes(2, 3))):
        stored = ", ".join(
            f"float[{','.join(map(str, x.shape))}] {key} = {{{', '.join(map(str, x.reshape(-1)))}}}"
            for key, x in (("w", first), ("v", filters))
        )
        nodes = "c = Conv(x, w) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c) y = Conv(p, v)"
        text = f"g (float[N,1,28,28] x) => (float[N,6,8,8] y) <{stored}> {{ {nodes} }}"
        nets.append(read_text(text, tmp_path, name))
    for a, b in (nets, reversed(nets)):
        (finding,) = netweave.compare(a, b).findings
        assert finding.cause == "the filters of B are A's, height and width swapped"
