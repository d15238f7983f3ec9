"""Text from a trained net of characters: one step at a time, as the unrolled net reads a whole prefix."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")

import netweave  # noqa: E402 - after the check for torch
from netweave.api import CharacterModel  # noqa: E402
from netweave.cli import netweave as command  # noqa: E402
from netweave.errors import ReadError, ShapeError, UnsupportedError, UsageError, WeightError  # noqa: E402
from tests.training.singa_jobs import job_text, params  # noqa: E402

RUN, HIDDEN = 8, 12
VOCABULARY = "abcd .\n"
PERIOD = "abc d.\n"
INIT = "init { type: kUniform low: -0.4 high: 0.4 }"
LOWER, UPPER = (
    params(**dict.fromkeys((f"{gate}_{part}{at}" for part in parts for gate in "zrc"), INIT))
    for at, parts in ((1, ("hx", "hh", "b")), (2, ("hx", "hh")))
)
GRUS = f"""
layer {{ name: "gru1" type: kGRU srclayers: "onehot" gru_conf {{ dim_hidden: {HIDDEN} }} {LOWER} }}
layer {{ name: "gru2" type: kGRU srclayers: "gru1" gru_conf {{ dim_hidden: 9 }} {UPPER} }}
layer {{ name: "ip" type: kInnerProduct srclayers: "gru2"
  innerproduct_conf {{ num_output: {len(VOCABULARY)} }} {params(w=INIT, b=INIT)} }}
"""
TRAINED = (
    f"""
layer {{ name: "data" type: kCharRNN unroll_len: 1
  char_rnn_conf {{ path: "text.txt" vocab_path: "vocab.txt" unroll_len: {RUN} batchsize: 4 }} }}
layer {{ name: "onehot" type: kOneHot srclayers: "data" unroll_conn_type: kUnrollOneToAll
  onehot_conf {{ vocab_size: {len(VOCABULARY)} }} }}
layer {{ name: "label" type: kRNNLabel srclayers: "data" unroll_conn_type: kUnrollOneToAll }}
"""
    + GRUS
    + 'layer { name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "label" }'
)
SAMPLED = f"""
train_one_batch {{ alg: kBPTT }}
neuralnet {{
layer {{ name: "data" type: kRNNDummy
  rnn_dummy_conf {{ shape: 1 integer: true low: 0 high: {len(VOCABULARY)} dynamic_srclayer: "argsort" }} }}
layer {{ name: "onehot" type: kOneHot srclayers: "data" }}
{GRUS}
layer {{ name: "softmax" type: kSoftmax srclayers: "ip" }}
layer {{ name: "argsort" type: kArgSort srclayers: "softmax" }}
layer {{ name: "sampling" type: kCharRNNOutput srclayers: "argsort"
  char_rnn_conf {{ vocab_path: "vocab.txt" }} }}
}}
"""
"""SINGA's sample.conf, whose kOneHot has no 'vocab_size'."""


def write_job(folder, steps):
    (folder / "text.txt").write_text(PERIOD * 40)
    (folder / "vocab.txt").write_text(VOCABULARY)
    (folder / "sample.conf").write_text(SAMPLED)
    rule = "type: kRMSProp rmsprop_conf { rho: 0.9 } learning_rate { type: kFixed base_lr: 0.01 }"
    text = job_text(TRAINED, updater=rule, alg="kBPTT", more=f"train_steps: {steps}", workspace=str(folder))
    path = folder / "job.conf"
    path.write_text(text.replace("neuralnet {", f"neuralnet {{ unroll_len: {RUN}"))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chars")
    job = write_job(folder, 120)
    netweave.train(netweave.load_job(job), seed=3)
    return job, folder / "checkpoint" / "step120-worker0"


