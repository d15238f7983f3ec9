"""Packing onto a disk that fills up: a typed error, nothing left behind, for each kind of store."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from netweave.training.data.writers import WRITERS

for package in ("cv2", "h5py", "lmdb"):
    pytest.importorskip(package)

PROGRAM = """
import json, resource, sys
from pathlib import Path
import numpy as np
from netweave import api
from netweave.errors import WriteError
images = np.random.default_rng(0).integers(0, 255, (60, 1, 40, 40)).astype(np.uint8)
labels = np.zeros(60, np.int64)
limits, kinds = json.loads(sys.argv[2]), sys.argv[3:]
for most in limits:
    folder = Path(sys.argv[1], str(most))
    folder.mkdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    for kind in kinds:
        try:
            api.pack([images, labels], folder / kind, kind=kind)
        except WriteError as error:
            print(json.dumps([most, kind, str(error)]), flush=True)
"""


LIMITS = (1000, 5000, 20_000, 70_000, 90_000)
ENOUGH = 1 << 30


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The folder with a folder for each limit, and what was said by limit and kind of store."""
    folder = tmp_path_factory.mktemp("packed")
    command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps([*LIMITS, ENOUGH]), *WRITERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    said = {most: {} for most in (*LIMITS, ENOUGH)}
    for most, kind, message in map(json.loads, done.stdout.splitlines()):
        said[most][kind] = message
    return folder, said


@pytest.mark.parametrize("most", LIMITS)
def test_a_disk_that_fills_up_is_a_typed_error(packed, most):
    folder, said = packed
    for kind in WRITERS:
        path = folder / str(most) / kind
        assert f"{path}: cannot be written: File too large; raise the limit" in said[most][kind]
    assert list((folder / str(most)).iterdir()) == []


def test_stores_keep_no_more_room_than_they_need(packed):
    folder, said = packed
    assert said[ENOUGH] == {}
    stores = folder / str(ENOUGH)
    assert (stores / "hdf5").stat().st_size < 60 * 1600 * 4 + 150_000  # float32, and a chunk not full
    assert (stores / "lmdb" / "data.mdb").stat().st_size < 70 * 4096  # a page for each record of 1.6 kB
