"""Drawn nets whose images are cut into bands, columns or quarters: workers end where one process ends."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import onnx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import netweave
from netweave.errors import UnsupportedError, UsageError
from netweave.graph.parameters import set_ties
from netweave.graph.passes.partition import LayerCut, partition_plan, placements, worker_graph
from tests.training.test_partitioned import FILLER, conv, dense, inputs, layer, require_equal
from tests.training.workers_in_threads import Training

GRIDS = [(2, "2x1"), (3, "3x1"), (4, "4x1"), (2, "1x2"), (3, "1x3"), (4, "2x2"), (6, "3x2")]


class DrawnImages:
    """A net of random layers over images of odd sizes, as ONNX, each of which is cut by image.

    Windows have any stride, dilation and padding, also SAME and unequal ones, and round up or down.
    """

    def __init__(self, seed, grid):
        self.draw = np.random.default_rng(seed)
        self.least = [int(number) for number in grid.split("x")]
        self.rows, self.nodes, self.names, self.arrays = 3, [], [], []
        self.start = [int(number) for number in self.draw.integers(9, 20, size=2)]
        self.sizes, self.channels, self.top = self.start, 3, "data"
        for _ in range(int(self.draw.integers(3, 8))):
            getattr(self, self.draw.choice(self.KINDS))()
        features, self.cut = self.channels, list(self.names)
        self._add("GlobalAveragePool", [])
        self._add("Flatten", [], axis=1)
        self._add("Gemm", [self._array(features, 5), self._array(5)])
        self.nodes.append(
            onnx.helper.make_node("SoftmaxCrossEntropyLoss", [self.top, "label"], ["loss"], name="loss")
        )

    KINDS = ("conv", "conv", "depthwise", "pool", "pool", "norm", "lrn", "pointwise", "gate", "residual")
    KINDS += ("join", "transposed", "repeat", "drop")

    def _array(self, *sizes, least=-0.5):
        name = f"w{len(self.arrays)}"
        values = self.draw.uniform(least, least + 1, size=sizes).astype(np.float32)
        self.arrays.append(onnx.numpy_helper.from_array(values, name))
        return name

    def _add(self, op_type, more, *, first=None, outputs=1, **attributes):
        name = f"n{len(self.nodes)}"
        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        given = [self.top if first is None else first, *more]
        self.nodes.append(onnx.helper.make_node(op_type, given, names, name=name, **attributes))
        self.names.append(name)
        self.top = name
        return name

    def _window(self, kernel, *, may_round):
        """Return attributes of a window that leaves enough rows and columns, and note what it leaves."""
        while True:
            dilations = [int(self.draw.integers(1, 3)) for _ in kernel]
            extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
            strides = [int(self.draw.integers(1, 3)) for _ in kernel]
            pads = [int(self.draw.integers(0, k)) for k in (*kernel, *kernel)]
            attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
            if self.draw.random() < 0.3:
                attributes["auto_pad"] = str(self.draw.choice(["SAME_UPPER", "SAME_LOWER"]))
                after = [-(-size // stride) for size, stride in zip(self.sizes, strides, strict=True)]
            else:
                attributes["pads"] = pads
                up = may_round and bool(self.draw.random() < 0.6)
                after = []
                for axis, size in enumerate(self.sizes):
                    free = size + pads[axis] + pads[axis + 2] - extents[axis]
                    count = (free + (strides[axis] - 1) * up) // strides[axis] + 1
                    after.append(count - (up and (count - 1) * strides[axis] >= size + pads[axis]))
                if may_round:
                    attributes["ceil_mode"] = int(up)
            if all(count >= max(3, least) for count, least in zip(after, self.least, strict=True)):
                self.sizes = after
                return attributes
            kernel = [int(self.draw.integers(1, 3)) for _ in kernel]

    def _kernel(self):
        return [int(number) for number in self.draw.integers(1, 5, size=2)]

    def conv(self):
        count, window = int(self.draw.integers(2, 7)), self._window(self._kernel(), may_round=False)
        weights = self._array(count, self.channels, *window["kernel_shape"])
        self._add("Conv", [weights, self._array(count)], **window)
        self.channels = count

    def depthwise(self):
        window = self._window(self._kernel(), may_round=False)
        weights = self._array(self.channels, 1, *window["kernel_shape"])
        self._add("Conv", [weights], group=self.channels, **window)

    def pool(self):
        kind = str(self.draw.choice(["MaxPool", "AveragePool"]))
        window = self._window([k + 1 for k in self._kernel()], may_round=True)
        if kind == "AveragePool":
            window["count_include_pad"] = int(self.draw.integers(2))
        self._add(kind, [], **window)

    def norm(self):
        vectors = [self._array(self.channels, least=0.5) for _ in range(4)]
        self._add("BatchNormalization", vectors)

    def lrn(self):
        self._add("LRN", [], size=3, alpha=0.5, beta=0.75)

    def pointwise(self):
        self._add(str(self.draw.choice(["Relu", "Tanh", "Sigmoid", "Softplus"])), [])

    def drop(self):
        self.arrays.append(onnx.numpy_helper.from_array(np.array(0.3, np.float32), f"w{len(self.arrays)}"))
        self.arrays.append(onnx.numpy_helper.from_array(np.array(True), f"w{len(self.arrays)}"))
        self._add("Dropout", [f"w{len(self.arrays) - 2}", f"w{len(self.arrays) - 1}"])

    def gate(self):
        """A factor for each channel, out of the whole image."""
        top = self.top
        self._add("GlobalAveragePool", [])
        self.names.pop()
        self._add("Sigmoid", [])
        self.names.pop()
        self._add("Mul", [self.top], first=top)

    def residual(self):
        top = self.top
        self._add("Conv", [self._array(self.channels, self.channels, 3, 3)], pads=[1, 1, 1, 1])
        self._add("Add", [top])

    def join(self):
        top, count = self.top, int(self.draw.integers(1, 4))
        self._add("Conv", [self._array(count, self.channels, 3, 1)], pads=[2, 0, 0, 0])
        self._add("Concat", [top], axis=1)
        self.channels += count

    def transposed(self):
        if max(self.sizes) > 20:
            return self.pointwise()
        kernel = self._kernel()
        strides, dilations = ([int(number) for number in self.draw.integers(1, 4, size=2)] for _ in range(2))
        added = [int(self.draw.integers(0, s)) for s in strides]
        pads = [0, 0, 0, 0]
        self.sizes = list(self.sizes)
        for axis in (0, 1):
            full = (
                strides[axis] * (self.sizes[axis] - 1)
                + (kernel[axis] - 1) * dilations[axis]
                + 1
                + added[axis]
            )
            room = max(0, full - max(3, self.least[axis]))
            pads[axis] = int(self.draw.integers(0, min(room, kernel[axis] - 1) + 1))
            pads[axis + 2] = int(self.draw.integers(0, min(room - pads[axis], kernel[axis] - 1) + 1))
            self.sizes[axis] = full - pads[axis] - pads[axis + 2]
        count = int(self.draw.integers(2, 5))
        self._add(
            "ConvTranspose",
            [self._array(self.channels, count, *kernel), self._array(count)],
            strides=strides,
            dilations=dilations,
            pads=pads,
            output_padding=added,
        )
        self.channels = count
        return None

    def repeat(self):
        if max(self.sizes) > 20:
            return self.pointwise()
        times = [int(number) for number in self.draw.integers(1, 4, size=2)]
        scales = onnx.numpy_helper.from_array(np.array([1, 1, *times], np.float32), f"w{len(self.arrays)}")
        self.arrays.append(scales)
        rules = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        self._add("Resize", ["", scales.name], mode="nearest", **(rules if self.draw.random() < 0.5 else {}))
        self.sizes = [size * count for size, count in zip(self.sizes, times, strict=True)]
        return None

    def training(self, folder):
        image = ["N", 3, *self.start]
        graph = onnx.helper.make_graph(
            self.nodes,
            "drawn",
            [
                onnx.helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, image),
                onnx.helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["N"]),
            ],
            [onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, [])],
            self.arrays,
        )
        opset = [onnx.helper.make_opsetid("", 19)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opset), folder / "net.onnx")
        batches = [
            {
                "data": torch.from_numpy(self.draw.normal(size=(self.rows, *image[1:]))),
                "label": torch.from_numpy(self.draw.integers(5, size=self.rows)),
            }
            for _ in range(3)
        ]
        return Training(netweave.load(folder / "net.onnx"), batches)


def parts(net, grid):
    return [LayerCut(name, image_grid=grid) for name in net.cut]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), where=st.sampled_from(GRIDS))
def test_drawn_nets_end_as_one_process(seed, where, tmp_path_factory):
    workers, grid = where
    net = DrawnImages(seed, grid)
    net.rows = max(net.rows, workers)
    require_equal(net.training(tmp_path_factory.mktemp("net")), parts(net, grid), workers)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_drawn_mixtures_of_cuts_end_as_one_process(seed, tmp_path_factory):
    """Images in quarters beside images in bands or columns, by sample, and on one worker."""
    net = DrawnImages(seed, "4x4")
    net.rows = 5
    grids = net.draw.choice(["2x2", "4x1", "1x4", "batch", "worker"], size=len(net.cut))
    cuts = [
        LayerCut(name, None, int(net.draw.integers(4)))
        if how == "worker"
        else LayerCut(name, image_grid=str(how))
        for name, how in zip(net.cut, grids, strict=True)
        if how != "batch"
    ]
    require_equal(net.training(tmp_path_factory.mktemp("net")), cuts, 4)


POOL = "pooling_param { pool: MAX kernel_size: 3 stride: 2 }"


def chain(folder, *layers, size=7):
    """Return a net of Caffe's layers, one after another, over images of one size."""
    (folder / "net.prototxt").write_text(inputs(6, 3, size, size) + "".join(layers))
    return netweave.load(folder / "net.prototxt", phase="TRAIN")


