"""Names of nets with a factory, arguments, weights, or a module instead of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netweave.errors import UsageError
from netweave.files.python_code import ArrayArgument, find_module, literal_arguments, parse_net_name


@pytest.mark.parametrize(
    ("text", "file", "weights", "factory", "arguments", "is_module"),
    [
        ("net.prototxt", "net.prototxt", None, None, "", False),
        ("net.prototxt,w.caffemodel", "net.prototxt", "w.caffemodel", None, "", False),
        ("a/net.py:make", "a/net.py", None, "make", "", False),
        ("net.py:Net(3, sizes=(1, 2)),w.pt", "net.py", "w.pt", "Net", "3, sizes=(1, 2)", False),
        ("net.py:Net('a,b)(', 2)", "net.py", None, "Net", "'a,b)(', 2", False),
        ("net.py:Net.tiny()", "net.py", None, "Net.tiny", "", False),
        ("C:\\nets\\net.py:Net", "C:\\nets\\net.py", None, "Net", "", False),
        ("torchvision.models:densenet121", "torchvision.models", None, "densenet121", "", True),
        ("nets.unet:UNet(2),u.pt", "nets.unet", "u.pt", "UNet", "2", True),
    ],
)
def test_a_name_is_taken_apart(text, file, weights, factory, arguments, is_module):
    name = parse_net_name(text)
    assert (name.file, name.weights, name.factory) == (file, weights, factory)
    assert (name.arguments, name.is_module) == (arguments, is_module)


def test_the_name_of_a_file_that_is_there_is_that_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("odd,name.prototxt", "net.py:Net"):
        Path(name).write_text("")
        assert parse_net_name(name).file == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("net.py:Net(open('x'))", "not literals: expected numbers"),
        ("net.py:Net(**{'a': 1})", "not literals"),
        ("net.py:Net(a=1, a=2)", "not literals|not complete"),
        ("net.py:Net(3", "not complete"),
        ("net.py:Net(3)w.pt", "expected a comma"),
    ],
)
def test_arguments_that_are_no_literals_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse_net_name(text)


def test_literals_keep_their_types():
    assert literal_arguments("(1, 2), [3], x=None, y=-1.5, z={'a': True}") == (
        ((1, 2), [3]),
        {"x": None, "y": -1.5, "z": {"a": True}},
    )


def test_a_module_is_found_in_a_folder_before_the_installed_packages(tmp_path):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "tool.py").write_text("")
    assert find_module("json.tool", [tmp_path]).path == tmp_path / "json" / "tool.py"
    installed = find_module("json.tool", [tmp_path / "json"])
    assert installed.root is None
    assert installed.path.parts[-2:] == ("json", "tool.py")
    with pytest.raises(UsageError, match=r"no module 'json\.gone' in .*--root"):
        find_module("json.gone", [tmp_path])


@pytest.mark.parametrize("function", ["zeros", "ones", "rand", "randn"])
def test_an_argument_may_be_an_array_by_its_sizes(function):
    (one,), named = literal_arguments(f"torch.{function}(1, 3, 8), x=np.{function}((2,))")
    assert isinstance(one, ArrayArgument)
    assert one.array().shape == (1, 3, 8)
    assert one.array().dtype == np.float32
    assert np.array_equal(one.array(), one.array())
    assert named == {"x": ArrayArgument(function, (2,))}
    assert parse_net_name(f"net.py:Net(torch.{function}(1, 3)),w.pt").weights == "w.pt"


@pytest.mark.parametrize(
    "text",
    ["torch.zeros(-1)", "torch.zeros(1 << 40)", "torch.zeros(99999, 99999)", "torch.load('x')", "os.zeros(1)",
     "torch.zeros(1.5)", "torch.zeros(1, device='cuda')", "zeros(ones(2))"],
)  # fmt: skip
def test_other_calls_are_no_arguments(text):
    with pytest.raises(UsageError, match="are not literals"):
        literal_arguments(text)
