"""The commands that write: their inputs, their outputs, and what a whole output is."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave import api, viewer
from netweave.errors import NetweaveError
from netweave.files.checksums import is_as_written
from netweave.training.checkpoint_file import read_checkpoint
from netweave.training.data.source_names import Named, open_named

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parents[2] / "examples" / "padding"
RECORDS = 60
ENDS = ("</html>", "</svg>")
"""How a whole page or picture ends."""

NET = """name: "small"
layer { name: "data" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param { source: "list.txt" batch_size: 5 } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 2000 weight_filler { type: "xavier" } } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""

SOLVER = """net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 8 snapshot: 1
random_seed: 3 snapshot_prefix: "{out}/net" snapshot_format: BINARYPROTO
"""

DARKNET = """[net]
width=32
height=32
channels=3
[convolutional]
batch_normalize=1
filters=64
size=3
stride=1
pad=1
activation=leaky
[convolutional]
batch_normalize=1
filters=64
size=3
stride=1
pad=1
activation=leaky
[convolutional]
filters=8
size=1
stride=1
pad=1
activation=linear
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that writes.

    Attributes:
        words: What stands after ``netweave``; ``{out}`` is the folder of outputs, ``{solver}`` a solver.
        state: Says what a folder holds: ``none``, ``whole``, or what is wrong.
        outputs: Files that an earlier run leaves and this one replaces.
        printed: The file in the folder of outputs to which standard output is redirected; the shell empties
            it before the command starts, so that it holds any part of the text after a kill.
    """

    words: tuple[str, ...]
    state: Callable[[Path], str]
    outputs: tuple[str, ...] = field(default=())
    printed: str = ""


def write_inputs(folder: Path) -> None:
    """Write what all commands read."""
    for name in ("leaves.prototxt", "leaves-symbol.json"):
        shutil.copy(EXAMPLE / name, folder)
    runpy.run_path(str(EXAMPLE / "make_weights.py"))["write"](folder)
    draw = np.random.default_rng(0)
    images = draw.integers(0, 255, (RECORDS, 1, 40, 40)).astype(np.uint8)
    np.savez(folder / "records.npz", data=images, label=np.zeros(RECORDS, np.int64))
    api.save_arrays(
        folder / "data.h5",
        {"data": draw.random((20, 10), np.float32), "label": np.zeros(20, np.float32)},
    )
    (folder / "list.txt").write_text("data.h5\n")
    (folder / "net.prototxt").write_text(NET)
    (folder / "dark.cfg").write_text(DARKNET)
    counts = 4 * 64 + 64 * 27 + 4 * 64 + 64 * 64 * 9 + 8 + 8 * 64
    head = np.array([0, 2, 0, 0, 0], "<i4").tobytes()
    (folder / "dark.weights").write_bytes(head + draw.random(counts, np.float32).astype("<f4").tobytes())


def _loads(*names: str) -> Callable[[Path], str]:
    """Return a check that nets with these names load with their weights, or none of them is there."""

    def state(folder: Path) -> str:
        paths = [folder / name for name in names]
        if not any(path.exists() for path in paths):
            return "none"
        if missing := [path.name for path in paths if not path.exists()]:
            return f"{missing[0]} is missing"
        try:
            graph = api.load(paths[0])
        except NetweaveError as error:
            return str(error)
        changed = [note for note in graph.notes if "checksum" in note]
        return changed[0] if changed else "whole"

    return state


def _port(name: str, weights: str) -> Callable[[Path], str]:
    """Return a check that source and weights of a port are both there and whole, or neither is."""

    def state(folder: Path) -> str:
        paths = [folder / name, folder / weights]
        if not any(path.exists() for path in paths):
            return "none"
        try:
            ast.parse(paths[0].read_text())
            return "whole" if is_as_written(paths[1]) else f"{weights} is not as it was written"
        except (OSError, SyntaxError) as error:
            return str(error)

    return state


def _reports(*names: str) -> Callable[[Path], str]:
    """Return a check of reports, each of which is put in its place alone."""

    def state(folder: Path) -> str:
        found = [folder / name for name in names if (folder / name).exists()]
        for path in found:
            text = path.read_text(errors="replace")
            try:
                whole = bool(json.loads(text)) if path.suffix == ".json" else text.rstrip().endswith(ENDS)
            except ValueError:
                whole = False
            if not whole:
                return f"{path.name} is half: {len(text)} bytes"
        return "whole" if found else "none"

    return state


