"""No pair of different nets is identical because the inputs cannot tell them apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict, open_comparison, save_comparison
from tests.comparison.onnx_text import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.comparison import Comparison

IMAGE = "g (float[N,3,8,8] x) => (float[N,3,8,8] y) { BODY }"
BYTES = "g (uint8[N,3,8,8] x) => (float[N,3,8,8] y) { f = Cast<to=1>(x) BODY }"
INTEGERS = "g (int64[N,8] x) => (float[N,8] y) { BODY }"
ROW = "g (float[N,8] x) => (float[N,8] y) { BODY }"
BOOLS = "g (float[N,3,8,8] x) => (bool[N,3,8,8] y) { BODY }"
OPEN = "g (float[N,3,H,W] x) => (float[N,3,h,w] y) { BODY }"
SEQUENCE = "g (float[N,T] x) => (float[N,t] y) { BODY }"
TABLE = np.random.default_rng(0).standard_normal((1000, 2)).round(3)
IDS = (
    "g (int64[N,7] x) => (float[N,7,2] y) <float[1000,2] t = {"
    + ", ".join(map(str, TABLE.reshape(-1)))
    + "}> { BODY }"
)
TWO_OUTPUTS = "g (float[N,8] x) => (float[N,8] y, int64[N,8] z) { y = Relu(x) BODY z = Cast<to=7>(g) }"
BOXES = """g (float[1,64,4] boxes, float[1,2,64] scores) => (int64[M,3] y) {
    k = Constant<value_ints=[BOXES]>() i = Constant<value_floats=[IOU]>() s = Constant<value_floats=[SCORE]>()
    y = NonMaxSuppression(boxes, scores, k, i, s) }"""


def scalar(name: str, value: float) -> str:
    kind = "int" if isinstance(value, int) else "float"
    return f"{name} = Constant<value_{kind}={value}>() "


def clip(source: str, low: float, high: float, target: str) -> str:
    return scalar("lo", low) + scalar("hi", high) + f"{target} = Clip({source}, lo, hi) "


def above(bound: float, target: str = "y") -> str:
    return scalar("c", bound) + f"{target} = Greater(x, c) "


def sliced(size: int, source: str, target: str, axes: str) -> str:
    count = axes.count(",") + 1
    starts, ends = ("[" + ",".join([str(n)] * count) + "]" for n in (0, size))
    return (
        f"s = Constant<value_ints={starts}>() e = Constant<value_ints={ends}>() "
        f"a = Constant<value_ints={axes}>() {target} = Slice({source}, s, e, a) "
    )


def boxes(iou: float = 0.5, score: float = 0.1, count: int = 10) -> str:
    return BOXES.replace("IOU", str(iou)).replace("SCORE", str(score)).replace("BOXES", str(count))


DIFFERENT = {
    "bytes squared": (BYTES, "y = Identity(f)", "y = Mul(f, f)"),
    "root of bytes": (BYTES, "y = Identity(f)", "y = Sqrt(f)"),
    "dequantised and clipped": (
        BYTES,
        scalar("c", 0.0039) + "y = Mul(f, c)",
        scalar("c", 0.0039) + "d = Mul(f, c) " + clip("d", 0.0, 0.5, "y"),
    ),
    "integers squared": (INTEGERS, "y = Cast<to=1>(x)", "f = Cast<to=1>(x) y = Mul(f, f)"),
    "rectified integers": (INTEGERS, "y = Cast<to=1>(x)", "f = Cast<to=1>(x) y = Relu(f)"),
    "another divisor": (
        INTEGERS,
        *(scalar("k", k) + "m = Mod(x, k) y = Cast<to=1>(m)" for k in (3, 5)),
    ),
    "the sign of a remainder": (
        INTEGERS,
        *(scalar("k", 3) + f"m = Mod<fmod={f}>(x, k) y = Cast<to=1>(m)" for f in (0, 1)),
    ),
    "an overflow of int32": (
        INTEGERS,
        scalar("k", 100000) + "m = Mul(x, k) y = Cast<to=1>(m)",
        scalar("k", 100000) + "i = Cast<to=6>(x) j = Cast<to=6>(k) m = Mul(i, j) y = Cast<to=1>(m)",
    ),
    "ids clipped": (IDS, clip("x", 0, 50, "c") + "y = Gather(t, c)", "y = Gather(t, x)"),
    "ids clipped otherwise": (
        IDS,
        *(clip("x", 0, high, "c") + "y = Gather(t, c)" for high in (50, 999)),
    ),
    "ids behind a cast": (
        IDS,
        "c = Cast<to=6>(x) y = Gather(t, c)",
        clip("x", 0, 400, "c") + "y = Gather(t, c)",
    ),
    "a threshold of bools": (BOOLS, above(500.0), above(5000.0)),
    "a threshold of a second output": (TWO_OUTPUTS, above(900.0, "g"), above(9000.0, "g")),
    "an upper bound": (IMAGE, "y = Relu(x)", clip("x", 0.0, 400.0, "y")),
    "an input clipped at 255": (IMAGE, "y = Neg(x)", clip("x", -255.0, 255.0, "c") + "y = Neg(c)"),
    "an input clipped at 1000": (IMAGE, "y = Neg(x)", clip("x", -1000.0, 1000.0, "c") + "y = Neg(c)"),
    "an output clipped at 200": (IMAGE, "y = Neg(x)", "n = Neg(x) " + clip("n", -200.0, 200.0, "y")),
    "a layer before a rounding": (
        ROW,
        "s = Sigmoid(x) y = Floor(s)",
        "s = Sigmoid(x) t = Selu(s) y = Floor(t)",
    ),
    "a sign that usual inputs do not have": (
        ROW,
        scalar("c", 500.0) + "y = Add(x, c)",
        scalar("c", 500.0) + "h = Add(x, c) y = Abs(h)",
    ),
    "a fixed slice of an open image": (
        OPEN,
        "r = Relu(x) y = Neg(r)",
        "r = Relu(x) " + sliced(64, "r", "q", "[2,3]") + "y = Neg(q)",
    ),
    "a window of a sequence": (SEQUENCE, "y = Relu(x)", "r = Relu(x) " + sliced(512, "r", "y", "[1]")),
    "softmax without a guard": (
        ROW,
        "y = Softmax(x)",
        "e = Exp(x) a = Constant<value_ints=[-1]>() s = ReduceSum(e, a) y = Div(e, s)",
    ),
    "softplus without a guard": (
        ROW,
        "y = Softplus(x)",
        "e = Exp(x) " + scalar("o", 1.0) + "s = Add(e, o) y = Log(s)",
    ),
    "boxes that overlap": (boxes(), "", boxes(iou=0.9)),
    "boxes with low scores": (boxes(), "", boxes(score=0.4)),
    "boxes that are kept": (boxes(), "", boxes(count=20)),
    "a slice of the batch": (
        SEQUENCE, *("r = Relu(x) " + sliced(305, "r", "y", f"[{axis}]") for axis in (0, 1)),
    ),
    "a computed length of the batch": (
        SEQUENCE,
        *(
            "s = Shape(x) i = Constant<value_ints=[1]>() l = Gather(s, i) k = Constant<value_ints=[115]>() "
            "e = Min(l, k) z = Constant<value_ints=[0]>() r = Relu(x) "
            f"a = Constant<value_ints=[{axis}]>() y = Slice(r, z, e, a)"
            for axis in (0, 1)
        ),
    ),
    "the larger of two lengths": (
        SEQUENCE,
        *(
            "s = Shape(x) i = Constant<value_ints=[1]>() l = Gather(s, i) k = Constant<value_ints=[161]>() "
            f"e = {op}(l, k) z = Constant<value_ints=[0]>() r = Relu(x) y = Slice(r, z, e, i)"
            for op in ("Min", "Max")
        ),
    ),
    "a sign of what is rarely negative": (
        ROW,
        *(scalar("c", 1e5) + f"q = Mul(x, x) s = Sub(c, q) y = {op}(s)" for op in ("Abs", "Identity")),
    ),
    "a batch that is scaled": (
        IMAGE,
        *(
            f"s = Constant<value_floats=[{factor},1.0,2.0,2.0]>() "
            "y = Resize<mode=\"nearest\">(x, \"\", s)"
            for factor in (1.0, 1.1)
        ),
    ),
    "a fixed slice of the batch": (IMAGE, "y = Neg(x)", "r = Neg(x) " + sliced(20, "r", "y", "[0]")),
    "a mask that is ignored": (
        "g (float[N,8] x, int64[N,8] mask) => (float[N,8] y) { BODY }",
        scalar("z", 0.0) + "b = Cast<to=9>(mask) m = Where(b, x, z) y = Relu(m)",
        "y = Relu(x)",
    ),
}  # fmt: skip


def nets_of(case: tuple[str, str, str], folder: Path) -> tuple[netweave.Graph, netweave.Graph]:
    frame, a, b = case
    if frame.startswith("g (float[1,64,4]"):
        return read_text(frame, folder, "a"), read_text(b, folder, "b")
    return read_text(frame.replace("BODY", a), folder, "a"), read_text(frame.replace("BODY", b), folder, "b")


@pytest.mark.parametrize("case", DIFFERENT.values(), ids=DIFFERENT)
def test_a_difference_that_usual_inputs_do_not_show_is_found(case, tmp_path):
    a, b = nets_of(case, tmp_path)
    assert netweave.compare(a, b).verdict is Verdict.DIFFERENT
    assert netweave.compare(b, a).verdict is Verdict.DIFFERENT


@pytest.mark.parametrize("case", DIFFERENT.values(), ids=DIFFERENT)
def test_the_same_net_is_identical(case, tmp_path):
    a, _ = nets_of(case, tmp_path)
    same = netweave.load(tmp_path / "a.onnx")
    found = netweave.compare(a, same)
    assert found.verdict is Verdict.IDENTICAL
    assert found.exit_status == 0


EQUAL = {
    "a rectifier as a maximum": (IMAGE, "y = Relu(x)", scalar("z", 0.0) + "y = Max(x, z)"),
    "ids of another type": (IDS, "y = Gather(t, x)", "c = Cast<to=6>(x) y = Gather(t, c)"),
    "a clip that cannot act": (IMAGE, "y = Sigmoid(x)", "g = Sigmoid(x) " + clip("g", -1.0, 1.5, "y")),
    "a rectifier behind a rectifier": (IMAGE, "r = Relu(x) y = Neg(r)", "r = Relu(x) q = Relu(r) y = Neg(q)"),
}


@pytest.mark.parametrize("case", EQUAL.values(), ids=EQUAL)
def test_another_way_to_write_a_layer_is_no_difference(case, tmp_path):
    a, b = nets_of(case, tmp_path)
    assert netweave.compare(a, b).equal
    assert netweave.compare(b, a).equal


def test_a_sign_that_a_softmax_hides_is_tried(tmp_path):
    """What is negative stands beside large numbers, and all that a softmax makes of it is 0."""
    m = scalar("c", 8.0) + "m = Add(x, c) "
    a, b = nets_of((ROW, m + "y = Softmax(m)", m + "r = Relu(m) y = Softmax(r)"), tmp_path)
    assert not netweave.compare(a, b).is_strictly_equal


@pytest.mark.parametrize(("axes", "node"), [("[3]", "Squeeze(r, z)"), ("[1,3,1]", "Unsqueeze(r, t)")])
def test_an_axis_of_size_1_that_comes_or_goes_is_said(axes, node, tmp_path):
    frame = "g (float[1,3] x) => (floatAXES y) <int64[1] z = {0}, int64[1] t = {2}> { r = Relu(x) y = NODE }"
    a = read_text(frame.replace("AXES", "[1,3]").replace("NODE", "Identity(r)"), tmp_path, "a")
    b = read_text(frame.replace("AXES", axes).replace("NODE", node), tmp_path, "b")
    for nets in ((a, b), (b, a)):
        found = netweave.compare(*nets)
        assert found.verdict is Verdict.EQUAL
        assert "B returns 'y' with the values of (" in found.sentence


def test_a_largest_element_that_is_negative_is_tried(tmp_path):
    frame = "g (float[1,8] x) => (float[1,8] y) { BODY }"
    a, b = nets_of((frame, "y = Hardmax<axis=1>(x)", "r = Relu(x) y = Hardmax<axis=1>(r)"), tmp_path)
    for seed in range(4):
        assert not netweave.compare(a, b, seed=seed).is_strictly_equal


@pytest.mark.parametrize("seed", range(4))
def test_one_number_is_tested_on_both_sides_of_a_bend(seed, tmp_path):
    frame = "g (float[1] x, float[1] z) => (float[1] y) { r = BEND(x) y = Mul(r, z) }"
    nets = (read_text(frame.replace("BEND", bend), tmp_path, bend) for bend in ("LeakyRelu", "Celu"))
    assert not netweave.compare(*nets, seed=seed).is_strictly_equal


def test_integers_and_floats_are_compared_on_what_both_can_hold(tmp_path):
    """MXNet and Caffe know no integer inputs: what is written for them reads floats."""
    floats = scalar("c", 30.0) + "y = Max(x, c)"
    a = read_text(f"g (float[N,8] x) => (float[N,8] y) {{ {floats} }}", tmp_path, "a")
    b = read_text(
        INTEGERS.replace("BODY", scalar("c", 30) + "m = Max(x, c) y = Cast<to=1>(m)"), tmp_path, "b"
    )
    assert netweave.compare(a, b).equal
    assert netweave.compare(b, a).equal


def test_a_lookup_that_clips_what_is_clipped_already(tmp_path):
    """MXNet's Embedding takes the last row for what is beyond its table."""
    a = read_text(IDS.replace("BODY", clip("x", 0, 50, "c") + "y = Gather(t, c)"), tmp_path, "a")
    body = clip("x", 0.0, 50.0, "c") + "i = Cast<to=7>(c) " + scalar("first", 0) + scalar("last", 999)
    body += "j = Clip(i, first, last) y = Gather(t, j)"
    b = read_text(IDS.replace("int64", "float").replace("BODY", body), tmp_path, "b")
    assert netweave.compare(a, b).verdict is Verdict.IDENTICAL
    assert netweave.compare(b, a).verdict is Verdict.IDENTICAL


