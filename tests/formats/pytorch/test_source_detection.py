"""Detectors as PyTorch source: functions for what PyTorch lacks, known again when the file is read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import netweave
from netweave import api
from netweave.errors import SourceError
from netweave.formats.pytorch.functions import FUNCTIONS, sources, used_sources
from netweave.graph import GraphBuilder, find_operator
from tests.formats.onnx.test_functions import CASES, corners, floats, net, probabilities
from tests.formats.pytorch.test_source import imported

torch = pytest.importorskip("torch")

OPERATORS = {row.op_type for row in FUNCTIONS.values()}
DETECTORS = [case for case in CASES if case.values[0] in OPERATORS]


@pytest.mark.parametrize(("op_type", "arrays", "attributes"), DETECTORS)
def test_the_function_gives_what_the_forward_gives(op_type, arrays, attributes, tmp_path):
    netweave.save(net(op_type, arrays, attributes), tmp_path / "net.py")
    with torch.no_grad():
        found = imported(tmp_path / "net.py").load()(*map(torch.from_numpy, arrays))
    found = found if isinstance(found, tuple) else (found,)
    for tensor, want in zip(found, find_operator(op_type).forward(arrays, attributes), strict=True):
        assert tuple(tensor.shape) == want.shape
        digits = 3e-7 * max(1.0, abs(want).max(initial=0))  # of pixels that were subtracted
        np.testing.assert_allclose(tensor.numpy(), want, rtol=2e-6, atol=max(2e-6, digits))


def test_a_shrinking_threshold(tmp_path):
    arrays = [corners(1, 200, 1), probabilities(1, 200, 2, axis=2)]
    attributes = {"eta": 0.7, "nms_threshold": 0.9, "background_label_id": -1}
    netweave.save(net("DetectionOutput", arrays, attributes), tmp_path / "net.py")
    found = imported(tmp_path / "net.py").load()(*map(torch.from_numpy, arrays))
    (want,) = find_operator("DetectionOutput").forward(arrays, attributes)
    (fixed,) = find_operator("DetectionOutput").forward(arrays, {**attributes, "eta": 1.0})
    assert want.shape != fixed.shape
    np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("names", [["detection_output"], sorted(FUNCTIONS)])
def test_ruff_accepts_the_functions(names, tmp_path):
    texts = used_sources("".join(f"{name}(" for name in names))
    head = "import math\n\nimport torch\n"
    (tmp_path / "functions.py").write_text("\n\n".join([head, *texts, 'print(math, torch, "")\n']))
    ruff = ("ruff", "check", "--isolated", "--line-length", "110", "--extend-select", "E501")
    done = subprocess.run(
        [sys.executable, "-m", *ruff, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def faster_rcnn():
    """Scores and locations of a region proposal network, the regions, and what is pooled of them."""
    builder = GraphBuilder("rcnn", format="test")
    x = builder.input("features", [1, 8, 6, 7])
    heads = []
    for name, channels in (("score", 24), ("box", 48)):
        weight = builder.constant(floats(channels, 8, 1, 1, scale=0.1), name=f"{name}_weight")
        heads.append(builder.add("Conv", [x, weight], {"kernel_shape": [1, 1]}))
    scores = builder.add("Sigmoid", [heads[0]])
    info = builder.input("info", [1, 3])
    attributes = {"rpn_post_nms_top_n": 10, "rpn_min_size": 4}
    regions, _ = builder.add_many(
        "Proposal", [scores, heads[1], info], attributes, domain="netweave", outputs=["regions", "chances"]
    )
    pooling = {"pooled_shape": [3, 3], "spatial_scale": 1 / 16}
    return builder.finish([builder.add("ROIPooling", [x, regions], pooling, domain="netweave")])


def ssd():
    builder = GraphBuilder("ssd", format="test")
    scores, places = builder.input("scores", [1, 3, 20]), builder.input("places", [1, 80])
    anchors = builder.constant(corners(1, 20), name="anchors")
    attributes = {"nms_topk": 15, "force_suppress": 1, "variances": [0.1, 0.1, 0.2, 0.2]}
    return builder.finish(
        [builder.add("MultiBoxDetection", [scores, places, anchors], attributes, domain="netweave")]
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [faster_rcnn, ssd])
def test_what_is_written_is_read_as_the_operators(make, tmp_path):
    graph = make()
    found = api.convert_and_verify(graph, tmp_path / "net.py")
    assert found.exit_status == 0, found.sentence
    own = [node.op_type for node in graph.nodes if node.domain == "netweave"]
    assert own
    assert found.b is not graph
    assert [node.op_type for node in found.b.nodes if node.domain == "netweave"] == own


@pytest.mark.slow
def test_a_function_that_somebody_changed_is_not_taken_for_the_operator(tmp_path):
    netweave.save(ssd(), tmp_path / "net.py")
    text = (tmp_path / "net.py").read_text()
    assert sources()["intersection_over_union"] in text
    (tmp_path / "net.py").write_text(text.replace("(sides[0] > 0.0)", "(sides[0] >= 0.0)"))
    with pytest.raises(SourceError, match=r"net\.py"):
        netweave.load(tmp_path / "net.py", input_shapes={"scores": (1, 3, 20), "places": (1, 80)}, trust=True)
