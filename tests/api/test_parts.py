"""Nets from files of which nobody said which is which."""

from __future__ import annotations

import runpy
import shutil
from itertools import permutations
from pathlib import Path

import pytest

from netweave import api
from netweave.api import parts as parts_module
from netweave.errors import CodeError, ReadError, UsageError
from netweave.files.sandbox import has_guard

PADDING = Path(__file__).parents[2] / "examples" / "padding"


@pytest.fixture
def drawn(tmp_path):
    for name in ("leaves.prototxt", "leaves-symbol.json"):
        shutil.copy(PADDING / name, tmp_path)
    runpy.run_path(str(PADDING / "make_weights.py"))["write"](tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("net", "weights"),
    [("leaves.prototxt", "leaves.caffemodel"), ("leaves-symbol.json", "leaves-0000.params")],
)
def test_the_order_and_the_names_do_not_matter(drawn, net, weights):
    (drawn / "b").mkdir()
    files = [(drawn / net).rename(drawn / "b" / "one"), (drawn / weights).rename(drawn / "b" / "two")]
    for order in permutations(files):
        graph = api.load_parts(order)
        assert graph.loaded
        assert [Path(file).name for file in graph.files] == ["one", "two"]


def test_a_net_alone_is_read_without_weights(drawn):
    (drawn / "leaves.caffemodel").unlink()
    assert not api.load_parts([drawn / "leaves.prototxt"]).loaded


def test_a_file_that_does_not_belong_is_passed_over(drawn):
    (drawn / "notes.txt").write_text("these are the files")
    assert api.load_parts(
        [drawn / "notes.txt", drawn / "leaves.caffemodel", drawn / "leaves.prototxt"]
    ).loaded


def test_weights_alone_say_that_the_net_is_missing(drawn):
    with pytest.raises(ReadError, match="holds weights but no layers; add the file of the net"):
        api.load_parts([drawn / "leaves.caffemodel"])


def test_the_error_of_the_file_that_was_known_for_what_it_is_wins(drawn):
    net = drawn / "leaves.prototxt"
    net.write_text(net.read_text().replace("Convolution", "Konvolution"))
    with pytest.raises(Exception, match=r"leaves\.prototxt:.*Konvolution"):
        api.load_parts([net, drawn / "leaves.caffemodel"])


def test_code_is_not_read_where_it_is_not_allowed(tmp_path):
    (tmp_path / "model.py").write_text("import torch\n")
    with pytest.raises(CodeError, match="which is not allowed here"):
        api.load_parts([tmp_path / "model.py"], code=False)
    with pytest.raises(CodeError, match="which is not allowed here"):
        api.load(tmp_path / "model.py", code=False)
    with pytest.raises(CodeError, match="which is not allowed here"):
        api.load(tmp_path / "model.py", tmp_path / "some.checkpoint", code=False)


@pytest.mark.guarded
@pytest.mark.slow
@pytest.mark.skipif(not has_guard(), reason="needs bubblewrap")
def test_code_among_the_files_of_a_net_sees_no_others(tmp_path):
    folder = tmp_path / "net"
    folder.mkdir()
    (tmp_path / "secret.py").write_text("NUMBER = 3\n")
    text = "from {} import NUMBER\nimport chainer\nimport chainer.links as L\n\n\nclass Net(chainer.Chain):\n"
    text += "    def __init__(self):\n        super().__init__()\n        with self.init_scope():\n"
    text += "            self.dense = L.Linear(4, NUMBER)\n\n    def forward(self, x):\n"
    text += "        return self.dense(x)\n"
    net = folder / "net.py"
    for name in ("secret", "..secret"):
        net.write_text(text.format(name))
        shapes = {"x": (1, 4)}
        assert list(api.load(net, input_shapes=shapes).outputs[0].shape)[1:] == [3]
        with pytest.raises(CodeError):
            api.load_parts([net], input_shapes=shapes)


def test_no_files_are_no_net():
    with pytest.raises(UsageError, match="no files"):
        api.load_parts([])


def names(files) -> list[str]:
    return [file.name for file in files]


def test_files_of_several_nets_are_sorted_into_nets(drawn):
    (drawn / "notes.txt").write_text("these are the files")
    found = api.sort_parts(sorted(drawn.iterdir()))
    assert [(graph.format, names(files), graph.loaded) for graph, files in found.nets] == [
        ("caffe", ["leaves.prototxt", "leaves.caffemodel"], True),
        ("mxnet", ["leaves-symbol.json", "leaves-0000.params"], True),
    ]
    assert {file.name: why[:24] for file, why in found.unused.items()} == {
        "notes.txt": "not a net that Netweave "
    }


def test_of_nets_with_the_same_layers_each_takes_the_weights_of_its_name(drawn):
    pairs = [("first", "leaves"), ("second", "leaves")]
    (drawn / "b").mkdir()
    for name, source in pairs:
        for suffix in (".prototxt", ".caffemodel"):
            shutil.copy(drawn / f"{source}{suffix}", drawn / "b" / f"{name}{suffix}")
    # the weights of the second are the smaller file, which comes first otherwise
    for order in permutations(sorted((drawn / "b").iterdir())):
        found = api.sort_parts(order)
        assert [{file.stem for file in files} for _, files in found.nets] in (
            [{"first"}, {"second"}],
            [{"second"}, {"first"}],
        )
        assert found.unused == {}


def test_weights_of_no_net_are_told(drawn):
    (drawn / "leaves-symbol.json").unlink()
    found = api.sort_parts(sorted(drawn.iterdir()))
    assert len(found.nets) == 1
    assert {file.name: why for file, why in found.unused.items()} == {
        "leaves-0000.params": "weights that fit no net here"
    }


@pytest.mark.skipif(not has_guard(), reason="needs bubblewrap")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_exported_net_and_a_module_are_two_nets(tmp_path):
    """The module has no sizes, or is code that is not allowed: neither makes it a part of the other net."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    image = torch.zeros(1, 3, 8, 8)
    torch.onnx.export(net, (image,), str(tmp_path / "net.onnx"), dynamo=False)
    torch.jit.trace(net, image).save(str(tmp_path / "script.pt"))
    torch.save(net.state_dict(), str(tmp_path / "state.pt"))
    files = sorted(tmp_path.iterdir())
    for code, unread in ((True, {"script.pt": [1, 3, 8, 8]}), (False, {"script.pt": None})):
        parts = api.sort_parts(files, code=code)
        assert [[file.name for file in own] for _, own in parts.nets] == [["net.onnx"]]
        assert {file.name: next(iter(sizes.values()), None) for file, sizes in parts.unread.items()} == unread
        assert {file.name: why for file, why in parts.unused.items()} == {"state.pt": parts_module.WEIGHTS}


def test_what_a_file_names_belongs_to_it(drawn, tmp_path):
    import onnx

    folder = tmp_path / "onnx"
    folder.mkdir()
    graph = api.load(drawn / "leaves.prototxt")
    api.save(graph, folder / "net.onnx")
    model = onnx.load(folder / "net.onnx")
    options = {"save_as_external_data": True, "location": "values.bin", "size_threshold": 0}
    onnx.save(model, folder / "net.onnx", **options)
    found = api.sort_parts(sorted(folder.iterdir()))
    assert [names(files) for _, files in found.nets] == [["net.onnx", "values.bin"]]
    assert found.unused == {}