def test_layers_that_differ_out_of_reach_are_not_identical(tmp_path):
    """No input reaches the bound behind the tanh, but one net has it at 3 and the other at 5."""
    scaled = scalar("c", 2.0) + "h = Tanh(x) m = Mul(h, c) n = Mul(m, m) "
    a, b = (
        read_text(ROW.replace("BODY", scaled + clip("n", 0.0, high, "y")), tmp_path, name)
        for name, high in (("a", 5.0), ("b", 6.0))
    )
    found = netweave.compare(a, b)
    assert found.verdict is Verdict.LATENT
    assert "without effect here" in found.sentence
    assert [finding.latent for finding in found.findings] == [True]


BRANCH = (
    "g (float[N,8] x) => (int64[N,1] y) { s = CumSum(x, a) c = Constant<value_float=900.0>() m = Max(s, c) "
    "r = ReduceMean<keepdims=0>(m) t = Constant<value_float=1.0>() g = Greater(r, t) "
    "b = If<then_branch = i () => (float[N,8] p) { p = Neg(m) }, "
    "else_branch = j () => (float[N,8] q) { q = Abs(m) }>(g) y = ArgMax<axis=1>(b) }"
).replace("{ s =", "{ a = Constant<value_int=1>() s =")


@pytest.mark.parametrize("seed", [0, 1])
def test_what_a_branch_reads_of_the_graph_around_it_is_given_to_it(seed, tmp_path):
    """Behind a bound that nothing exceeds, a branch is tested alone, and was without what it captures."""
    a, b = (read_text(BRANCH, tmp_path, name) for name in "ab")
    assert netweave.compare(a, b, seed=seed).verdict is Verdict.IDENTICAL
    other = read_text(BRANCH.replace("Abs(m)", "Neg(m)"), tmp_path, "c")
    assert not netweave.compare(a, other, seed=seed).is_strictly_equal


