"""Faults in the source of a PyTorch port are found, mended in the source, and gone."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

import netweave
from netweave.comparison.fixes import mend
from netweave.files.sandbox import has_guard

PADDING = Path(__file__).parents[3] / "examples" / "padding"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The original, and its port as Netweave writes it."""
    folder = tmp_path_factory.mktemp("port")
    shutil.copy(PADDING / "leaves.prototxt", folder)
    runpy.run_path(str(PADDING / "make_weights.py"))["write"](folder)
    original = netweave.load(folder / "leaves.prototxt")
    netweave.save(original, folder / "port.py")
    return original, folder


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("F.max_pool2d(x, 3, 2, ceil_mode=True)", "F.max_pool2d(x, 3, 2, 1)"),
        ("nn.Conv2d(16, 32, 3, padding=1)", "nn.Conv2d(16, 32, 3, 1, 2)"),
        (
            "nn.Conv2d(3, 16, 3, padding=1, bias=False)",
            "nn.Conv2d(3, 16, 3, padding=2, dilation=2, bias=False)",
        ),
    ],
)
def test_a_fault_in_the_source_is_mended(written, tmp_path, right, wrong):
    original, folder = written
    source = (folder / "port.py").read_text()
    assert right in source
    for file in folder.glob("port.*"):
        shutil.copy(file, tmp_path)
    (tmp_path / "port.py").write_text(source.replace(right, wrong))
    port = f"{tmp_path / 'port.py'},{tmp_path / 'port.safetensors'}"
    found = netweave.compare(original, port)
    assert not found.equal
    mended = mend(found)
    ((file, text),) = mended.after.items()
    assert Path(file) == tmp_path / "port.py"
    Path(file).write_text(text)
    assert netweave.compare(original, port).equal, mended.diff
