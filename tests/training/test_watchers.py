"""Event files are read by TensorBoard's own loader; a picture holds every curve with all its points."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("torch")

from netweave import api
from netweave.errors import UsageError, WriteError
from netweave.installation import install_command
from netweave.training import Updated
from tests.training.small import BATCH, NUM_FEATURES, SOLVER, records, write


def run(folder, solver=SOLVER, **options):
    x, labels = records()
    arrays = {"data": x, "label": labels}
    solver = write(folder, solver + "test_iter: 3 test_interval: 5\n")
    job = api.load_job(solver, input_shapes={"data": (BATCH, NUM_FEATURES), "label": (BATCH,)})
    told = []
    api.train(
        job,
        data={"train": arrays, "test": arrays},
        watch=told.append,
        **options,
    )
    return [(event.iteration, event.loss, event.rate) for event in told if isinstance(event, Updated)]


def drawn_points(picture):
    """Return of how many points each line of a picture is made."""
    root = ElementTree.parse(picture).getroot()
    paths = [node.get("d", "") for node in root.iter("{http://www.w3.org/2000/svg}path")]
    return [len(re.findall(r"[ML] ", path)) for path in paths]


@pytest.mark.slow
def test_event_files_are_what_tensorboard_reads(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told = run(tmp_path, events=tmp_path / "runs")
    found = EventAccumulator(str(tmp_path / "runs"), size_guidance={"scalars": 0})
    found.Reload()
    assert set(found.Tags()["scalars"]) == {
        "train/objective", "train/rate", "train/loss", "train/images_per_s", "test/loss", "test/accuracy",
    }  # fmt: skip
    objective = [(event.step, event.value) for event in found.Scalars("train/objective")]
    assert objective == [(step, pytest.approx(loss, rel=1e-6)) for step, loss, _ in told]
    rates = [event.value for event in found.Scalars("train/rate")]
    assert rates == pytest.approx([rate for _, _, rate in told], rel=1e-6)
    assert [event.step for event in found.Scalars("test/accuracy")] == [0, 5, 10, 15, 20]


@pytest.mark.slow
def test_the_picture_has_every_curve(tmp_path):
    pytest.importorskip("matplotlib")
    told = run(tmp_path, plot=tmp_path / "curves.svg")
    root = ElementTree.parse(tmp_path / "curves.svg").getroot()
    words = {"".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"train/objective", "test/loss", "test/accuracy", "learning rate", "iteration"} <= words
    points = drawn_points(tmp_path / "curves.svg")
    assert len(told) == 20
    assert points.count(20) >= 2  # objective and rate
    assert points.count(5) >= 2  # loss and accuracy of the tests


@pytest.mark.slow
def test_the_picture_of_a_run_that_goes_on_has_its_beginning(tmp_path):
    pytest.importorskip("matplotlib")
    solver = SOLVER + "snapshot: 7\n"
    run(tmp_path, solver=solver)
    for name in ("linear_iter_20.checkpoint", "linear_iter_14.checkpoint"):
        (tmp_path / "kept" / name).unlink()
    told = run(tmp_path, solver=solver, resume=True, plot=tmp_path / "curves.svg")
    assert [iteration for iteration, _, _ in told] == list(range(7, 20))  # updates done before each
    points = drawn_points(tmp_path / "curves.svg")
    assert points.count(20) >= 2  # objective and rate
    assert points.count(5) >= 2  # loss and accuracy of the tests


def test_what_cannot_be_written_is_refused_before_the_first_step(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("tensorboard")
    told = []
    with pytest.raises(UsageError, match=r"curves.doc: curves are drawn as .*\.png"):
        told += run(tmp_path, plot=tmp_path / "curves.doc")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(WriteError, match=r"event files in .*file: cannot be written"):
        told += run(tmp_path, events=tmp_path / "file")
    assert not told
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(("option", "package"), [("events", "tensorboard"), ("plot", "matplotlib")])
def test_a_package_that_is_not_there_is_named(tmp_path, monkeypatch, option, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UsageError, match=re.escape(f"need the package {package}: {install_command('curves')}")
    ):
        run(tmp_path, **{option: tmp_path / "x.png"})


def test_only_so_many_checkpoints_are_kept(tmp_path):
    job = write(tmp_path, SOLVER + "snapshot: 4\n")
    x, labels = records()
    loaded = api.load_job(job, input_shapes={"data": (BATCH, NUM_FEATURES), "label": (BATCH,)})
    api.train(loaded, data={"train": {"data": x, "label": labels}}, keep=1)
    assert [path.name for path in (tmp_path / "kept").glob("*.checkpoint")] == ["linear_iter_20.checkpoint"]


@pytest.mark.parametrize("prefix", ["kept", "kept/", "made/"])
def test_snapshots_in_a_folder_are_called_after_the_solver(tmp_path, prefix):
    (tmp_path / "kept").mkdir()
    solver = write(tmp_path, SOLVER.replace('"kept/linear"', f'"{prefix}"'))
    x, labels = records()
    job = api.load_job(solver, input_shapes={"data": (BATCH, NUM_FEATURES), "label": (BATCH,)})
    api.train(job, data={"train": {"data": x, "label": labels}})
    names = {path.name for path in (tmp_path / prefix).iterdir()}
    assert names == {f"solver_iter_20.{end}" for end in ("checkpoint", "caffemodel", "solverstate", "sha256")}
