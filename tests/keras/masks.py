"""Nets whose predictions have a mask, each as a function of the module ``keras``; see ``cases``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.keras.examples import first_weights

REDUCTIONS = ("sum_over_batch_size", "sum", "mean_with_sample_weight")


def words() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of words, of which 0 is none and one row has no other, with classes and weights of them."""
    generator = np.random.RandomState(3)
    ids = generator.randint(1, 9, (10, 5))
    ids[:, :2] *= generator.randint(0, 2, (10, 2))
    ids[3] = 0
    labels = generator.randint(0, 3, (10, 5)).astype(np.float32)
    return ids.astype(np.float32), labels, generator.uniform(0.5, 2.0, (10, 5)).astype(np.float32)


def tagger(keras: Any, reduction: str, **metrics: Any) -> Any:
    """Return a net that gives a class to each word; words of number 0 do not count."""
    layers = keras.layers
    x = keras.Input((5,))
    states = layers.GRU(4, return_sequences=True)(layers.Embedding(9, 3, mask_zero=True)(x))
    model = keras.Model(x, layers.Dense(3, activation="softmax")(states))
    model.set_weights(first_weights(model))
    loss = keras.losses.SparseCategoricalCrossentropy(reduction=reduction)
    model.compile(keras.optimizers.SGD(0.05), loss=loss, **metrics)
    return model


def _tagged(keras: Any, reduction: str, *, weighted: bool) -> list[float]:
    # ``weighted_metrics`` beside weights of records are left out: Keras on torch multiplies these weights in
    # place by the mask and the factor of the loss, and its metrics then see that; on TensorFlow it does not.
    model = tagger(keras, reduction, metrics=["accuracy", "sparse_categorical_crossentropy"])
    ids, labels, weights = words()
    return _numbers(model, ids, labels, sample_weight=weights if weighted else None)


def _numbers(model: Any, x: np.ndarray, y: np.ndarray, **settings: Any) -> list[float]:
    told = model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0, **settings).history
    judged = model.evaluate(x, y, batch_size=4, verbose=0, **settings)
    return [float(value) for name in sorted(told) for value in told[name]] + [float(one) for one in judged]


def _masking(keras: Any) -> list[float]:
    """Return what is measured where some steps are all 0, by metrics with and without the mask."""
    generator = np.random.RandomState(4)
    steps = generator.normal(size=(6, 4, 2)).astype(np.float32)
    steps[1, 2:] = steps[4] = 0
    x = keras.Input((4, 2))
    model = keras.Model(x, keras.layers.Dense(1)(keras.layers.Masking()(x)))
    model.set_weights(first_weights(model))
    metrics = keras.metrics
    seen = ["mae", metrics.CosineSimilarity(name="cosine"), metrics.RootMeanSquaredError(name="root")]
    model.compile(keras.optimizers.SGD(0.05), loss="mse", metrics=seen)
    return _numbers(model, steps, steps[:, :, :1] * 2 + 1)


def masked_curves(keras: Any) -> dict[str, list[float]]:
    """Return the losses and metrics of all nets by name."""
    found = {"mask Masking": _masking(keras)}
    for reduction in REDUCTIONS:
        found[f"mask {reduction}"] = _tagged(keras, reduction, weighted=False)
        found[f"mask {reduction} weighted"] = _tagged(keras, reduction, weighted=True)
    return found
