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
    """Where A fixes them, B is given ones, so that the outputs agree."""
    nets = []
    for name, is_fixed in zip("ab", fixed, strict=True):
        (tmp_path / name).mkdir()
        nets.append(mxnet.load(Plan(fixed_gamma=is_fixed), tmp_path / name, weights=False))
    found = netweave.compare(*nets)
    assert not found.equal
    (finding,) = found.findings
    assert finding.trap == "fix-gamma"
    assert finding.cause.startswith(f"{lacks} takes every gamma as 1")
    assert found.verdict is (Verdict.STRUCTURE if lacks == "A" else Verdict.DIFFERENT)


def test_a_normalisation_that_one_net_has_folded() -> None:
    found = netweave.compare(build(Form(file="a.net")), without(build(Form(fold=True))))
    assert found.verdict is Verdict.STRUCTURE
    (finding,) = found.findings
    assert (finding.trap, finding.latent) == ("missing-layer", True)
    assert finding.cause.startswith("A has bn1, B has none")


def test_with_weights_a_folded_normalisation_is_no_difference() -> None:
    assert netweave.compare(build(Form(file="a.net")), build(Form(fold=True))).findings == ()
