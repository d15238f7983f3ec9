"""A character-level net of unrolled GRUs: equal to the same net written by hand in PyTorch; resuming."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402 - after the check for torch
from netweave.errors import ReadError  # noqa: E402
from netweave.runtime.engine import ThreadedEngine  # noqa: E402
from netweave.training import Shown, Updated  # noqa: E402
from tests.training import char_rnn  # noqa: E402
from tests.training.char_rnn import HIDDEN, RUN, STREAMS, TEXT, VOCABULARY  # noqa: E402
from tests.training.singa_jobs import arrays_of  # noqa: E402
from tests.training.trainers import make_trainer  # noqa: E402


@pytest.fixture
def load(tmp_path):
    def loaded(steps, more=""):
        char_rnn.write(tmp_path, steps, more)
        return netweave.load_job(tmp_path / "job.conf")

    return loaded


def train(job, **options):
    events = []
    with ThreadedEngine() as engine:
        options.setdefault("dtype", torch.float64)
        trainer = make_trainer(job, engine=engine, seed=5, watch=events.append, **options)
        trainer.run()
        trainer.close()
    return trainer, events


def by_hand(arrays, steps):
    """Yield the loss of each step: the sum over a run of the mean loss over the streams."""
    p = {key: torch.tensor(array, requires_grad=True) for key, array in arrays.items()}
    squares = {key: torch.zeros_like(tensor) for key, tensor in p.items()}
    numbers = torch.tensor([VOCABULARY.index(character) for character in TEXT])
    stride, offset = len(TEXT) // STREAMS, 0
    for step in range(steps):
        if offset + RUN + 1 > stride:  # the last stream would read beyond the text
            offset = 0
        h, loss = torch.zeros(STREAMS, HIDDEN, dtype=torch.float64), 0.0
        for t in range(RUN):
            at = torch.arange(STREAMS) * stride + offset + t
            x = torch.nn.functional.one_hot(numbers[at], len(VOCABULARY)).double()
            z = torch.sigmoid(x @ p["z_hx"].T + h @ p["z_hh"].T + p["z_b"])
            r = torch.sigmoid(x @ p["r_hx"].T + h @ p["r_hh"].T + p["r_b"])
            c = torch.tanh(x @ p["c_hx"].T + r * (h @ p["c_hh"].T) + p["c_b"])
            h = (1 - z) * c + z * h
            loss = loss + torch.nn.functional.cross_entropy(h @ p["w"].T + p["b"], numbers[at + 1])
        for tensor in p.values():
            tensor.grad = None
        loss.backward()
        yield loss.item()
        rate = 0.01 * 0.9 ** (step // 20)
        with torch.no_grad():
            for key, tensor in p.items():
                g = tensor.grad.clamp(-0.05, 0.05)
                squares[key] = 0.95 * squares[key] + 0.05 * g * g
                tensor -= rate * g / (squares[key] + 1e-8).sqrt()
        offset += RUN


@pytest.mark.slow
def test_fifty_steps_are_those_of_pytorch(load):
    first = arrays_of(train(load(0))[0])
    _, events = train(load(50))
    found = [event.loss for event in events if isinstance(event, Updated)]
    expected = list(by_hand(first, 50))
    assert expected[-1] < 0.75 * expected[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_perplexity_comes_down(load):
    _, events = train(load(300, "disp_freq: 299"))
    shown = [event for event in events if isinstance(event, Shown)]
    losses = [sum(event.outputs[f"{t}#loss"][0] for t in range(RUN)) / RUN for event in shown[:1]]
    last = [event.loss for event in events if isinstance(event, Updated)][-20:]
    assert math.exp(losses[0]) > 20
    assert math.exp(np.mean(last) / RUN) < 3.5


@pytest.mark.slow
def test_resuming_goes_on_to_the_bit(load, tmp_path):
    straight = arrays_of(train(load(12, "checkpoint_freq: 5"))[0])
    again, _ = train(load(12), resume=tmp_path / "checkpoint" / "step_iter_5.checkpoint")
    for key, array in arrays_of(again).items():
        np.testing.assert_array_equal(array, straight[key])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.txt", "the fox?", r"text\.txt:1: the character '\?' is not in the vocabulary"),
        ("text.txt", "the fox", r"text\.txt: has 7 characters, too few for 3 streams of more than 6"),
        (
            "vocab.txt",
            "abca",
            r"vocab\.txt: has the character 'a' twice, expected each character of the text once",
        ),
    ],
)
def test_texts_that_do_not_fit(name, content, message, load, tmp_path):
    job = load(1)
    (tmp_path / name).write_text(content)
    with pytest.raises(ReadError, match=message):
        train(job)
