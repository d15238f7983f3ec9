"""Optimizers, schedules, losses, metrics, penalties and layers, each as a function of the module ``keras``.

The same lines run with Keras 3 and with ``netweave.keras``. Nothing here imports either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.keras.examples import BATCH, RECORDS, STEPS, first_weights
from tests.keras.masks import masked_curves

Make = Callable[[Any], Any]

OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda k: k.optimizers.SGD(0.05),
    "SGD momentum": lambda k: k.optimizers.SGD(0.02, momentum=0.9, weight_decay=0.01),
    "SGD Nesterov": lambda k: k.optimizers.SGD(0.02, momentum=0.9, nesterov=True, clipnorm=0.3),
    "RMSprop": lambda k: k.optimizers.RMSprop(0.01),
    "RMSprop centred": lambda k: k.optimizers.RMSprop(0.003, centered=True, momentum=0.5, rho=0.8),
    "Adam": lambda k: k.optimizers.Adam(0.02, clipvalue=0.1),
    "Adam AMSGrad": lambda k: k.optimizers.Adam(0.02, amsgrad=True, beta_2=0.9),
    "AdamW": lambda k: k.optimizers.AdamW(0.02, global_clipnorm=0.5),
    "Adagrad": lambda k: k.optimizers.Adagrad(0.1),
    "Adadelta": lambda k: k.optimizers.Adadelta(5.0),
    "Adamax": lambda k: k.optimizers.Adamax(0.02),
    "Nadam": lambda k: k.optimizers.Nadam(0.02, weight_decay=0.02),
    "Ftrl": lambda k: k.optimizers.Ftrl(
        0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01,
        l2_shrinkage_regularization_strength=0.001, beta=0.1,
    ),
    "Lion": lambda k: k.optimizers.Lion(0.003, weight_decay=0.1),
    "Adafactor": lambda k: k.optimizers.Adafactor(0.1),
    "Lamb": lambda k: k.optimizers.Lamb(0.02),
}  # fmt: skip

SCHEDULES: dict[str, Make] = {
    "ExponentialDecay": lambda k: k.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5),
    "ExponentialDecay staircase": lambda k: k.optimizers.schedules.ExponentialDecay(
        0.1, 10, 0.5, staircase=True
    ),
    "InverseTimeDecay": lambda k: k.optimizers.schedules.InverseTimeDecay(0.1, 5, 0.5),
    "PiecewiseConstantDecay": lambda k: k.optimizers.schedules.PiecewiseConstantDecay(
        [10, 30], [0.1, 0.05, 0.01]
    ),
    "PolynomialDecay": lambda k: k.optimizers.schedules.PolynomialDecay(0.1, 20, 0.01, power=2.0),
    "PolynomialDecay cycle": lambda k: k.optimizers.schedules.PolynomialDecay(0.1, 12, 0.01, cycle=True),
    "CosineDecay": lambda k: k.optimizers.schedules.CosineDecay(0.1, 30, alpha=0.1),
    "CosineDecay warm-up": lambda k: k.optimizers.schedules.CosineDecay(
        0.0, 30, warmup_target=0.1, warmup_steps=10
    ),
    "CosineDecayRestarts": lambda k: k.optimizers.schedules.CosineDecayRestarts(0.1, 8, m_mul=0.8),
    "CosineDecayRestarts even": lambda k: k.optimizers.schedules.CosineDecayRestarts(0.1, 8, t_mul=1.0),
}

REGULARIZERS: dict[str, Make] = {
    "L1": lambda k: k.regularizers.L1(0.01),
    "L2": lambda k: k.regularizers.L2(0.02),
    "L1L2": lambda k: k.regularizers.L1L2(0.01, 0.02),
    "l1_l2": lambda k: k.regularizers.l1_l2(0.01, 0.02),
    "orthogonal rows": lambda k: k.regularizers.OrthogonalRegularizer(0.05),
    "orthogonal columns": lambda k: k.regularizers.OrthogonalRegularizer(0.05, mode="columns"),
}

CONSTRAINTS: dict[str, Make] = {
    "MaxNorm": lambda k: k.constraints.MaxNorm(0.5),
    "NonNeg": lambda k: k.constraints.NonNeg(),
    "UnitNorm": lambda k: k.constraints.UnitNorm(axis=1),
    "MinMaxNorm": lambda k: k.constraints.MinMaxNorm(0.4, 0.6, rate=0.5),
}

LOSSES: dict[str, tuple[Make, str]] = {
    "MeanSquaredError": (lambda k: k.losses.MeanSquaredError(), "linear"),
    "MeanSquaredError sum": (lambda k: k.losses.MeanSquaredError(reduction="sum"), "linear"),
    "MeanAbsoluteError": (lambda k: k.losses.MeanAbsoluteError(), "linear"),
    "MeanAbsolutePercentageError": (lambda k: k.losses.MeanAbsolutePercentageError(), "softplus"),
    "MeanSquaredLogarithmicError": (lambda k: k.losses.MeanSquaredLogarithmicError(), "softplus"),
    "CosineSimilarity": (lambda k: k.losses.CosineSimilarity(), "linear"),
    "Huber": (lambda k: k.losses.Huber(0.3), "linear"),
    "LogCosh": (lambda k: k.losses.LogCosh(), "linear"),
    "Hinge": (lambda k: k.losses.Hinge(), "tanh"),
    "SquaredHinge": (lambda k: k.losses.SquaredHinge(), "tanh"),
    "CategoricalHinge": (lambda k: k.losses.CategoricalHinge(), "tanh"),
    "KLDivergence": (lambda k: k.losses.KLDivergence(), "softmax"),
    "Poisson": (lambda k: k.losses.Poisson(), "softplus"),
    "BinaryCrossentropy": (lambda k: k.losses.BinaryCrossentropy(label_smoothing=0.1), "sigmoid"),
    "BinaryCrossentropy logits": (lambda k: k.losses.BinaryCrossentropy(from_logits=True), "linear"),
    "BinaryFocalCrossentropy": (
        lambda k: k.losses.BinaryFocalCrossentropy(apply_class_balancing=True),
        "sigmoid",
    ),
    "CategoricalCrossentropy": (lambda k: k.losses.CategoricalCrossentropy(label_smoothing=0.1), "softmax"),
    "CategoricalCrossentropy logits": (
        lambda k: k.losses.CategoricalCrossentropy(from_logits=True),
        "linear",
    ),
    "CategoricalCrossentropy shares": (lambda k: k.losses.CategoricalCrossentropy(), "softplus"),
    "CategoricalFocalCrossentropy": (lambda k: k.losses.CategoricalFocalCrossentropy(), "softmax"),
    "Dice": (lambda k: k.losses.Dice(), "sigmoid"),
    "Tversky": (lambda k: k.losses.Tversky(0.3, 0.7), "sigmoid"),
    "mse": (lambda k: "mse", "linear"),
}
"""Losses of labels that are one of three classes as (RECORDS, 3), and the activation before them."""

METRICS: dict[str, Make] = {
    "Accuracy": lambda k: k.metrics.Accuracy(),
    "BinaryAccuracy": lambda k: k.metrics.BinaryAccuracy(threshold=0.4),
    "CategoricalAccuracy": lambda k: k.metrics.CategoricalAccuracy(),
    "TopKCategoricalAccuracy": lambda k: k.metrics.TopKCategoricalAccuracy(k=2),
    "MeanSquaredError": lambda k: k.metrics.MeanSquaredError(),
    "RootMeanSquaredError": lambda k: k.metrics.RootMeanSquaredError(),
    "MeanAbsoluteError": lambda k: k.metrics.MeanAbsoluteError(),
    "MeanAbsolutePercentageError": lambda k: k.metrics.MeanAbsolutePercentageError(),
    "MeanSquaredLogarithmicError": lambda k: k.metrics.MeanSquaredLogarithmicError(),
    "LogCoshError": lambda k: k.metrics.LogCoshError(),
    "CosineSimilarity": lambda k: k.metrics.CosineSimilarity(),
    "Hinge": lambda k: k.metrics.Hinge(),
    "SquaredHinge": lambda k: k.metrics.SquaredHinge(),
    "CategoricalHinge": lambda k: k.metrics.CategoricalHinge(),
    "KLDivergence": lambda k: k.metrics.KLDivergence(),
    "Poisson": lambda k: k.metrics.Poisson(),
    "BinaryCrossentropy": lambda k: k.metrics.BinaryCrossentropy(),
    "CategoricalCrossentropy": lambda k: k.metrics.CategoricalCrossentropy(),
    "Precision": lambda k: k.metrics.Precision(),
    "Precision top 1": lambda k: k.metrics.Precision(top_k=1),
    "Precision of a class": lambda k: k.metrics.Precision(class_id=1, thresholds=[0.2, 0.6]),
    "Recall": lambda k: k.metrics.Recall(thresholds=0.3),
    "TruePositives": lambda k: k.metrics.TruePositives(),
    "FalsePositives": lambda k: k.metrics.FalsePositives(),
    "TrueNegatives": lambda k: k.metrics.TrueNegatives(),
    "FalseNegatives": lambda k: k.metrics.FalseNegatives(),
    "AUC": lambda k: k.metrics.AUC(),
    "AUC PR": lambda k: k.metrics.AUC(curve="PR", num_thresholds=50),
    "AUC minoring": lambda k: k.metrics.AUC(summation_method="minoring", thresholds=[0.2, 0.5, 0.7]),
    "F1Score": lambda k: k.metrics.F1Score(average="macro"),
    "FBetaScore": lambda k: k.metrics.FBetaScore(beta=2.0, threshold=0.4, average="weighted"),
    "R2Score": lambda k: k.metrics.R2Score(),
}
"""Metrics of labels that are one of three classes as (records, 3)."""

UNWEIGHTED = ("FBetaScore", "F1Score")

LAYERS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "Conv1D causal": (lambda k: k.layers.Conv1D(4, 3, padding="causal", dilation_rate=2), (7, 3)),
    "Conv2D groups": (lambda k: k.layers.Conv2D(4, (3, 2), strides=2, padding="same", groups=2), (7, 6, 4)),
    "Conv2D first": (lambda k: k.layers.Conv2DTranspose(3, 3, strides=2, padding="same"), (4, 5, 2)),
    "Conv3D": (lambda k: k.layers.Conv3D(2, 2, activation="relu"), (3, 4, 3, 2)),
    "SeparableConv1D": (lambda k: k.layers.SeparableConv1D(4, 3, depth_multiplier=2), (6, 3)),
    "DepthwiseConv2D": (lambda k: k.layers.DepthwiseConv2D(3, padding="same"), (5, 5, 2)),
    "EinsumDense": (lambda k: k.layers.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d"), (4, 3)),
    "Dense on three axes": (lambda k: k.layers.Dense(4, activation="swish"), (5, 3)),
    "BatchNormalization": (lambda k: k.layers.BatchNormalization(epsilon=0.01), (4, 3)),
    "GroupNormalization": (lambda k: k.layers.GroupNormalization(2), (4, 5, 4)),
    "LayerNormalization": (lambda k: k.layers.LayerNormalization(axis=[1, 2]), (4, 3)),
    "RMSNormalization": (lambda k: k.layers.RMSNormalization(), (4, 3)),
    "UnitNormalization": (lambda k: k.layers.UnitNormalization(), (4, 3)),
    "LSTM": (lambda k: k.layers.LSTM(3, return_sequences=True, go_backwards=True), (4, 3)),
    "GRU": (lambda k: k.layers.GRU(3, reset_after=False), (4, 3)),
    "SimpleRNN": (lambda k: k.layers.SimpleRNN(3, activation="relu"), (4, 3)),
    "Bidirectional": (lambda k: k.layers.Bidirectional(k.layers.GRU(3), merge_mode="sum"), (4, 3)),
    "TimeDistributed": (lambda k: k.layers.TimeDistributed(k.layers.Conv2D(2, 2)), (3, 4, 4, 1)),
    "PReLU": (lambda k: k.layers.PReLU(shared_axes=[1]), (4, 3)),
    "LeakyReLU": (lambda k: k.layers.LeakyReLU(), (4,)),
    "ELU": (lambda k: k.layers.ELU(0.5), (4,)),
    "Softmax": (lambda k: k.layers.Softmax(axis=1), (4, 3)),
    "MaxPooling1D": (lambda k: k.layers.MaxPooling1D(2, padding="same"), (5, 3)),
    "AveragePooling3D": (lambda k: k.layers.AveragePooling3D(2), (4, 4, 5, 1)),
    "GlobalMaxPooling2D": (lambda k: k.layers.GlobalMaxPooling2D(keepdims=True), (4, 4, 2)),
    "ZeroPadding2D": (lambda k: k.layers.ZeroPadding2D(((1, 0), (2, 1))), (3, 3, 2)),
    "Cropping1D": (lambda k: k.layers.Cropping1D((1, 2)), (6, 2)),
    "UpSampling2D": (lambda k: k.layers.UpSampling2D(2, interpolation="bilinear"), (3, 3, 2)),
    "Permute": (lambda k: k.layers.Permute((2, 1)), (4, 3)),
    "RepeatVector": (lambda k: k.layers.RepeatVector(3), (4,)),
    "Reshape": (lambda k: k.layers.Reshape((2, -1)), (4, 3)),
    "Rescaling": (lambda k: k.layers.Rescaling(0.5, offset=1.0), (4, 3)),
    "Resizing": (lambda k: k.layers.Resizing(5, 4), (3, 3, 2)),
    "CenterCrop": (lambda k: k.layers.CenterCrop(2, 3), (4, 5, 1)),
}
"""Layers, and the sizes of a record that they are given."""


def _data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.RandomState(8)
    x = generator.normal(size=(RECORDS, 6)).astype(np.float32)
    return x, np.eye(3, dtype=np.float32)[x[:, :3].argmax(1)]


def fitted(keras: Any, optimizer: Any, loss: Any, last: str = "linear", **settings: Any) -> list[float]:
    """Return the losses of some steps of a net of two layers."""
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(5, "tanh", **settings), layers.Dense(3, activation=last)]
    )
    model.compile(optimizer, loss=loss)
    model.set_weights(first_weights(model))
    x, y = _data()
    losses = []
    for step in range(STEPS):
        start = step * BATCH % RECORDS
        model.reset_metrics()
        found = model.train_on_batch(x[start : start + BATCH], y[start : start + BATCH])
        losses.append(float(found[0] if isinstance(found, list) else found))
    return losses


def measured(metric: Any, *, weighted: bool) -> list[float]:
    """Return what a metric says after each of some batches."""
    generator = np.random.RandomState(12)
    rows: list[float] = []
    for _ in range(4):
        scores = generator.uniform(0.02, 1.0, (8, 3))
        y_pred = (scores / scores.sum(1, keepdims=True)).astype(np.float32)
        y_true = np.eye(3, dtype=np.float32)[generator.randint(0, 3, 8)]
        weights = generator.uniform(0.5, 2.0, 8).astype(np.float32)
        metric.update_state(y_true, y_pred, weights if weighted else None)
        rows += [float(one) for one in np.atleast_1d(np.asarray(metric.result()))]
    return rows


def layer_outputs(keras: Any, make: Make, shape: tuple[int, ...]) -> tuple[list[list[int]], list[float]]:
    """Return the sizes of a layer's arrays, and of its outputs the sizes, the mean and the last elements."""
    model = keras.Sequential([keras.Input(shape), make(keras)])
    model.set_weights(first_weights(model))
    x = np.random.RandomState(5).normal(size=(2, *shape)).astype(np.float32)
    out = np.asarray(model.predict(x, verbose=0))
    numbers = [*map(float, out.shape), float(out.mean()), *map(float, out.reshape(-1)[-4:])]
    return [list(array.shape) for array in model.get_weights()], numbers