def plan(graph, cuts, workers):
    return partition_plan(graph, cuts, num_workers=workers, num_rows=6)


def test_halos_are_the_rows_that_windows_reach_into_and_no_more(tmp_path):
    graph = chain(tmp_path, conv("c1", "data", 4), layer("p1", "Pooling", "c1", POOL))
    found = plan(graph, [LayerCut("c1", 2), LayerCut("p1", 2)], 2)
    moved = {(edge.value, edge.op_type): edge.elements for edge in found.edges.values()}
    # the first worker has 4 of 7 rows, and needs 5 of 7 columns by 3 channels for its 3 of 6 samples;
    # pooling gives 3 rows, of which the first worker computes 2 out of the first 5, one row of the other
    assert moved == {
        ("data", "Regroup"): 3 * 3 * (5 + 4) * 7,
        ("c1", "Halo"): 6 * 4 * 1 * 7,
        ("p1", "Regroup"): 6 * 4 * 3 * 3 // 2,
    }
    first, second = placements(found)[0], placements(found)[1]
    assert first.part_of(1, found) == "rows 4 to 6, columns 0 to 6"
    assert second.part_of(0, found) == "rows 0 to 1, columns 0 to 2"
    graphs = [worker_graph(found, worker) for worker in range(2)]
    convolutions = [next(node for node in one.nodes if node.op_type == "Conv") for one in graphs]
    pads = [list(node.attributes["pads"].as_ints()) for node in convolutions]
    assert pads == [[1, 1, 0, 1], [0, 1, 1, 1]]


