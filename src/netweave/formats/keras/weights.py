"""Places of the arrays of each layer, in files of every age.

Keras 2's ``.h5`` has a group for each layer by its name, with the list of its arrays. Keras 3's
``.weights.h5`` has ``layers/conv2d_1/vars/0``: the class of the layer in lower case, numbered in the order of
the model, with the layers inside a layer as groups inside its group. Arrays have no names there; their order
is that of the layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, WeightError
from netweave.files.hdf5 import Group, Member

if TYPE_CHECKING:
    from netweave.formats.keras.config import LayerConfig

ROOTS = ("layers", "_layer_checkpoint_dependencies")
"""Groups of a model's layers in Keras 3, and in the last Keras 2."""

MAX_BYTES = 1 << 33
"""A larger array is refused before it is read."""


class LayerArrays:
    """The arrays of one layer, one after another.

    Args:
        file: Name of the file, for errors.
        layer: Name of the layer, for errors.
        find: Gives an array by the group inside the layer and its number there, None if there is none.
    """

    def __init__(self, file: str, layer: str, find: Callable[[str, int], Any]) -> None:
        self.file = file
        self._layer = layer
        self._find = find
        self._next: dict[str, int] = {}

    def take(self, name: str, shape: Sequence[int | None], *, inside: str = "") -> np.ndarray:
        """Return the next array.

        Args:
            name: What it is, for errors.
            shape: Its sizes; None for any.
            inside: Group of a layer inside the layer.

        Raises:
            WeightError: There is none left, or it has other sizes.
        """
        number = self._next.get(inside, 0)
        self._next[inside] = number + 1
        member = self._find(inside, number)
        if member is None:
            raise WeightError(
                f"contains {number} arrays of the layer {self._layer!r}, but its {name!r} is missing; are "
                "these the weights of this model?",
                place=self.file,
            )
        array = _array(member, self.file)
        if len(array.shape) != len(shape) or any(
            want is not None and want != has for want, has in zip(shape, array.shape, strict=True)
        ):
            raise WeightError(
                f"contains {name!r} of the layer {self._layer!r} with the shape {list(array.shape)}, "
                f"expected {[size if size is not None else '?' for size in shape]}",
                place=self.file,
            )
        return array


class Weights:
    """The arrays of a model.

    Args:
        group: The group of the file that holds them.
        file: Name of the file, for errors.
    """

    def __init__(self, group: Group, file: str) -> None:
        self._group = group
        self.file = file
        self._root = next((name for name in ROOTS if name in group.members), None)
        self._keys: dict[str, dict[str, str]] = {}

    def of(self, path: Sequence[Sequence[LayerConfig]], names: Sequence[str]) -> LayerArrays:
        """Return the arrays of a layer.

        Args:
            path: The layers of each model on the way to it, the outermost first.
            names: The name of the layer on the way in each of these models.
        """
        if self._root is not None:
            group = self._numbered(path, names)
            return LayerArrays(self.file, names[-1], lambda inside, number: _variable(group, inside, number))
        arrays = self._listed(names)
        counter = iter(arrays)
        return LayerArrays(self.file, names[-1], lambda _inside, _number: next(counter, None))

    def numbered(self, place: str) -> list[np.ndarray]:
        """Return the arrays of a group that Keras 3 numbers from 0; none where there is no such group."""
        group = self._group.group(place)
        arrays: list[np.ndarray] = []
        while group is not None and str(len(arrays)) in group.members:
            arrays.append(_array(group.members[str(len(arrays))], self.file))
        return arrays

    def _numbered(self, path: Sequence[Sequence[LayerConfig]], names: Sequence[str]) -> Group | None:
        group: Group | None = self._group
        for layers, name in zip(path, names, strict=True):
            roots = (group.group(root) for root in ROOTS) if group is not None else iter(())
            group = self._child(next(filter(None, roots), None), layers, name)
        return group

    def _child(self, group: Group | None, layers: Sequence[LayerConfig], name: str) -> Group | None:
        """Return the group of a layer among those of its model."""
        if group is None:
            return None
        if group.name not in self._keys:
            self._keys[group.name] = _keys(group, layers)
        key = self._keys[group.name].get(name, "")
        return group.group(key) if key else None

    def _listed(self, names: Sequence[str]) -> list[Any]:
        """Return the arrays of a layer in a file of Keras 2, in order."""
        group = self._group.group(names[0])
        if group is None:
            return []
        listed = group.attributes.get("weight_names", [])
        if len(names) > 1:
            inner = f"/{names[-1]}/"
            listed = [name for name in listed if inner in f"/{name}"]
        arrays = []
        for name in listed:
            array = group.get(name)
            if array is None:
                raise WeightError(
                    f"lists {name!r} for {names[0]!r}, but does not contain it", place=self.file
                )
            arrays.append(array)
        return arrays


def _keys(group: Group, layers: Sequence[LayerConfig]) -> dict[str, str]:
    """Return the group of each layer of a model: by the name that it notes, else by its class and number."""
    numbered: dict[str, str] = {}
    counts: dict[str, int] = {}
    for layer in layers:
        stem = snake_case(layer.type)
        number = counts.get(stem, 0)
        counts[stem] = number + 1
        numbered[layer.name] = f"{stem}_{number}" if number else stem
    names = {layer.name for layer in layers}
    noted = {}
    for key in group.members:
        variables = group.group(f"{key}/vars")
        name = variables.attributes.get("name") if variables is not None else None
        if isinstance(name, str) and name in names:
            noted[name] = key
    return numbered | noted


def _variable(group: Group | None, inside: str, number: int) -> Member:
    return group.get(f"{inside}/vars/{number}") if group is not None else None


def _array(member: Any, file: str) -> np.ndarray:
    if not isinstance(member, np.ndarray) or member.dtype.kind not in "fiu" or member.size * 8 > MAX_BYTES:
        if isinstance(member, Group):
            described = f"a group ({member.name!r:.200})"
        elif isinstance(member, np.ndarray):
            described = f"an array of {member.dtype} of the shape {list(member.shape)}"
        else:
            described = f"the text {member!r:.60}"
        raise ReadError(f"contains {described}, expected an array of numbers", place=file)
    return member.astype(np.float32, copy=False)


def snake_case(name: str) -> str:
    """Return the name of a class as Keras 3 names its objects, and their groups in files.

    >>> [snake_case(name) for name in ("DepthwiseConv2D", "MaxPooling2D", "LSTM", "ReLU")]
    ['depthwise_conv2d', 'max_pooling2d', 'lstm', 're_lu']
    """
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
