"""Nets that are read to be compared get sizes that only another net says, whatever the order of the two."""

from __future__ import annotations

import re
import threading
import warnings

import pytest

import netweave
from netweave.api import joint_reading
from netweave.comparison import Verdict
from netweave.errors import SourceError, UsageError
from netweave.files.persistent_child import keep_children

CAFFE = """layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}
layer {{ name: "relu" type: "ReLU" bottom: "data" top: "relu" }}
layer {{ name: "conv" type: "Convolution" bottom: "relu" top: "conv"
        convolution_param {{ num_output: 4 kernel_size: 3 }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "conv" top: "fc" inner_product_param {{ num_output: 5 }} }}
"""

DATA = """layer { name: "data" type: "Data" top: "data" top: "label"
        data_param { source: "lmdb" batch_size: 1 backend: LMDB } }
"""

BOTH_ORDERS = pytest.mark.parametrize("swapped", [False, True], ids=["a-b", "b-a"])


def in_order(a, b, *, swapped):
    return netweave.compare(b, a) if swapped else netweave.compare(a, b)


def pooled(torch):
    """A net whose windows follow its size: it takes 224 as well as its own."""
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 10),
    ).eval()


def attention(torch):
    """A net that takes a sequence, of which its first layer says one axis alone."""

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Linear(12, 16)
            self.mix = torch.nn.MultiheadAttention(16, 4, batch_first=True)
            self.head = torch.nn.Linear(16, 5)

        def forward(self, x):
            x = self.embed(x)
            return self.head(x + self.mix(x, x, x, need_weights=False)[0])

    torch.manual_seed(0)
    return Attention().eval()


def words(torch):
    """A net that looks words up, of which nothing says how many it takes."""
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Embedding(30, 8), nn.Conv1d(20, 6, 3), nn.ReLU()).eval()


def inputs_of(torch, net):
    sizes = {"pooled": (1, 3, 32, 32), "attention": (1, 20, 12)}
    return torch.randn(sizes[net]) if net in sizes else torch.randint(0, 30, (1, 20))


def written(torch, module, *args, **options):
    """Export a module; both exporters warn of their own future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, *args, **options)


@BOTH_ORDERS
@pytest.mark.parametrize("net", [pooled, attention, words])
@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.slow
def test_a_module_is_traced_at_the_sizes_of_its_export(tmp_path, net, dynamo, swapped):
    """Before, the module was traced at 224, or without the axis of time, where it stood first."""
    torch = pytest.importorskip("torch")
    module, path = net(torch), tmp_path / "net.onnx"
    written(torch, module, (inputs_of(torch, net.__name__),), str(path), dynamo=dynamo, verbose=False)
    assert in_order(module, path, swapped=swapped).verdict is Verdict.IDENTICAL


@BOTH_ORDERS
def test_modules_that_say_no_size_are_traced_at_one_that_both_take(swapped):
    """One of them takes 224, the size that is tried first; the other one does not."""
    torch = pytest.importorskip("torch")
    free, bound = pooled(torch), pooled(torch)
    torch.manual_seed(0)
    bound[3], bound[5] = torch.nn.AvgPool2d(8), free[5]
    found = in_order(free, bound, swapped=swapped)
    assert found.verdict is Verdict.IDENTICAL
    assert all("traced with Nx3x32x32" in net.notes[0] for net in (found.a, found.b))


@BOTH_ORDERS
def test_inputs_take_the_sizes_of_the_other_net_by_their_names(tmp_path, swapped):
    torch = pytest.importorskip("torch")

    class Sum(torch.nn.Module):
        def forward(self, image, scale):
            return torch.relu(image) * scale

    path = tmp_path / "net.onnx"
    example = (torch.randn(1, 3, 8, 8), torch.randn(1, 1, 8, 8))
    written(
        torch, Sum(), example, str(path), dynamo=False, input_names=["image", "scale"], output_names=["y"]
    )
    found = in_order(Sum(), path, swapped=swapped)
    assert found.verdict is Verdict.IDENTICAL
    module = found.b if swapped else found.a
    assert any("the input 'scale' takes its sizes from" in note for note in module.notes)


@BOTH_ORDERS
@pytest.mark.slow
def test_a_module_takes_the_sizes_of_keras_code_whose_channels_are_last(tmp_path, swapped):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 18, 3)).eval()
    graph = netweave.load(module, input_shapes={"input": (1, 1, 8, 20)})
    netweave.save(graph, tmp_path / "rebuilt.py", to="keras")
    nets = (module, tmp_path / "rebuilt.py")
    found = netweave.compare(*(nets[::-1] if swapped else nets), trust=True)
    assert found.equal, found.sentence


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Writes a net of Caffe for a size, and the same net as it is trained: its data say the size."""
    monkeypatch.chdir(tmp_path)

    def write(name, *sizes):
        text = CAFFE.format(dims=" ".join(f"dim: {size}" for size in sizes))
        (tmp_path / f"{name}-drawn.prototxt").write_text(text)
        netweave.save(netweave.load(f"{name}-drawn.prototxt"), f"{name}.prototxt", random_weights=True)
        layers = (tmp_path / f"{name}-drawn.prototxt").read_text().split("\n", 1)[1]
        (tmp_path / f"{name}-data.prototxt").write_text(DATA + layers)
        return f"{name}.prototxt,{name}.caffemodel", f"{name}-data.prototxt,{name}.caffemodel"

    return write


