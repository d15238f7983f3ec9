"""Nets from files of which nobody said which is which."""

from __future__ import annotations

import runpy
import shutil
from itertools import permutations
from pathlib import Path

import pytest

from netweave import api
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
