"""Detectors written for MXNet: by its own operators, as MXNet itself computes them."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.graph import GraphBuilder
from tests.formats.framework_runs import Case, check
from tests.formats.written_nets import close, drawn

ORACLES = os.environ.get("NETWEAVE_ORACLES")
ROOT = Path(__file__).parents[3]


def corners(*shape):
    """Boxes within the unit square: the same ones whatever was drawn before."""
    rng = np.random.default_rng(sum(shape))
    centre, half = rng.random((*shape, 2)), rng.random((*shape, 2)) * 0.2 + 0.02
    return np.concatenate([centre - half, centre + half], axis=-1).astype(np.float32)


def part(builder, x, begin, end):
    bounds = [builder.constant([bound], dtype=np.int64) for bound in (begin, end, 1)]
    return builder.add("Slice", [x, *bounds])


def ssd(**attributes):
    builder = GraphBuilder("net", format="test")
    x = builder.input("x", [2, 7, 30])
    scores = builder.add("Softmax", [part(builder, x, 0, 3)], {"axis": 1})
    sizes = builder.constant([0, 120], dtype=np.int64)
    places = builder.add("Reshape", [part(builder, x, 3, 7), sizes])
    anchors = builder.constant(corners(1, 30), name="anchors")
    found = builder.add("MultiBoxDetection", [scores, places, anchors], attributes, domain="netweave")
    return builder.finish([found])


def nms(**attributes):
    builder = GraphBuilder("net", format="test")
    x = builder.input("x", [2, 30, 6])
    return builder.finish([builder.add("BoxNMS", [x], attributes, domain="netweave")])


def rcnn():
    builder = GraphBuilder("net", format="test")
    x = builder.input("x", [1, 72, 6, 7], batch=False)
    scores = builder.add("Sigmoid", [part(builder, x, 0, 24)])
    info = builder.constant(np.array([[96, 112, 1]], np.float32), name="info")
    attributes = {"rpn_post_nms_top_n": 10, "rpn_min_size": 4, "scales": [4.0, 8.0, 16.0, 32.0]}
    regions, chances = builder.add_many(
        "Proposal",
        [scores, part(builder, x, 24, 72), info],
        attributes,
        domain="netweave",
        outputs=["regions", "chances"],
    )
    pooling = {"pooled_shape": [3, 2], "spatial_scale": 1 / 16}
    return builder.finish([builder.add("ROIPooling", [x, regions], pooling, domain="netweave"), chances])


def normalised(op_type):
    builder = GraphBuilder("net", format="test")
    x = builder.input("x", [2, 5, 4, 3])
    axis = builder.constant([1], dtype=np.int64)
    norm = builder.add(op_type, [x, axis])
    sizes = builder.constant([1, 5, 4, 3], dtype=np.int64)
    return builder.finish([builder.add("Div", [x, builder.add("Expand", [norm, sizes])])])


NETS = {
    "ssd": ssd(),
    "ssd with settings": ssd(nms_topk=15, force_suppress=1, threshold=0.3, variances=[0.1, 0.1, 0.3, 0.3]),
    "nms": nms(),
    "nms by class": nms(id_index=0, overlap_thresh=0.2, topk=20, valid_thresh=0.1),
    "rcnn": rcnn(),
    "by length": normalised("ReduceL2"),
    "by squares": normalised("ReduceSumSquare"),
}


@functools.cache
def given(name):
    sizes = tuple(size if isinstance(size, int) else 2 for size in NETS[name].inputs[0].shape)
    if name.startswith("nms"):
        columns = (np.arange(60).reshape(2, 30, 1) % 3, drawn(2, 30, 1, low=0.0), corners(2, 30))
        return np.concatenate(columns, axis=-1).astype(np.float32)
    return drawn(*sizes)


@pytest.mark.parametrize("name", NETS)
def test_what_is_written_computes_the_same(name, tmp_path):
    x = given(name)
    netweave.save(NETS[name], tmp_path / "written-symbol.json")
    found = netweave.run(netweave.load(tmp_path / "written-symbol.json"), {"x": x})
    close(found.values(), netweave.run(NETS[name], {"x": x}).values())


def framework_cases(folder):
    return (Case(name, graph, {"x": given(name)}) for name, graph in NETS.items())


@pytest.mark.parametrize("name", NETS)
def test_mxnet_computes_of_the_file_what_we_do_of_the_net(name, tmp_path):
    check("mxnet", Case(name, NETS[name], {"x": given(name)}), tmp_path)
