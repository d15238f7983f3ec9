"""``CSVLogger``: a table that a kill left in the middle of a row."""

from __future__ import annotations

import csv

import pytest

pytest.importorskip("torch")

from netweave import keras


@pytest.mark.parametrize("num_bytes", range(1, len("epoch,loss\n0,0.5\n1,0.25\n")))
def test_a_table_that_a_kill_cut_anywhere_goes_on_with_whole_rows(tmp_path, num_bytes):
    """The next row was joined to what was left of the last one."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"epoch,loss\n0,0.5\n1,0.25\n"[:num_bytes])
    whole = path.read_text().count("\n")
    table = keras.callbacks.CSVLogger(path, append=True)
    table.on_train_begin()
    table.on_epoch_end(7, {"loss": 0.125})
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert rows == [
        *[{"epoch": "0", "loss": "0.5"}, {"epoch": "1", "loss": "0.25"}][: max(whole - 1, 0)],
        {"epoch": "7", "loss": "0.125"},
    ]
