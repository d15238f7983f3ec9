"""PyTorch source that Netweave writes: it computes what the net does, and reads as a person's would."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave
from netweave import api
from netweave.errors import SourceError, UnsupportedError, UsageError
from netweave.files.sandbox import has_guard
from netweave.files.source_code.forward import class_name, identifier
from netweave.graph.stored import stored_arrays
from tests.formats.darknet.test_layers import NETS, written
from tests.hostile.nets import nets

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

torch = pytest.importorskip("torch")


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(net: netweave.Graph, path: Path, *, tolerance: float = 2e-5) -> str:
    """Write a net and hold what the source computes against what the net computes; return the source."""
    netweave.save(net, path, random_weights=True)
    plain = api.to_inference(net)
    inputs = api.draw_inputs(plain, seed=1)
    expected = netweave.run(plain, inputs)
    with torch.no_grad():
        found = imported(path).load()(*map(torch.from_numpy, inputs.values()))
    for array, tensor in zip(expected.values(), found if isinstance(found, tuple) else (found,), strict=True):
        scale = float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))
        np.testing.assert_allclose(tensor.numpy(), array, atol=tolerance * scale, rtol=0)
    return path.read_text()


def prototxt(folder: Path, body: str, *, sizes: str = "dim: 2 dim: 6 dim: 9 dim: 8") -> netweave.Graph:
    text = f'name: "net" input: "data" input_shape {{ {sizes} }}\n{body}'
    (folder / "net.prototxt").write_text(text)
    return netweave.load(folder / "net.prototxt")


FORMATS = ("caffemodel", "prototxt", "symbol", "params", "cfg", "weights", "onnx", "onnx of ours")


@pytest.mark.parametrize("name", FORMATS)
def test_small_nets_of_every_format_compute_the_same(name, tmp_path):
    net = netweave.load(nets()[name].write(tmp_path))
    check(net, tmp_path / "written.py")


LAYERS = {
    "grouped": """type: "Convolution"
      convolution_param { num_output: 4 kernel_size: 3 group: 2 dilation: 2 pad: 2 }""",
    "deconvolution": """type: "Deconvolution"
      convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1 }""",
    "max pooling": 'type: "Pooling" pooling_param { pool: MAX kernel_size: 3 stride: 2 }',
    "padded pooling": 'type: "Pooling" pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 }',
    "pooling beyond": 'type: "Pooling" pooling_param { pool: MAX kernel_size: 2 stride: 3 pad: 1 }',
    "mean pooling": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }',
    "global pooling": 'type: "Pooling" pooling_param { pool: AVE global_pooling: true }',
    "lrn": 'type: "LRN" lrn_param { local_size: 5 alpha: 0.01 beta: 0.6 }',
    "lrn within": 'type: "LRN" lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }',
    "prelu": 'type: "PReLU"',
    "leaky": 'type: "ReLU" relu_param { negative_slope: 0.2 }',
    "elu": 'type: "ELU" elu_param { alpha: 0.7 }',
    "bnll": 'type: "BNLL"',
    "power": 'type: "Power" power_param { power: 2 scale: 0.5 shift: 3 }',
    "exp": 'type: "Exp" exp_param { base: 2 }',
    "abs": 'type: "AbsVal"',
    "bias": 'type: "Bias" bias_param { axis: 1 }',
    "scale": 'type: "Scale" scale_param { axis: 1 bias_term: true }',
    "batch norm": 'type: "BatchNorm" batch_norm_param { eps: 0.01 }',
    "softmax": 'type: "Softmax"',
    "dense": 'type: "InnerProduct" inner_product_param { num_output: 5 }',
    "flatten": 'type: "Flatten"',
    "reduction": 'type: "Reduction" reduction_param { operation: MEAN axis: 1 }',
    "reshape": 'type: "Reshape" reshape_param { shape { dim: 0 dim: 3 dim: -1 } }',
    "mvn": 'type: "MVN"',
    "tile": 'type: "Tile" tile_param { axis: 1 tiles: 2 }',
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_compute_the_same(name, tmp_path):
    net = prototxt(tmp_path, f'layer {{ name: "it" bottom: "data" top: "out" {LAYERS[name]} }}')
    check(net, tmp_path / "written.py")


@pytest.mark.parametrize("name", ["detector", "classifier"])
def test_nets_with_branches_compute_the_same(name, tmp_path):
    check(netweave.load(written(tmp_path, (NETS / f"{name}.cfg").read_text())), tmp_path / "written.py")


RESIDUAL = """
layer {{ name: "{n}/reduce" type: "Convolution" bottom: "{x}" top: "{n}a"
  convolution_param {{ num_output: {mid} kernel_size: 1 }} }}
