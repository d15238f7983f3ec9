"""Drawn nets and drawn cuts of them: workers end where one process ends."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import onnx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import netweave
from netweave.graph import scale_gradients
from netweave.graph.passes.partition import LayerCut
from netweave.runtime.backends.torch.net import first_not_finite
from netweave.training.partitioned import Partition
from tests.training.workers_in_threads import Training

FILLER = 'weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 }'


def layer(name, kind, bottoms, extra=""):
    ends = " ".join(f'bottom: "{bottom}"' for bottom in bottoms.split())
    return f'layer {{ name: "{name}" type: "{kind}" {ends} top: "{name}" {extra} }}\n'


def dense(name, bottom, count):
    return layer(name, "InnerProduct", bottom, f"inner_product_param {{ num_output: {count} {FILLER} }}")


def conv(name, bottom, count, group=1, kernel=3):
    numbers = f"num_output: {count} group: {group} kernel_size: {kernel} pad: {kernel // 2}"
    return layer(name, "Convolution", bottom, f"convolution_param {{ {numbers} {FILLER} }}")


def inputs(rows, *sizes):
    image = " ".join(f"dim: {size}" for size in (rows, *sizes))
    shapes = f"input_param {{ shape {{ {image} }} shape {{ dim: {rows} }} }}"
    return f'name: "drawn" layer {{ name: "given" type: "Input" top: "data" top: "label" {shapes} }}\n'


class DrawnNet:
    """A net of random layers in which every one can be cut by feature, or live on a worker."""

    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)
        self.rows, self.workers = int(self.draw.integers(4, 9)), int(self.draw.integers(2, 5))
        self.text, self.names, self.channels = "", [], 3
        top = "data"
        for number in range(int(self.draw.integers(2, 6))):
            top = self._block(number, top)
        hidden, classes = int(self.draw.integers(4, 12)), 5
        top = self._add(dense("hidden", top, hidden), "hidden")
        top = self._add(layer("act", "ReLU", top), "act")
        if self.draw.random() < 0.5:
            top = self._add(layer("dropped", "Dropout", top), "dropped")
        self._add(dense("out", top, classes), "out")
        self.text += layer("loss", "SoftmaxWithLoss", "out label") + layer("acc", "Accuracy", "out label")

    def _add(self, text, name):
        self.text += text
        self.names.append(name)
        return name

    def _block(self, number, top):
        kind = self.draw.choice(
            ["conv", "grouped", "depthwise", "norm", "lrn", "pool", "sum", "join", "drop"]
        )
        name = f"{kind}{number}"
        if number == 0 or kind == "conv":
            self.channels = int(self.draw.integers(4, 10))
            return self._add(conv(name, top, self.channels, kernel=int(self.draw.choice([1, 3]))), name)
        if kind in {"grouped", "depthwise"}:
            group = 2 if kind == "grouped" else self.channels
            if self.channels % group or self.channels < 2 * self.workers:
                return self._add(layer(name, "TanH", top), name)
            return self._add(conv(name, top, self.channels, group), name)
        if kind == "norm":
            normed = self._add(layer(name, "BatchNorm", top), name)
            scaled = layer(f"{name}s", "Scale", normed, "scale_param { bias_term: true }")
            return self._add(scaled, f"{name}s")
        if kind == "lrn":
            return self._add(layer(name, "LRN", top, "lrn_param { local_size: 3 alpha: 0.5 }"), name)
        if kind == "pool":
            method = self.draw.choice(["MAX", "AVE"])
            text = f"pooling_param {{ pool: {method} kernel_size: 3 stride: 1 pad: 1 }}"
            return self._add(layer(name, "Pooling", top, text), name)
        if kind == "drop":
            return self._add(layer(name, "Dropout", top, "dropout_param { dropout_ratio: 0.3 }"), name)
        other = self._add(layer(f"{name}a", "Sigmoid", top), f"{name}a")
        if kind == "sum":
            return self._add(layer(name, "Eltwise", f"{top} {other}"), name)
        self.channels *= 2
        return self._add(layer(name, "Concat", f"{top} {other}"), name)

    def cuts(self):
        found = []
        for name in self.names:
            choice = self.draw.random()
            if choice < 0.5:
                found.append(LayerCut(name, 1))
            elif choice < 0.75:
                found.append(LayerCut(name, None, int(self.draw.integers(self.workers))))
        return found

    def training(self, folder):
        path = folder / "net.prototxt"
        path.write_text(inputs(self.rows, 3, 5, 5) + self.text)
        graph = netweave.load(path, phase="TRAIN")
        batches = [
            {
                "data": torch.from_numpy(self.draw.normal(size=(self.rows, 3, 5, 5))),
                "label": torch.from_numpy(self.draw.integers(5, size=self.rows).astype(float)),
            }
            for _ in range(3)
        ]
        return Training(graph, batches)


def require_equal(training, cuts, workers):
    arrays, losses = training.alone()
    found, means = training.cut(cuts, workers)
    assert found.keys() == arrays.keys()
    np.testing.assert_allclose(means, losses, rtol=1e-12)
    for key, array in arrays.items():
        size = max(1.0, float(np.abs(array).max(initial=0)))
        np.testing.assert_allclose(found[key], array, rtol=0, atol=1e-12 * size, err_msg=key)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_drawn_nets_and_cuts_end_as_one_process(seed, tmp_path_factory):
    net = DrawnNet(seed)
    require_equal(net.training(tmp_path_factory.mktemp("net")), net.cuts(), net.workers)


def test_factors_on_gradients_stay_with_the_nodes_that_take_their_place(tmp_path):
    text = (
        inputs(6, 3, 5, 5)
        + conv("c1", "data", 6)
        + layer("n1", "LRN", "c1", "lrn_param { local_size: 3 alpha: 0.5 }")
        + conv("c2", "n1", 5)
        + layer("flat", "Reshape", "c2", "reshape_param { shape { dim: 0 dim: -1 } }")
        + dense("out", "flat", 5)
        + layer("loss", "SoftmaxWithLoss", "out label")
    )
    (tmp_path / "net.prototxt").write_text(text)
    draw = np.random.default_rng(2)
    batch = {
        "data": torch.from_numpy(draw.normal(size=(6, 3, 5, 5))),
        "label": torch.from_numpy(draw.integers(5, size=6).astype(float)),
    }
    graph = netweave.load(tmp_path / "net.prototxt", phase="TRAIN")
    for node in graph.nodes:
        if node.op_type in {"LRN", "Reshape"}:
            scale_gradients(node.outputs[0], {0: 0.5})
    training = Training(graph, [batch] * 3)
    require_equal(training, [LayerCut(name, 1) for name in ("c1", "n1", "c2", "flat")], 2)


ATTENTION = """
net (float[N, 5, 8] data, int64[N] label) => (float loss) {
  q0 = MatMul(data, wq0) k0 = MatMul(data, wk0) v0 = MatMul(data, wv0)
  kt0 = Transpose<perm = [0, 2, 1]>(k0) s0 = MatMul(q0, kt0) p0 = Softmax<axis = -1>(s0) a0 = MatMul(p0, v0)
  q1 = MatMul(data, wq1) k1 = MatMul(data, wk1) v1 = MatMul(data, wv1)
  kt1 = Transpose<perm = [0, 2, 1]>(k1) s1 = MatMul(q1, kt1) p1 = Softmax<axis = -1>(s1) a1 = MatMul(p1, v1)
  a = Concat<axis = 2>(a0, a1) h = Add(a, data) n = LayerNormalization<axis = -1>(h, scale, shift)
  f = Flatten<axis = 1>(n) u = Gemm<transB = 1>(f, wu, bu) g = Gelu(u) o = Gemm<transB = 1>(g, wo)
  loss = SoftmaxCrossEntropyLoss(o, label)
}
"""

SIZES = {
    **{f"w{kind}{head}": (8, 4) for kind in "qkv" for head in (0, 1)},
    "scale": (8,),
    "shift": (8,),
    "wu": (11, 40),
    "bu": (11,),
    "wo": (7, 11),
}


def attention(folder):
    """Return the training of a block of a transformer with two heads, and the names of its nodes by head."""
    draw = np.random.default_rng(0)
    graph = onnx.parser.parse_graph(ATTENTION)
    for node in graph.node:
        node.name = node.output[0]
    for name, sizes in SIZES.items():
        array = draw.normal(size=sizes).astype(np.float32) * 0.4
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), folder / "net.onnx"
    )
    batches = [
        {
            "data": torch.from_numpy(draw.normal(size=(6, 5, 8))),
            "label": torch.from_numpy(draw.integers(7, size=6)),
        }
        for _ in range(6)
    ]
    heads = [[f"{name}{head}" for name in ("q", "k", "v", "kt", "s", "p", "a")] for head in (0, 1)]
    return Training(netweave.load(folder / "net.onnx"), batches), heads


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_a_transformer_with_a_worker_for_each_head_and_dense_layers_by_feature(workers, tmp_path):
    training, heads = attention(tmp_path)
    located = [LayerCut(name, None, head) for head in (0, 1) for name in heads[head]]
    cuts = [*located, LayerCut("n", None, workers - 1), *(LayerCut(name, 1) for name in ("u", "g", "o"))]
    require_equal(training, cuts, workers)


def test_the_search_for_nan_runs_no_connection(tmp_path):
    """Other workers do not search, and would be waited for."""
    training, heads = attention(tmp_path)
    cuts = [LayerCut(name, None, 0) for name in heads[0]]
    partition = Partition({"train": training.phase}, cuts, num_workers=2, worker=1)
    net = partition.nets({"train": training.whole_net()})["train"]
    own = {name: tensor[3:] for name, tensor in training.batches[0].items()}
    assert first_not_finite(net, net.graph, own) is None
