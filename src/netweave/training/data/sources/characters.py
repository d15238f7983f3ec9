"""The characters of a text as SINGA's kCharRNN reads them: so many streams, each a part of the text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError
from netweave.training.data.location import read_text
from netweave.training.data.source import Record, Source

if TYPE_CHECKING:
    from collections.abc import Sequence


class Characters(Source):
    """Runs of characters by their numbers in a vocabulary: ``char_rnn.cc``.

    The text is cut into ``batchsize`` streams of equal length. Record n is run n // batchsize of stream
    n % batchsize: ``unroll_len`` characters, and the one after the last. The next batch goes on where the one
    before ended. A run that would read beyond its stream reads on in the text, as in SINGA; the last runs,
    which would read beyond the text, are left out.

    Args:
        path: The text.
        vocab_path: The characters in the order of their numbers, each once.
        unroll_len: Characters of a run.
        batchsize: Number of streams.

    Raises:
        ReadError: A file is missing, the text has a character that is not in the vocabulary, or is too short.
    """

    batch_axis = 1

    def __init__(self, path: str, vocab_path: str, unroll_len: int = 50, batchsize: int = 1) -> None:
        self.place = path
        text = read_text(path)
        self._numbers = _numbers(text, read_vocabulary(vocab_path), place=path)
        self._streams, self._run = batchsize, unroll_len
        self._stride = len(text) // max(1, batchsize)
        last = len(text) - (batchsize - 1) * self._stride - (unroll_len + 1)
        steps = min(-(-self._stride // max(1, unroll_len)), last // max(1, unroll_len) + 1)
        if min(batchsize, unroll_len) < 1 or steps < 1 or self._stride <= unroll_len:
            raise ReadError(
                f"has {len(text):,} characters, too few for {batchsize} streams of more than {unroll_len}",
                place=path,
            )
        self._steps = steps

    def __len__(self) -> int:
        return self._steps * self._streams

    def read(self, index: int) -> Record:
        """Return the numbers of the characters of a run, and of the one after."""
        step, stream = divmod(index, self._streams)
        start = stream * self._stride + step * self._run
        return (self._numbers[start : start + self._run + 1],)


def read_vocabulary(path: str) -> str:
    """Return the characters of a vocabulary in the order of their numbers.

    Raises:
        ReadError: The file is missing, empty, or has a character twice.
    """
    characters = read_text(path)
    counts = Counter(characters)
    twice = next((one for one, count in counts.items() if count > 1), None)
    if twice is not None or not characters:
        what = f"has the character {twice!r} twice" if twice else "is empty"
        raise ReadError(f"{what}, expected each character of the text once", place=path)
    return characters


def _numbers(text: str, vocabulary: Sequence[str], *, place: str) -> np.ndarray:
    numbers = {character: number for number, character in enumerate(vocabulary)}
    missing = next((at for at, character in enumerate(text) if character not in numbers), None)
    if missing is not None:
        line = text.count("\n", 0, missing) + 1
        raise ReadError(f"the character {text[missing]!r} is not in the vocabulary", place=f"{place}:{line}")
    return np.fromiter((numbers[character] for character in text), np.float32, len(text))
