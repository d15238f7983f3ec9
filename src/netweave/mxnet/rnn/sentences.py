"""Sentences and checkpoints of MXNet's recurrent nets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import checkpoint
from netweave.mxnet import ndarray as nd
from netweave.mxnet.io import DataBatch, DataDesc, DataIter
from netweave.mxnet.ndarray import random


def encode_sentences(
    sentences: Sequence[Sequence[str]],
    vocab: dict[str, int] | None = None,
    invalid_label: int = -1,
    invalid_key: str = "\n",
    start_label: int = 0,
    unknown_token: str | None = None,
) -> tuple[list[list[int]], dict[str, int]]:
    """Return sentences as numbers, and the number of each word.

    Args:
        sentences: Lists of words.
        vocab: Numbers that are known already; None for new ones.
        invalid_label: Number that stands for no word.
        invalid_key: The word that has that number.
        start_label: The smallest number.
        unknown_token: Stands for words that ``vocab`` does not have; None for an error.

    Raises:
        UsageError: A word is not known.
    """
    grows = vocab is None
    known = {invalid_key: invalid_label} if vocab is None else vocab
    following = start_label
    encoded = []
    for sentence in sentences:
        numbers = []
        for word in sentence:
            if word not in known:
                if not grows and not unknown_token:
                    raise UsageError(f"the word {word!r} is not in the vocabulary; give unknown_token")
                if following == invalid_label:
                    following += 1
                key = unknown_token or word
                if key not in known:
                    known[key] = following
                    following += 1
                word = key
            numbers.append(known[word])
        encoded.append(numbers)
    return encoded, known


class BucketSentenceIter(DataIter):
    """Batches of sentences, each filled up to the length of its bucket; labels are the words that follow.

    Args:
        sentences: Lists of numbers.
        batch_size: Sentences in a batch.
        buckets: Lengths; None for those that at least a batch of sentences has.
        invalid_label: What fills up.
        data_name: Name of the data.
        label_name: Name of the labels.
        dtype: Element type.
        layout: ``NT`` for a sentence in each row, ``TN`` for one in each column.

    Raises:
        UsageError: There is no such layout, or no bucket.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__(batch_size)
        if layout not in {"NT", "TN"}:
            raise UsageError(f"layout is {layout!r}, expected 'NT' or 'TN'")
        counts = np.bincount([len(one) for one in sentences])
        self.buckets = sorted(buckets or [n for n, count in enumerate(counts) if count >= batch_size])
        if not self.buckets:
            raise UsageError("no length has a batch of sentences; give buckets")
        self.data_name, self.label_name, self.dtype, self.layout = data_name, label_name, dtype, layout
        self.invalid_label = invalid_label
        rows: list[list[np.ndarray]] = [[] for _ in self.buckets]
        self.ndiscard = 0
        for sentence in sentences:
            place = int(np.searchsorted(self.buckets, len(sentence)))
            if place == len(self.buckets):
                self.ndiscard += 1
                continue
            row = np.full(self.buckets[place], invalid_label, dtype)
            row[: len(sentence)] = sentence
            rows[place].append(row)
        self.data = [np.asarray(own, dtype) for own in rows]
        self.default_bucket_key = max(self.buckets)
        self.provide_data = [self._describe(data_name, self.default_bucket_key)]
        self.provide_label = [self._describe(label_name, self.default_bucket_key)]
        self._places = [
            (number, start)
            for number, own in enumerate(self.data)
            for start in range(0, len(own) - batch_size + 1, batch_size)
        ]
        self.reset()

    def _describe(self, name: str, length: int) -> DataDesc:
        shape = (self.batch_size, length) if self.layout == "NT" else (length, self.batch_size)
        return DataDesc(name, shape, self.dtype, layout=self.layout)

    def reset(self) -> None:
        """Begin a further epoch in another order."""
        self._next = 0
        generator = random.generator()
        self._places = [self._places[number] for number in generator.permutation(len(self._places))]
        for number, own in enumerate(self.data):
            self.data[number] = own[generator.permutation(len(own))] if len(own) else own

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if self._next == len(self._places):
            raise StopIteration
        number, start = self._places[self._next]
        self._next += 1
        data = self.data[number][start : start + self.batch_size]
        label = np.full_like(data, self.invalid_label)
        label[:, :-1] = data[:, 1:]
        if self.layout == "TN":
            data, label = data.T, label.T
        length = self.buckets[number]
        return DataBatch(
            [nd.array(data, dtype=self.dtype)],
            [nd.array(label, dtype=self.dtype)],
            pad=0,
            bucket_key=length,
            provide_data=[self._describe(self.data_name, length)],
            provide_label=[self._describe(self.label_name, length)],
        )


def _cells(cells: Any) -> list[Any]:
    return list(cells) if isinstance(cells, list | tuple) else [cells]


def save_rnn_checkpoint(
    cells: Any, prefix: str, epoch: int, symbol: Any, arg_params: Any, aux_params: Any
) -> None:
    """Write a checkpoint with the weights of gates by themselves."""
    for cell in _cells(cells):
        arg_params = cell.unpack_weights(arg_params)
    checkpoint.save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Any, prefix: str, epoch: int) -> tuple[Any, Any, Any]:
    """Return symbol and arrays of a checkpoint, the weights of gates put together."""
    symbol, args, states = checkpoint.load_checkpoint(prefix, epoch)
    for cell in _cells(cells):
        args = cell.pack_weights(args)
    return symbol, args, states


def do_rnn_checkpoint(cells: Any, prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback that writes a checkpoint after every ``period`` epochs."""
    every = int(max(1, period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % every == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return callback
