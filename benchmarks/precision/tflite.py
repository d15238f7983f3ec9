"""Pairs of nets with files that TensorFlow's converter wrote (``tflite_files``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.precision.rows import Row, compared

EQUAL = "equal under a mapping"


PAIRS = (
    ("int8, per channel", "int8, per tensor"),
    ("int8, per tensor", "int8, per channel"),
    ("int8, per channel", "dynamic range"),
    ("int16 x int8", "int8, per channel"),
)
"""Forms that are compared with each other: both are rounded."""


def tflite_rows(folder: Path, names: list[str]) -> Iterator[Row]:
    """Compare the Keras nets of a folder with their TFLite versions, and with those that have a fault.

    Args:
        folder: What ``tflite_files`` wrote.
        names: Nets; none for all.
    """
    if not names or "planted" in names:
        for fault in json.loads((folder / "planted.json").read_text()):
            plain, port = folder / fault["plain"], folder / fault["port"]
            row = compared(
                "keras planted", fault["name"], "different", str(plain), str(port), tuple(fault["layers"])
            )
            said = {finding.rpartition(": ")[2] for finding in row.findings}
            yield row if said <= set(fault["mismatches"]) else row.unlocated()
    for path in sorted(folder.glob("*.keras")):
        name = path.stem
        if name.startswith("planted") or (names and name not in names):
            continue
        versions = {file.stem.removeprefix(f"{name} "): file for file in folder.glob(f"{name} *.tflite")}
        for form, file in sorted(versions.items()):
            yield compared(name, form, "identical" if form == "float" else EQUAL, str(path), str(file))
        for one, other in PAIRS:
            form = f"{other} against {one}"
            yield compared(name, form, EQUAL, str(versions[one]), str(versions[other]))
