"""Code that answers for the reader's child process: holes, JSON without end, folders in folders.

The code of a model runs in the child; it may write the files that the child would have written, and end the
process itself. What takes them in is measured: one typed error, in 2 s of processor time and 500 MB.
"""

from __future__ import annotations

import json

import pytest

from netweave.files.sandbox import has_guard
from tests.hostile.limited_child import run_limited
from tests.hostile.test_bombs import MAX_BYTES
from tests.hostile.test_mutations import LIMIT_S

pytestmark = [
    pytest.mark.guarded,
    pytest.mark.slow,
    pytest.mark.multi,
    pytest.mark.skipif(not has_guard(), reason="needs bubblewrap"),
]

READ = """
netweave.load  # the reader's imports are not measured
import netweave.formats.pytorch.reader, netweave.formats.chainer.reader
for path in json.loads(sys.argv[1]):
    result = attempt(netweave.load, path)
    report(path=path, peak=peak(), **result)
"""

FRAMEWORKS = {
    "pytorch": "import torch\nfrom torch import nn\n",
    "chainer": "import chainer\nfrom chainer import links\n",
}

ANSWERS = {
    "holes": """
for name in NAMES:
    with open(name, "wb") as file:
        file.truncate(3 << 30)
""",
    "JSON of 75 MB": """
for name in NAMES:
    with open(name, "w") as file:
        file.write('{"modules": {"a": [' + "[]," * 25_000_000 + "0]}}")
""",
    "one text of 75 MB": """
for name in NAMES:
    with open(name, "w") as file:
        file.write('{"error": "ReadError", "message": "' + "m" * 75_000_000 + '"}')
""",
    "an error of 75 MB": """
with open("error.json", "w") as file:
    file.write('{"error": "ReadError", "message": "' + "m" * 75_000_000 + '"}')
os._exit(1)
""",
    "an error of a megabyte": """
with open("error.json", "w") as file:
    file.write('{"error": "ReadError", "place": "' + "p" * 400_000 + '", "message": "' + "m" * 600_000 + '"}')
os._exit(1)
""",
    "JSON that is nested": """
for name in NAMES:
    with open(name, "w") as file:
        file.write("[" * 1_000_000)
""",
    "folders in folders": """
for name in NAMES:
    for _ in range(3000):
        os.mkdir(name)
        os.chdir(name)
    break
""",
    "folders in place of files": """
for name in NAMES:
    os.mkdir(name)
""",
    "links out": """
for name in NAMES:
    os.symlink("/etc/passwd", name)
""",
    "ONNX that declares": """
for name in NAMES:
    with open(name, "wb") as file:
        file.write(bytes([0x3A, 0xFF, 0xFF, 0xFF, 0xFF, 0x07]) + b"{}")
""",
    "a report without end": """
for _ in range(200_000):
    print("r" * 1000)
os._exit(1)
""",
}
"""What the code does; ``NAMES`` are the files that a child leaves."""

NAMES = ("net.onnx", "tables.json", "graph.json", "arrays.npz", "error.json")


def test_hostile_answers_are_refused(tmp_path):
    paths = []
    for framework, imports in FRAMEWORKS.items():
        for name, code in ANSWERS.items():
            path = tmp_path / f"{framework} {name}.py"
            head = f"{imports}import os\nNAMES = {NAMES}\n"
            path.write_text(f"{head}{code}\nos._exit(0)\nclass Net(nn.Module): pass\n")
            paths.append(str(path))
    results = run_limited(READ, json.dumps(paths), timeout_s=300)
    assert [result["path"] for result in results] == paths
    for result in results:
        assert result["outcome"].startswith(("ReadError", "CodeError", "UnsupportedError")), result
        assert len(result["outcome"]) < 1100, result
        assert result["seconds"] < LIMIT_S, result
        assert result["peak"] < MAX_BYTES, result
