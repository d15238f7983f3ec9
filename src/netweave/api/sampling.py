"""Text of a character model, drawn character by character."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from netweave.api.arguments import check_file
from netweave.api.inspecting import prepare
from netweave.errors import RunError, UsageError
from netweave.formats import find_job_format
from netweave.formats.singa.energy import RecurrentJob
from netweave.training.data.sources.composed import read_vocabulary


class CharacterModel:
    """A trained net of characters in the state that what it has read so far has left.

    Args:
        job: A ``job.conf`` with a kCharRNN, or one for sampling such as SINGA's ``sample.conf``.
        weights: A checkpoint of its training, ``step1000-worker0``.
        backend: Name of the backend.

    Attributes:
        vocabulary: The characters in the order of their numbers.

    Raises:
        SourceError: The files cannot be read, or do not fit together.
        UsageError: The job is not one of SINGA's.
    """

    def __init__(self, job: str | Path, weights: str | Path, *, backend: str = "onnxruntime") -> None:
        row = find_job_format(check_file(job, what="job"))
        if row is None or not row.runs.samples:
            raise UsageError(f"{job}: is not a job.conf of SINGA, expected one with a net of characters")
        net = RecurrentJob(Path(job))
        self._job = str(job)
        self.vocabulary = read_vocabulary(str(net.vocabulary))
        self._numbers = {character: number for number, character in enumerate(self.vocabulary)}
        self._step = net.step(check_file(weights, what="weights"), len(self.vocabulary))
        self._runner = prepare(self._step.graph, backend=backend)
        self._states: dict[str, np.ndarray] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what was read: all states are zero, as at the beginning of each batch in training."""
        self._states = {state.input: np.zeros((1, state.size), np.float32) for state in self._step.states}

    def read(self, character: str) -> np.ndarray:
        """Read a character and return the scores of the next: what a softmax turns into probabilities.

        Raises:
            UsageError: The character is not in the vocabulary.
            RunError: A score is not finite.
        """
        if character not in self._numbers:
            raise UsageError(f"{self._job}: the character {character!r} is not in the vocabulary")
        number = np.array([self._numbers[character]], np.float32)
        computed = self._runner.run({self._step.character: number, **self._states})
        self._states = {state.input: computed[state.output] for state in self._step.states}
        scores: np.ndarray = computed[self._step.scores][0].astype(np.float64)
        if not np.isfinite(scores).all():
            raise RunError(
                f"{self._job}: scores are not finite after {character!r}; did its training diverge?"
            )
        return scores

    def characters(self, start: str, *, temperature: float, seed: int) -> Iterator[str]:
        """Yield characters that go on after a text, without end; see ``sample``."""
        generator = np.random.default_rng(seed)
        if not start:  # as kRNNDummy does in SINGA's sample.conf
            start = self.vocabulary[generator.integers(len(self.vocabulary))]
            yield start
        self.reset()
        for character in start[:-1]:
            self.read(character)
        scores = self.read(start[-1])
        while True:
            character = self.vocabulary[_draw(scores, temperature, generator)]
            yield character
            scores = self.read(character)


def sample(
    job: str | Path,
    weights: str | Path,
    *,
    length: int = 200,
    start: str = "",
    temperature: float = 1.0,
    seed: int = 0,
    backend: str = "onnxruntime",
) -> str:
    """Return text that a trained net of characters writes.

    The net reads ``start`` from a state of zeros, then each character that it draws; its state is carried.

    Args:
        job: A ``job.conf`` with a kCharRNN, or one for sampling such as SINGA's ``sample.conf``.
        weights: A checkpoint of its training, ``step1000-worker0``.
        length: How many characters.
        start: What the text goes on from, which is not returned; without it the first character is drawn,
            each as likely as any other.
        temperature: What scores are divided by before they become probabilities: below 1 likely characters
            become likelier; 0 takes the likeliest, as SINGA's kArgSort.
        seed: Of the random numbers.
        backend: Name of the backend.

    Raises:
        SourceError: The files cannot be read, or do not fit together.
        UsageError: An option is wrong, or ``start`` has a character that is not in the vocabulary.
        RunError: The net cannot be run.
    """
    characters = stream_sample(
        job, weights, length=length, start=start, temperature=temperature, seed=seed, backend=backend
    )
    return "".join(characters)


def stream_sample(
    job: str | Path,
    weights: str | Path,
    *,
    length: int,
    start: str,
    temperature: float,
    seed: int,
    backend: str = "onnxruntime",
) -> Iterator[str]:
    """Yield the characters of ``sample`` as they are drawn."""
    if length < 0 or seed < 0:
        raise UsageError(f"length is {length} and seed is {seed}, expected 0 or more")
    if not 0 <= temperature < np.inf:
        raise UsageError(f"temperature is {temperature}, expected a number of 0 or more")
    model = CharacterModel(job, weights, backend=backend)
    characters = model.characters(start, temperature=temperature, seed=seed)
    return islice(characters, length)


def _draw(scores: np.ndarray, temperature: float, generator: np.random.Generator) -> int:
    if temperature == 0:
        return int(scores.argmax())
    # shifted first, so that a small temperature makes large negative numbers and never infinite ones
    with np.errstate(over="ignore"):
        shares = np.exp((scores - scores.max()) / temperature)
    return int(generator.choice(len(shares), p=shares / shares.sum()))
