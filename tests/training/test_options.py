"""What a caller may say of a run: numbers out of their range are errors, not the usual number instead."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import netweave
from netweave.errors import UsageError
from tests.training.parallel import nets


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": 0}, "keep is 0, expected at least 1"),
        ({"num_stages": 0}, "num_stages is 0"),
        ({"threads": -1}, "threads is -1"),
        ({"devices": "cpu:2", "restarts": -1}, "restarts is -1, expected at least 0"),
        ({"timeout_s": 0}, "timeout_s is 0, expected more than 0 seconds"),
        ({"restarts": 2}, "give devices, or no restarts"),
        ({"devices": "cpu:1", "restarts": 2}, "give devices, or no restarts"),
        ({"monitor": "nothing"}, "cannot watch 'nothing'"),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path, settings, message):
    job = nets.job(nets.write(tmp_path, "mlp", steps=1))
    with pytest.raises(UsageError, match=message):
        netweave.train(job, **settings)
