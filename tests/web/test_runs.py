"""Training runs: what TensorBoard's own writer wrote is found, read and shown."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import sys

import pytest

pytest.importorskip("tensorboard")

from netweave import api
from netweave.errors import RunError
from netweave.training.events import Ended, Stopped
from netweave.training.run_record import recorded


def write(folder, points, **scalars):
    """Write an event file with TensorBoard's writer."""
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, tag, value in points:
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(event_pb2.Event(wall_time=1e9 + step, step=step, summary=summary))
    writer.close()
    files = sorted(folder.glob("*tfevents*"))
    target = folder / f"events.out.tfevents.{len(files)}.host"
    files[-1].rename(target)
    return target


@pytest.fixture
def runs(tmp_path, choose):
    write(tmp_path / "lenet" / "first", [(step, "train/loss", 2.0 / (1 + step)) for step in range(5)])
    write(tmp_path / "lenet" / "second", [(0, "test/accuracy", 0.5)])
    (tmp_path / "lenet" / "first" / "net_iter_500.caffemodel").write_bytes(b"x" * 10)
    (tmp_path / "notes.txt").write_text("no run")
    choose(runs=str(tmp_path))
    return tmp_path


def test_runs_are_found_by_their_event_files(runs):
    assert set(api.find_runs(runs)) == {"lenet/first", "lenet/second"}
    assert set(api.find_runs(runs / "lenet" / "first")) == {"."}
    assert api.find_runs(runs / "nowhere") == {}


def test_curves_are_read_as_they_were_written(runs):
    curves = api.read_curves(runs / "lenet" / "first")
    assert list(curves) == ["train/loss"]
    assert [step for step, _ in curves["train/loss"]] == [0, 1, 2, 3, 4]
    assert [value for _, value in curves["train/loss"]] == pytest.approx([2, 1, 2 / 3, 0.5, 0.4], rel=1e-6)


def test_a_run_that_went_on_from_a_checkpoint_has_one_curve(tmp_path):
    write(tmp_path, [(step, "train/loss", 1.0) for step in range(6)])
    write(tmp_path, [(step, "train/loss", 2.0) for step in range(4, 8)])
    assert api.read_curves(tmp_path)["train/loss"] == [
        (0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0), (6, 2.0), (7, 2.0),
    ]  # fmt: skip


def test_a_file_that_is_being_written_is_read_as_far_as_it_goes(tmp_path):
    file = write(tmp_path, [(step, "train/loss", 1.0) for step in range(5)])
    content = file.read_bytes()
    file.write_bytes(content[:-7])
    assert [step for step, _ in api.read_curves(tmp_path)["train/loss"]] == [0, 1, 2, 3]


def test_checkpoints_are_listed_with_their_iteration(runs):
    (found,) = api.find_checkpoints(runs / "lenet" / "first")
    assert (found.name, found.iteration, found.num_bytes) == ("net_iter_500.caffemodel", 500, 10)


def test_pages_list_the_runs_and_show_one(runs, visitor):
    browser = visitor()
    page = browser.open("/runs/").content.decode()
    assert "lenet/first" in page
    assert "/runs/show?run=lenet%2Ffirst" in page
    assert browser.open("/runs/show?run=lenet%2Ffirst").status_code == 200
    found = browser.client.get("/runs/curves?run=lenet%2Ffirst").json()
    assert found["state"] == "unknown", "its files have just changed, but nobody said whose they are"
    assert found["curves"]["train/loss"][0] == [0, 2.0]
    assert found["checkpoints"][0]["iteration"] == 500
    again = browser.client.get(f"/runs/curves?run=lenet%2Ffirst&since={found['since']}").json()
    assert "curves" not in again


def test_the_goodput_of_a_run_comes_with_its_curves(runs, visitor, tmp_path):
    """Two starts in 100 s: 20 s until first updates, 20 s of lost ones, 10 s without a process."""
    ledger = tmp_path / "notes.json"
    kept = {"iteration": 40, "alive": 1040.0, "seconds": {"data": 5.0}}
    first = {"began": 1000.0, "first": 1005.0, "alive": 1060.0, "saves": [kept], "seconds": {}}
    second = {"began": 1070.0, "first": 1085.0, "alive": 1100.0, "saves": [], "seconds": {"test": 5.0}}
    address = "/runs/curves?run=lenet%2Ffirst"
    browser = visitor()
    write_record(runs / "lenet/first")
    assert browser.client.get(address).json()["goodput"] is None
    write_record(runs / "lenet/first", ledger=str(ledger))
    assert browser.client.get(address).json()["goodput"] is None, "there is no such file yet"
    ledger.write_text(json.dumps({"run": "a name", "starts": [first, second]}))
    found = browser.client.get(address).json()["goodput"]
    assert (found["elapsed_s"], found["num_starts"]) == (100.0, 2)
    shares = {"kept": found["kept"], **found["causes"]}
    expected = {"kept": 0.4, "start": 0.2, "data": 0.05, "test": 0.05, "lost": 0.2, "waiting": 0.1}
    assert shares == pytest.approx({**dict.fromkeys(("exchange", "checkpoint"), 0.0), **expected})


