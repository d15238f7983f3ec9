"""What the makers share: drawn arrays, the record of a net, the folder of other people's sources."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from math import prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracles import golden, recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow says what it could do on another machine
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

VALUES = 256
"""Number of elements kept of an output."""

SATURATED = 0.999
"""A probability above this says nothing of the sums before it."""

ROLES = {
    "gamma": "scale", "scale": "scale", "weight": "filter", "weights": "filter", "kernel": "filter",
    "w": "filter",
    "running_var": "variance", "moving_var": "variance", "moving_variance": "variance", "avg_var": "variance",
    "parameters": "matrix",
}  # fmt: skip
"""Role of an array by the end of its name; others are biases and means."""


@dataclass
class Made:
    """What a maker says of a net.

    Attributes:
        source: Where the net comes from, in words.
        files: The files to give to Netweave, by their names in the folder; the net, then its weights.
        inputs: Sizes and kind of the draw of each input, by name; ``recipe.draw`` makes it.
        outputs: The arrays that the framework computes, by the framework's names.
        zeros: Inputs that are all zero (labels, states), by name, with their sizes.
        entry: Class or function in a file of code.
    """

    source: str
    files: Sequence[str]
    inputs: Mapping[str, tuple[Sequence[int], str]]
    outputs: Mapping[str, np.ndarray]
    zeros: Mapping[str, Sequence[int]] = field(default_factory=dict)
    entry: str | None = None


def drawn(key: str, shape: Sequence[int], *, fan_in: int | None = None) -> np.ndarray:
    """Return an array by its name and sizes.

    Args:
        key: The framework's name of it.
        shape: Its sizes.
        fan_in: Number of inputs of an element of the output; by default that of a filter, outputs first.
    """
    name = key.replace("/", "_").replace(".", "_").lower()
    role = next((role for end, role in ROLES.items() if name == end or name.endswith(f"_{end}")), "bias")
    if role == "filter" and len(shape) < 3:
        role = "matrix" if len(shape) == 2 else "scale"
    values = recipe.weight(key, tuple(shape), role)
    if fan_in and role in {"filter", "matrix"}:
        values = values * np.float32(sqrt(prod(shape[1:]) / fan_in))
    return values


def draw_inputs(inputs: Mapping[str, tuple[Sequence[int], str]]) -> dict[str, np.ndarray]:
    """Return the inputs that a record names."""
    return {name: recipe.draw(name, tuple(shape), kind) for name, (shape, kind) in inputs.items()}


def main(framework: str, nets: Mapping[str, Callable[..., Made]]) -> None:
    """Make the net that the command line names, and write its record.

    Args:
        framework: Name and version, for the record.
        nets: Makers by net: called with the folder to write into and ``Sources``.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("net", nargs="?", choices=list(nets))
    parser.add_argument("--sources", type=Path, default=Path("sources"), help="clones of other people's work")
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    given = parser.parse_args()
    if given.net is None:
        sys.stdout.write("\n".join(nets) + "\n")
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    made = nets[given.net](given.folder, Sources(given.sources, given.corpus))
    for name, array in made.outputs.items():
        _check(name, array)
    record = {
        "framework": framework,
        "source": made.source,
        "files": list(made.files),
        "inputs": {name: [list(shape), kind] for name, (shape, kind) in made.inputs.items()},
        "outputs": [(name, golden.describe(np.asarray(a), VALUES)) for name, a in made.outputs.items()],
    }
    if made.zeros:
        record["zeros"] = {name: list(shape) for name, shape in made.zeros.items()}
    if made.entry:
        record["entry"] = made.entry
    golden.write_json(given.folder / "record.json", json.loads(json.dumps(record)))


def _check(name: str, array: np.ndarray) -> None:
    values = np.asarray(array, np.float64)
    sums = values.sum(axis=1 if values.ndim > 1 else 0)
    if np.allclose(sums, 1, atol=1e-3) and values.min() >= 0 and values.max() > SATURATED:
        raise SystemExit(f"{name}: a probability of {values.max():.6f}: draw smaller weights")
    if not np.isfinite(values).all() or values.std() < 1e-6 * max(1e-30, np.abs(values).max()):
        raise SystemExit(f"{name}: values between {values.min()} and {values.max()} show nothing")


class Sources:
    """Other people's repositories in a folder, fetched when first asked for."""

    def __init__(self, folder: Path, corpus: Path) -> None:
        self._folder = folder
        self.corpus = corpus

    def text(self, repository: str, revision: str, path: str) -> str:
        """Return a file's text.

        Args:
            repository: ``owner/name`` on GitHub.
            revision: A tag or a commit.
            path: The file in the repository.
        """
        command = ["git", "-C", str(self._repository(repository)), "show", f"{revision}:{path}"]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def unpack(self, repository: str, revision: str, path: str, folder: Path) -> Path:
        """Write a folder of a repository into another; return where it lies."""
        archive = ["git", "-C", str(self._repository(repository)), "archive", revision, path]
        packed = subprocess.run(archive, check=True, stdout=subprocess.PIPE).stdout
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "x", "-C", str(folder)], input=packed, check=True)
        return folder / path

    def _repository(self, repository: str) -> Path:
        path = self._folder / repository.replace("/", "+")
        if not path.is_dir():
            address = f"https://github.com/{repository}"
            subprocess.run(["git", "clone", "--quiet", "--bare", address, str(path)], check=True)
        return path


def import_file(path: Path, name: str) -> Any:
    """Import a file of Python by its path."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
