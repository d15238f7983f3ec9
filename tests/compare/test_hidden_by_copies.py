"""What copied weights make up for is told all the same."""

from __future__ import annotations

import pytest

import netweave
from netweave.compare import Verdict
from tests.compare.nets import Form, build
from tests.compare.planted import mxnet
from tests.compare.planted.plan import Plan
from tests.compare.test_missing_weights import without


@pytest.mark.parametrize(("fixed", "lacks"), [((True, False), "A"), ((False, True), "B")])
def test_gammas_that_one_net_fixes(fixed, lacks, tmp_path) -> None:
    """Neither net has weights, so those that the other one stores may be ones."""
    nets = [_fixing(tmp_path / name, is_fixed) for name, is_fixed in zip("ab", fixed, strict=True)]
    found = netweave.compare(*nets)
    assert found.verdict is Verdict.STRUCTURE
    (finding,) = found.findings
    assert (finding.trap, finding.latent) == ("fix-gamma", True)
    assert finding.cause.startswith(f"{lacks} takes every gamma as 1")


def test_gammas_of_a_trained_net_that_the_port_fixes(tmp_path) -> None:
    net = _fixing(tmp_path / "a", is_fixed=False, weights=True)
    found = netweave.compare(net, _fixing(tmp_path / "b", is_fixed=True))
    assert found.verdict is Verdict.DIFFERENT
    assert [finding.trap for finding in found.findings] == ["fix-gamma"]


def _fixing(folder, is_fixed, *, weights=False):
    folder.mkdir()
    return mxnet.load(Plan(fixed_gamma=is_fixed), folder, weights=weights)


def test_a_normalisation_that_one_net_has_folded() -> None:
    found = netweave.compare(build(Form(file="a.net")), without(build(Form(fold=True))))
    assert found.verdict is Verdict.STRUCTURE
    (finding,) = found.findings
    assert (finding.trap, finding.latent) == ("missing-layer", True)
    assert finding.cause.startswith("A has bn1, B has none")


def test_with_weights_a_folded_normalisation_is_no_difference() -> None:
    assert netweave.compare(build(Form(file="a.net")), build(Form(fold=True))).findings == ()
