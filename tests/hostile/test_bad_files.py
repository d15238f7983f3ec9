"""Bad files of every format: one clear error, within two seconds and 500 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import netweave
from netweave.errors import NetweaveError
from tests.hostile.cases import NAMED
from tests.hostile.nets import nets
from tests.hostile.test_mutations import limited

MAX_BYTES = 500_000_000


@pytest.mark.parametrize("name", NAMED)
def test_a_bad_file_gives_one_clear_error(name, tmp_path):
    case = NAMED[name]
    path = case.make(tmp_path)
    with limited(), pytest.raises(case.error, match=case.message) as raised:
        netweave.load(path)
    text = str(raised.value)
    ends = [
        file.name[-100:] for file in (path, *tmp_path.iterdir())
    ]  # places that are too long lose their middle
    assert any(end in text for end in ends)
    assert len(text) < 1000
    assert "\n" not in text


RENAMED = (
    ("prototxt", "net.onnx"),
    ("symbol", "net.prototxt"),
    ("onnx", "net.json"),
    ("onnx", "net.prototxt"),
    ("graph", "net.onnx"),
    ("graph as text", "net.onnx"),
)


@pytest.mark.parametrize(("kind", "name"), RENAMED)
def test_a_wrong_name_does_not_matter(kind, name, tmp_path):
    net = nets()[kind]
    path = tmp_path / name
    path.write_bytes(net.files[net.damaged])
    assert len(netweave.load(path).layers) > 1


CHILD = """
import json, re, sys
from pathlib import Path
import netweave
from netweave.errors import NetweaveError
for path in json.loads(sys.stdin.read()):
    try:
        netweave.load(path)
    except NetweaveError:
        pass
    # not ru_maxrss, which begins with the peak of the process that started this one
    peak = re.search("VmHWM: *\\t* *([0-9]+)", Path("/proc/self/status").read_text())[1]
    print(json.dumps([path, int(peak) * 1024]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.multi
def test_bad_files_take_little_memory(tmp_path):
    """One process loads them all; its peak shows the first that takes too much."""
    paths = []
    for number, case in enumerate(NAMED.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths.append(str(case.make(folder)))
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2] / "src",
        check=True,
    )
    peaks = dict(map(json.loads, done.stdout.splitlines()))
    assert len(peaks) == len(NAMED)
    too_much = [path for path, peak in peaks.items() if peak > MAX_BYTES]
    assert too_much == []


def test_every_error_is_of_the_tree():
    assert all(issubclass(case.error, NetweaveError) for case in NAMED.values())
