"""The net of characters of ``examples/singa/char_rnn``, on the text of the guides."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from examples.singa.char_rnn import make_data
from netweave.training import Updated
from tests.time_limits import IN_CI

RUN = 25
"""Steps of a run."""

STEPS, BOUND = (150, 13.0) if IN_CI else (600, 9.0)
"""Steps of training, and the perplexity below which they end; an untrained net has 76."""


@pytest.mark.slow
def test_perplexity_falls_below_the_bound(tmp_path):
    make_data.write(tmp_path)
    job = shutil.copy(make_data.HERE / "job.conf", tmp_path)
    losses: list[float] = []
    loaded = netweave.load_job(job)
    netweave.train(
        replace(loaded, schedule=replace(loaded.schedule, max_iterations=STEPS)),
        seed=1,
        watch=lambda event: losses.append(event.loss) if isinstance(event, Updated) else None,
    )
    assert len(losses) == STEPS
    assert math.exp(losses[0] / RUN) == pytest.approx(76, rel=0.05)
    assert math.exp(np.mean(losses[-50:]) / RUN) < BOUND
