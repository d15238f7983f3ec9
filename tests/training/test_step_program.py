"""The step as tasks: any cut ends with the same bits, any parts with the same masks; what overlaps."""

from __future__ import annotations

import json
import threading
from collections import defaultdict

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.errors import RunError  # noqa: E402
from netweave.graph.parameters import source_keys  # noqa: E402
from netweave.runtime.engine import Trace  # noqa: E402 - after the check for torch
from netweave.training import Updated  # noqa: E402
from tests.training import staged  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("net", ["HARD", "DROPPED"])
def test_any_number_of_stages_ends_with_the_same_bits(tmp_path, net, dtype):
    job = staged.job_of(tmp_path, getattr(staged, net), accumulate=2, steps=6)
    whole, expected = staged.train(job, dtype=dtype)
    assert len(whole.program.stages) == 1
    first = {key: tensor for key, tensor in expected.items() if not key.startswith("bn")}
    assert any(float(tensor.abs().sum()) for tensor in first.values())
    for num_stages in (2, 3, 5, 50):
        trainer, found = staged.train(job, dtype=dtype, num_stages=num_stages)
        assert len(trainer.program.stages) == min(num_stages, len(trainer.program.stages)) > 1
        for key, tensor in expected.items():
            assert torch.equal(found[key], tensor), (num_stages, key)


@pytest.mark.parametrize("net", ["HARD", "DROPPED"])
def test_a_gradient_is_complete_when_the_first_stage_that_reads_the_parameter_is_through(tmp_path, net):
    """One stage later, and an exchange with other devices would begin a stage too late."""
    trainer, _ = staged.train(staged.job_of(tmp_path, getattr(staged, net), steps=1), num_stages=50)
    stages = trainer.program.stages
    readers = {}
    for stage in reversed(stages):
        values = [value for node in stage.nodes for value in node.inputs if value is not None]
        readers |= {key: stage.index for value in values for key in source_keys(value)}
    completed = {key: stage.index for stage in stages for key in stage.completes}
    assert len(set(completed.values())) > 2
    fused = {key for key in completed if key.startswith("scale")}  # read by a normalisation's node
    assert completed.keys() - fused <= readers.keys()
    assert {key: completed[key] for key in completed if key not in fused} == {
        key: readers[key] for key in completed if key not in fused
    }


