"""The stored arrays of a net while it is read: who owns which, what a file gives, what does not fit."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from netweave.errors import WeightError
from netweave.graph import Parameter
from netweave.graph.budget import MAX_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.files.protobuf import Message
    from netweave.formats.caffe.call import Call
    from netweave.formats.caffe.weights import Weights
    from netweave.graph import GraphBuilder
    from netweave.graph.parameters import Step

Shape = tuple[int, ...]


class Blobs:
    """Stored arrays by layer and number, with ``param { name }`` sharing.

    Args:
        builder: Where parameters and initializers go.
        weights: The file of values; without one they are drawn.
        net: Name of the net's file, for errors.
    """

    def __init__(self, builder: GraphBuilder, weights: Weights | None, *, net: str) -> None:
        self._builder = builder
        self._weights = weights
        self._net = net
        self._arrays: dict[str, np.ndarray | None] = {}
        self._owners: dict[str, str] = {}
        self._values: dict[tuple[str, tuple[Step, ...]], ir.Value] = {}
        self._keys: dict[str, list[str]] = {}
        self._misfits: list[str] = []

    def entry(
        self,
        call: Call,
        index: int,
        shape: Shape,
        role: str,
        filler: Message | None,
        *,
        trainable: bool = True,
    ) -> tuple[Parameter, np.ndarray | None]:
        """Return the entry of a stored array and its values, if a file gives them.

        Raises:
            ShapeError: It would be too large.
            ReadError: It is shared with an array of other sizes.
        """
        if prod(shape) > MAX_ELEMENTS:
            raise call.wrong_shape(
                f"its array {index} would have {prod(shape):,} elements ({sizes(shape)}), "
                f"at most {MAX_ELEMENTS:,} are possible"
            )
        spec = call.spec["param"][index] if index < len(call.spec["param"]) else None
        share_name = spec["name"] if spec is not None else ""
        key = f"{call.layer.key}/{index}"
        owner = self._owners.setdefault(share_name, key) if share_name else key
        self._keys.setdefault(call.layer.key, []).append(owner)
        if owner != key:
            return self._shared(call, index, shape, owner, spec)
        array = self._find(call, index, shape)
        parameter = Parameter(
            key=key,
            shape=shape,
            role=role,
            loaded=array is not None,
            filler=filler.to_json() if filler is not None else {},
            lr_mult=_factor(spec, "lr_mult", trainable),
            decay_mult=_factor(spec, "decay_mult", trainable),
            trainable=trainable,
        )
        self._builder.parameters[key] = parameter
        self._arrays[key] = array
        return parameter, array

    def value(
        self,
        call: Call,
        index: int,
        shape: Shape,
        role: str,
        filler: Message | None,
        layout: tuple[Step, ...],
    ) -> ir.Value:
        """Return the initializer made from a stored array; the same one where it is shared."""
        parameter, array = self.entry(call, index, shape, role, filler)
        if parameter.shape != shape:  # shared with other sizes, of the same count
            layout = (("reshape", shape), *layout)
        known = self._values.get((parameter.key, layout))
        if known is None:
            known = self._builder.parameter(parameter, array, layout=layout)
            self._values[parameter.key, layout] = known
        return known

    def keys(self, layer_key: str) -> tuple[str, ...]:
        """Return the keys of a layer's arrays, in order."""
        return tuple(self._keys.get(layer_key, ()))

    def check_count(self, call: Call) -> None:
        """Note it if the file lacks arrays that a layer owns, or has more than the layer uses."""
        stored = self._weights.layer(call.layer.name) if self._weights else None
        if stored is None:
            return
        keys = self.keys(call.layer.key)
        owned = {index for index, key in enumerate(keys) if key == f"{call.layer.key}/{index}"}
        if not owned <= set(stored) <= set(range(len(keys))):
            self._misfits.append(
                f"layer {call.layer.name!r} has {len(keys)} arrays in the net, {len(stored)} in the file"
            )

    def finish(self) -> None:
        """Raise ``WeightError`` with all arrays that do not fit the net."""
        if not self._weights:
            return
        place = self._weights.file
        if self._misfits:
            raise WeightError(
                f"does not fit {self._net}: {'; '.join(self._misfits)}. Is it of another net? "
                "A layer that is renamed in the net is left without weights",
                place=place,
            )
        if self._arrays and not any(array is not None for array in self._arrays.values()):
            stored = self._weights.names()
            raise WeightError(
                f"has weights for none of the layers of {self._net}: it has {_some(stored)}, "
                f"the net {_some([key.rpartition('/')[0] for key in self._arrays])}",
                place=place,
            )

    def _shared(
        self, call: Call, index: int, shape: Shape, owner: str, spec: Message | None
    ) -> tuple[Parameter, np.ndarray | None]:
        parameter = self._builder.parameters[owner]
        permissive = spec is not None and spec["share_mode"] == "PERMISSIVE"
        fits = prod(shape) == parameter.size if permissive else shape == parameter.shape
        if not fits:
            raise call.wrong_shape(
                f"its array {index} ({sizes(shape)}) is shared with {owner} ({sizes(parameter.shape)}); "
                + ("they must have as many elements" if permissive else "they must have the same sizes")
            )
        changes = {}
        for name in ("lr_mult", "decay_mult"):
            if spec is not None and name in spec:
                changes[name] = spec[name]
        if changes:
            parameter = replace(parameter, **changes)
            self._builder.parameters[owner] = parameter
        return parameter, self._arrays[owner]

    def _find(self, call: Call, index: int, shape: Shape) -> np.ndarray | None:
        stored = self._weights.layer(call.layer.name) if self._weights else None
        if stored is None or index not in stored:
            return None
        blob = stored[index]
        if blob.fits(shape):
            return blob.load().reshape(shape)
        self._misfits.append(
            f"layer {call.layer.name!r} ({call.layer.origin}): array {index} is {sizes(shape)} in the net, "
            f"{sizes(blob.shape)} in the file"
        )
        return None


def sizes(shape: Sequence[int | None]) -> str:
    """Return sizes for people.

    >>> sizes((None, 3, 12))
    '?x3x12'
    """
    return "x".join("?" if size is None else str(size) for size in shape) or "a single number"


def _factor(spec: Message | None, name: str, trainable: bool) -> float:
    if not trainable:
        return 0.0
    return float(spec[name]) if spec is not None else 1.0


def _some(names: Sequence[str], most: int = 5) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(map(repr, unique[:most])) + more