@pytest.mark.slow
@pytest.mark.parametrize("file", ["job.conf", "sample.conf"])
def test_conditional_probabilities_are_those_of_the_unrolled_net(file, trained):
    job, weights = trained
    prefix = "b.ca\ndb "
    numbers = np.array([[VOCABULARY.index(one)] for one in prefix + "a"], np.float32)
    taps = [f"{step}#ip" for step in range(RUN)]
    expected = netweave.run(netweave.load(job, weights), {"data": numbers}, taps=taps)
    model = CharacterModel(job.with_name(file), weights)
    for _ in range(2):  # the second time after a reset
        model.reset()
        for tap, character in zip(taps, prefix, strict=True):
            np.testing.assert_allclose(softmax(model.read(character)), softmax(expected[tap][0]), atol=1e-5)
    again = softmax(model.read(prefix[0]))  # whose state is not zero
    assert np.abs(again - softmax(expected[taps[0]][0])).max() > 1e-3


def softmax(scores):
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


def test_a_periodic_text_is_continued_beyond_the_length_of_a_run(trained):
    job, weights = trained
    text = netweave.sample(job, weights, start=PERIOD[:3], length=10 * len(PERIOD), temperature=0)
    assert text == (PERIOD[3:] + PERIOD * 10)[: len(text)]
    assert len(text) == 10 * len(PERIOD)


def test_draws_follow_the_probabilities_at_a_temperature(trained):
    job, weights = trained
    model = CharacterModel(job, weights)
    scores = 3.0 * model.read("d")
    for temperature in (3.0, 12.0):
        drawn = [next(model.characters("d", temperature=temperature, seed=seed)) for seed in range(600)]
        shares = np.array([drawn.count(one) for one in VOCABULARY]) / 600
        expected = softmax(scores / 3.0 / temperature)
        assert expected.max() < 0.99
        np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / 600**0.5)


def test_the_seed_decides(trained):
    one, same, other = (netweave.sample(*trained, temperature=5, length=60, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
    assert set(one) <= set(VOCABULARY)


def test_the_command_writes_the_start_and_what_goes_on(trained):
    job, weights = map(str, trained)
    arguments = ["sample", job, weights, "--length", "9", "--start", "abc", "--temperature", "0"]
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, result.output) == (0, "abc d.\nabc d\n")


def test_what_cannot_be_sampled(trained, tmp_path):
    job, weights = trained
    with pytest.raises(UsageError, match="the character 'x' is not in the vocabulary"):
        netweave.sample(job, weights, start="ax")
    with pytest.raises(UsageError, match=r"temperature is -1, expected a number of 0 or more"):
        netweave.sample(job, weights, temperature=-1)
    with pytest.raises(ReadError, match="is not a SINGA checkpoint"):
        netweave.sample(job, job)
    text = write_job(tmp_path, 1).read_text()
    for old, new, error, message in (
        ('"w" ', '"other" ', WeightError, r"has no 'other'"),
        ("type: kSoftmaxLoss", "type: kEuclideanLoss", ReadError, "has 0 layers of type kSoftmaxLoss"),
        (
            'srclayers: "gru1"',
            'srclayers: "gru1" shift: 1',
            UnsupportedError,
            "'gru2' reads other steps by 'shift'",
        ),
        ('vocab_path: "vocab.txt"', "", ReadError, "no layer has a 'vocab_path'"),
        ("dim_hidden: 9", "dim_hidden: 0", ReadError, "'dim_hidden' is 0, expected 1 or more"),
    ):
        assert old in text
        (tmp_path / "other.conf").write_text(text.replace(old, new, 1))
        with pytest.raises(error, match=message):
            netweave.sample(tmp_path / "other.conf", weights)
    (tmp_path / "vocab.txt").write_text(VOCABULARY + "!")
    with pytest.raises(ShapeError, match=r"layer 'ip' scores 7 characters, but .*vocab\.txt has 8"):
        netweave.sample(tmp_path / "job.conf", weights)
    (tmp_path / "solver.prototxt").write_text('net: "x"')
    with pytest.raises(UsageError, match=r"is not a job\.conf of SINGA"):
        netweave.sample(tmp_path / "solver.prototxt", weights)