def test_a_window_beyond_the_size_of_one_net_is_named(tmp_path):
    """A module that was traced at one size has lost the slices that leave out nothing there."""
    whole = read_text(SEQUENCE.replace("BODY", "r = Relu(x) " + sliced(135, "r", "y", "[1]")), tmp_path, "a")
    traced = read_text("g (float[N,7] x) => (float[N,7] y) { y = Relu(x) }", tmp_path, "b")
    text = "g (float[N,7] x) => (float[M,7] y) { r = Relu(x) " + sliced(135, "r", "y", "[0]") + "}"
    of_batch = read_text(text, tmp_path, "c")
    assert netweave.compare(whole, of_batch).verdict is Verdict.DIFFERENT
    for nets in ((whole, traced), (traced, whole)):
        found = netweave.compare(*nets)
        assert found.verdict is Verdict.LATENT
        assert "not exercised: slice at 135 (" in found.sentence


TRAINED = {
    "BatchNormalization": (
        "g (float[4,3,8,8] x) => (float[4,3,8,8] y) <float[3] s={1,1,1}, float[3] b={0,0,0}, "
        "float[3] m={0,0,0}, float[3] v={1,1,1}> { BODY }",
        "y = BatchNormalization(x, s, b, m, v)",
        "y, p, q = BatchNormalization<training_mode=1>(x, s, b, m, v)",
    ),
    "Dropout": (
        "g (float[4,8] x) => (float[4,8] y) { r = Relu(x) BODY }",
        "y = Dropout(r)",
        scalar("p", 0.5) + scalar("z", 1) + "t = Cast<to=9>(z) y = Dropout(r, p, t)",
    ),
}


