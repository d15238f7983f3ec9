"""What a model's file imports from beside itself is found without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from netweave.errors import ReadError
from netweave.files.model_imports import imports_of

if TYPE_CHECKING:
    from pathlib import Path


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(folder: Path, found: tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(folder)) for path in found]


def test_modules_are_followed_through_the_folders_around(tmp_path):
    lay(
        tmp_path,
        {
            "nets/net": "import numpy\nfrom blocks import Block\nfrom nets import other\nimport json",
            "nets/blocks": "from common.parts import *\nimport blocks",
            "nets/other": "",
            "nets/unused": "",
            "common/parts": "from common.deep.last import x",
            "common/deep/last": "",
        },
    )
    found = imports_of(tmp_path / "nets" / "net.py")
    assert names(tmp_path, found.files) == [
        "common/deep/last.py",
        "common/parts.py",
        "nets/blocks.py",
        "nets/other.py",
    ]
    assert (found.name, found.folders, found.missing) == ("netweave_model", (tmp_path,), ())


def test_a_relative_import_says_which_package_a_file_is_in(tmp_path):
    lay(tmp_path, {"pack/__init__": "from .sub import thing", "pack/sub/__init__": "", "pack/sub/thing": ""})
    lay(tmp_path, {"pack/sub/net": "from . import near\nfrom ..top import f"})
    lay(tmp_path, {"pack/sub/near": "", "pack/top": ""})
    found = imports_of(tmp_path / "pack" / "sub" / "net.py")
    assert (found.name, found.folders) == ("pack.sub.net", (tmp_path,))
    assert names(tmp_path, found.files) == [
        "pack/__init__.py",
        "pack/sub/__init__.py",
        "pack/sub/near.py",
        "pack/sub/thing.py",
        "pack/top.py",
    ]


def test_what_is_nowhere_is_missing_unless_the_file_does_without(tmp_path):
    text = "import gone_one\ntry:\n    import gone_two\nexcept ImportError:\n    pass\nimport known"
    lay(tmp_path, {"net": text})
    assert imports_of(tmp_path / "net.py", known=["known"]).missing == ("gone_one",)


@pytest.mark.parametrize(
    ("file", "is_one"),
    [
        ("config_template.py", True),
        ("config.py.example", True),
        ("config_loader.py", False),
        ("config-dist.txt", False),
    ],
)
def test_the_file_that_a_missing_module_is_to_be_copied_from_is_known(file, is_one, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text("from config import cfg\nimport other_one\n")
    (tmp_path / file).write_text("")
    imports = imports_of(tmp_path / "models" / "net.py")
    assert imports.missing == ("config", "other_one")
    assert imports.templates == ({"config": file} if is_one else {})


def test_what_is_installed_is_not_looked_for_around_the_folder(tmp_path):
    lay(tmp_path, {"here/net": "import numpy, onnx_ir", "numpy": "", "here/onnx_ir": ""})
    found = imports_of(tmp_path / "here" / "net.py")
    assert names(tmp_path, found.files) == ["here/onnx_ir.py"]


@pytest.mark.parametrize("text", ["print 'Python 2'", "x = '\0'", "((((", "from ....... import far"])
def test_files_that_are_no_python_import_nothing(text, tmp_path):
    (tmp_path / "net.py").write_text(text)
    assert imports_of(tmp_path / "net.py").files == ()


def test_nothing_is_looked_at_outside_the_folders_that_are_given(tmp_path):
    lay(tmp_path, {"other/secret": "", "box/top": "", "box/__init__": "", "box/nets/__init__": ""})
    lay(tmp_path, {"box/nets/net": "import other.secret\nfrom .. import top\nfrom ... import other"})
    net = tmp_path / "box" / "nets" / "net.py"
    assert imports_of(net, levels=1).files == ()
    assert names(tmp_path, imports_of(net, levels=2).files) == ["box/__init__.py", "box/top.py"]
    assert "other/secret.py" in names(tmp_path, imports_of(net).files)


@pytest.mark.parametrize("linked", ["helper.py", "helper"])
def test_a_link_out_of_the_folder_is_refused_and_not_quoted(tmp_path, linked):
    lay(tmp_path, {"mine/secret": "password", "mine/__init__": "", "box/net": "import helper"})
    (tmp_path / "box" / linked).symlink_to(tmp_path / "mine" / ("secret.py" if "." in linked else ""))
    with pytest.raises(
        ReadError, match=r"box/helper.*\.py: is a link out of the folder of the model"
    ) as error:
        imports_of(tmp_path / "box" / "net.py")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("mark", ["repo/setup.py", None])
def test_a_link_inside_a_repository_is_followed(tmp_path, mark):
    lay(tmp_path, {"repo/common/parts": "", "repo/nets/net": "import parts"})
    (tmp_path / "repo" / "nets" / "parts.py").symlink_to("../common/parts.py")
    if mark is None:
        with pytest.raises(ReadError, match="is a link out of the folder"):
            imports_of(tmp_path / "repo" / "nets" / "net.py")
        return
    (tmp_path / mark).write_text("")
    assert names(tmp_path, imports_of(tmp_path / "repo" / "nets" / "net.py").files) == [
        "repo/common/parts.py"
    ]


def test_a_root_that_is_named_goes_before_everything(tmp_path):
    lay(tmp_path, {"top/nets/deep/net": "from numpy import parts\nfrom utils.layers import x\nimport near"})
    lay(tmp_path, {"top/numpy/parts": "", "top/nets/deep/utils": "", "top/utils/layers": "", "top/near": ""})
    path, root = tmp_path / "top" / "nets" / "deep" / "net.py", tmp_path / "top"
    found = imports_of(path, root=root)
    assert (found.name, found.first) == ("nets.deep.net", (root,))
    assert names(tmp_path, found.files) == ["top/near.py", "top/numpy/parts.py", "top/utils/layers.py"]
    assert imports_of(path, root=tmp_path / "other").name == "netweave_model"


def test_a_wrapper_outside_of_the_named_root_finds_the_repository_s_package(tmp_path):
    code = "from package.nets.net import Net\nimport near\nimport absent"
    lay(tmp_path, {"mine/net": code, "mine/near": ""})
    lay(tmp_path, {"top/package/__init__": "", "top/package/nets/__init__": "from . import net"})
    lay(tmp_path, {"top/package/nets/net": "from .. import parts", "top/package/parts": "", "top/near": ""})
    found = imports_of(tmp_path / "mine" / "net.py", root=tmp_path / "top")
    parts = ["__init__", "nets/__init__", "nets/net", "parts"]
    expected = ["mine/near.py", *(f"top/package/{part}.py" for part in parts)]
    assert names(tmp_path, found.files) == expected
    assert (found.folders, found.first, found.missing) == ((tmp_path / "top",), (), ("absent",))
    without = imports_of(tmp_path / "mine" / "net.py", levels=1)
    assert names(tmp_path, without.files) == ["mine/near.py"]


def test_a_package_above_is_not_hidden_by_a_file_of_its_first_name(tmp_path):
    lay(
        tmp_path,
        {
            "nets/net": "from utils.layers import x\nimport other\nfrom net.parts import y",
            "nets/utils": "",
            "nets/other": "",
        },
    )
    lay(tmp_path, {"utils/layers": "", "other": "", "net/parts": ""})
    found = imports_of(tmp_path / "nets" / "net.py")
    assert names(tmp_path, found.files) == ["net/parts.py", "nets/other.py", "utils/layers.py"]
    assert found.first == (tmp_path,)


def test_imports_reach_up_to_the_mark_of_a_repository_s_top(tmp_path):
    lay(tmp_path, {"a/b/c/d/e/net": "import common", "common": ""})
    path = tmp_path / "a" / "b" / "c" / "d" / "e" / "net.py"
    assert imports_of(path).missing == ("common",)
    (tmp_path / "setup.py").write_text("")
    assert names(tmp_path, imports_of(path).files) == ["common.py"]


def test_an_extension_that_a_package_compiles_is_missing_by_its_full_name(tmp_path):
    lay(
        tmp_path, {"net": "from ops.nms import fast\nfrom ops.plain import slow\nimport ops", "ops/plain": ""}
    )
    assert imports_of(tmp_path / "net.py").missing == ("ops.nms",)


def test_packages_of_the_working_folder_are_not_taken_for_installed_ones(tmp_path, monkeypatch):
    """Python looks in the working folder first when Netweave is started as ``python -m netweave``."""
    lay(tmp_path, {"own_nets/net": "from own_nets.block import f", "own_nets/block": "import own_parts"})
    lay(tmp_path, {"own_parts": ""})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    found = imports_of(tmp_path / "own_nets" / "net.py")
    assert names(tmp_path, found.files) == ["own_nets/block.py", "own_parts.py"]
    assert found.folders == (tmp_path,)
