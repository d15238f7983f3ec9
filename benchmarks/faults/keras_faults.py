"""Keras nets, the same as frozen graphs, and faults planted in the JSON or the arrays of ``.keras`` files."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

from benchmarks.faults.arrays import Stored, array_faults, spread
from benchmarks.faults.model import Fault, Net, Subject, Subjects, Wanted

if TYPE_CHECKING:
    import numpy as np

COUNT = 2
"""Faults of one kind in one net."""

NETS = ("classic", "residual", "mobile", "fire", "separable", "mixed")
"""What ``benchmarks.faults.keras_zoo`` writes."""

WEIGHTS = "model.weights.h5"

ROLES = {
    "bias": "bias", "beta": "bias", "gamma": "gamma", "moving_mean": "mean", "moving_variance": "variance",
    "alpha": "slope",
}  # fmt: skip

FLATTENED = {
    ("classic", "fc1"): (3 * 3, 6, 2),
    ("mobile", "fc"): (4 * 4, 8, 2),
    ("mixed", "fc1"): (4 * 4, 8, 2),
}
"""What a dense layer reads flattened, pixels before channels; the channels in two factors."""

Config = dict[str, Any]


@dataclass(frozen=True)
class KerasNet:
    """A ``.keras`` file: the entries of the archive, the layers, and the arrays with their owners."""

    name: str
    parts: dict[str, bytes]
    config: Config
    arrays: dict[str, np.ndarray]
    owners: dict[str, tuple[str, str]]
    shape: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path, name: str) -> KerasNet:
        """Read what the zoo wrote."""
        described = json.loads((folder / f"{name}.json").read_text())
        with zipfile.ZipFile(folder / f"{name}.keras") as archive:
            parts = {entry: archive.read(entry) for entry in archive.namelist()}
        with h5py.File(io.BytesIO(parts[WEIGHTS])) as stored:
            arrays = {key: stored[key][()] for key in described["arrays"]}
        owners = {key: tuple(owner) for key, owner in described["arrays"].items()}
        return cls(name, parts, json.loads(parts["config.json"]), arrays, owners, tuple(described["shape"]))

    @property
    def layers(self) -> list[Config]:
        """The layers, in the order of the file."""
        return self.config["config"]["layers"]

    def net(self) -> Net:
        """Return the net's files."""
        weights = io.BytesIO(self.parts[WEIGHTS])
        with h5py.File(weights, "r+") as stored:
            for key, values in self.arrays.items():
                stored[key][...] = values
        parts = {**self.parts, "config.json": json.dumps(self.config).encode(), WEIGHTS: weights.getvalue()}
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for entry, content in parts.items():
                archive.writestr(zipfile.ZipInfo(entry), content)
        return Net("keras", {"net.keras": written.getvalue()}, {"data": self.shape})

    def edited(self, place: int, edit: Callable[[Config], None]) -> KerasNet:
        """Return the net with one layer edited."""
        config = copy.deepcopy(self.config)
        edit(config["config"]["layers"][place])
        return replace(self, config=config)

    def stored(self) -> Iterator[Stored]:
        """Yield what is stored, by role."""
        for key, (layer, variable) in self.owners.items():
            role = ROLES.get(variable) or ("filter" if self.arrays[key].ndim == 4 else "matrix")
            yield Stored(key, layer, role, FLATTENED.get((self.name, layer)))


def outputs_first(values: np.ndarray) -> np.ndarray:
    """Return Keras's kernel with outputs before inputs, as the faults in arrays expect it."""
    return values.transpose(3, 2, 0, 1) if values.ndim == 4 else values.T if values.ndim == 2 else values


def outputs_last(values: np.ndarray) -> np.ndarray:
    """Return the kernel as Keras stores it."""
    return values.transpose(2, 3, 1, 0) if values.ndim == 4 else values.T if values.ndim == 2 else values


def subjects(zoo: Path, wanted: Wanted) -> Subjects:
    """Yield every net that is wanted with its frozen graph and its faults.

    Args:
        zoo: What ``benchmarks.faults.keras_zoo`` wrote.
        wanted: Which nets.
    """
    for name in filter(lambda name: wanted(f"keras-{name}"), NETS):
        net = KerasNet.read(zoo, name)
        partners = {"frozen": frozen(zoo, name, net.shape)}
        names = {"frozen": {layer["config"]["name"]: _activation(name, layer) for layer in net.layers}}
        yield Subject(f"keras-{name}", net.net(), partners, list(faults(net, count=COUNT)), names)


def _activation(net: str, layer: Config) -> str:
    """Return the node of the frozen graph that is a layer's activation, which a fault may leave out."""
    name, activation = layer["config"]["name"], layer["config"].get("activation", "")
    return f"{net}_1/{name}_1/{activation.capitalize()}"


def frozen(zoo: Path, name: str, shape: tuple[int, ...]) -> Net:
    """Return a net as the graph that TensorFlow froze."""
    return Net("tensorflow", {"net.pb": (zoo / f"{name}.pb").read_bytes()}, {"data": shape})