@pytest.mark.parametrize("op_type", TRAINED)
def test_a_layer_in_training_mode_is_named(op_type, tmp_path):
    a, b = nets_of(TRAINED[op_type], tmp_path)
    for found in (netweave.compare(a, b), netweave.compare(b, a)):
        assert found.verdict is Verdict.LATENT
        assert f"not exercised: {op_type} training_mode" in found.sentence


HEADS = (
    "g (float[N,8] x) => (float[N,8] A, float[N,8] B) "
    "{ p = Sigmoid(x) q = Tanh(x) C = Identity(p) D = Identity(q) }"
)


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        (("cls", "reg", "cls", "reg"), Verdict.IDENTICAL),
        (("reg", "cls", "cls", "reg"), Verdict.EQUAL),
        (("reg", "cls", "reg", "cls"), Verdict.DIFFERENT),
        (("scores", "shifts", "scores", "shifts"), Verdict.IDENTICAL),
        (("output_1", "output_0", "output_1", "output_0"), Verdict.IDENTICAL),
    ],
    ids=["alike", "in another order", "names swapped", "renamed", "generated names"],
)
def test_outputs_belong_together_by_name(names, verdict, tmp_path):
    """The names of the outputs in order, then those of the sigmoid's and the tanh's values."""

    def heads(first, second, sigmoid, tanh, file):
        text = HEADS.replace("A,", f"{first},").replace(" B)", f" {second})")
        text = text.replace("C =", f"{sigmoid} =").replace("D =", f"{tanh} =")
        return read_text(text, tmp_path, file)

    plain = ("output_0", "output_1") if "output_0" in names else ("cls", "reg")
    a, b = heads(*plain, *plain, "a"), heads(*names, "b")
    found = netweave.compare(a, b)
    assert found.verdict is verdict
    assert ("B returns its outputs in another order" in found.sentence) is (verdict is Verdict.EQUAL)
    assert netweave.compare(b, a).verdict is verdict


