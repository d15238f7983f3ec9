"""Fits that are killed, or whose machine is taken away: resumed, they end as those that nobody disturbs."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import keras
from tests.keras.test_models import data, small


def test_a_fit_resumes_bit_for_bit(tmp_path):
    """Killed after the second of four epochs by a callback, and resumed: every array and the history."""
    x, y = data()

    class KilledError(Exception):
        pass

    class Kill(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 3:
                raise KilledError

    def fit(start, folder, callbacks, **settings):
        keras.utils.clear_session()
        model = small(keras.optimizers.Adam(0.02))
        model.set_weights(start)
        callbacks = [keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=1.0), *callbacks]
        history = model.fit(
            x,
            y,
            epochs=4,
            seed=3,
            callbacks=callbacks,
            verbose=0,
            checkpoint_prefix=folder / "fit",
            **settings,
        )
        return model, history.history

    start = small().get_weights()
    whole, expected = fit(start, tmp_path / "a", [])
    with pytest.raises(KilledError):
        fit(start, tmp_path / "b", [Kill()])
    resumed, found = fit(start, tmp_path / "b", [], resume=True)
    assert found == expected
    for one, other in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fit_whose_machine_is_taken_away_ends_with_its_status_and_goes_on(tmp_path):
    """SIGTERM after the sixth batch: every array at the end is that of a fit that nobody disturbs."""
    x, y = data()

    class Taken(keras.callbacks.Callback):
        seen = 0

        def on_train_batch_end(self, batch, logs=None):
            self.seen += 1
            if self.seen == 6:
                os.kill(os.getpid(), signal.SIGTERM)

    def fit(start, folder, *callbacks):
        keras.utils.clear_session()
        model = small(keras.optimizers.Adam(0.02))
        model.set_weights(start)
        settings = {"epochs": 3, "seed": 3, "batch_size": 8, "verbose": 0}
        model.fit(x, y, callbacks=callbacks, checkpoint_prefix=folder / "fit", resume="auto", **settings)
        return model.get_weights()

    start = small().get_weights()
    whole = fit(start, tmp_path / "whole")
    with pytest.raises(SystemExit) as ended:
        fit(start, tmp_path / "taken", Taken())
    assert ended.value.code == 143
    assert [path.name for path in (tmp_path / "taken").glob("*.checkpoint")] == ["fit_iter_6.checkpoint"]
    for one, other in zip(whole, fit(start, tmp_path / "taken"), strict=True):
        np.testing.assert_array_equal(one, other)
