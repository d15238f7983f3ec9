"""Checkpoints: ``step<N>-worker<i>``, the arrays of a net by name (``BlobProtos``, ``worker.cc`` Checkpoint).

Each worker writes the parameters that it owns; one that is cut into partitions stands in the file of every
worker with that worker's part. Names begin with ``0#`` since 0.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError, WeightError
from netweave.files import is_file, read_bytes
from netweave.formats.singa.files import CHECKPOINT, HEAD_BYTES, find_kind
from netweave.formats.singa.schema import singa_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.files.protobuf import Message

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
        found = " and ".join("x".join(map(str, part.shape)) for part in parts)
        hint = "; give the files of all workers, with commas between" if len(parts) == 1 else ""
        raise WeightError(
            f"{name!r} is {found}, the net has {'x'.join(map(str, shape))}{hint}", place=self.file
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