def _records(name: str) -> Callable[[Path], str]:
    def state(folder: Path) -> str:
        if not (folder / name).exists():
            return "none"
        try:
            with open_named(str(folder / name), None, Named(None, None, (), None)) as records:
                count = len(records)
                records.item(count - 1)
        except NetweaveError as error:
            return str(error)
        return "whole" if count == RECORDS else f"{count} records"

    return state


def _checkpoints(folder: Path) -> str:
    """Say whether each iteration has all of its files or none, and all can be read."""
    by_iteration = defaultdict[int, set[str]](set)
    for path in folder.glob("net_iter_*"):
        match = re.fullmatch(r"net_iter_(\d+)\.(\w+)", path.name)
        if match is not None:
            by_iteration[int(match[1])].add(match[2])
    kept = [iteration for iteration, kinds in by_iteration.items() if "checkpoint" in kinds]
    for iteration, kinds in by_iteration.items():
        if kept and iteration < min(kept):
            kinds.add("checkpoint")  # removed, since a run keeps the last few
        if missing := {"caffemodel", "solverstate", "checkpoint", "sha256"} - kinds:
            return f"iteration {iteration} lacks {', '.join(sorted(missing))}"
    for iteration in kept:
        try:
            read_checkpoint(folder / f"net_iter_{iteration}.checkpoint")
        except NetweaveError as error:
            return str(error)
    return "whole" if by_iteration else "none"


def has_front_end() -> bool:
    """Return whether this checkout can write pages."""
    return (Path(viewer.__file__).parent / "static").is_dir()


def commands() -> dict[str, Command]:
    """Return the commands by name."""
    weights = "leaves.prototxt"

    def convert(*names: str) -> Command:
        return Command(("convert", weights, f"{{out}}/{names[0]}"), _loads(*names), names)

    def port(name: str, stored: str, *to: str) -> Command:
        return Command(("convert", weights, f"{{out}}/{name}", *to), _port(name, stored), (name, stored))

    pair = ("leaves.prototxt", "leaves-symbol.json")
    page = ("--html", "{out}/report.html") if has_front_end() else ()
    reports = ("report.json", *(("report.html",) if page else ()))
    drawn = ("--json", "{out}/report.json", "--plot", "{out}/report.svg")
    drawings = ("report.json", "report.svg")
    return {
        "convert to ONNX": convert("new.onnx"),
        "convert to Caffe": convert("new.prototxt", "new.caffemodel"),
        "convert to MXNet": convert("new-symbol.json", "new-0000.params"),
        "convert to PyTorch": port("port.py", "port.safetensors"),
        "convert to Keras": port("port.py", "port.npz", "--to", "keras"),
        "compare": Command(
            ("compare", *pair, "--json", "{out}/report.json", *page), _reports(*reports), reports
        ),
        "bisect": Command(("bisect", *pair), lambda folder: "whole", printed="report.txt"),
        "fix": Command(
            ("fix", *pair, "--output", "{out}/mended-symbol.json", "--overwrite"),
            _reports("mended-symbol.json"),
            ("mended-symbol.json",),
        ),
        "memory": Command(("memory", "leaves.prototxt", *drawn), _reports(*drawings), drawings),
        "zoo": Command(("zoo", "lenet", "squeezenet", *drawn), _reports(*drawings), drawings),
        "pack (LMDB)": Command(("pack", "records.npz", "{out}/train", "--to", "lmdb"), _records("train")),
        "pack (HDF5)": Command(("pack", "records.npz", "{out}/train.h5"), _records("train.h5")),
        "pack (RecordIO)": Command(("pack", "records.npz", "{out}/train.rec"), _records("train.rec")),
        "prune": Command(
            ("prune", "dark.cfg", "dark.weights", "{out}/thin.cfg"),
            _loads("thin.cfg", "thin.weights"),
            ("thin.cfg", "thin.weights"),
        ),
        "train": Command(("train", "{solver}"), _checkpoints),
    }
