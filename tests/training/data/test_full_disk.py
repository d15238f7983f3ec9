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
folder, most = Path(sys.argv[1]), int(sys.argv[2])
images = np.random.default_rng(0).integers(0, 255, (60, 1, 40, 40)).astype(np.uint8)
labels = np.zeros(60, np.int64)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
for kind in sys.argv[3:]:
    try:
        api.pack([images, labels], folder / kind, kind=kind)
    except WriteError as error:
        print(json.dumps([kind, str(error)]), flush=True)
"""


def packed(folder, most):
    command = [sys.executable, "-c", PROGRAM, str(folder), str(most), *WRITERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("most", [1000, 5000, 20_000, 70_000, 90_000])
def test_a_disk_that_fills_up_is_a_typed_error(tmp_path, most):
    said = packed(tmp_path, most)
    for kind in WRITERS:
        assert f"{tmp_path / kind}: cannot be written: File too large; raise the limit" in said[kind]
    assert list(tmp_path.iterdir()) == []


def test_stores_keep_no_more_room_than_they_need(tmp_path):
    assert packed(tmp_path, 1 << 30) == {}
    assert (
        tmp_path / "hdf5"
    ).stat().st_size < 60 * 1600 * 4 + 150_000  # float32, and a chunk that is not full
    assert (tmp_path / "lmdb" / "data.mdb").stat().st_size < 70 * 4096  # a page for each record of 1.6 kB
