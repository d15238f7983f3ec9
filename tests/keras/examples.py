"""Small nets in the manner of Keras' guides; each is a function of the module that is named ``keras``.

The same lines build a net with Keras 3 and with ``netweave.keras``. Nothing here imports either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS, BATCH, RECORDS = 50, 16, 80


@dataclass(frozen=True)
class Example:
    """A compiled model and records for it: arrays, or lists of them."""

    model: Any
    x: Any
    y: Any


def _images(count: int = RECORDS) -> tuple[np.ndarray, np.ndarray]:
    """Return bright squares of 3 x 3 in one of four quarters of noisy images, and the quarter."""
    generator = np.random.RandomState(3)
    images = generator.normal(0, 0.3, (count, 8, 8, 1))
    quarters = generator.randint(0, 4, count)
    for image, quarter in zip(images, quarters, strict=True):
        top, left = 4 * (quarter // 2), 4 * (quarter % 2)
        image[top : top + 3, left : left + 3] += 1
    return images.astype(np.float32), quarters


def mlp(keras: Any) -> Example:
    """A Sequential of dense layers on images, with a penalty and dropout of nothing."""
    layers = keras.layers
    x, y = _images()
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Rescaling(0.5, offset=0.1),
            layers.Flatten(),
            layers.Dense(24, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-3)),
            layers.Dropout(0.0),
            layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return Example(model, x, y)


def convnet(keras: Any) -> Example:
    """Convolutions with batch normalisation and pooling."""
    layers = keras.layers
    x, y = _images()
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(6, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(8, 3, strides=2, padding="same", activation="elu"),
            layers.DepthwiseConv2D(2, depth_multiplier=2),
            layers.AveragePooling2D(2, strides=1, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.RMSprop(1e-3, momentum=0.5), loss=loss, metrics=["accuracy"])
    return Example(model, x, y)


def two_inputs(keras: Any) -> Example:
    """Two inputs that are joined, one output."""
    layers = keras.layers
    generator = np.random.RandomState(1)
    left, right = (generator.normal(size=(RECORDS, n)).astype(np.float32) for n in (6, 4))
    a, b = keras.Input((6,), name="left"), keras.Input((4,), name="right")
    x = layers.concatenate([layers.Dense(8, activation="tanh")(a), layers.Dense(5, activation="relu")(b)])
    x = layers.LayerNormalization()(x)
    model = keras.Model([a, b], layers.Dense(1)(x))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True), loss="mse", metrics=["mae"])
    return Example(model, [left, right], (left[:, :1] * right[:, 1:2] + right[:, 2:3]).astype(np.float32))


def residual(keras: Any) -> Example:
    """A small net with shortcuts, in the manner of the guide's toy ResNet."""
    layers = keras.layers
    x, y = _images()
    inputs = keras.Input((8, 8, 1))
    first = layers.Conv2D(8, 3, activation="relu")(inputs)
    pooled = layers.MaxPooling2D(2)(first)
    more = layers.Conv2D(8, 3, activation="relu", padding="same")(pooled)
    more = layers.Conv2D(8, 3, activation="relu", padding="same")(more)
    added = layers.add([more, pooled])
    out = layers.GlobalMaxPooling2D()(added)
    out = layers.Dense(12, activation="relu", activity_regularizer="l2")(out)
    model = keras.Model(inputs, layers.Dense(4, activation="softmax")(out), name="toy_resnet")
    optimizer = keras.optimizers.AdamW(3e-3, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer, loss="categorical_crossentropy", metrics=["acc"])
    return Example(model, x, np.eye(4, dtype=np.float32)[y])