@pytest.mark.parametrize("workers", [2, 3])
def test_equal_maxima_of_windows_across_parts_all_get_the_gradient(tmp_path, workers):
    """MXNet's Pooling_v1: windows overhang at the end, and most of them have several maxima."""
    ones = FILLER.replace('"xavier"', '"constant" value: 1')
    graph = chain(
        tmp_path,
        conv("c1", "data", 4, kernel=1).replace(FILLER, ones),
        layer("p1", "Pooling", "c1", POOL),
        dense("out", "p1", 5),
        layer("loss", "SoftmaxWithLoss", "out label"),
        size=8,
    )
    (pool,) = (node for node in graph.nodes if node.op_type == "MaxPool")
    set_ties(pool.outputs[0], "all")
    draw = np.random.default_rng(0)
    batch = {
        "data": torch.from_numpy(draw.integers(2, size=(6, 3, 8, 8)).astype(float)),
        "label": torch.from_numpy(draw.integers(5, size=6).astype(float)),
    }
    training = Training(graph, [batch] * 3)
    require_equal(training, [LayerCut("c1", 2), LayerCut("p1", 2)], workers)


REFUSED = [
    (
        LayerCut("p1", 2),
        4,
        r"\(MaxPool\) cannot be cut by image among 4 workers: its output has 3 rows for 4",
    ),
    (
        LayerCut("out", 2),
        2,
        r"\(Flatten\) .* is no image, .*, but 4 numbers for each sample; use partition_dim",
    ),
    (
        LayerCut("whole", 3),
        2,
        r"\(GlobalAveragePool\) .* has 1 column for 2 parts; use partition_dim: 0 for it",
    ),
    (LayerCut("prob", image_grid="1x2"), 2, r"\(Softmax\) .* its axis is 2, and only that of the channels"),
]


@pytest.mark.parametrize(("cut", "workers", "message"), REFUSED, ids=lambda one: getattr(one, "name", ""))
def test_what_cannot_be_cut_by_image_says_what_can(tmp_path, cut, workers, message):
    graph = chain(
        tmp_path,
        conv("c1", "data", 4),
        layer("p1", "Pooling", "c1", POOL),
        layer("prob", "Softmax", "p1", "softmax_param { axis: 2 }"),
        layer("whole", "Pooling", "prob", "pooling_param { pool: AVE global_pooling: true }"),
        dense("out", "whole", 5),
    )
    with pytest.raises(UnsupportedError, match=rf"net.prototxt:\d+: layer '{cut.name}' {message}"):
        plan(graph, [cut], workers)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (LayerCut("c", 4, place="a.conf:3"), "a.conf:3: partition_dim of layer 'c' is 4, expected 0 .* 3"),
        (LayerCut("c", image_grid="3x1"), "image_grid of layer 'c' is '3x1', .* 4 workers, such as '2x2'"),
        (LayerCut("c", image_grid="2by2"), "is '2by2', expected rows x columns of a grid of 4 workers"),
        (LayerCut("c", 1, image_grid="2x2"), "has image_grid and partition_dim 1; give one of them"),
    ],
)
def test_a_grid_that_is_none_is_refused(cut, message):
    with pytest.raises(UsageError, match=message):
        cut.check(4)
