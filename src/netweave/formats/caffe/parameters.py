"""The stored arrays of a net while it is read: who owns which, what a file gives, what does not fit."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from netweave.errors import WeightError
from netweave.formats.lowering import ParameterStore
from netweave.formats.lowering.parameters import check_size
from netweave.graph.wording import dims_text, names_text

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from netweave.files.protobuf import Message
    from netweave.formats.caffe.context import CaffeLayer
    from netweave.formats.caffe.weights import Weights
    from netweave.formats.lowering import Layout
    from netweave.graph import GraphBuilder, Parameter

Shape = tuple[int, ...]


class Blobs(ParameterStore):
    """Stored arrays by layer and number, with ``param { name }`` sharing.

    Args:
        builder: Where parameters and initializers go.
        weights: The file of values; without one they are drawn.
        net: Name of the net's file, for errors.
    """

    def __init__(self, builder: GraphBuilder, weights: Weights | None, *, net: str) -> None:
        super().__init__(builder)
        self._weights = weights
        self._net = net
        self._owners: dict[str, str] = {}
        self._misfits: list[str] = []

    def entry(
        self,
        ctx: CaffeLayer,
        index: int,
        shape: Shape,
        role: str,
        filler: Message | None,
        *,
        trainable: bool = True,
    ) -> Parameter:
        """Return the entry of a stored array.

        Raises:
            ShapeError: It would be too large, or is shared with an array of other sizes.
        """
        spec = ctx.spec["param"][index] if index < len(ctx.spec["param"]) else None
        share_name = spec["name"] if spec is not None else ""
        key = f"{ctx.layer.key}/{index}"
        owner = self._owners.setdefault(share_name, key) if share_name else key
        self.note_use(ctx.layer.key, owner)
        if owner != key:
            return self._shared(ctx, index, shape, owner, spec)
        check_size(key, shape, ctx)
        return self.declare(
            key,
            shape,
            role,
            self._find(ctx, index, shape),
            context=ctx,
            filler=filler.to_json() if filler is not None else None,
            lr_mult=_factor(spec, "lr_mult", trainable),
            decay_mult=_factor(spec, "decay_mult", trainable),
            trainable=trainable,
        )

    def value(
        self,
        ctx: CaffeLayer,
        index: int,
        shape: Shape,
        role: str,
        filler: Message | None,
        layout: Layout,
    ) -> ir.Value:
        """Return the initializer made from a stored array; the same one where it is shared."""
        parameter = self.entry(ctx, index, shape, role, filler)
        if parameter.shape != shape:  # shared with other sizes, of the same count
            layout = (("reshape", shape), *layout)
        return self.initializer(parameter.key, layout)

    def check_count(self, ctx: CaffeLayer) -> None:
        """Note it if the file lacks arrays that a layer owns, or has more than the layer uses."""
        stored = self._weights.layer(ctx.layer.name) if self._weights else None
        if stored is None:
            return
        keys = self.keys(ctx.layer.key)
        owned = {index for index, key in enumerate(keys) if key == f"{ctx.layer.key}/{index}"}
        if not owned <= set(stored) <= set(range(len(keys))):
            self._misfits.append(
                f"layer {ctx.layer.name!r} has {len(keys)} arrays in the net, {len(stored)} in the file"
            )

    def finish(self) -> None:
        """Raise ``WeightError`` with all arrays that do not fit the net."""
        if not self._weights:
            return
        place = self._weights.file
        if self._misfits:
            raise WeightError(
                f"does not match {self._net}: {'; '.join(self._misfits)}. Does it belong to another net? A "
                "layer that was renamed in the net gets no weights",
                place=place,
            )
        if self._arrays and not any(array is not None for array in self._arrays.values()):
            stored = self._weights.names()
            raise WeightError(
                f"contains no weights for any layer of {self._net}: it has {names_text(stored)}, "
                f"the net {names_text([key.rpartition('/')[0] for key in self._arrays])}",
                place=place,
            )

    def _shared(
        self, ctx: CaffeLayer, index: int, shape: Shape, owner: str, spec: Message | None
    ) -> Parameter:
        parameter = self._builder.parameters[owner]
        permissive = spec is not None and spec["share_mode"] == "PERMISSIVE"
        fits = prod(shape) == parameter.size if permissive else shape == parameter.shape
        if not fits:
            raise ctx.shape_error(
                f"its array {index} ({dims_text(shape)}) is shared with {owner} "
                f"({dims_text(parameter.shape)}); "
                + ("they must have as many elements" if permissive else "they must have the same sizes")
            )
        changes = {}
        for name in ("lr_mult", "decay_mult"):
            if spec is not None and name in spec:
                changes[name] = spec[name]
        if changes:
            parameter = replace(parameter, **changes)
            self._builder.parameters[owner] = parameter
        return parameter

    def _find(self, ctx: CaffeLayer, index: int, shape: Shape) -> np.ndarray | None:
        stored = self._weights.layer(ctx.layer.name) if self._weights else None
        if stored is None or index not in stored:
            return None
        blob = stored[index]
        if blob.fits(shape):
            return blob.load().reshape(shape)
        self._misfits.append(
            f"layer {ctx.layer.name!r} ({ctx.layer.origin}): array {index} is {dims_text(shape)} in the net, "
            f"{dims_text(blob.shape)} in the file"
        )
        return None


def _factor(spec: Message | None, name: str, trainable: bool) -> float:
    if not trainable:
        return 0.0
    return float(spec[name]) if spec is not None else 1.0