layer {{ name: "{n}/relu" type: "ReLU" bottom: "{n}a" top: "{n}a" }}
layer {{ name: "{n}/expand" type: "Convolution" bottom: "{n}a" top: "{n}b"
  convolution_param {{ num_output: 6 kernel_size: 3 pad: 1 }} }}
layer {{ name: "{n}/sum" type: "Eltwise" bottom: "{x}" bottom: "{n}b" top: "{n}" }}
layer {{ name: "{n}/out" type: "ReLU" bottom: "{n}" top: "{n}" }}
"""


def blocks(*widths: int) -> str:
    names = ["data", *(f"res{number}" for number in range(len(widths)))]
    return "".join(
        RESIDUAL.format(n=name, x=before, mid=width)
        for before, name, width in zip(names, names[1:], widths, strict=False)
    )


def test_blocks_that_repeat_become_one_class(tmp_path):
    text = check(prototxt(tmp_path, blocks(4, 4, 4)), tmp_path / "written.py")
    assert text.count("(nn.Module)") == 2
    assert "*(Block() for _ in range(3))" in text
    assert "self.reduce = nn.Conv2d(6, 4, 1)" in text
    assert "# res0/reduce to res2/out" in text


def test_what_differs_between_blocks_is_an_argument(tmp_path):
    text = check(prototxt(tmp_path, blocks(4, 6, 8)), tmp_path / "written.py")
    assert "def __init__(self, reduce_channels):" in text
    assert "*(Block(n) for n in range(4, 10, 2))" in text
    text = check(prototxt(tmp_path, blocks(4, 9, 8)), tmp_path / "written.py")
    assert "            Block(9),\n" in text


def test_an_output_inside_a_block_keeps_it_from_being_one(tmp_path):
    head = """layer { name: "head" type: "Convolution" bottom: "res0a" top: "head"
      convolution_param { num_output: 2 kernel_size: 1 } }"""
    check(prototxt(tmp_path, blocks(4, 4) + head), tmp_path / "written.py")


def test_a_head_beside_the_trunk_overwrites_nothing(tmp_path):
    head = """
    layer { name: "h1" type: "Convolution" bottom: "res0" top: "h1"
      convolution_param { num_output: 2 kernel_size: 1 } }
    layer { name: "h2" type: "Softmax" bottom: "h1" top: "h2" }"""
    first, second = blocks(4, 4).split('layer { name: "res1/reduce"', 1)
    body = first + head + 'layer { name: "res1/reduce"' + second
    check(prototxt(tmp_path, body), tmp_path / "written.py")


def test_hostile_names_stay_comments_and_identifiers(tmp_path):
    """A name may hold anything; none of it gets into the code."""
    name = 'x\\nimport os; os.abort()  # \\"\\"\\" class'
    body = f"""layer {{ name: "{name}" type: "Convolution" bottom: "data" top: "forward"
      convolution_param {{ num_output: 2 kernel_size: 1 }} }}
    layer {{ name: "parameters" type: "InnerProduct" bottom: "forward" top: "out{name}"
      inner_product_param {{ num_output: 2 }} }}"""
    (tmp_path / "net.prototxt").write_text(
        f'name: "{name}" input: "{name}" input_shape {{ dim: 1 dim: 2 dim: 3 dim: 3 }}'
        + body.replace('"data"', f'"{name}"')
    )
    text = check(netweave.load(tmp_path / "net.prototxt"), tmp_path / "written.py")
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [name.name for node in imports for name in node.names] == ["json", "Path", "torch", "nn"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("conv1/7x7_s2", "conv1_7x7_s2"),
        ("", "layer"),
        ("train", "train_"),
        ("lambda", "lambda_"),
        ("é", "layer"),
    ],
)
def test_identifiers(name, expected):
    assert identifier(name) == expected
    assert class_name(name).isidentifier()


def test_what_cannot_be_written_is_named_once(tmp_path):
    body = """layer { name: "a" type: "ArgMax" bottom: "data" top: "a" }
    layer { name: "b" type: "ArgMax" bottom: "data" top: "b" }"""
    with pytest.raises(
        UnsupportedError, match=r"net\.prototxt: cannot be written .*\(2, first .*as \.onnx instead"
    ):
        netweave.save(prototxt(tmp_path, body), tmp_path / "written.py")
    assert not (tmp_path / "written.py").exists()


def test_a_net_without_weights_asks_for_them(tmp_path):
    net = prototxt(tmp_path, blocks(4, 4))
    with pytest.raises(UsageError, match="has no weights for 8 of 8 parameters"):
        netweave.save(net, tmp_path / "written.py")


def test_other_names_of_files_are_refused(tmp_path):
    with pytest.raises(
        UsageError, match=r"unknown file name for a net, expected .*\.onnx \(ONNX\), \.py \(PyTorch\)"
    ):
        netweave.save(prototxt(tmp_path, blocks(4, 4)), tmp_path / "net.h5")


@pytest.mark.slow
def test_the_source_needs_torch_alone_and_passes_ruff(tmp_path):
    netweave.save(prototxt(tmp_path, blocks(4, 6, 6, 9)), tmp_path / "written.py", random_weights=True)
    program = (
        "import sys\n"
        "for name in ('netweave', 'safetensors', 'onnx'): sys.modules[name] = None\n"
        "import torch, written\n"
        "print(tuple(written.load()(torch.zeros(3, 6, 9, 8)).shape))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "(3, 6, 9, 8)\n", done.stderr
    subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "written.py"], cwd=tmp_path, check=True
    )


@pytest.mark.parametrize(
    "name",
    [
        "written.py",
        pytest.param("written.py:Written", marks=pytest.mark.slow),
        pytest.param("written.py:load", marks=pytest.mark.slow),
    ],
)
def test_a_port_has_the_weights_beside_it(name, tmp_path):
    net = prototxt(tmp_path, blocks(4, 4, 4))
    netweave.save(net, tmp_path / "written.py", random_weights=True)
    port = netweave.load(tmp_path / name, trust=not has_guard())
    assert port.files == (str(tmp_path / "written.py"), str(tmp_path / "written.safetensors"))
    held = imported(tmp_path / "written.py").load().state_dict()
    assert not port.initial
    for key, array in stored_arrays(port).items():
        np.testing.assert_array_equal(array, held[key].numpy())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.pt", b"PK\5\6" + bytes(18), r"^bad\.pt: is not a PyTorch archive"),
        ("bad.safetensors", b"\xff" * 16, r"^bad\.safetensors: its header would have"),
    ],
)
def test_weights_that_cannot_be_read_are_told_by_the_name_that_was_given(
    name, content, message, tmp_path, monkeypatch
):
    netweave.save(prototxt(tmp_path, blocks(4, 4)), tmp_path / "written.py", random_weights=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        netweave.load(f"written.py,{name}", trust=not has_guard())


def test_other_code_takes_no_weights_that_are_not_named(tmp_path):
    netweave.save(prototxt(tmp_path, blocks(4, 4)), tmp_path / "written.py", random_weights=True)
    source = (tmp_path / "written.py").read_text()
    (tmp_path / "written.py").write_text(source[: source.index("WEIGHTS =")])
    port = netweave.load(f"{tmp_path / 'written.py'}:Written", trust=not has_guard())
    assert port.files == (str(tmp_path / "written.py"),)
    assert any("no weights were named" in note for note in port.notes)


@pytest.mark.slow
def test_a_port_is_read_again_and_proven(tmp_path):
    found = api.convert_and_verify(
        prototxt(tmp_path, blocks(4, 6, 6)), tmp_path / "written.py", random_weights=True
    )
    assert found.exit_status == 0


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(
    ("net", "lines"),
    [
        ("caffe/head-1.0/models__bvlc_googlenet__deploy.prototxt", 100),
        ("caffe/head-1.0/models__bvlc_googlenet__train_val.prototxt", 110),
        ("caffe/head-1.0/models__bvlc_reference_caffenet__deploy.prototxt", 60),
        ("caffe/head-1.0/examples__cifar10__cifar10_full.prototxt", 60),
        ("caffe/branch-intel/models__default_resnet_50__train_val.prototxt", 120),
        ("mtcnn/det2-symbol.json", 60),
    ],
)
def test_real_nets_are_written_in_few_lines(net, lines, corpus, tmp_path):
    """ResNet-50 stays under 200 lines; what AlexNet's and GoogLeNet's LRN rounds is allowed for."""
    shapes = {"data": (1, 3, 224, 224)} if "resnet" in net else None
    text = check(netweave.load(corpus / net, input_shapes=shapes), tmp_path / "written.py", tolerance=3e-4)
    assert len(text.splitlines()) <= lines
