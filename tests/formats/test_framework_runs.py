"""The frameworks themselves, run anew: they compute what was kept of them."""

from __future__ import annotations

import os

import pytest

from tests.formats.framework_runs import FRAMEWORKS, VALUES, kept, record
from tests.oracles import golden

PYTHONS = {
    "caffe": os.environ.get("NETWEAVE_ORACLES", "") and f"{os.environ['NETWEAVE_ORACLES']}/bin/python",
    "mxnet": os.environ.get("NETWEAVE_ORACLES", "") and f"{os.environ['NETWEAVE_ORACLES']}/bin/python",
    "keras": os.environ.get("NETWEAVE_TENSORFLOW", ""),
}


@pytest.mark.oracle
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_computes_what_was_kept_of_it(framework):
    if not PYTHONS[framework]:
        pytest.skip("NETWEAVE_ORACLES or NETWEAVE_TENSORFLOW names no environment")
    now = record(framework, PYTHONS[framework])
    assert list(now) == list(kept(framework))
    for name, net in now.items():
        before = kept(framework)[name]
        assert net["files"] == before["files"], name
        for output, old in zip(net["outputs"], before["outputs"], strict=True):
            assert output["shape"] == old["shape"]
            assert output["values"] == pytest.approx(old["values"], abs=2 * golden.TOLERANCE * old["rms"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_is_kept_says_something(framework):
    """No output is kept of which all elements are equal: a wrong net could have it by chance."""
    assert len(kept(framework)) > 50
    for name, net in kept(framework).items():
        for output in net["outputs"]:
            assert len(output["values"]) <= VALUES
            assert len(set(output["values"])) > 1 or name == "an SSD of Caffe's own", name
