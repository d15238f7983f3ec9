"""Batches of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.ndarray import random
from netweave.mxnet.ndarray.array import NDArray


class Sampler:
    """Numbers of records in some order: a subclass has ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class SequentialSampler(Sampler):
    """Numbers from ``start`` on."""

    def __init__(self, length: int, start: int = 0) -> None:
        self._length, self._start = length, start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """Numbers in a random order."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        return iter(random.generator().permutation(self._length).tolist())

    def __len__(self) -> int:
        return self._length


class BatchSampler(Sampler):
    """Numbers of another sampler, in batches.

    Args:
        sampler: The other sampler.
        batch_size: Numbers in a batch.
        last_batch: ``keep``, ``discard`` or ``rollover`` the numbers that make no whole batch.

    Raises:
        UsageError: ``last_batch`` is none of these.
    """

    def __init__(self, sampler: Any, batch_size: int, last_batch: str = "keep") -> None:
        if last_batch not in {"keep", "discard", "rollover"}:
            raise UsageError(f"last_batch is {last_batch!r}, expected 'keep', 'discard' or 'rollover'")
        self._sampler, self._batch_size, self._last_batch = sampler, batch_size, last_batch
        self._rest: list[int] = []

    def __iter__(self) -> Iterator[list[int]]:
        batch, self._rest = self._rest, []
        for number in self._sampler:
            batch.append(number)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._rest = batch

    def __len__(self) -> int:
        count = len(self._sampler) + len(self._rest)
        return -(-count // self._batch_size) if self._last_batch == "keep" else count // self._batch_size


def default_batchify_fn(data: list[Any]) -> Any:
    """Return records as a batch: arrays stacked, parts of records by themselves."""
    first = data[0]
    if isinstance(first, NDArray):
        return NDArray(torch.stack([one.tensor for one in data]))
    if isinstance(first, tuple):
        return [default_batchify_fn(list(column)) for column in zip(*data, strict=True)]
    values = np.asarray(data)
    return nd.array(values, dtype=np.float32 if values.dtype == np.float64 else values.dtype)


class DataLoader:
    """Batches of a dataset.

    Args:
        dataset: The records.
        batch_size: Records in a batch.
        shuffle: Whether their order is random.
        sampler: Another order.
        last_batch: What happens to records that make no whole batch; see ``BatchSampler``.
        batch_sampler: Which records are in which batch.
        batchify_fn: From records to a batch.
        num_workers: As MXNet has it; records are read in this process.
        kwargs: As MXNet has them.

    Raises:
        UsageError: Neither ``batch_size`` nor ``batch_sampler`` is given.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        **kwargs: Any,
    ) -> None:
        self._dataset = dataset
        if batch_sampler is None:
            if batch_size is None:
                raise UsageError("a DataLoader needs batch_size, or batch_sampler")
            order = sampler or (RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset)))
            batch_sampler = BatchSampler(order, batch_size, last_batch or "keep")
        self._batches = batch_sampler
        self._batchify = batchify_fn or default_batchify_fn

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            yield self._batchify([self._dataset[number] for number in batch])

    def __len__(self) -> int:
        return len(self._batches)
