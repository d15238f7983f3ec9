"""Trainings that are started from the page: they run, stop, go on, and reach nothing but their folders."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from netweave.api import RunState, RunStatus
from netweave.web import trainings
from netweave.web.nets import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

NET = b"""
name: "line"
layer { name: "x" type: "DummyData" top: "x" top: "y"
  dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 1 }
    data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 1 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 1 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "fc" bottom: "y" top: "loss" }
"""
SOLVER = b"""
net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" display: 1 max_iter: 100000000
snapshot_prefix: "line" random_seed: 1
"""
SECONDS = 120


@pytest.fixture
def offered(tmp_path, choose):
    """A workbench that offers trainings, with two folders of data."""
    for name in ("digits", "faces", ".hidden"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    choose(runs=str(tmp_path / "runs"), training=str(tmp_path / "data"))
    yield tmp_path
    for name in trainings.started_runs():
        trainings.stop(name)


def wait_until(condition) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def started(name: str = "first", *, solver: bytes = SOLVER, data: str = "digits") -> Path:
    trainings.start(name, "solver.prototxt", {"solver.prototxt": solver, "net.prototxt": NET}, data)
    return trainings._runs() / name


guarded = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@guarded
@pytest.mark.slow
def test_a_training_runs_stops_with_a_checkpoint_and_goes_on(offered, visitor):
    browser = visitor()
    fields = {"name": "first", "data": "digits", "csrfmiddlewaretoken": browser.token}
    files = [SimpleUploadedFile(name, text) for name, text in (("s.prototxt", SOLVER), ("net.prototxt", NET))]
    answer = browser.client.post("/runs/start", {**fields, "solver": files[0], "nets": files[1:]})
    assert (answer.status_code, answer.url) == (302, "/runs/show?run=first"), answer.content
    folder = offered / "runs" / "first"
    wait_until(lambda: browser.client.get("/runs/curves?run=first").json().get("curves"))
    page = browser.open("/runs/show?run=first").content
    assert b"Write a checkpoint and stop" in page
    assert b"Continue" not in page
    assert trainings.status("first") == RunStatus(RunState.RUNNING)
    assert browser.submit("/runs/stop", run="first").status_code == 302
    wait_until(lambda: not trainings.find("first").is_running)
    (state,) = folder.glob("line_iter_*.solverstate")
    reached = int(state.stem.rpartition("_")[2])
    assert reached > 0
    assert trainings.status("first") == RunStatus(RunState.STOPPED)
    assert b"Continue" in browser.open("/runs/show?run=first").content
    assert browser.submit("/runs/resume", run="first").status_code == 302

    def last() -> int:
        curves = browser.client.get("/runs/curves?run=first").json()["curves"]
        return curves["train/objective"][-1][0]

    wait_until(lambda: last() > reached + 10)
    goodput = browser.client.get("/runs/curves?run=first").json()["goodput"]
    assert goodput["num_starts"] == 2
    assert goodput["kept"] > 0
    os.kill(trainings.find("first").pid, signal.SIGKILL)
    wait_until(lambda: not trainings.find("first").is_running)
    wait_until(lambda: trainings.status("first").state is RunState.FAILED)
    assert trainings.status("first").reason == "it was killed (SIGKILL)"


@guarded
@pytest.mark.slow
def test_a_training_that_has_ended_says_how(offered, visitor):
    browser = visitor()
    started("whole", solver=SOLVER.replace(b"100000000", b"3"))
    wait_until(lambda: trainings.status("whole").state is not RunState.RUNNING)
    started("bad", solver=SOLVER.replace(b"net.prototxt", b"nowhere.prototxt"))
    wait_until(lambda: trainings.status("bad").state is not RunState.RUNNING)
    assert trainings.status("whole") == RunStatus(RunState.FINISHED)
    failed = trainings.status("bad")
    assert failed.state is RunState.FAILED
    assert "nowhere.prototxt" in failed.reason
    for name, words in (("whole", "has reached its last iteration"), ("bad", "no checkpoint to continue")):
        page = browser.open(f"/runs/show?run={name}").content
        assert b"Continue" not in page
        with pytest.raises(RefusedError, match=words):
            trainings.resume(name)
    assert page.index(b"nowhere.prototxt") < page.index(b'class="charts"')
    (offered / "runs" / "bad" / trainings.STATUS).unlink()  # as after a restart of the machine
    assert trainings.status("bad").state is RunState.LOST


@guarded
@pytest.mark.slow
@pytest.mark.parametrize("outside", ["absolute", "up"])
def test_a_training_reads_and_writes_nothing_outside_its_folders(offered, outside):
    secret = offered / "secret.prototxt"
    secret.write_bytes(NET)
    place = str(secret) if outside == "absolute" else "../../secret.prototxt"
    folder = started("reader", solver=SOLVER.replace(b"net.prototxt", place.encode()))
    wait_until(lambda: not trainings.find("reader").is_running)
    assert "secret.prototxt" in trainings.last_words("reader"), "it is not found"
    assert not list(folder.glob("*tfevents*"))
    prefix = offered / "data" / "digits" / "stolen"
    elsewhere = SOLVER.replace(b'"line"', f'"{prefix}"'.encode()).replace(b"100000000", b"3")
    started(
        "writer", solver=elsewhere + b"snapshot: 1"
    )  # it writes to a folder of the sandbox, which goes with it
    wait_until(lambda: not trainings.find("writer").is_running)
    assert list(prefix.parent.iterdir()) == []


@guarded
def test_only_so_many_run_at_the_same_time(offered, monkeypatch):
    monkeypatch.setattr(trainings.Training, "is_running", property(lambda training: True))
    monkeypatch.setattr(trainings, "_launch", launch_nothing)
    started("first")
    with pytest.raises(RefusedError, match="first still runs, and 1"):
        started("second")
    assert not (offered / "runs" / "second").exists()


def launch_nothing(folder, solver, data, *, resumes):
    (folder / trainings.RECORD).write_text(f'{{"solver":"{solver}","data":"{data}","pid":1,"birth":"x"}}')


@pytest.mark.parametrize(
    ("name", "files", "data", "said"),
    [
        ("../evil", {"s": SOLVER}, "digits", "the name of a run"),
        ("", {"s": SOLVER}, "digits", "the name of a run"),
        ("a", {"s": SOLVER}, "../..", "there is no data"),
        ("a", {"s": SOLVER}, ".hidden", "there is no data"),
        ("a", {"s": SOLVER}, "/etc", "there is no data"),
        ("a", {"s": bytes(trainings.MAX_FILE_BYTES + 1)}, ".", "MiB each"),
        ("a", {"s": SOLVER, "training.json": b"{}"}, ".", "that the workbench writes"),
        ("a", {"x/s": SOLVER, "y/s": SOLVER}, ".", "the same name"),
        ("taken", {"s": SOLVER}, ".", "choose another name"),
    ],
)
def test_what_does_not_fit_is_refused(offered, monkeypatch, name, files, data, said):
    monkeypatch.setattr(trainings, "missing", lambda: "")
    monkeypatch.setattr(trainings, "_launch", launch_nothing)
    (offered / "runs" / "taken").mkdir()
    before = sorted(offered.rglob("*"))
    with pytest.raises(RefusedError, match=said):
        trainings.start(name, next(iter(files)), files, data)
    assert sorted(offered.rglob("*")) == before


def test_a_sandbox_that_does_not_start_leaves_nothing_behind(offered, monkeypatch):
    monkeypatch.setattr(trainings, "missing", lambda: "")
    monkeypatch.setattr(trainings, "_guard", lambda folder, data, *, info, status: ["false"])
    with pytest.raises(RefusedError, match="the sandbox did not start"):
        trainings.start("first", "s", {"s": SOLVER}, ".")
    assert list((offered / "runs").iterdir()) == []


def test_without_the_operators_word_there_is_no_such_page(tmp_path, choose, visitor):
    choose(runs=str(tmp_path))
    browser = visitor()
    assert browser.open("/runs/start").status_code == 404
    for path in ("/runs/start", "/runs/stop", "/runs/resume"):
        assert browser.submit(path, run="first").status_code == 404
    assert b"Start a training" not in browser.open("/runs/").content
