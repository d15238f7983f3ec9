"""The golden table of the corpus: every net is read, with these counts, or refused with this message.

The counts are written by ``tests/oracles/corpus_table.py``, which knows nothing of Netweave.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import netweave
from netweave.errors import SourceError
from netweave.graph import attributes_of

GOLDEN = Path(__file__).parent.parent / "golden"
NETS = json.loads((GOLDEN / "corpus_nets.json").read_text())
RUN = json.loads((GOLDEN / "caffe_nets.json").read_text())
"""Nets that OpenCV ran; SSD's are here alone, since the table's script does not know its layers."""
SSD = "caffe/branch-intel/models__intel_optimized_models__ssd__VGGNet__VOC0712__SSD_300x300__{}.prototxt"


@pytest.mark.parametrize("row", NETS, ids=[f"{row['file']} {row['phase']}" for row in NETS])
def test_a_net_is_read_with_the_counts_of_its_text(corpus, row):
    graph = netweave.load(
        corpus / row["file"],
        input_shapes={name: (1, *shape) for name, shape in row["inputs"].items()},
        phase=row["phase"],
        stages=row["stages"],
    )
    outputs = {
        value.name: [size if isinstance(size, int) else str(size) for size in value.shape]
        for value in graph.outputs
    }
    assert (len(graph.layers), graph.num_parameters, outputs) == (
        row["layers"],
        row["parameters"],
        row["outputs"],
    )


def test_what_is_not_in_the_table_is_refused(corpus):
    """The exact messages are in the tests of each format; here only: no net is forgotten."""
    known = (
        {row["file"] for row in NETS} | {file for row in RUN for file in row["files"]} | {SSD.format("test")}
    )
    others = [path for path in corpus.rglob("*.prototxt") if str(path.relative_to(corpus)) not in known]
    assert len(others) > 50
    for path in others:
        with pytest.raises(SourceError, match=r"solver|labels|does not read|unknown field|is left out here"):
            netweave.load(path)


@pytest.mark.slow
def test_the_net_that_measures_an_ssd_is_read_as_the_one_that_predicts(corpus):
    """Its numbers are OpenCV's then (``caffe_nets.json``)."""
    measuring, predicting = (netweave.load(corpus / SSD.format(kind)) for kind in ("test", "deploy"))
    assert any("'detection_eval' (DetectionEvaluate) measures" in note for note in measuring.notes)
    assert measuring.parameters.keys() == predicting.parameters.keys()
    assert [value.name for value in measuring.outputs] == [value.name for value in predicting.outputs]
    assert written(measuring) == written(predicting)


def written(net):
    """Return the nodes of a net in order: operator, attributes, and the names of what it reads and gives."""
    return [
        (
            node.op_type,
            attributes_of(node),
            [v and v.name for v in node.inputs],
            [v.name for v in node.outputs],
        )
        for node in net.nodes
    ]
