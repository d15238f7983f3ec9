"""One ResNet-50 in two frameworks' files: Caffe's (corpus) and MXNet's model zoo (version 1).

    cd REPOSITORY; python -m tests.oracles.resnet50 FOLDER

Writes the files, about 100 MB each, from the symbol in ``tests/golden/resnet50.json``; needs only NumPy::

    caffe.caffemodel    weights for the corpus' branch-intel ResNet-50 train_val
    mxnet-symbol.json   the zoo's net with the first pooling set to Caffe's rule (pad 0, full)
    zoo-symbol.json     the zoo's net as it is: pad 1, valid; same shape, other values
    folded-symbol.json  the first of them with each normalisation folded into its convolution
    renamed-, shuffled- the first of them with names that say nothing, and with its nodes in another order
    *-0000.params       arrays for each

The nets are cut differently. The zoo has biases in the first and the last convolution of each block, and
none in the very first, where Caffe's has one: here the mean of the normalisation behind takes up the
difference. Caffe's statistics are stored times a factor, as training leaves them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracles import recipe
from tests.oracles.caffemodel import caffemodel
from tests.oracles.mxnet_params import params
from tests.oracles.resnet50_forms import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent.parent / "golden" / "resnet50.json"

NET = "resnetv10"
STAGES = {1: "abc", 2: "abcd", 3: "abcdef", 4: "abc"}
"""The zoo's stages and Caffe's letters of their blocks; Caffe's stages count from 2."""

ROLES = {
    "weight": "filter", "gamma": "scale", "running_var": "variance", "running_mean": "mean",
    "beta": "bias", "bias": "bias",
}  # fmt: skip

FACTOR = np.float32(999.98)
"""What Caffe's statistics are stored times; the limit of its moving average."""

Arrays = dict[str, np.ndarray]


def zoo_arrays(stored: dict[str, list[int]]) -> Arrays:
    """Draw the zoo's arrays by the keys of a .params file."""
    last = {f"{norm}_gamma" for conv, norm, _ in convolutions() if conv.endswith("2c")}
    return {key: _drawn(key, tuple(shape), last) for key, shape in stored.items()}


def _drawn(key: str, shape: tuple[int, ...], last: set[str]) -> np.ndarray:
    name = key.partition(":")[2]
    role = next(role for end, role in ROLES.items() if name.endswith(f"_{end}"))
    values = recipe.weight(key, shape, "matrix" if "dense" in name and role == "filter" else role)
    # the last scale of a block is small, so that the sum of sixteen blocks does not grow without limit
    return values * np.float32(0.25) if name in last else values


def convolutions() -> Iterator[tuple[str, str, str]]:
    """Yield Caffe's name of each convolution, and the zoo's of its normalisation and of itself."""
    yield "conv1", f"{NET}_batchnorm0", f"{NET}_conv0"
    for stage, letters in STAGES.items():
        number = 0
        for letter in letters:
            for branch in ("2a", "2b", "2c", "1") if letter == "a" else ("2a", "2b", "2c"):
                prefix = f"{NET}_stage{stage}"
                yield (
                    f"res{stage + 1}{letter}_branch{branch}",
                    f"{prefix}_batchnorm{number}",
                    f"{prefix}_conv{number}",
                )
                number += 1


def caffe_layers(zoo: Arrays) -> Iterator[tuple[str, str, list[np.ndarray]]]:
    """Yield name, kind and arrays of Caffe's layers, made of the zoo's arrays."""
    for name, norm, conv in convolutions():
        weight = zoo[f"arg:{conv}_weight"]
        bias = zoo.get(f"arg:{conv}_bias", np.zeros(len(weight), np.float32))
        mean = zoo[f"aux:{norm}_running_mean"]
        own = recipe.weight("conv1/1", mean.shape, "bias") if name == "conv1" else None
        mean = mean - bias + (0 if own is None else own)
        variance = zoo[f"aux:{norm}_running_var"]
        yield name, "convolution", [weight] if own is None else [weight, own]
        yield f"bn{tail(name)}", "batchnorm", [mean * FACTOR, variance * FACTOR, FACTOR.reshape(1)]
        yield f"scale{tail(name)}", "scale", [zoo[f"arg:{norm}_gamma"], zoo[f"arg:{norm}_beta"]]
    yield "fc1000", "innerproduct", [zoo[f"arg:{NET}_dense0_{part}"] for part in ("weight", "bias")]


def tail(convolution: str) -> str:
    """Return what Caffe's BatchNorm and Scale are called after their convolution, behind bn and scale."""
    return convolution.removeprefix("res") if convolution.startswith("res") else f"_{convolution}"


def with_caffe_pooling(symbol: dict[str, Any]) -> dict[str, Any]:
    """Return the zoo's symbol with the first pooling by Caffe's rule."""
    nodes = [
        {**node, "attrs": {**node["attrs"], "pad": "(0, 0)", "pooling_convention": "full"}}
        if node["name"] == f"{NET}_pool0_fwd"
        else node
        for node in symbol["nodes"]
    ]
    return {**symbol, "nodes": nodes}


def write(folder: Path) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    record = json.loads(GOLDEN.read_text())
    zoo = zoo_arrays(record["stored"])
    (folder / "caffe.caffemodel").write_bytes(caffemodel(list(caffe_layers(zoo)), generation=2))
    symbol = with_caffe_pooling(record["symbol"])
    forms = {"zoo": (record["symbol"], zoo), "mxnet": (symbol, zoo)}
    forms |= {name: form(symbol, zoo) for name, form in FORMS.items()}
    for name, (text, arrays) in forms.items():
        (folder / f"{name}-symbol.json").write_text(json.dumps(text, indent=2))
        (folder / f"{name}-0000.params").write_bytes(params(arrays))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
