"""Faults of a net whose normalisations are folded into its filters in the other net."""

from __future__ import annotations

import pytest

from netweave.comparison import compare
from tests.comparison.nets import Form, arrays, build, culprit

AGAINST_FOLDED = {
    "eps": (Form(eps=0.5), "epsilon", "bn1"),
    "one gamma": (Form(changed={"gamma": ((3,), 1.0)}), "weights", "bn1"),
    "every gamma as 1": (Form(changed={"gamma": ((...,), 1 - arrays()["gamma"])}), "fix-gamma", "bn1"),
    "one beta": (Form(changed={"beta": ((2,), 1.0)}), "weights", "bn1"),
    "one weight": (Form(changed={"conv1": ((3, 2, 1, 0), 0.5)}), "weights", "conv1"),
    "dilation": (Form(dilation=2, pads=(2, 2, 2, 2)), "dilation + padding", "conv1"),
    "stored statistics": (
        Form(changed={"mean": ((...,), 99 * arrays()["mean"]), "var": ((...,), 99 * arrays()["var"])}),
        "bn-scale-factor",
        "bn1",
    ),
}


@pytest.mark.parametrize("fault", AGAINST_FOLDED.values(), ids=AGAINST_FOLDED)
def test_a_fault_is_explained_against_a_net_with_its_normalisation_folded(fault):
    form, mismatch, layer = fault
    finding = culprit(compare(build(Form(fold=True, file="a.net")), build(form)))
    assert finding.mismatch == mismatch
    assert finding.layer_b == layer
    assert finding.error_fixed <= 1e-4 < finding.error


@pytest.mark.parametrize("folded_net", ["a", "b"])
def test_a_doubled_filter_is_told_whichever_net_has_its_normalisation_folded(folded_net):
    doubled = {"conv1": ((4,), arrays()["conv1"][4])}
    a = build(Form(fold=folded_net == "a", file="a.net"))
    finding = culprit(compare(a, build(Form(fold=folded_net == "b", changed=doubled))))
    assert (finding.mismatch, finding.layer_b) == ("weights", "conv1")
    assert f"{3 * 3 * 3} of {8 * 3 * 3 * 3} values" in finding.cause
    assert finding.error_fixed <= 1e-4 < finding.error


def test_a_doubled_filter_in_front_of_first_statistics_is_no_fixed_gamma():
    of_first = {
        name: ((...,), value - arrays()[name])
        for name, value in {"gamma": 1.0, "beta": 0.0, "mean": 0.0, "var": 1.0}.items()
    }
    doubled = {**of_first, "conv1": ((4,), arrays()["conv1"][4])}
    a = build(Form(fold=True, file="a.net", changed=of_first))
    finding = culprit(compare(a, build(Form(changed=doubled))))
    assert finding.mismatch == "weights"
    assert finding.error_fixed <= 1e-4 < finding.error


@pytest.mark.parametrize("is_folded", [True, False])
@pytest.mark.parametrize("formats", [("keras", "pytorch"), ("mxnet", "pytorch"), ("onnx", "mxnet")])
def test_fixed_gammas_have_the_name_of_mxnet_s_setting_only_for_nets_of_mxnet(formats, is_folded):
    ones = Form(changed={"gamma": ((...,), 1 - arrays()["gamma"])})
    a, b = build(Form(fold=is_folded, file="a.net")), build(ones)
    a.format, b.format = formats
    finding = culprit(compare(a, b))
    assert finding.mismatch == "fix-gamma"
    assert ("fix_gamma" in finding.cause) is ("mxnet" in formats)
