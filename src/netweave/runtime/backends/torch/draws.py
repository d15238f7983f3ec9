"""Random numbers that depend on seed, step, sample and node alone, however a batch is cut.

The generator is Philox 4x64-10 (Salmon et al., 2011), which turns a key and a counter into random bits
without a state in between. The key is (seed, node), the counter (block, 0, step, 0), and element e of a
batch, counted sample by sample, has the 32-bit word e of that stream. A part of a batch so begins in the
middle of the stream, and recomputing a layer draws the same again. NumPy's implementation takes 2.4 ns for
a number, torch's Mersenne Twister 10, so that the same bits on all devices cost no more.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS_PER_BLOCK = 8
"""32-bit words for one counter: four words of 64 bits."""

_LARGEST = 2**64 - 1


def stream_of(name: str) -> int:
    """Return the number of a node's own stream, from its name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def uniform_words(seed: int, stream: int, step: int, *, start: int, count: int) -> np.ndarray:
    """Return uniform float32 numbers in [0, 1), multiples of 2^-24.

    Args:
        seed: First half of the key.
        stream: Second half of the key.
        step: Third word of the counter.
        start: Number of the first element in its stream.
        count: How many.
    """
    block, skipped = divmod(start, _WORDS_PER_BLOCK)
    bits = np.random.Philox(key=[seed & _LARGEST, stream & _LARGEST], counter=[block, 0, step, 0])
    drawn = np.random.Generator(bits).random(count + skipped, dtype=np.float32)
    return drawn[skipped:]


def normal_words(seed: int, stream: int, step: int, *, start: int, count: int) -> np.ndarray:
    """Return standard normal float32 numbers, by Box and Muller's formula from two uniform ones each."""
    pairs = uniform_words(seed, stream, step, start=2 * start, count=2 * count)
    radius = np.sqrt(-2.0 * np.log1p(-pairs[0::2]))
    normal: np.ndarray = radius * np.cos(np.float32(2.0 * math.pi) * pairs[1::2])
    return normal


class Draws:
    """Random streams of a net's random operators; each operator names its own.

    Until ``at`` is called, every pass is seeded by torch's own generator, so that ``torch.manual_seed``
    governs a loop of the user's own.
    """

    def __init__(self) -> None:
        self._pinned = False
        self._seed: int | None = None
        self._step = self._first = self._samples = 0

    def at(self, *, seed: int, step: int, first: int = 0, samples: int = 0) -> None:
        """Say what is computed from now on.

        Args:
            seed: Of the run.
            step: Number of the update, or of the test.
            first: Number, in the whole batch, of the first sample that is computed.
            samples: How many samples are computed; 0 if that is not known.
        """
        self._pinned = True
        self._seed, self._step, self._first, self._samples = seed, step, first, samples

    def release(self) -> None:
        """Let torch's generator seed each pass again."""
        self.__init__()  # type: ignore[misc]  # of this very class: everything as it was at first

    def images_seen(self, *, per_update: int, per_pass: int) -> int:
        """Return how many samples the run has seen with those of the present pass.

        Args:
            per_update: Samples of one update.
            per_pass: Samples of one forward pass, of which there may be several in an update.
        """
        return self._step * per_update + (self._first // per_pass + 1) * per_pass

    def begin(self) -> None:
        """A pass begins; one that ``at`` does not govern is seeded anew, when first something is drawn."""
        if not self._pinned:
            self._seed = None

    def uniform(self, stream: int, shape: Sequence[int], *, device: torch.device | None = None) -> Tensor:
        """Return uniform float32 numbers in [0, 1)."""
        return self._draw(uniform_words, stream, shape, device)

    def normal(self, stream: int, shape: Sequence[int], *, device: torch.device | None = None) -> Tensor:
        """Return standard normal float32 numbers."""
        return self._draw(normal_words, stream, shape, device)

    def seed_torch(self, stream: int) -> None:
        """Seed torch's and NumPy's generators, for an operator of the user's own that draws from them."""
        words = np.random.SeedSequence([self._current(), stream, self._step, self._first]).generate_state(3)
        torch.manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)
        np.random.seed(int(words[2]))  # noqa: NPY002 - the generator that a user's function may use

    def _current(self) -> int:
        if self._seed is None:
            self._seed = int(torch.randint(2**62, ()).item())
        return self._seed

    def _draw(self, words: object, stream: int, shape: Sequence[int], device: torch.device | None) -> Tensor:
        assert callable(words)
        axis = self._sample_axis(shape)
        sizes = list(shape)
        if axis:
            sizes[0], sizes[axis] = sizes[axis], sizes[0]
        count = math.prod(sizes)
        start = 0 if axis is None else self._first * (count // max(self._samples, 1))
        drawn = words(self._current(), stream, self._step, start=start, count=count)
        tensor = torch.from_numpy(drawn).reshape(sizes)
        if axis:
            tensor = tensor.transpose(0, axis)
        return tensor if device is None else tensor.to(device, non_blocking=True)

    def _sample_axis(self, shape: Sequence[int]) -> int | None:
        """Return the axis of the samples: 0, or 1 in sequences (T, N, ...); None where there is none.

        An axis of several rows for each sample, as after a reshape, is one too if it is the first. What has
        no such axis is the same for all parts of a batch.
        """
        if not self._samples:
            return 0
        for axis, size in enumerate(shape[:2]):
            if size == self._samples:
                return axis
        return 0 if shape and shape[0] and shape[0] % self._samples == 0 else None