def relu6(folder: Path, name: str, factor: float) -> netweave.Graph:
    return read_text(
        ROW.replace("BODY", scalar("c", factor) + "h = Tanh(x) m = Mul(h, c) " + clip("m", 0.0, 6.0, "y")),
        folder,
        name,
    )


def test_what_was_not_exercised_is_said(tmp_path):
    a, b = relu6(tmp_path, "a", 2.0), relu6(tmp_path, "b", 2.0)
    found = netweave.compare(a, b)
    assert found.verdict is Verdict.IDENTICAL
    (missed,) = found.coverage.not_exercised
    assert (missed.setting, missed.reason, missed.differs) == ("Clip max", "no value is above 6", False)
    assert str(found.coverage).endswith("not exercised: Clip max of y (no value is above 6)")
    assert found.coverage.num_exercised == found.coverage.num_settings - 1
    assert netweave.compare(*(relu6(tmp_path, name, 20.0) for name in "ab")).coverage.is_complete


def test_json_has_the_coverage(tmp_path):
    found = netweave.compare(relu6(tmp_path, "a", 2.0), relu6(tmp_path, "b", 2.0))
    content = json.loads(json.dumps(found.to_json()))
    assert content["coverage"]["not_exercised"][0]["setting"] == "Clip max"
    save_comparison(found, tmp_path / "saved.json")
    assert open_comparison(tmp_path / "saved.json").coverage == found.coverage


