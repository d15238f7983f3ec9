"""Fits that are killed, or stopped, and go on: they end as one that was not, bit for bit."""

from __future__ import annotations

import json
import os
import random
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave.mxnet as mx  # noqa: E402 - after the check for torch
from netweave.errors import ReadError, RunError, UnsupportedError, UsageError  # noqa: E402
from netweave.formats.mxnet.symbol import registry  # noqa: E402
from netweave.graph import operators  # noqa: E402
from netweave.training.checkpoint_file import Checkpoint, write_checkpoint  # noqa: E402
from tests.mxnet import fit_killed  # noqa: E402
from tests.mxnet.fit_killed import last  # noqa: E402


@pytest.fixture(autouse=True)
def tables():
    """The tables of operators stay as they are."""
    before = [(table, dict(table)) for table in (operators._OPERATORS, registry.READERS)]
    yield
    for table, rows in before:
        table.clear()
        table.update(rows)


def assert_equal(found, expected):
    assert json.dumps(found.state) == json.dumps(expected.state)  # numbers that are no numbers, too
    assert list(found.arrays) == list(expected.arrays)
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)


@pytest.mark.slow
@pytest.mark.multi
def test_a_fit_that_is_killed_goes_on_bit_for_bit(tmp_path):
    """In small form; ``benchmarks.failures`` does it a hundred times and more."""
    expected, score, duration = fit_killed.whole(tmp_path / "whole")
    assert last(tmp_path / "whole")[0] == fit_killed.UPDATES
    assert expected.arrays["memory:0:offsets_Offsets_memory:at"][0] == fit_killed.UPDATES
    draw = random.Random(1)
    for number in range(2):
        place = tmp_path / f"run {number}"
        kills, _ = fit_killed.killed(place, expected, score, duration, draw, most=10)
        assert kills
        assert_equal(last(place)[1], expected)


class Stop:
    """Sends a signal at an update, that of Ctrl-C by default."""

    def __init__(self, at, number=signal.SIGINT):
        self.left, self.number = at, number

    def __call__(self, param):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), self.number)


def assert_resumes(folder, stop_at, **options):
    """Check that a fit that is stopped at an update, and resumed, ends as one that is not stopped."""
    _, scores = fit_killed.fit(folder / "whole", **options)
    _, whole = last(folder / "whole")
    fit_killed.fit(folder / "stopped", batch_end_callback=Stop(stop_at), **options)
    assert last(folder / "stopped")[0] == stop_at
    torch.rand(3)
    mx.random.uniform(shape=(3,))  # nothing but the checkpoint says what is drawn next
    module, resumed = fit_killed.fit(folder / "stopped", resume=True, **options)
    assert_equal(last(folder / "stopped")[1], whole)
    assert str(resumed) == str(scores[len(scores) - len(resumed) :])
    (memory,) = [one for name, one in module.execs[0].memories().items() if "offsets" in name]
    assert int(memory.values["at"][0]) == last(folder / "whole")[0]


def test_a_fit_whose_machine_is_taken_away_ends_with_its_status_and_goes_on(tmp_path):
    fit_killed.fit(tmp_path / "whole")
    with pytest.raises(SystemExit) as ended:
        fit_killed.fit(tmp_path / "taken", resume="auto", batch_end_callback=Stop(5, signal.SIGTERM))
    assert ended.value.code == 143
    assert last(tmp_path / "taken")[0] == 5
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    fit_killed.fit(tmp_path / "taken", resume="auto")
    assert_equal(last(tmp_path / "taken")[1], last(tmp_path / "whole")[1])


@pytest.mark.parametrize("stop_at", [3, 8, 20])
def test_a_fit_that_is_stopped_goes_on_bit_for_bit(tmp_path, stop_at):
    assert_resumes(tmp_path, stop_at)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["nadam", "sgld", "ftml", "lbsgd"])
def test_optimizers_that_remember_or_draw_resume(tmp_path, optimizer):
    assert_resumes(tmp_path, 11, optimizer=optimizer)


class Mixed(mx.io.DataIter):
    """An iterator of a script's own, whose batches depend on their number alone."""

    def __init__(self):
        super().__init__(fit_killed.BATCH)
        self.inner = fit_killed.batches(shuffle=False)
        self.provide_data, self.provide_label = self.inner.provide_data, self.inner.provide_label

    def reset(self):
        self.inner.reset()

    def next(self):
        return self.inner.next()


