"""The stored arrays of a net while it is read: ``share_from``, what a checkpoint gives, what does not fit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from netweave.errors import ReadError, WeightError
from netweave.formats.lowering import ParameterStore
from netweave.formats.lowering.parameters import check_size
from netweave.formats.singa.unroll import kind_of
from netweave.graph.wording import dims_text, names_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message
    from netweave.formats.lowering import Layout
    from netweave.formats.singa.checkpoint import Weights
    from netweave.formats.singa.context import SingaLayer
    from netweave.graph import GraphBuilder, Parameter


class Parameters(ParameterStore):
    """Stored arrays by SINGA's names; those without one are called after their layer and number.

    Args:
        builder: Where parameters and initializers go.
        layers: The layers of the phase, as the file has them.
        weights: The files of values; without them values are drawn.
        place: Name of the net's file, for errors.

    Raises:
        ReadError: A name stands twice, or is shared and not there.
    """

    def __init__(
        self, builder: GraphBuilder, layers: Sequence[Message], weights: Weights | None, *, place: str
    ) -> None:
        super().__init__(builder)
        self._weights = weights
        self._place = place
        self._specs = _named(layers, place)
        self._owners = {name: self._owner(name) for name in self._specs}

    def entry(
        self, ctx: SingaLayer, index: int, shape: tuple[int, ...], role: str, *, trainable: bool = True
    ) -> Parameter:
        """Return the entry of a layer's parameter.

        Raises:
            ShapeError: It would be too large, or is shared with one of other sizes.
            WeightError: The file has it in other sizes.
        """
        name = _name(ctx.spec, index)
        key = self._owners[name]
        self.note_use(ctx.layer.key, key)
        known = self._builder.parameters.get(key)
        if known is None:
            check_size(key, shape, ctx)
            spec = self._specs[key]
            return self.declare(
                key,
                shape,
                role,
                self._weights.find(key, shape) if self._weights else None,
                context=ctx,
                filler=spec["init"].to_json() if "init" in spec else {},
                lr_mult=float(spec["lr_scale"]) if trainable else 0.0,
                decay_mult=float(spec["wd_scale"]) if trainable else 0.0,
                trainable=trainable,
            )
        if known.shape != shape:
            raise ctx.shape_error(
                f"its parameter {name!r} ({dims_text(shape)}) is shared with {key!r} "
                f"({dims_text(known.shape)}); they must have the same sizes"
            )
        return known

    def value(
        self, ctx: SingaLayer, index: int, shape: tuple[int, ...], role: str, layout: Layout
    ) -> ir.Value:
        """Return the initializer made from a layer's parameter; the same one where it is shared."""
        return self.initializer(self.entry(ctx, index, shape, role).key, layout)

    def shares(self) -> dict[str, int]:
        """Return how many layers of the file hold each array, where it is more than one.

        Unrolled copies of a layer count once: they share their gradient too (``neuralnet.cc``, Unrolling).
        """
        return {key: count for key, count in Counter(self._owners.values()).items() if count > 1}

    def finish(self) -> tuple[str, ...]:
        """Return notes on what the files hold.

        Raises:
            WeightError: They hold nothing of the net.
        """
        weights = self._weights
        if weights is None:
            return ()
        if self._arrays and not weights.taken:
            raise WeightError(
                f"contains no weights for any parameter of {self._place}: it has "
                f"{names_text(list(weights.parts))}, the net {names_text(list(self._arrays))}",
                place=weights.file,
            )
        fresh = sorted(weights.fresh & weights.taken)
        if not fresh:
            return ()
        note = f"SINGA draws {names_text(fresh)} anew, since their version is 0; here they are kept"
        return (f"{weights.file}: {note}",)

    def _owner(self, name: str) -> str:
        """Return the name of the parameter whose array and settings one shares, its own if it shares none."""
        seen = [name]
        while share := self._specs[seen[-1]]["share_from"]:
            spec = self._specs[seen[-1]]
            if share not in self._specs or share in seen:
                why = "shares with itself" if share in seen else "there is no parameter of that name here"
                raise ReadError(
                    f"parameter {seen[-1]!r} has share_from: {share!r}, but {why}",
                    place=f"{self._place}:{spec.line_of('share_from')}",
                )
            seen.append(share)
        return seen[-1]


def _named(layers: Sequence[Message], place: str) -> dict[str, Message]:
    found: dict[str, Message] = {}
    for layer in layers:
        for index, spec in enumerate(layer["param"]):
            name = _name(layer, index)
            if name in found:
                raise ReadError(
                    f"parameter {name!r} appears again, first on line {found[name].line}; to share it, give "
                    f"it another name and share_from: {name!r}",
                    place=f"{place}:{spec.line}: layer {layer['name']!r} ({kind_of(layer)})",
                )
            found[name] = spec
    return found


def _name(layer: Message, index: int) -> str:
    return layer["param"][index]["name"] or f"{layer['name']}/{index}"