def shown(visitor, run="lenet/first"):
    """Return what the page of a run says of its state, in the list, on its page and to the script."""
    browser = visitor()
    name = run.replace("/", "%2F")
    answer = browser.client.get(f"/runs/curves?run={name}").json()["state"]
    marks = [
        set(re.findall(r'data-verdict="(\w+)"', browser.open(page).content.decode()))
        for page in ("/runs/", f"/runs/show?run={name}")
    ]
    assert marks == [set() if answer == "unknown" else {answer}] * 2
    return answer


def write_record(folder, **fields):
    usual = {"host": socket.gethostname(), "pid": os.getpid(), "birth": "", "started": 1e9}
    (folder / api.RUN_RECORD).write_text(json.dumps(usual | fields))


def dead_process():
    """Return the number of a process that has just ended."""
    return subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    ).stdout.decode()


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "running"),
        ({"birth": "of another process with this number"}, "lost"),
        ({"pid": None}, "lost"),
        ({"end": "finished"}, "finished"),
        ({"end": "stopped"}, "stopped"),
        ({"end": "failed", "reason": "the loss is nan"}, "failed"),
        ({"host": "elsewhere"}, "unknown"),
    ],
)
@pytest.mark.parametrize("age_s", [0, 1e8])
def test_the_state_of_a_run_comes_from_its_process_and_not_from_the_age_of_its_files(
    runs, visitor, fields, state, age_s
):
    folder = runs / "lenet" / "first"
    if "pid" in fields:
        fields = {"pid": int(dead_process())}
    write_record(folder, **fields)
    for file in folder.iterdir():
        then = file.stat().st_mtime - age_s
        os.utime(file, (then, then))
    assert shown(visitor) == state


def test_a_failed_run_shows_first_why(runs, visitor):
    folder = runs / "lenet" / "first"
    write_record(folder, end="failed", reason="iteration 7: the loss is nan")
    page = visitor().open("/runs/show?run=lenet%2Ffirst").content.decode()
    assert page.index("iteration 7: the loss is nan") < page.index('class="charts"')
    assert "Continue" not in page


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (RunError("the loss is nan"), "failed", "the loss is nan"),
        (ZeroDivisionError(), "failed", "ZeroDivisionError"),
        (KeyboardInterrupt(), "stopped", ""),
        (SystemExit(143), "stopped", ""),
    ],
)
def test_a_run_notes_that_an_error_ended_it(tmp_path, error, state, reason):
    assert api.run_status(tmp_path) == api.RunStatus(api.RunState.UNKNOWN)

    def train():
        with recorded(tmp_path):
            assert api.run_status(tmp_path).is_running
            raise error

    with pytest.raises(type(error)):
        train()
    assert api.run_status(tmp_path) == api.RunStatus(api.RunState(state), reason)


@pytest.mark.parametrize(
    ("events", "state"), [([Ended(3, {})], "finished"), ([Stopped(2, None), Ended(2, {})], "stopped")]
)
def test_a_run_notes_its_end(tmp_path, events, state):
    with recorded(tmp_path) as note:
        for event in events:
            note(event)
    assert api.run_status(tmp_path) == api.RunStatus(api.RunState(state))


@pytest.mark.parametrize("run", ["../..", "/etc", "lenet", "nowhere", "", "lenet/first/../second"])
def test_only_runs_of_the_folder_are_read(runs, visitor, run):
    assert visitor().client.get("/runs/curves", {"run": run}).status_code == 404
    assert visitor().client.get("/runs/show", {"run": run}).status_code == 404


def test_long_curves_are_thinned_out_and_keep_their_end(tmp_path, choose, visitor):
    points = [(step, "train/loss", math.nan if step == 3 else 1.0) for step in range(4001)]
    write(tmp_path, points)
    choose(runs=str(tmp_path))
    curve = visitor().client.get("/runs/curves?run=.").json()["curves"]["train/loss"]
    assert len(curve) < 2100
    assert (curve[0], curve[1], curve[-1]) == ([0, 1.0], [3, None], [4000, 1.0])


def test_without_a_folder_there_are_no_pages_of_runs(visitor):
    browser = visitor()
    assert [browser.open(page).status_code for page in ("/runs/", "/runs/show", "/runs/curves")] == [404] * 3
    assert b"/runs/" not in browser.open("/").content
