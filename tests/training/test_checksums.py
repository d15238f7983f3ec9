"""Files without checksums of their own: what a run wrote is loaded as it was written, or not at all."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

pytest.importorskip("torch")

from netweave.errors import ReadError
from netweave.formats.caffe.job import read_solver
from netweave.runtime.engine import SerialEngine
from tests.training import small
from tests.training.trainers import make_trainer

SHAPES = {"data": (5, small.NUM_FEATURES), "label": (5,)}


def train(folder, end, *, form="BINARYPROTO", **options):
    text = small.SOLVER.replace("max_iter: 20", f"max_iter: {end} snapshot_format: {form}")
    job = read_solver(small.write(folder, text), input_shapes=SHAPES)
    x, labels = small.records()
    with SerialEngine() as engine:
        trainer = make_trainer(job, engine=engine, data={"train": {"data": x, "label": labels}}, **options)
        try:
            trainer.run()
        finally:
            trainer.close()
    return trainer


@pytest.mark.parametrize("form", ["BINARYPROTO", "HDF5"])
def test_a_damaged_snapshot_is_not_resumed_from(tmp_path, form):
    train(tmp_path, 4, form=form)
    suffix = ".h5" if form == "HDF5" else ""
    state, weights = (
        tmp_path / f"kept/linear_iter_4.{kind}{suffix}" for kind in ("solverstate", "caffemodel")
    )
    draw = random.Random(0)
    for number in range(6):
        path = (state, weights)[number % 2]
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(
            ReadError, match=rf"{path.name}: is damaged: its checksum is not .*iter_4\.sha256"
        ):
            train(tmp_path, 6, form=form, resume=state)
        path.write_bytes(whole)
    assert train(tmp_path, 6, form=form, resume=state).iteration == 6


def test_weights_of_a_run_are_checked_and_those_of_others_are_not(tmp_path):
    train(tmp_path, 4)
    path = tmp_path / "kept/linear_iter_4.caffemodel"
    content = bytearray(path.read_bytes())
    content[-9] ^= 64  # in a stored number: Caffe's format itself has nothing that would tell
    path.write_bytes(content)
    job = read_solver(small.write(tmp_path), input_shapes=SHAPES)
    x, labels = small.records()

    def begin(file):
        from dataclasses import replace

        changed = replace(job, checkpoints=replace(job.checkpoints, weights=(str(file),)))
        with SerialEngine() as engine:
            make_trainer(changed, engine=engine, data={"train": {"data": x, "label": labels}}).close()

    with pytest.raises(ReadError, match=r"remove linear_iter_4\.sha256 if the change is intended"):
        begin(path)
    elsewhere = tmp_path / "linear_iter_4.caffemodel"
    elsewhere.write_bytes(content)
    begin(elsewhere)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="the tool sha256sum is not there")
def test_the_list_is_that_of_sha256sum(tmp_path):
    train(tmp_path, 4)
    check = ["sha256sum", "--strict", "-c", "linear_iter_4.sha256"]
    found = subprocess.run(check, cwd=tmp_path / "kept", capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == [
        "linear_iter_4.caffemodel: OK",
        "linear_iter_4.solverstate: OK",
    ]