def faults(net: KerasNet, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a net."""
    for kind, classes, test, change, mismatches, in_table in EDITS:
        places = [i for i, x in enumerate(net.layers) if x["class_name"] in classes and test(x["config"])]
        for place in spread(places, count):
            made = net.edited(place, lambda layer, change=change: change(layer))
            yield _planted(net, kind, place, mismatches, made, in_table=in_table)
    for place in spread([i for i, x in enumerate(net.layers) if x["class_name"] == "Concatenate"], count):
        made = net.edited(place, lambda layer: layer["inbound_nodes"][0]["args"][0].reverse())
        yield _planted(net, "branches swapped", place, {"input-order"}, made, in_table=False)
    arrays = {key: outputs_first(values) for key, values in net.arrays.items()}
    for found in array_faults(net.stored(), arrays, count=count):
        values = {**net.arrays, found.stored.key: outputs_last(found.values)}
        made = replace(net, arrays=values).net()
        yield Fault(found.kind, found.stored.layer, found.mismatches, made, found.in_table)


def _planted(
    net: KerasNet, kind: str, place: int, mismatches: set[str], made: KerasNet, *, in_table: bool
) -> Fault:
    return Fault(kind, net.layers[place]["config"]["name"], frozenset(mismatches), made.net(), in_table)


def _any(config: Config) -> bool:
    return True


def _set(**new: Any) -> Callable[[Config], None]:
    return lambda layer: layer["config"].update(new)


def _other(name: str, one: Any, another: Any) -> Callable[[Config], None]:
    return lambda layer: layer["config"].update({name: another if layer["config"][name] == one else one})


def _more(name: str) -> Callable[[Config], None]:
    return lambda layer: layer["config"].update({name: [value + 1 for value in layer["config"][name]]})


def _class(name: str) -> Callable[[Config], None]:
    return lambda layer: layer.update(class_name=name)


def _active(name: str) -> Callable[[Config], bool]:
    return lambda config: config.get("activation") == name


def _windowed(config: Config) -> bool:
    return max(config["kernel_size"]) > 1


def _one_padding(layer: Config) -> None:
    layer["config"]["padding"] = [[1, 0], [1, 0]]


CONVOLUTIONS = {"Conv2D", "DepthwiseConv2D", "SeparableConv2D"}
ACTIVE = CONVOLUTIONS | {"Activation"}
POOLS = {"MaxPooling2D", "AveragePooling2D"}

Edit = tuple[str, set[str], Callable[[Config], bool], Callable[[Config], None], set[str], bool]

EDITS: tuple[Edit, ...] = (
    ("conv: padding", CONVOLUTIONS, _windowed, _other("padding", "same", "valid"), {"padding"}, True),
    ("conv: stride", CONVOLUTIONS, _any, _more("strides"), {"stride", "padding"}, True),
    ("conv: dilation", CONVOLUTIONS, lambda c: _windowed(c) and c["strides"] == [1, 1],
     _more("dilation_rate"), {"dilation", "padding"}, True),
    ("padding at the other end", {"ZeroPadding2D"}, _any, _one_padding, {"padding"}, True),
    ("pool: operator", {"MaxPooling2D"}, _any, _class("AveragePooling2D"), {"operator"}, True),
    ("pool: operator", {"AveragePooling2D"}, _any, _class("MaxPooling2D"), {"operator"}, True),
    ("pool: operator", {"GlobalAveragePooling2D"}, _any, _class("GlobalMaxPooling2D"), {"operator"}, True),
    ("pool: padding", POOLS, _any, _other("padding", "same", "valid"), {"padding", "pool-rounding"}, True),
    ("pool: kernel", POOLS, _any, _more("pool_size"), {"kernel-size", "padding"}, True),
    ("pool: stride", POOLS, _any, _more("strides"), {"stride", "padding"}, True),
    ("bn: eps", {"BatchNormalization"}, _any, _set(epsilon=0.1), {"epsilon"}, True),
    ("relu: sigmoid", ACTIVE | {"Dense"}, _active("relu"), _set(activation="sigmoid"),
     {"operator"}, True),
    ("tanh: sigmoid", CONVOLUTIONS, _active("tanh"), _set(activation="sigmoid"), {"operator"}, True),
    ("elu: relu", CONVOLUTIONS, _active("elu"), _set(activation="relu"), {"operator"}, True),
    ("relu: bound", {"ReLU"}, lambda c: c["max_value"] is not None, _set(max_value=None), {"operator"}, True),
    ("relu: leaky", {"ReLU"}, _any, _set(negative_slope=0.1), {"operator", "leaky-slope"}, True),
    ("leaky slope", {"LeakyReLU"}, _any, _set(negative_slope=0.01), {"leaky-slope"}, True),
    ("resize: nearest", {"UpSampling2D"}, _any, _set(interpolation="nearest"),
     {"resize-mode", "resize-coordinate_transformation_mode"}, True),
    ("sum: product", {"Add"}, _any, _class("Multiply"), {"operator"}, False),
    ("swish: mish", ACTIVE, _active("swish"), _set(activation="mish"), {"operator"}, True),
    ("activation left out", ACTIVE, _active("relu"), _set(activation="linear"),
     {"missing-layer"}, False),
)  # fmt: skip
"""Kind, classes of layers, which of them, what is done, what explains it, whether the table has it."""
