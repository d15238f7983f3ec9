"""Random draws in torch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from netweave.runtime.backends.torch.operator_table import Ints, Number, lowering, torch_dtype

# All draws come from ``Draws``, by the node's own stream; a seed that stands in the net is not used.


def _kind(x: Tensor, dtype: int | None) -> torch.dtype:
    return x.dtype if dtype is None else torch_dtype(dtype)


def _uniform_like(x: Tensor, draws: Draws, stream: int) -> Tensor:
    """Return uniform numbers in the shape of a tensor, laid out in memory as it is."""
    drawn = draws.uniform(stream, x.shape, device=x.device)
    last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return drawn.contiguous(memory_format=torch.channels_last) if last else drawn


@lowering("Dropout", since=12)
def dropout(
    data: Tensor,
    ratio: Number | None = None,
    training_mode: Number | None = None,
    *,
    seed: int | None = None,
    num_outputs: int = 1,
    training: bool = False,
    draws: Draws,
    stream: int,
) -> tuple[Tensor, ...]:
    """Zero elements with probability ``ratio`` (0.5 if it is not given) and scale up the rest.

    Active while the net is in training mode, or always if the net itself says so.
    """
    probability = 0.5 if ratio is None else float(ratio)
    active = bool(training or training_mode) and probability > 0
    if not active:
        return (data,) if num_outputs == 1 else (data, torch.ones_like(data, dtype=torch.bool))
    mask = _uniform_like(data, draws, stream) >= probability
    kept = torch.zeros_like(data) if probability >= 1 else data * mask.to(data.dtype).div_(1 - probability)
    return (kept,) if num_outputs == 1 else (kept, mask)


@lowering("RandomNormal", since=1)
def random_normal(
    *,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: Ints,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a normal distribution."""
    return mean + scale * draws.normal(stream, shape).to(torch_dtype(dtype))


@lowering("RandomUniform", since=1)
def random_uniform(
    *,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: Ints,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a uniform distribution."""
    return low + (high - low) * draws.uniform(stream, shape).to(torch_dtype(dtype))


@lowering("RandomNormalLike", since=1)
def random_normal_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a normal distribution, as many as ``x`` has elements."""
    return mean + scale * draws.normal(stream, x.shape, device=x.device).to(_kind(x, dtype))


@lowering("RandomUniformLike", since=1)
def random_uniform_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a uniform distribution, as many as ``x`` has elements."""
    return low + (high - low) * _uniform_like(x, draws, stream).to(_kind(x, dtype))


@lowering("Bernoulli", since=15)
def bernoulli(
    x: Tensor, *, dtype: int | None = None, seed: float | None = None, draws: Draws, stream: int
) -> Tensor:
    """Return one with the probability that ``x`` says, else zero."""
    return (_uniform_like(x, draws, stream) < x).to(_kind(x, dtype))


@lowering("Multinomial", since=7)
def multinomial(
    x: Tensor,
    *,
    dtype: int = 6,
    sample_size: int = 1,
    seed: float | None = None,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw classes, with replacement, from the logarithms of their probabilities."""
    shares = torch.softmax(x.double(), -1).cumsum(-1)
    drawn = draws.uniform(stream, (*x.shape[:-1], sample_size), device=x.device)
    sample = torch.searchsorted(shares, drawn.double().contiguous() * shares[..., -1:])
    return sample.clamp(max=x.shape[-1] - 1).to(torch_dtype(dtype))


# The generator is Philox 4x64-10 (Salmon et al., 2011), which turns a key and a counter into random bits
# without a state in between. The key is (seed, node), the counter (block, 0, step, 0), and element e of a
# batch, counted sample by sample, has the 32-bit word e of that stream. A part of a batch so begins in the
# middle of the stream, and recomputing a layer draws the same again. NumPy's implementation takes 2.4 ns
# for a number, torch's Mersenne Twister 10, so that the same bits on all devices cost no more.

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

    def of_whole_batch(self, words: object, stream: int, shape: Sequence[int]) -> Tensor:
        """Return numbers for a value that has all samples of the batch, whatever this rank's share is.

        Args:
            words: ``uniform_words`` or ``normal_words``.
            stream: The stream.
            shape: Of the value, the samples first.
        """
        assert callable(words)
        count = math.prod(shape)
        start = self._first // shape[0] * count
        return torch.from_numpy(words(self._current(), stream, self._step, start=start, count=count)).reshape(
            list(shape)
        )

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