ITERATORS = {
    "prefetched": lambda: mx.io.PrefetchingIter(fit_killed.batches()),
    "resized": lambda: mx.io.ResizeIter(fit_killed.batches(), 8),
    "going on": lambda: mx.io.ResizeIter(fit_killed.batches(), 8, reset_internal=False),
    "of a script": Mixed,
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_resume(tmp_path, name):
    assert_resumes(tmp_path, 11, data=ITERATORS[name])


def test_records_that_roll_over_resume(tmp_path):
    def made():
        data = np.random.default_rng(0).normal(size=(66, 5)).astype(np.float32)
        labels = data[:, :3].argmax(1)
        return mx.io.NDArrayIter(data, labels, 8, shuffle=True, last_batch_handle="roll_over")

    assert_resumes(tmp_path, 19, data=made)


def test_checkpoints_are_written_at_the_ends_of_epochs(tmp_path):
    module = mx.mod.Module(fit_killed.net())
    prefix = tmp_path / "fit"
    module.fit(fit_killed.batches(), num_epoch=3, checkpoint_prefix=prefix, keep=2)
    names = sorted(path.name for path in tmp_path.glob("*.checkpoint"))
    assert names == ["fit_iter_16.checkpoint", "fit_iter_24.checkpoint"]


def test_operators_keep_their_state_through_batches_of_another_size():
    """An evaluation binds the net to the size of its own batches, and a monitor to further outputs."""
    module = mx.mod.Module(fit_killed.net())
    data = fit_killed.batches()
    others = mx.io.NDArrayIter(data.data[0][1], data.label[0][1], 12)
    monitor = mx.mon.Monitor(1, pattern="fc2_output")
    module.fit(data, others, num_epoch=2)
    module.fit(data, others, num_epoch=2, monitor=monitor)
    (memory,) = [one for name, one in module.execs[0].memories().items() if "offsets" in name]
    assert int(memory.values["at"][0]) == fit_killed.UPDATES


def test_what_cannot_be_resumed_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"there is no checkpoint .*fit_iter_\*.checkpoint to go on from"):
        fit_killed.fit(tmp_path, resume=True)
    settings = {"num_epoch": 1, "eval_metric": "acc"}
    with pytest.raises(UsageError, match="resume=True needs checkpoint_prefix"):
        mx.mod.Module(fit_killed.net()).fit(fit_killed.batches(), **settings, resume=True)
    file = tmp_path / "other.checkpoint"
    write_checkpoint(file, Checkpoint({"seed": 1}, {}))
    with pytest.raises(UsageError, match=r"other.checkpoint: is not a checkpoint of Module.fit"):
        mx.mod.Module(fit_killed.net()).fit(fit_killed.batches(), **settings, resume=file)
    write_checkpoint(file, Checkpoint({"module fit": {"module": {}}}, {}))
    with pytest.raises(UsageError, match=r"belongs to another net: .*fc1_bias"):
        mx.mod.Module(fit_killed.net()).fit(fit_killed.batches(), **settings, resume=file)
    fit_killed.fit(tmp_path)
    damaged = Checkpoint({"module fit": {"module": {"rate": 1}}}, last(tmp_path)[1].arrays)
    write_checkpoint(file, damaged)
    with pytest.raises(ReadError, match="is damaged, or not what its name says"):
        fit_killed.fit(tmp_path / "again", optimizer="adam", resume=file)
    with pytest.raises(UsageError, match=r"the saved state is .* the optimizer keeps"):
        fit_killed.fit(tmp_path / "again", optimizer="sgd", resume=file)
    svrg = mx.contrib.svrg_optimization.SVRGModule(fit_killed.net(), update_freq=1)
    with pytest.raises(UnsupportedError, match="a SVRGModule cannot resume a fit bit for bit"):
        svrg.fit(fit_killed.batches(), **settings, checkpoint_prefix=tmp_path / "svrg")


def test_nothing_is_written_of_a_net_with_nan(tmp_path):
    module = mx.mod.Module(fit_killed.net())
    with pytest.raises(RunError, match="update 1 left nan or inf in the parameter 'fc"):
        module.fit(
            fit_killed.batches(),
            num_epoch=1,
            optimizer_params={"learning_rate": float("inf")},
            checkpoint_prefix=tmp_path / "fit",
            checkpoint_interval=1,
        )
    assert not list(tmp_path.glob("*.checkpoint"))
