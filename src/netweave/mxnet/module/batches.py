"""Batches of a module: their sizes, and their parts for each device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import UsageError
from netweave.mxnet.io.batch import DataDesc
from netweave.mxnet.ndarray.array import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.mxnet.executor import Executor


def description(given: Any) -> DataDesc:
    """Return the description of an input."""
    return given if isinstance(given, DataDesc) else DataDesc(*given)


def batch_axis(described: DataDesc) -> int:
    """Return the axis of the batch."""
    return max(0, DataDesc.get_batch_axis(described.layout))


def with_batch(described: DataDesc, size: int) -> tuple[int, ...]:
    """Return the sizes of an input for another batch size."""
    shape = list(described[1])
    if shape:
        shape[batch_axis(described)] = size
    return tuple(shape)


def split_batch(described: DataDesc, shares: Sequence[float]) -> list[tuple[int, int]]:
    """Return first and last record of each device; the last one has the remainder."""
    size = described[1][batch_axis(described)]
    if size < len(shares):
        raise UsageError(f"a batch of {size} records cannot be split over {len(shares)} devices")
    total, bounds, start = sum(shares), [], 0
    for number, share in enumerate(shares):
        stop = size if number == len(shares) - 1 else start + round(share * size / total)
        bounds.append((start, stop))
        start = stop
    return bounds


def shared_arrays(executor: Executor, names: Sequence[str]) -> Any:
    """Return the arrays of an executor that another one may share: not those of its inputs."""
    kept = {name: executor.arg_dict[name] for name in names if name in executor.arg_dict}
    return SimpleNamespace(arg_dict=kept, aux_dict=executor.aux_dict)


def copy_values(name: str, value: Any, own: NDArray) -> None:
    """Copy values to an array of the net.

    Raises:
        UsageError: They have another shape.
    """
    if tuple(value.shape) != own.shape:
        raise UsageError(f"array {name!r} has the shape {tuple(value.shape)}, expected {own.shape}")
    if value is not own:
        own[:] = value


def join_arrays(arrays: list[NDArray], axis: int) -> NDArray:
    """Return the parts of devices as one array."""
    if len(arrays) == 1:
        return arrays[0]
    place = arrays[0].tensor.device
    return NDArray(torch.cat([one.tensor.to(place) for one in arrays], axis))


def following_sizes(
    batch: Any, data: Sequence[DataDesc], labels: Sequence[DataDesc] | None
) -> tuple[Any, Any] | None:
    """Return data and labels of a batch of other sizes; None where they are as before."""
    shapes = [array.shape for array in batch.data]
    if shapes == [tuple(one[1]) for one in data]:
        return None
    given = batch.provide_data or [
        DataDesc(one[0], shape, one.dtype, one.layout) for one, shape in zip(data, shapes, strict=True)
    ]
    if batch.provide_label or not labels:
        return given, batch.provide_label
    own = [array.shape for array in batch.label or ()] or [(shapes[0][0], *one[1][1:]) for one in labels]
    pairs = zip(labels, own, strict=True)
    return given, [DataDesc(one[0], shape, one.dtype, one.layout) for one, shape in pairs]