@pytest.mark.slow
@pytest.mark.parametrize("slice_elements", [64, 1024])
@pytest.mark.parametrize("update_lane", ["compute", "update"])
@pytest.mark.parametrize("clip", ["", "clip_gradients: 0.5"])
def test_lanes_and_measured_rules_change_no_bit(tmp_path, slice_elements, update_lane, clip):
    job = staged.job_of(tmp_path, staged.HARD, steps=6, solver=clip)
    _, expected = staged.train(job, slice_elements=slice_elements)
    _, found = staged.train(job, num_stages=4, slice_elements=slice_elements, update_lane=update_lane)
    assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_a_batch_in_parts_is_the_whole_batch(tmp_path, dtype, most):
    """32 at once, 4 times 8 and 8 times 4: masks bit for bit, parameters as far as sums may differ."""
    found, masks = {}, {}
    for batch in (32, 8, 4):
        job = staged.job_of(tmp_path / str(batch), staged.DROPPED, batch=batch, accumulate=32 // batch)
        with noted_masks() as drawn:
            _, found[batch] = staged.train(job, dtype=dtype)
        masks[batch] = {stream: torch.cat(parts) for stream, parts in drawn.items()}
    assert len(masks[32]) == 2
    for batch in (8, 4):
        for stream, mask in masks[32].items():
            assert len(mask) == 20 * 32
            assert torch.equal(masks[batch][stream], mask)
        for key, tensor in found[32].items():
            assert float((found[batch][key] - tensor).abs().max()) <= most, (batch, key)


class noted_masks:  # noqa: N801 - reads as a function
    """Note what is drawn, by stream, in the order of samples."""

    def __enter__(self):
        from netweave.runtime.backends.torch.random import Draws

        drawn = defaultdict(list)
        self._plain = plain = Draws.uniform

        def noted(draws, stream, shape, **options):
            made = plain(draws, stream, shape, **options)
            drawn[stream].append(made.clone())
            return made

        Draws.uniform = noted
        return drawn

    def __exit__(self, *error):
        from netweave.runtime.backends.torch.random import Draws

        Draws.uniform = self._plain


def boxes_of(path):
    """Return start and end of each task of a trace, by name, in microseconds."""
    events = [json.loads(line.rstrip(",")) for line in path.read_text().splitlines() if line[:1] == "{"]
    return {
        event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in events if event["ph"] == "X"
    }


def test_updates_of_late_layers_run_inside_backward_of_early_ones(tmp_path):
    job = staged.job_of(tmp_path, staged.DROPPED, steps=4)
    trace = Trace(tmp_path / "trace.json")
    trainer, _ = staged.train(job, num_stages=3, slice_elements=64, trace=trace)
    boxes = boxes_of(tmp_path / "trace.json")
    assert len(trainer.updater.layout.slices) > 3
    names = {name.partition(", ")[2] for name in boxes if name.startswith("update 0")}
    early, middle, late = sorted(names, key=lambda name: int(name.split()[1]))
    for step in range(4):
        passes = [boxes[f"backward {step}, stage {stage}"] for stage in range(3)]
        updates = [boxes[f"update {step}, {name}"] for name in (early, middle, late)]
        assert passes[2][1] <= updates[2][0]
        assert updates[2][1] <= passes[0][0]
        assert passes[1][1] <= updates[1][0]
        assert updates[1][1] <= passes[0][0]
        assert passes[0][1] <= updates[0][0]


def test_the_next_forward_begins_before_the_last_update(tmp_path, monkeypatch):
    """The update of a late slice is held back until the next forward has begun: it must not wait for it."""
    job = staged.job_of(tmp_path, staged.DROPPED, steps=3)
    trace = Trace(tmp_path / "trace.json")
    begun = [threading.Event() for _ in range(4)]
    from netweave.training.net_passes import NetPasses
    from netweave.training.step_program import StepProgram

    forward, apply = NetPasses._forward, StepProgram._apply

    def held_forward(passes, step, part, stage, finish):
        begun[step].set()
        return forward(passes, step, part, stage, finish)

    def held_apply(program, numbers):
        step = program._updater.iteration - 1
        if numbers == [len(program.parameters) - 1] and step < 2:
            assert begun[step + 1].wait(20), "the next forward waits for the update of the last layer"
        apply(program, numbers)

    monkeypatch.setattr(NetPasses, "_forward", held_forward)
    monkeypatch.setattr(StepProgram, "_apply", held_apply)
    options = {"num_stages": 3, "slice_elements": 64, "update_lane": "update", "update_threads": 2}
    options = {"num_stages": 3, "slice_elements": 64, "update_lane": "update", "update_threads": 2}
    trainer, found = staged.train(job, trace=trace, **options)
    last = len(trainer.updater.layout.slices) - 1
    boxes = boxes_of(tmp_path / "trace.json")
    for step in range(2):
        assert boxes[f"forward {step + 1}, stage 0"][0] < boxes[f"update {step}, slice {last}"][1]
        assert boxes[f"update {step}, slice {last}"][1] <= boxes[f"forward {step + 1}, stage 2"][0]
    monkeypatch.undo()
    _, expected = staged.train(job)
    assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.slow
def test_a_step_is_told_before_its_update_and_access_waits_for_it(tmp_path):
    job = staged.job_of(tmp_path, staged.DROPPED, steps=5)
    seen = []

    def watch(event):
        if isinstance(event, Updated):
            seen.append(
                {key: tensor.detach().clone() for key, tensor in trainer.nets["train"].params.items()}
            )

    from netweave.runtime.engine import ThreadedEngine
    from tests.training.trainers import make_trainer

    with ThreadedEngine() as engine:
        trainer = make_trainer(
            job, engine=engine, data={"train": staged.records()}, num_stages=2, watch=watch
        )
        trainer.run()
        trainer.close()
    for steps, arrays in enumerate(seen, 1):
        _, expected = staged.train(staged.job_of(tmp_path, staged.DROPPED, steps=steps), dtype=torch.float32)
        assert all(torch.equal(arrays[key], expected[key]) for key in expected)


@pytest.mark.parametrize("num_stages", [1, 3])
def test_a_loss_that_is_not_finite_leaves_the_parameters(tmp_path, num_stages):
    job = staged.job_of(tmp_path, staged.DROPPED, steps=5)
    _, before = staged.train(staged.job_of(tmp_path, staged.DROPPED, steps=2))
    data = staged.records()
    data["data"][17] = np.inf  # of the third batch
    from netweave.runtime.engine import ThreadedEngine
    from tests.training.trainers import make_trainer

    with ThreadedEngine() as engine:
        trainer = make_trainer(
            job, engine=engine, data={"train": data}, num_stages=num_stages, dtype=torch.float64
        )
        with pytest.raises(RunError, match=r"the loss is nan in iteration 2: the input 'data' holds"):
            trainer.run()
        trainer.close()
    found = dict(trainer.nets["train"].params.items())
    assert all(torch.equal(found[key], before[key]) for key in before)
