"""Checkpoints and parameters of SINGA."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, WeightError
from netweave.files import is_file, read_bytes
from netweave.files.protobuf import Message
from netweave.formats.lowering import Layout, ParameterStore
from netweave.formats.lowering.parameters import check_size
from netweave.formats.singa.files import CHECKPOINT, HEAD_BYTES, find_kind
from netweave.formats.singa.schema import singa_schema
from netweave.formats.singa.unroll import kind_of
from netweave.graph import GraphBuilder, Parameter
from netweave.graph.summary import dims_text, names_text

if TYPE_CHECKING:
    from netweave.formats.singa.context import SingaLayer


# Each worker writes the parameters that it owns; one that is cut into partitions stands in the file of
# every worker with that worker's part. Names begin with ``0#`` since 0.2.

_WORKER = re.compile(r"(?P<step>.*)-worker\d+(\.bin)?$")
_COPY = re.compile(r"\d+#")


@dataclass(slots=True)
class Weights:
    """The arrays of one or more checkpoints.

    Attributes:
        file: Their names as given.
        parts: The arrays by name, without ``0#``; several where workers hold parts.
        fresh: Names of arrays of version 0, which SINGA draws anew.
        taken: Names that the net has asked for.
    """

    file: str
    parts: dict[str, list[np.ndarray]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)

    def find(self, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return the array of a parameter, put together from its parts; None if the files do not have it.

        Raises:
            WeightError: It has other sizes than the net.
        """
        parts = self.parts.get(name)
        if parts is None:
            return None
        self.taken.add(name)
        if parts[-1].shape == shape:
            return parts[-1]
        for axis in range(len(shape)):
            if _fit(parts, shape, axis):
                return np.concatenate(parts, axis)
        shapes = " and ".join("x".join(map(str, part.shape)) for part in parts)
        hint = "; give the files of all workers, with commas between" if len(parts) == 1 else ""
        raise WeightError(
            f"{name!r} is {shapes}, the net has {'x'.join(map(str, shape))}{hint}", place=self.file
        )


def _fit(parts: list[np.ndarray], shape: tuple[int, ...], axis: int) -> bool:
    if any(part.ndim != len(shape) for part in parts):
        return False
    others = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    return (
        others == {(*shape[:axis], *shape[axis + 1 :])}
        and sum(part.shape[axis] for part in parts) == shape[axis]
    )


def read_checkpoints(path: Path) -> Weights:
    """Read a checkpoint, or several with commas between.

    Files of the workers of one step add parts; a file of another step replaces what it has too.

    Raises:
        ReadError: A file cannot be read or is none.
        WeightError: An array is not whole.
    """
    text = str(path)
    files = text.split(",") if "," in text and not is_file(path) else [text]
    weights = Weights(text)
    steps: dict[str, str] = {}
    for file in files:
        match = _WORKER.match(file)
        step = match["step"] if match else file
        for name, array, version in _arrays(Path(file)):
            if steps.get(name) == step:
                weights.parts[name].append(array)
            else:
                weights.parts[name] = [array]
            steps[name] = step
            (weights.fresh.discard if version else weights.fresh.add)(name)
    return weights


def encode_arrays(arrays: Mapping[str, np.ndarray], *, version: int) -> bytes:
    """Return the bytes of a checkpoint with arrays by name, under the names that SINGA has used since 0.2.

    Args:
        arrays: The arrays.
        version: The step that they belong to; SINGA draws arrays of version 0 anew.
    """
    blobs = [
        {"shape": list(array.shape), "data": np.asarray(array, np.float32).ravel()}
        for array in arrays.values()
    ]
    names = [f"0#{name}" for name in arrays]
    content = {"version": [version] * len(names), "name": names, "blob": blobs}
    return singa_schema().encode("BlobProtos", content)


def _arrays(path: Path) -> list[tuple[str, np.ndarray, int]]:
    place = str(path)
    content = read_bytes(path)
    if find_kind(content[:HEAD_BYTES]) != CHECKPOINT:
        raise ReadError("is not a SINGA checkpoint, expected step<N>-worker<i>", place=place)
    message: Message = singa_schema().decode("BlobProtos", content, place=place)
    names, blobs, versions = message["name"], message["blob"], message["version"]
    if len(names) != len(blobs) or len(versions) not in {0, len(names)}:
        raise WeightError(
            f"has {len(names)} names for {len(blobs)} arrays and {len(versions)} versions; is it complete?",
            place=place,
        )
    return [
        (_COPY.sub("", name, count=1), _array(blob, f"{place}: {name!r}"), version)
        for name, blob, version in zip(names, blobs, versions or [1] * len(names), strict=True)
        if not _COPY.match(name) or name.startswith("0#")
    ]


def _array(blob: Message, place: str) -> np.ndarray:
    shape, values = tuple(blob["shape"]), np.asarray(blob["data"], np.float32)
    if any(size < 0 for size in shape) or prod(shape) != values.size:
        raise WeightError(
            f"the sizes {'x'.join(map(str, shape)) or '()'} need {prod(shape):,} values, but the file has "
            f"{values.size:,}; is it complete?",
            place=place,
        )
    return values.reshape(shape)


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
    named: dict[str, Message] = {}
    for layer in layers:
        for index, spec in enumerate(layer["param"]):
            name = _name(layer, index)
            if name in named:
                raise ReadError(
                    f"parameter {name!r} appears again, first on line {named[name].line}; to share it, give "
                    f"it another name and share_from: {name!r}",
                    place=f"{place}:{spec.line}: layer {layer['name']!r} ({kind_of(layer)})",
                )
            named[name] = spec
    return named


def _name(layer: Message, index: int) -> str:
    return layer["param"][index]["name"] or f"{layer['name']}/{index}"
