"""The net of characters of ``examples/singa/char_rnn``, on the text of the guides."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from examples.singa.char_rnn import make_data
from netweave.training import Updated

RUN, STEPS, BOUND = 25, 600, 9.0
"""Steps of a run, those of training, and the perplexity below which they end; an untrained net has 76."""


@pytest.mark.slow
def test_perplexity_falls_below_the_bound(tmp_path):
    make_data.write(tmp_path)
    job = shutil.copy(make_data.HERE / "job.conf", tmp_path)
    losses: list[float] = []
    netweave.train(
        netweave.load_job(job),
        seed=1,
        watch=lambda event: losses.append(event.loss) if isinstance(event, Updated) else None,
    )
    assert len(losses) == STEPS
    assert math.exp(losses[0] / RUN) == pytest.approx(76, rel=0.05)
    assert math.exp(np.mean(losses[-50:]) / RUN) < BOUND
