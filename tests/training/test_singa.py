"""Jobs of SINGA's: what happens when, averaged gradients, checkpoints that are handed on, resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.api.runs import load_phases  # noqa: E402
from netweave.errors import ReadError, UnsupportedError, UsageError  # noqa: E402 - after the check for torch
from netweave.files import Source  # noqa: E402
from netweave.formats.singa.checkpoint import read_checkpoints  # noqa: E402
from netweave.formats.singa.reader import read  # noqa: E402
from netweave.formats.singa.training import files_of, weights_for  # noqa: E402
from netweave.graph import complete_arrays  # noqa: E402
from netweave.graph.passes.partition import LayerCut  # noqa: E402
from netweave.job import RunState  # noqa: E402
from netweave.runtime.engine import ThreadedEngine  # noqa: E402
from netweave.training import NormsSeen, Saved, Shown  # noqa: E402
from netweave.training.loading import make_nets  # noqa: E402
from netweave.training.partitioned import Partition  # noqa: E402
from tests.formats.singa.nets import layer  # noqa: E402
from tests.training.data.make import field, kvfile, singa_record  # noqa: E402
from tests.training.singa_jobs import (  # noqa: E402
    BATCH,
    CLASSIFIER,
    GAUSSIAN,
    RATE,
    TIED,
    ZERO,
    arrays_of,
    data,
    job,
    params,
    product,
    records,
    run,
)
from tests.training.trainers import make_trainer  # noqa: E402


def first_arrays(folder, net=CLASSIFIER):
    return arrays_of(run(job(folder, net, more="train_steps: 0"))[0])


def softmax_step(w, b, x, labels):
    """Return loss, accuracy and gradients of a linear classifier, by hand."""
    z = x @ w.T + b
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    hot = np.eye(len(b))[labels.astype(int)]
    loss = -np.log((p * hot).sum(axis=1)).mean()
    accuracy = (p.argmax(axis=1) == labels).mean()
    return loss, accuracy, (p - hot).T @ x / len(x), (p - hot).mean(axis=0)


def test_what_happens_when(tmp_path):
    """``Worker::Run``: validate, test, update, display; a checkpoint at the end.

    SINGA writes the checkpoint of a step behind its tests, here it stands before them: it holds the same.
    """
    more = """train_steps: 9 disp_freq: 3 disp_after: 1 test_freq: 4 test_steps: 2 validate_freq: 5
    validate_steps: 1 validate_after: 2 checkpoint_freq: 4 checkpoint_after: 3"""
    expected = []
    for step in range(9):
        for name, freq, after in (("checkpoint", 4, 3), ("validate", 5, 2), ("test", 4, 0), ("train", 3, 1)):
            if step >= after and (step - after) % freq == 0:
                expected.append((name, step))
    expected.append(("checkpoint", 9))
    _, events = run(job(tmp_path, more=more))
    names = {Shown: "train", Saved: "checkpoint"}
    found = [(names.get(type(event)) or event.phase, event.iteration) for event in events]
    assert found == expected


def test_a_display_shows_means_since_the_last_one_by_hand(tmp_path):
    first = first_arrays(tmp_path)
    _, events = run(job(tmp_path, more="train_steps: 7 disp_freq: 3"))
    w, b = first["w"], first["b"]
    given, losses, hits = records(), [], []
    for step in range(7):
        rows = np.arange(step * BATCH, (step + 1) * BATCH) % 23
        loss, accuracy, dw, db = softmax_step(w, b, given["data"][rows], given["label"][rows])
        losses.append(loss)
        hits.append(accuracy)
        w, b = w - 0.1 * dw, b - 0.2 * db
    shown = [event for event in events if isinstance(event, Shown)]
    assert [event.iteration for event in shown] == [0, 3, 6]
    for event, steps in zip(shown, (slice(0, 1), slice(1, 4), slice(4, 7)), strict=True):
        assert event.outputs["loss"] == pytest.approx((np.mean(losses[steps]),))
        assert event.outputs["loss/accuracy"] == pytest.approx((np.mean(hits[steps]),))


def test_gradients_of_a_shared_parameter_are_averaged(tmp_path):
    """Two layers share the matrix, so that its step is half of the gradient; biases take the whole."""
    first = first_arrays(tmp_path, TIED)
    trained = arrays_of(run(job(tmp_path, TIED, more="train_steps: 1"))[0])
    w, b, c = (torch.tensor(first[key], requires_grad=True) for key in ("w", "b", "c"))
    x = torch.tensor(records()["data"][:BATCH])
    y = torch.sigmoid(x @ w.T + b) @ w + c
    (0.5 * ((y - x) ** 2).sum() / BATCH).backward()  # SINGA's gradient is that of half of its loss
    for key, tensor, factor in (("w", w, 0.5), ("b", b, 1.0), ("c", c, 1.0)):
        expected = (tensor - 0.1 * factor * tensor.grad).detach().numpy()
        np.testing.assert_allclose(trained[key], expected, rtol=1e-12)


def test_a_checkpoint_is_read_as_a_net_and_handed_on_to_the_next_job(tmp_path):
    trainer, events = run(job(tmp_path, more="train_steps: 5"), dtype=torch.float32)
    file = tmp_path / "checkpoint" / "step5-worker0"
    assert str(file) in events[-1].files
    graph = read(Source(tmp_path / "job.conf", weights=file))
    assert graph.loaded
    second = job(tmp_path, TIED, more=f'train_steps: 0 checkpoint_path: "{file}"')
    with pytest.raises(Exception, match=r"'w' is 3x6|'b' is 3"):
        run(job(tmp_path, TIED.replace("num_output: 3", "num_output: 2"), more=f'checkpoint_path: "{file}"'))
    handed = arrays_of(run(second, dtype=torch.float32)[0])
    for key in ("w", "b"):
        np.testing.assert_array_equal(handed[key], arrays_of(trainer)[key])
    np.testing.assert_array_equal(handed["c"], 0.0)


def test_a_parameter_of_version_0_is_drawn_anew(tmp_path):
    run(job(tmp_path, more="train_steps: 0"), dtype=torch.float32, seed=8)
    file = tmp_path / "checkpoint" / "step0-worker0"
    text = f'train_steps: 0 checkpoint_path: "{file}"'
    with pytest.raises(UsageError, match="contains no weights for any layer"):
        run(job(tmp_path, more=text))


def test_parameters_without_init_come_from_a_checkpoint_or_not_at_all(tmp_path):
    net = CLASSIFIER.replace("init { type: kGaussian std: 0.5 }", "")
    run(job(tmp_path, more="train_steps: 2"))
    file = tmp_path / "checkpoint" / "step2-worker0"
    trained = arrays_of(run(job(tmp_path, net, more=f'train_steps: 0 checkpoint_path: "{file}"'))[0])
    assert np.abs(trained["w"]).max() > 0.1
    with pytest.raises(UsageError, match="parameter 'w' has neither values nor an 'init'"):
        run(job(tmp_path, net))


@pytest.mark.parametrize(
    "updater",
    [
        "type: kSGD momentum: 0.9 learning_rate { type: kFixedStep fixedstep_conf "
        "{ step: 0 step: 2 step: 7 step_lr: 0.1 step_lr: 0.05 step_lr: 0.01 } }",
        f"type: kAdaDelta adadelta_conf {{ rho: 0.9 }} {RATE}",
        f"type: kAdamMax {RATE}",
    ],
)
def test_resuming_goes_on_to_the_bit(updater, tmp_path):
    straight = arrays_of(run(job(tmp_path, updater=updater, more="train_steps: 9 checkpoint_freq: 4"))[0])
    again, _ = run(
        job(tmp_path, updater=updater, more="train_steps: 9"),
        resume=Path(tmp_path / "checkpoint" / "step_iter_4.checkpoint"),
    )
    for key, array in straight.items():
        np.testing.assert_array_equal(arrays_of(again)[key], array)


def test_what_cannot_be_trained(tmp_path):
    net = CLASSIFIER.replace(
        'layer { name: "loss" type: kSoftmaxLoss', 'layer { name: "loss" type: kAccuracy'
    )
    with pytest.raises(UsageError, match="net: the training net has no loss, so it cannot be trained"):
        run(job(tmp_path, net))
    other = replace(job(tmp_path), algorithm="genetic")
    with pytest.raises(
        UnsupportedError, match="algorithm 'genetic' is not supported, expected one of bp, bptt, cd"
    ):
        run(other)


def test_debug_shows_norms_by_hand(tmp_path):
    """Mean absolute values of what layers give and of its gradient, of parameters and of theirs."""
    first = first_arrays(tmp_path)
    _, events = run(job(tmp_path, more="train_steps: 7 disp_freq: 3 debug: true"))
    w, b = first["w"], first["b"]
    given, expected = records(), []
    for step in range(7):
        rows = np.arange(step * BATCH, (step + 1) * BATCH) % 23
        x, labels = given["data"][rows], given["label"][rows]
        z = x @ w.T + b
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        loss, _, dw, db = softmax_step(w, b, x, labels)
        dz = (p - np.eye(3)[labels.astype(int)]) / BATCH
        expected.append([np.abs(array).mean() for array in (z, dz, w, dw, b, db, loss)])
        w, b = w - 0.1 * dw, b - 0.2 * db
    seen = [event for event in events if isinstance(event, NormsSeen)]
    assert [event.iteration for event in seen] == [0, 3, 6]
    for event in seen:
        layer, weight, bias = event.layers["ip"], event.parameters["w"], event.parameters["b"]
        assert (weight.layer, bias.layer) == ("ip", "ip")
        found = [layer.value, layer.gradient, weight.value, weight.gradient, bias.value, bias.gradient]
        assert [*found, event.layers["loss"].value] == pytest.approx(expected[event.iteration])


@pytest.mark.parametrize("num_stages", [1, 2])
def test_debug_changes_no_bit(num_stages, tmp_path):
    more = "train_steps: 7 disp_freq: 2"
    plain = arrays_of(run(job(tmp_path, TIED, more=more), num_stages=num_stages)[0])
    again, events = run(job(tmp_path, TIED, more=f"{more} debug: true"), num_stages=num_stages)
    assert sum(isinstance(event, NormsSeen) for event in events) == 4
    for key, array in plain.items():
        np.testing.assert_array_equal(arrays_of(again)[key], array)


def test_a_checkpoint_of_step_0_holds_the_first_values(tmp_path):
    first = first_arrays(tmp_path)
    run(job(tmp_path, more="train_steps: 3 checkpoint_freq: 2"), dtype=torch.float32)
    folder = tmp_path / "checkpoint"
    assert {path.name for path in folder.glob("*-worker0")} >= {f"step{n}-worker0" for n in (0, 2, 3)}
    graph = read(Source(tmp_path / "job.conf", weights=folder / "step0-worker0"))
    for key, array in first.items():
        np.testing.assert_array_equal(complete_arrays(graph)[key], array.astype(np.float32))


def test_a_damaged_checkpoint_is_not_started_from(tmp_path):
    run(job(tmp_path, more="train_steps: 3"), dtype=torch.float32)
    file = tmp_path / "checkpoint" / "step3-worker0"
    content = bytearray(file.read_bytes())
    content[-2] ^= 64  # in a stored number: SINGA's format itself has nothing that would tell
    file.write_bytes(content)
    given = job(tmp_path, more=f'train_steps: 0 checkpoint_path: "{file}"')
    with pytest.raises(ReadError, match=r"step3-worker0: is damaged: .*not the one in step_iter_3\.sha256"):
        run(given)
    elsewhere = tmp_path / "step3-worker0"
    elsewhere.write_bytes(content)
    run(job(tmp_path, more=f'train_steps: 0 checkpoint_path: "{elsewhere}"'))


SHARD = """
layer { name: "data" type: kShardData sharddata_conf { path: "%s" batchsize: 2 } }
layer { name: "mnist" type: kMnist srclayers: "data" mnist_conf { norm_a: 255 } }
layer { name: "label" type: kLabel srclayers: "data" }
"""
"""The input layers of SINGA 0.1, which say no sizes."""


def shard_job(folder, place, count=5):
    generator = np.random.default_rng(3)
    images = generator.integers(0, 256, (count, 4, 4, 1), np.uint8)
    values = [
        field(1, 0, 0) + field(5, 2, singa_record(image, n % 3, shape=(4, 4)))
        for n, image in enumerate(images)
    ]
    (folder / "shard").mkdir()
    (folder / "shard" / "shard.dat").write_bytes(kvfile({str(n): value for n, value in enumerate(values)}))
    net = (
        SHARD % place
        + product("ip", 3, params(w=GAUSSIAN, b=ZERO), source="mnist")
        + layer("kSoftmaxLoss", sources="ip label", name="loss")
    )
    return job(folder, net, more="train_steps: 3"), images


def test_sizes_of_singa_01_come_from_the_records(tmp_path):
    given, images = shard_job(tmp_path, tmp_path / "shard")
    sizes = {value.name: tuple(value.shape)[1:] for value in given.phases["train"].graph.inputs}
    assert sizes == {"mnist": (1, 4, 4), "label": ()}
    assert given.phases["train"].graph.parameters["w"].shape == (3, 16)
    with ThreadedEngine() as engine:
        trainer = make_trainer(given, engine=engine, seed=5, dtype=torch.float64)
        first = arrays_of(trainer)
        trainer.run()
        trainer.close()
    w, b = first["w"], first["b"]
    for step in range(3):
        rows = np.arange(2 * step, 2 * step + 2) % 5
        dw, db = softmax_step(w, b, images[rows].reshape(2, 16) / 255, rows % 3)[2:]
        w, b = w - 0.1 * dw, b - 0.1 * db
    np.testing.assert_allclose(arrays_of(trainer)["w"], w, rtol=1e-6)
    np.testing.assert_allclose(arrays_of(trainer)["b"], b, rtol=1e-6, atol=1e-9)


def test_sizes_of_singa_01_without_its_records(tmp_path):
    message = r"--input-shape mnist=2x1xHxW.* sizes come from the records, and .*there is no such file"
    with pytest.raises(ReadError, match=message):
        shard_job(tmp_path, tmp_path / "shards")


def test_sizes_of_singa_01_where_records_may_be_missing(tmp_path):
    shard_job(tmp_path, tmp_path / "shard")
    job_file = tmp_path / "job.conf"
    (phase,) = load_phases(job_file, "TRAIN", missing_data=True).values()
    assert tuple(phase.graph.inputs[0].shape)[1:] == (1, 4, 4)
    (tmp_path / "shard" / "shard.dat").unlink()
    with pytest.raises(ReadError, match=r"--input-shape mnist=2x1xHxW, with numbers for letters and dots$"):
        load_phases(job_file, "TRAIN", missing_data=True)


def test_each_worker_writes_the_parts_that_it_owns_and_all_files_are_the_whole(tmp_path):
    """7 units on 3 workers are 3, 2 and 2; a layer of one worker is in that worker's file alone."""
    net = (
        data()
        + product("hid", 7, params(w=GAUSSIAN, b=GAUSSIAN), source="data")
        + product("mid", 4, params(v=GAUSSIAN, c=GAUSSIAN), source="hid")
        + product("out", 3, params(u=GAUSSIAN, d=GAUSSIAN), source="mid")
        + layer("kSoftmaxLoss", sources="out data", name="loss")
    )
    phases = {"train": job(tmp_path, net).phases["train"]}
    cuts = [LayerCut("hid", 1), LayerCut("mid", None, 2)]
    partition = Partition(phases, cuts, num_workers=3, worker=0)
    whole = make_nets(phases, seed=5, device=torch.device("cpu"))
    partition.nets(whole)
    arrays = {key: tensor.detach().numpy().copy() for key, tensor in whole["train"].params.items()}
    parts = {k: partition.parts(k, a) for k, a in arrays.items() if not partition.holding(k).is_shared}
    state = RunState(phases["train"].graph, 4, 16, arrays, {}, parts=parts)
    files = files_of(state, "worker0", f"{tmp_path}/step")
    for path, content in files:
        path.write_bytes(content())
    held = [{name: part.shape for name, (part,) in read_checkpoints(path).parts.items()} for path, _ in files]
    assert held == [
        {"w": (3, 6), "b": (3,), "u": (3, 4), "d": (3,)},
        {"w": (2, 6), "b": (2,)},
        {"w": (2, 6), "b": (2,), "v": (4, 7), "c": (4,)},
    ]
    names = ",".join(str(path) for path, _ in files)
    assert [path.name for path, _ in files] == ["step4-worker0", "step4-worker1", "step4-worker2"]
    read_back = weights_for(Path(names), phases["train"].graph)
    assert read_back.keys() == arrays.keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(read_back[key], array)
