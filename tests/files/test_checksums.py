"""Checksums beside the weights of converted nets: a changed file is told of, and not trained from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import netweave
from netweave import api
from netweave.errors import ReadError
from netweave.files.checksums import CHANGED, is_as_written, require_as_written
from tests.hostile.nets import PROTOTXT


@pytest.fixture(params=["new.prototxt", "new-symbol.json"])
def files(request, tmp_path):
    (tmp_path / "net.prototxt").write_text(PROTOTXT)
    return api.save(netweave.load(tmp_path / "net.prototxt"), tmp_path / request.param, random_weights=True)


def flip_a_weight(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = len(content) // 2  # among the numbers, which take most of the file
    content[place] ^= 1
    path.write_bytes(content)


def test_sha256sum_agrees(files):
    listing = Path(f"{files.weights}.sha256")
    done = subprocess.run(["sha256sum", "-c", listing.name], cwd=listing.parent, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_an_unchanged_file_is_read_without_a_word(files):
    assert is_as_written(files.weights)
    require_as_written(files.weights)
    assert netweave.load(files.net, weights=files.weights).notes == ()


def test_a_flipped_bit_is_told_of(files):
    flip_a_weight(files.weights)
    assert netweave.load(files.net, weights=files.weights).notes == (f"{files.weights}: {CHANGED}",)
    with pytest.raises(
        ReadError, match=rf"{files.weights.name}: is damaged: .* {files.weights.name}\.sha256"
    ):
        require_as_written(files.weights)


def test_a_damaged_or_foreign_list_counts_as_a_difference(files):
    listing = Path(f"{files.weights}.sha256")
    listing.write_bytes(b"0" * 64 + b" *other.caffemodel\n")
    assert not is_as_written(files.weights)
    listing.unlink()
    assert is_as_written(files.weights)


def test_writing_again_replaces_the_checksum(files, tmp_path):
    flip_a_weight(files.weights)
    api.save(netweave.load(tmp_path / "net.prototxt"), files.net, random_weights=True)
    assert is_as_written(files.weights)


def test_the_checksum_of_weights_belongs_to_their_net(files):
    """Whoever uploads the whole folder is told of a change, too."""
    flip_a_weight(files.weights)
    listing = Path(f"{files.weights}.sha256")
    found = api.sort_parts([listing, files.weights, files.net])
    ((graph, own),) = found.nets
    assert set(own) == {files.net, files.weights, listing}
    assert not found.unused
    assert graph.notes == (f"{files.weights}: {CHANGED}",)
