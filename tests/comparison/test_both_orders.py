"""That comparisons of these tests are made in both orders, and that an order that matters is noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import netweave
from netweave import comparison
from netweave.comparison import Comparison, Finding, Group, Status, TensorMapping, Verdict
from netweave.comparison.result.comparison import Evidence
from netweave.errors import UsageError
from tests.comparison.both_orders import AsymmetryError, BothOrders, check_mirrored
from tests.comparison.nets import build

NORM_IN_A = Comparison(
    build(),
    build(),
    Verdict.DIFFERENT,
    "different",
    groups=(
        Group(("conv_a",), ("conv_b",), ("conv_a",), ("conv_b",), Evidence.VALUES, Status.EQUAL),
        Group(("norm",), (), ("norm",), (), Evidence.GUESS, Status.ONLY_A, finding=Finding(None, "")),
    ),
    inputs=(TensorMapping("x", "data"),),
    outputs=(TensorMapping("y", "prob"),),
)
NORM_IN_B = replace(
    NORM_IN_A,
    groups=(
        Group(("conv_b",), ("conv_a",), ("conv_b",), ("conv_a",), Evidence.VALUES, Status.EQUAL),
        Group((), ("norm",), (), ("norm",), Evidence.GUESS, Status.ONLY_B, finding=Finding(None, "")),
    ),
    inputs=(TensorMapping("data", "x"),),
    outputs=(TensorMapping("prob", "y"),),
)


def test_a_mirrored_result_passes():
    check_mirrored(NORM_IN_A, NORM_IN_B)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"verdict": Verdict.UNDECIDED}, r"verdict: DIFFERENT for \(A, B\), UNDECIDED for \(B, A\)"),
        ({"inputs": NORM_IN_A.inputs}, r"inputs: .*'x', 'data'.* for \(A, B\), .*'data', 'x'"),
        ({"outputs": ()}, r"outputs: .*'y', 'prob'.* for \(A, B\), \[\] for \(B, A\)"),
        ({"outputs": (TensorMapping("prob", "y", axes=(0, 2, 1)),)}, "outputs: .*True.*False"),
        ({"groups": NORM_IN_A.groups}, "nodes in one net alone"),
        ({"groups": NORM_IN_B.groups[:1]}, "layers of findings"),
    ],
    ids=["verdict", "inputs", "outputs", "change of layout", "only in one net", "findings"],
)
def test_a_result_that_is_not_mirrored_is_told(changed, message):
    with pytest.raises(AsymmetryError, match=message):
        check_mirrored(NORM_IN_A, replace(NORM_IN_B, **changed))


def test_a_finding_about_another_layer_is_told():
    finding = replace(NORM_IN_B.groups[0], status=Status.LATENT, finding=Finding(None, ""))
    alone = replace(NORM_IN_B.groups[1], finding=None)
    with pytest.raises(AsymmetryError, match="layers of findings"):
        check_mirrored(NORM_IN_A, replace(NORM_IN_B, groups=(finding, alone)))


def test_findings_may_depend_on_the_order_where_that_is_said_and_verdicts_may_not():
    finding = replace(NORM_IN_B.groups[0], status=Status.LATENT, finding=Finding(None, ""))
    other = replace(NORM_IN_B, groups=(finding, NORM_IN_B.groups[1]))
    check_mirrored(NORM_IN_A, other, with_findings=False)
    with pytest.raises(AsymmetryError, match="exit status"):
        check_mirrored(NORM_IN_A, replace(other, verdict=Verdict.IDENTICAL), with_findings=False)


def test_both_orders_are_compared_where_that_is_switched_on():
    both = BothOrders()
    compare = both.wrap(lambda a, b: NORM_IN_A)
    compare("net", "port")
    with both.switched(on=True), pytest.raises(AsymmetryError, match="nodes in one net alone"):
        compare("net", "port")


def test_options_of_the_two_nets_are_swapped():
    calls = []

    def compare(a, b, **options):
        calls.append((a, b, options))
        return NORM_IN_A if a == "net" else NORM_IN_B

    both = BothOrders()
    x = np.arange(3.0)
    with both.switched(on=True):
        both.wrap(compare)("net", "port", preprocess_a="caffe", seed=3, progress=print)
        both.wrap(compare)("net", "port", probe={"x": x})
        both.wrap(compare)("net", "port", first="conv_a")
    assert [(a, b) for a, b, _ in calls] == [("net", "port"), ("port", "net")] * 2 + [("net", "port")]
    assert calls[1][2] == {"preprocess_b": "caffe", "seed": 3}
    assert calls[3][2] == {"probe": {"data": x}}


@pytest.mark.parametrize("error", [None, ValueError("no")], ids=["compared", "another error"])
def test_a_refusal_in_one_order_alone_is_told(error):
    def compare(a, b):
        if a == "net":
            raise UsageError("refused")
        if error is not None:
            raise error
        return NORM_IN_A

    both = BothOrders()
    with both.switched(on=True), pytest.raises(AsymmetryError, match="raises UsageError"):
        both.wrap(compare)("net", "port")


def test_every_test_of_this_folder_compares_so():
    assert netweave.compare.__wrapped__ is not netweave.compare
    assert hasattr(comparison.compare, "__wrapped__")