def all_curves(keras: Any) -> dict[str, list[float]]:
    """Return the numbers of all cases by name."""
    found: dict[str, list[float]] = {}
    for name, make in OPTIMIZERS.items():
        found[f"optimizer {name}"] = fitted(keras, make(keras), "mse")
    for name, make in SCHEDULES.items():
        found[f"schedule {name}"] = fitted(keras, keras.optimizers.SGD(make(keras)), "mse")
    for name, make in REGULARIZERS.items():
        found[f"regularizer {name}"] = fitted(keras, "sgd", "mse", kernel_regularizer=make(keras))
        if not name.startswith("orthogonal"):
            found[f"activity {name}"] = fitted(keras, "sgd", "mse", activity_regularizer=make(keras))
    for name, make in CONSTRAINTS.items():
        found[f"constraint {name}"] = fitted(keras, "sgd", "mse", kernel_constraint=make(keras))
    for name, (make, last) in LOSSES.items():
        found[f"loss {name}"] = fitted(keras, keras.optimizers.SGD(0.05), make(keras), last)
    for name, make in METRICS.items():
        found[f"metric {name}"] = measured(make(keras), weighted=False)
        if not name.startswith(UNWEIGHTED):
            found[f"weighted metric {name}"] = measured(make(keras), weighted=True)
    return {**found, **masked_curves(keras)}