def strict_and_not(case: tuple[str, str, str], folder: Path) -> tuple[Comparison, Comparison]:
    nets = nets_of(case, folder)
    return netweave.compare(*nets), netweave.compare(*nets, strict=True)


def test_strict_accepts_what_differs_in_nothing(tmp_path):
    usual, strict = strict_and_not((IMAGE, "y = Relu(x)", "y = Relu(x)"), tmp_path)
    assert (usual.verdict, strict.verdict) == (Verdict.IDENTICAL, Verdict.IDENTICAL)


def test_strict_refuses_what_is_equal_with_a_difference(tmp_path):
    usual, strict = strict_and_not(TRAINED["Dropout"], tmp_path)
    assert (usual.exit_status, strict.exit_status) == (0, 3)
    assert strict.sentence.startswith("not decidable (strict): equal for these weights and inputs")


def test_float16_is_equal_but_for_what_overflows(tmp_path):
    to, back = "h = Cast<to=10>(x) ", "f = Cast<to=1>(h) y = Neg(f)"
    usual, strict = strict_and_not((ROW, "y = Neg(x)", to + back), tmp_path)
    assert usual.verdict is Verdict.EQUAL
    assert "not exercised: range of float16 (values beyond 65504 overflow)" in usual.sentence
    assert strict.exit_status == 3


def test_rounding_before_a_step_is_a_difference(tmp_path):
    rest = "s = Sign(READ) t = Mul(s, x) h = Cast<to=10>(t) y = Cast<to=1>(h)"
    rounded = "g = Cast<to=10>(x) f = Cast<to=1>(g) " + rest.replace("READ", "f")
    usual, strict = strict_and_not((ROW, rest.replace("READ", "x"), rounded), tmp_path)
    assert usual.verdict is Verdict.LATENT
    assert "not exercised: Cast to float16 (1 in A, 2 in B" in usual.sentence
    assert strict.exit_status == 3