@BOTH_ORDERS
def test_sizes_that_the_weights_do_not_take_are_not_forced_on_a_net(trained, swapped):
    caffe, _ = trained("gray", 1, 1, 48, 48)
    own, open_net = trained("stacked", 1, 15, 24, 24)
    found = in_order(caffe, open_net, swapped=swapped)
    assert found.verdict in {Verdict.DIFFERENT, Verdict.UNDECIDED}
    read = found.a if swapped else found.b
    assert any(
        re.search("'data' does not take the sizes of the other net; its layers take: 1x15x24x24", note)
        for note in read.notes
    )
    assert in_order(own, open_net, swapped=swapped).verdict is Verdict.IDENTICAL


def test_a_net_that_takes_none_of_the_sizes_that_are_tried_says_what_to_do(trained):
    caffe, _ = trained("gray", 1, 1, 48, 48)
    _, odd = trained("odd", 1, 2, 37, 41)
    with pytest.raises(
        SourceError, match=r"those of the other net do not fit: set them \(--input-shape data="
    ):
        netweave.load_all([caffe, odd])


@BOTH_ORDERS
def test_nets_whose_inputs_have_other_numbers_of_axes_are_not_comparable(tmp_path, swapped):
    torch = pytest.importorskip("torch")
    paths = []
    for name, module, shape in (
        ("image", torch.nn.Conv2d(3, 4, 3), (1, 3, 9, 9)),
        ("row", torch.nn.Linear(7, 4), (1, 7)),
    ):
        paths.append(tmp_path / f"{name}.onnx")
        written(torch, module, torch.randn(shape), str(paths[-1]), dynamo=False, input_names=["x"])
    found = in_order(*paths, swapped=swapped)
    assert found.verdict in {Verdict.DIFFERENT, Verdict.UNDECIDED}
    assert "A takes x" in found.sentence
    assert "B takes x" in found.sentence


@pytest.mark.parametrize("wrong", [3, None, [1], object()], ids=["number", "none", "list", "object"])
def test_what_is_no_net_is_named(wrong):
    with pytest.raises(UsageError, match=r"nets\[1\] is .* expected the name of a file, a Graph"):
        netweave.load_all(["a.onnx", wrong])


MEETS = """import time
from pathlib import Path

import torch

HERE = Path(__file__).parent


def net():
    (HERE / "{own}").touch()
    for _ in range({seconds}0):
        if (HERE / "{other}").exists():
            torch.manual_seed(0)
            return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
        time.sleep(0.1)
    raise RuntimeError("it waited for {other}")
"""


@pytest.mark.slow
def test_the_code_of_two_nets_is_read_side_by_side(tmp_path):
    """Each waits for the other."""
    pytest.importorskip("onnxscript")
    for own, other in (("here", "there"), ("there", "here")):
        (tmp_path / f"{own}.py").write_text(MEETS.format(own=own, other=other, seconds=60))
    nets = [f"{tmp_path / name}.py:net" for name in ("here", "there")]
    compared = netweave.compare(*nets, trust=True)
    assert compared.verdict is Verdict.IDENTICAL


@pytest.mark.slow
def test_of_two_nets_that_cannot_be_read_the_first_is_told(tmp_path):
    pytest.importorskip("onnxscript")
    (tmp_path / "first.py").write_text(MEETS.format(own="first", other="nothing", seconds=2))
    (tmp_path / "second.py").write_text("import torch\n\ndef net():\n    raise ValueError('at once')\n")
    nets = [f"{tmp_path / name}.py:net" for name in ("first", "second")]
    with pytest.raises(SourceError, match="waited for nothing"):
        netweave.compare(*nets, trust=True)
    with pytest.raises(SourceError, match="at once"):
        netweave.compare(*reversed(nets), trust=True)


def test_nets_that_are_read_side_by_side_stand_in_their_order(tmp_path, monkeypatch):
    """Sizes are tried in the order of the nets, whichever child answers first."""
    (tmp_path / "net.prototxt").write_text(CAFFE.format(dims="dim: 1 dim: 3 dim: 8 dim: 8"))
    graph = netweave.load(tmp_path / "net.prototxt")
    answered = threading.Event()

    def load(net, **options):
        if net.startswith(str(tmp_path / "a.py")):
            assert answered.wait(60)
        answered.set()
        return graph

    monkeypatch.setattr(joint_reading, "load", load)
    nets = [f"{tmp_path / name}.py:net" for name in "ab"]
    reading = joint_reading._Reading(nets, {}, {}, None)
    with keep_children():
        reading.graphs()
    assert list(reading._graphs) == [0, 1]
