"""A demo, run in a copy of the examples as they are in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = ("*.caffemodel", "*.params", "*_lmdb", "snapshots", "*.onnx", "mended-*")
WRITTEN += (
    "shapes",
    "shapes_voc",
    "quick.cfg",
    "inception-*",
    "*.svg",
    "*.png",
    "*_data.bin",
    "workspace",
    "__pycache__",
)


def copied(folder: Path) -> Path:
    """Return a folder with a copy of the examples, without what they write."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns(*WRITTEN))
    return folder


def told(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo of an example."""
    return subprocess.run(
        [sys.executable, "-m", f"examples.{name}.demo", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=240,
    )


def assert_in_order(text: str, parts: list[str]) -> None:
    """Fail unless all parts are there, one after the other."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is not there behind {text[max(0, at - 200) : at]!r}"
        at = found + len(part)
