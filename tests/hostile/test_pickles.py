"""Pickles made to stall or end whoever hashes, compares or prints what they build: one clear error."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.hostile.limited_child import run_limited
from tests.hostile.pickle_attacks import pickles
from tests.hostile.test_mutations import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

MAX_GROWTH = 400_000_000
"""Bytes that reading may add to a process of 100 MB; the pledge is 500 MB for both."""

SMALL = [name for name, content in pickles().items() if len(content) < 1000]

READ = """
from pathlib import Path
from netweave.formats.arrays.reader import read
from netweave.formats.pytorch.state import read_state
from netweave.files import Source
for name in sys.argv[1:]:
    path = Path(name)
    read_file = read_state if path.suffix == ".pt" else lambda path: read(Source(path))
    report(name=path.name, **attempt(read_file, path))
"""


def files(folder: Path, name: str) -> list[Path]:
    """Write a pickle as PyTorch's two containers and as NumPy's array of an object."""
    content = pickles()[name]
    paths = [folder / f"archive-{name}.pt", folder / f"legacy-{name}.pt", folder / f"{name}.npy"]
    with zipfile.ZipFile(paths[0], "w") as archive:
        for member, held in (("data.pkl", content), ("byteorder", b"little"), ("data/0", bytes(4))):
            archive.writestr(f"net/{member}", held)
    magic, number = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", b"\x80\x02K\x01."
    paths[1].write_bytes(magic + number + number + content + b"\x80\x02]" + b"X\1\0\0\x000a." + bytes(8))
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': ()}\n"
    paths[2].write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + content)
    return paths


def check(folder: Path, names: list[str], *, timeout_s: float) -> None:
    paths = [path for name in names for path in files(folder, name)]
    results = run_limited(READ, *paths, timeout_s=timeout_s)
    assert [result["name"] for result in results] == [path.name for path in paths]
    for result in results:
        assert result["outcome"].startswith(("ReadError", "UnsupportedError")), result
        assert len(result["outcome"]) < 1000, result
        assert result["seconds"] < LIMIT_S, result
        assert result["num_bytes"] < MAX_GROWTH, result


@pytest.mark.slow
@pytest.mark.multi
def test_small_pickles_are_refused_at_once(tmp_path):
    assert len(SMALL) > 15
    check(tmp_path, SMALL, timeout_s=30)


@pytest.mark.slow
@pytest.mark.multi
@pytest.mark.parametrize("name", [name for name in pickles() if name not in SMALL])
def test_larger_pickles_are_refused_in_time(name, tmp_path):
    check(tmp_path, [name], timeout_s=30)