def text(keras: Any) -> Example:
    """Words as numbers, embedded, read in both ways."""
    layers = keras.layers
    generator = np.random.RandomState(2)
    words = generator.randint(1, 20, (RECORDS, 7))
    model = keras.Sequential(
        [
            keras.Input((7,), dtype="int32"),
            layers.Embedding(20, 6),
            layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
            layers.GRU(6),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("nadam", loss="binary_crossentropy", metrics=["accuracy"])
    return Example(model, words, (words[:, 0] > words[:, 3]).astype(np.float32)[:, None])


def autoencoder(keras: Any) -> Example:
    """An encoder and a decoder as models, and a model of both."""
    layers = keras.layers
    x, _ = _images()
    image = keras.Input((8, 8, 1), name="image")
    h = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(image)
    code = layers.Dense(6)(layers.Flatten()(h))
    encoder = keras.Model(image, code, name="encoder")
    given = keras.Input((6,), name="code")
    h = layers.Reshape((4, 4, 4))(layers.Dense(64, activation="relu")(given))
    h = layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu")(h)
    decoder = keras.Model(given, layers.Conv2D(1, 3, padding="same")(h), name="decoder")
    model = keras.Model(image, decoder(encoder(image)), name="autoencoder")
    model.compile(keras.optimizers.Adamax(5e-3), loss=keras.losses.Huber(0.5))
    return Example(model, x, x)


def outputs(keras: Any) -> Example:
    """Two outputs with losses of their own, weighted."""
    layers = keras.layers
    generator = np.random.RandomState(4)
    x = generator.normal(size=(RECORDS, 10)).astype(np.float32)
    inputs = keras.Input((10,))
    h = layers.Dense(16, activation="gelu")(inputs)
    priority = layers.Dense(1, name="priority", activation="sigmoid")(h)
    department = layers.Dense(3, name="department")(h)
    model = keras.Model(inputs, [priority, department])
    losses = [keras.losses.BinaryCrossentropy(), keras.losses.CategoricalCrossentropy(from_logits=True)]
    model.compile(keras.optimizers.Adam(0.01, clipnorm=0.5), loss=losses, loss_weights=[1.0, 0.2])
    y = [(x[:, :1] > 0).astype(np.float32), np.eye(3, dtype=np.float32)[x[:, 1:4].argmax(1)]]
    return Example(model, x, y)


def shared(keras: Any) -> Example:
    """One embedding and one encoder for two inputs."""
    layers = keras.layers
    generator = np.random.RandomState(6)
    a, b = (generator.randint(0, 12, (RECORDS, 5)) for _ in range(2))
    embed, encode = layers.Embedding(12, 4), layers.SimpleRNN(6)
    first, second = (
        keras.Input((5,), dtype="int32", name="first"),
        keras.Input((5,), dtype="int32", name="second"),
    )
    left, right = encode(embed(first)), encode(embed(second))
    joined = layers.Concatenate()([left, right, layers.Multiply()([left, right]), left - right])
    model = keras.Model([first, second], layers.Dense(1, kernel_regularizer="l1")(joined))
    model.compile(keras.optimizers.Lion(1e-3), loss=keras.losses.Hinge(), metrics=["mse"])
    return Example(model, [a, b], np.sign(a.sum(1) - b.sum(1) + 0.5).astype(np.float32)[:, None])


def transformer(keras: Any) -> Example:
    """A block of attention over words."""
    layers = keras.layers
    generator = np.random.RandomState(7)
    words = generator.randint(0, 15, (RECORDS, 6))
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(15, 8)(inputs)
    attended = layers.MultiHeadAttention(2, 4)(x, x)
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([x, attended]))
    x = layers.Dense(8, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(x))
    model.compile("adagrad", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return Example(model, words, words[:, 0] % 3)


def own_classes(keras: Any) -> Example:
    """Models that are classes of the user's own, one in the other, with a Lambda."""
    layers = keras.layers

    class Block(keras.Model):  # type: ignore[misc]
        def __init__(self, units: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.norm = layers.LayerNormalization()
            self.dense = layers.Dense(units, activation="tanh")
            self.drop = layers.Dropout(0.0)

        def call(self, inputs: Any, training: bool = False) -> Any:
            return inputs + self.norm(self.drop(self.dense(inputs), training=training))

    class Classifier(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.out = layers.Dense(3, activation="softmax")  # made first, called last
            self.blocks = [Block(5, name=f"block{number}") for number in range(2)]
            self.scale = layers.Lambda(lambda x, by: keras.ops.tanh(x) * by, arguments={"by": 2.0})

        def call(self, inputs: Any, training: bool | None = None) -> Any:
            x = inputs
            for block in self.blocks:
                x = block(x, training=training)
            return self.out(self.scale(x))

    generator = np.random.RandomState(8)
    x = generator.normal(size=(RECORDS, 5)).astype(np.float32)
    model = Classifier()
    model(x[:1])  # which builds it
    model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return Example(model, x, x[:, :3].argmax(1))


EXAMPLES: dict[str, Callable[[Any], Example]] = {
    one.__name__: one
    for one in (mlp, convnet, two_inputs, residual, text, autoencoder, outputs, shared, transformer)
}


OWN_CLASSES: dict[str, Callable[[Any], Example]] = {"own_classes": own_classes}
"""Examples that Keras saves only with their code."""


def first_weights(model: Any) -> list[np.ndarray]:
    """Return the arrays that both start from: small, so that nothing saturates; variances positive."""
    generator = np.random.RandomState(11)
    found = []
    for array in model.get_weights():
        values = generator.normal(0, 0.3, array.shape)
        found.append((np.abs(values) + 0.5 if array.ndim == 1 else values).astype(np.float32))
    return found


def part(arrays: Any, start: int) -> Any:
    """Return the records of a batch."""
    if isinstance(arrays, list):
        return [part(one, start) for one in arrays]
    return arrays[start : start + BATCH]


def curve(example: Example, steps: int = STEPS) -> list[list[float]]:
    """Return what each of some steps measures, and after them the evaluation of all records."""
    model = example.model
    model.set_weights(first_weights(model))
    rows = []
    for step in range(steps):
        start = step * BATCH % RECORDS
        model.reset_metrics()
        rows.append(_numbers(model.train_on_batch(part(example.x, start), part(example.y, start))))
    model.reset_metrics()
    rows.append(_numbers(model.evaluate(example.x, example.y, batch_size=BATCH, verbose=0)))
    return rows


def _numbers(found: Any) -> list[float]:
    values = found if isinstance(found, list) else [found]
    return [float(value) for value in values]
