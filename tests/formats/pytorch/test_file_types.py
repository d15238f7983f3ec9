"""Containers of PyTorch are told apart by their members, and what zipfile cannot read is none of them."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import pytest

from netweave.formats.pytorch.file_types import Kind, kind_of

if TYPE_CHECKING:
    from pathlib import Path


def archive(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in names:
            file.writestr(f"net/{name}", b"")
    return content.getvalue()


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("data.pkl", "code/__torch__.py"), Kind.SCRIPT),
        (("archive_format",), Kind.PROGRAM),
        (("data.pkl", "data/0"), Kind.STATE),
        (("other",), None),
    ],
)
def test_members_tell_the_kind(tmp_path: Path, names: tuple[str, ...], kind: Kind | None) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(archive(*names))
    assert kind_of(path) is kind


def test_a_later_version_of_zip_is_no_kind(tmp_path: Path) -> None:
    content = bytearray(archive("data.pkl"))
    content[content.index(b"PK\1\2") + 6] = 99  # the version that is needed to unpack it
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(NotImplementedError):
        zipfile.ZipFile(tmp_path / "x.pt")
    assert kind_of(tmp_path / "x.pt") is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [("from .layers import *", Kind.CODE), ("import flax.linen as nn", None), ("import mlx.nn as nn", None)],
)
def test_a_module_is_pytorchs_unless_the_code_imports_another_framework(
    tmp_path: Path, line: str, kind: Kind | None
) -> None:
    path = tmp_path / "net.py"
    path.write_text(f"{line}\n\n\nclass Net(nn.Module):\n    pass\n")
    assert kind_of(path) is kind
