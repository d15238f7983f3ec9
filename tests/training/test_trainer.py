"""The loop: equal to Caffe's formulas in NumPy; what happens when; going on to the bit."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from netweave.errors import NetweaveError, RunError, UsageError, WriteError
from netweave.formats.caffe.job import read_solver
from netweave.runtime.engine import SerialEngine, ThreadedEngine
from netweave.training import Ended, Evaluated, Saved, Shown, Updated, latest, read_checkpoint
from netweave.training.checkpoint_file import kept
from tests.training.small import NET, NUM_FEATURES, SOLVER, Reference, records, write
from tests.training.trainers import make_trainer

SHAPES = {"data": (5, NUM_FEATURES), "label": (5,)}


def job_of(folder, solver=SOLVER, net=NET):
    return read_solver(write(folder, solver, net), input_shapes=SHAPES)


def data():
    x, labels = records()
    arrays = {"data": x, "label": labels}
    return {"train": arrays, "test": arrays}


def train(job, *, stop_at=None, engine=ThreadedEngine, **options):
    """Run a job on the records; return the trainer and what it told."""
    events = []
    with engine() as made:

        def watch(event):
            events.append(event)
            if isinstance(event, Shown) and event.iteration == stop_at:
                trainer.stop()

        options.setdefault("dtype", torch.float64)
        trainer = make_trainer(job, engine=made, data=data(), watch=watch, **options)
        finished = trainer.run()
        trainer.close()
    assert finished == (stop_at is None)
    return trainer, [event for event in events if not isinstance(event, Updated | Ended)]


def arrays(trainer):
    return {key: tensor.detach().numpy().copy() for key, tensor in trainer.nets["train"].params.items()}


KINDS = [
    ("SGD", {}),
    ("SGD", {"clip_gradients": 0.5}),
    ("SGD", {"regularization_type": "L1"}),
    ("Nesterov", {}),
    ("AdaGrad", {"momentum": 0, "delta": 1e-6}),
    ("RMSProp", {"momentum": 0, "rms_decay": 0.95}),
    ("AdaDelta", {"delta": 1e-6, "momentum": 0.95}),
    ("Adam", {"momentum2": 0.99}),
]


@pytest.mark.parametrize(("kind", "changes"), KINDS)
def test_twenty_iterations_are_those_of_caffes_formulas(tmp_path, kind, changes):
    settings = {
        "base_lr": 0.1,
        "gamma": 0.1,
        "power": 0.75,
        "momentum": 0.9,
        "weight_decay": 0.01,
        "iter_size": 2,
    }
    settings |= changes
    text = "".join(f"{key}: {value!r}\n".replace("'", '"') for key, value in settings.items())
    text += f'net: "net.prototxt" lr_policy: "inv" max_iter: 20 display: 1 type: "{kind}"\n'
    job = job_of(tmp_path, text + "random_seed: 3 snapshot_after_train: false\n")
    with SerialEngine() as engine:
        shown = []
        trainer = make_trainer(job, engine=engine, data=data(), dtype=torch.float64, watch=shown.append)
        first = arrays(trainer)
        reference = Reference([first["ip/0"], first["ip/1"]], kind, settings)
        trainer.run()
    for _ in range(20):
        reference.step()
    assert np.abs(first["ip/0"]).max() > 0.1
    np.testing.assert_allclose(arrays(trainer)["ip/0"], reference.weights[0], rtol=1e-9)
    np.testing.assert_allclose(arrays(trainer)["ip/1"], reference.weights[1], rtol=1e-9)
    losses = [event.loss for event in shown if isinstance(event, Shown)]
    np.testing.assert_allclose(losses[:20], reference.losses, rtol=1e-9)


def test_what_happens_when(tmp_path):
    """Solver::Step: test, update, display, count, snapshot; Solver::Solve: snapshot, display, test."""
    more = "test_iter: 3 test_interval: 4 snapshot: 3\n"
    job = job_of(tmp_path, SOLVER.replace("max_iter: 20", "max_iter: 8") + more)
    _, events = train(job)
    assert [(type(event).__name__, event.iteration) for event in events] == [
        ("Evaluated", 0), ("Shown", 0), ("Saved", 3), ("Evaluated", 4), ("Shown", 4), ("Saved", 6),
        ("Saved", 8), ("Shown", 8), ("Evaluated", 8),
    ]  # fmt: skip


def test_no_test_at_the_start_and_none_at_an_end_that_is_not_due(tmp_path):
    more = "test_iter: 3 test_interval: 4 test_initialization: false snapshot_after_train: false\n"
    _, events = train(job_of(tmp_path, SOLVER.replace("max_iter: 20", "max_iter: 6") + more))
    found = [(type(event).__name__, event.iteration) for event in events]
    assert found == [("Shown", 0), ("Evaluated", 4), ("Shown", 4)]


def test_the_shown_loss_is_the_mean_of_the_last_iterations(tmp_path):
    text = SOLVER.replace("display: 4", "display: 1").replace("max_iter: 20", "max_iter: 7")
    text += "snapshot_after_train: false\n"
    smoothed = [event.loss for event in train(job_of(tmp_path, text))[1]]
    single = [event.loss for event in train(job_of(tmp_path, text.replace("average_loss: 3", "")))[1]]
    means = [np.mean(single[max(0, at - 2) : at + 1]) for at in range(7)]
    np.testing.assert_allclose(smoothed[:7], means, rtol=1e-12)


def test_a_test_is_the_mean_over_its_batches(tmp_path):
    more = "test_iter: 4 test_interval: 20 snapshot_after_train: false\n"
    trainer, events = train(job_of(tmp_path, SOLVER + more))
    tests = [event for event in events if isinstance(event, Evaluated)]
    assert len(tests) == 2
    weight, bias = (arrays(trainer)[f"ip/{index}"] for index in range(2))
    x, labels = records()
    rows = np.arange(20, 40) % len(x)  # the second test goes on where the first ended
    hits = (x[rows] @ weight.T + bias).argmax(1) == labels[rows]
    assert tests[-1].outputs["accuracy"] == (pytest.approx(hits.mean()),)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_run_that_was_stopped_and_goes_on_ends_bit_for_bit_as_one_that_was_not(tmp_path, kind, dtype):
    text = SOLVER.replace("momentum: 0.9", f'momentum: 0.9 type: "{kind}"')
    text = text.replace("random_seed: 3", "").replace("display: 4", "display: 1")
    net = NET.replace("batch_size: 5", "batch_size: 5 shuffle: true")
    net = net.replace(
        'layer { name: "loss"',
        'layer { name: "drop" type: "Dropout" bottom: "ip" top: "ip" }\nlayer { name: "loss"',
    )
    job = job_of(tmp_path, text + "test_iter: 3 test_interval: 5\n", net)
    first, _ = train(job, stop_at=2, dtype=dtype)
    assert first.iteration == 3
    second, _ = train(job, stop_at=10, dtype=dtype, resume=tmp_path / "kept/linear_iter_3.checkpoint")
    resumed, events = train(job, dtype=dtype, resume=tmp_path / "kept/linear_iter_11.checkpoint")
    whole, all_events = train(job, dtype=dtype, resume=None, seed=resumed.seed)
    assert first.seed == second.seed == resumed.seed
    for key, array in arrays(whole).items():
        np.testing.assert_array_equal(arrays(resumed)[key], array)
    assert shown(events) == [row for row in shown(all_events) if row[0] >= 11]
    assert [e.outputs for e in events if isinstance(e, Evaluated)] == [
        e.outputs for e in all_events if isinstance(e, Evaluated) and e.iteration >= 11
    ]


def shown(events):
    return [(event.iteration, event.loss, event.rate) for event in events if isinstance(event, Shown)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["BINARYPROTO", "HDF5"])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_caffes_own_state_goes_on_too(tmp_path, form, kind):
    text = SOLVER.replace("momentum: 0.9", f'momentum: 0.9 type: "{kind}"') + f"snapshot_format: {form}\n"
    suffix = ".h5" if form == "HDF5" else ""
    options = {"dtype": torch.float32}
    train(job_of(tmp_path, text.replace("max_iter: 20", "max_iter: 8")), **options)
    resumed, _ = train(
        job_of(tmp_path, text), resume=tmp_path / f"kept/linear_iter_8.solverstate{suffix}", **options
    )
    whole, _ = train(job_of(tmp_path, text), **options)
    for key, array in arrays(whole).items():
        np.testing.assert_array_equal(arrays(resumed)[key], array)


def test_only_the_last_checkpoints_are_kept(tmp_path):
    _, events = train(job_of(tmp_path, SOLVER + "snapshot: 4\n"), keep=2)
    assert [event.iteration for event in events if isinstance(event, Saved)] == [4, 8, 12, 16, 20]
    names = sorted(path.name for path in (tmp_path / "kept").glob("*.checkpoint"))
    assert names == ["linear_iter_16.checkpoint", "linear_iter_20.checkpoint"]
    assert len(list((tmp_path / "kept").glob("*.caffemodel"))) == 5


def test_a_run_neither_counts_nor_removes_the_checkpoints_of_another(tmp_path):
    """The same folder, three times: to 20, from the beginning to 8, and from there to 12."""

    def iterations():
        return sorted(iteration for iteration, _ in kept(str(tmp_path / "kept/linear")))

    def to(end, **options):
        text = SOLVER.replace("max_iter: 20", f"max_iter: {end}")
        train(job_of(tmp_path, f"{text} snapshot: 4\n"), keep=2, **options)

    to(20)
    assert iterations() == [16, 20]
    to(8)
    assert iterations() == [4, 8, 16, 20]
    path, found = latest(str(tmp_path / "kept/linear"))
    assert found.state["iteration"] == 8
    to(12, resume=path)
    assert iterations() == [8, 12, 16, 20]


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    job = job_of(tmp_path, SOLVER + "snapshot: 1\n")
    x, labels = records()
    x[12] = np.nan  # of the second iteration's first batch
    with ThreadedEngine() as engine:
        trainer = make_trainer(job, engine=engine, data={"train": {"data": x, "label": labels}})
        with pytest.raises(RunError, match=r"the loss is nan in iteration 1: the input .data. holds"):
            trainer.run()
        trainer.close()
    assert [path.name for path in (tmp_path / "kept").glob("*.checkpoint")] == ["linear_iter_1.checkpoint"]
    assert read_checkpoint(tmp_path / "kept/linear_iter_1.checkpoint").state["iteration"] == 1


def test_a_checkpoint_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(WriteError, match="cannot be written"):
        train(job_of(tmp_path))


def test_a_checkpoint_of_another_net_is_refused(tmp_path):
    train(job_of(tmp_path))
    net = NET.replace("num_output: 4", "num_output: 5")
    with pytest.raises(UsageError, match=r"belongs to another net: ip/0, ip/1"):
        train(job_of(tmp_path, net=net), resume=Path(tmp_path / "kept/linear_iter_20.checkpoint"))
    other = job_of(tmp_path, SOLVER.replace("momentum: 0.9", 'momentum: 0.9 type: "Adam"'))
    with pytest.raises(NetweaveError, match=re.escape("holds 2 arrays, expected 4 (2 for each parameter)")):
        train(other, resume=Path(tmp_path / "kept/linear_iter_20.solverstate"))


@pytest.fixture
def some_bfloat16(monkeypatch):
    """Take the processor for one with bfloat16: torch computes it anywhere, if slowly."""
    monkeypatch.setattr("netweave.training.net_passes.check_bfloat16", lambda device: None)


@pytest.mark.slow
@pytest.mark.usefixtures("some_bfloat16")
def test_parameters_stay_in_float32_in_mixed_precision(tmp_path):
    exact, _ = train(job_of(tmp_path), dtype=torch.float32)
    mixed, _ = train(job_of(tmp_path), dtype=torch.float32, precision="bf16")
    for key, array in arrays(exact).items():
        found = arrays(mixed)[key]
        assert found.dtype == np.float32
        assert not np.array_equal(found, array)
        np.testing.assert_allclose(found, array, atol=0.03)


def test_bfloat16_is_refused_where_the_processor_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    with pytest.raises(
        UsageError, match="needs a processor with AVX512-BF16 or AMX, which 'cpu' here is not"
    ):
        train(job_of(tmp_path), dtype=torch.float32, precision="bf16")


def test_an_unknown_precision_is_refused(tmp_path):
    with pytest.raises(UsageError, match="precision is 'f16', expected f32 or bf16"):
        train(job_of(tmp_path), precision="f16")


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        (
            {},
            {"train": {"data": np.zeros((9, 7)), "label": np.zeros(9)}},
            "a record of 'data' is 7, .* for 6",
        ),
        ({}, {"train": {"data": np.zeros((9, 6))}}, "given for data and not for label"),
        ({}, {"train": {"image": np.zeros((9, 6))}}, "given for image, the net has inputs data, label"),
        ({"base_lr": "momentum2: 0.5 base_lr", "0.9": '0.9 type: "RMSProp"'}, None, "momentum is 0.9"),
    ],
)
def test_what_is_refused_before_the_first_step(tmp_path, change, given, message):
    text = SOLVER
    for old, new in change.items():
        text = text.replace(old, new, 1)
    with SerialEngine() as engine, pytest.raises(UsageError, match=message):
        make_trainer(job_of(tmp_path, text), engine=engine, data=given or data())
