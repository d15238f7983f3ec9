"""Port to Keras 3: channels come last inside; ``run`` takes and gives what the original does."""

import keras
import numpy as np
from keras import layers
from safetensors.numpy import load_file

WIDTH = 8
CLASSES = 10


def conv_bn(x, filters, size, stride, name):
    if size > 1:
        x = layers.ZeroPadding2D(size // 2)(x)
    x = layers.Conv2D(filters, size, strides=stride, use_bias=False, data_format="channels_last", name=name)(
        x
    )
    return layers.BatchNormalization(epsilon=1e-5, axis=-1, name=f"{name}_norm")(x)


class HalfPool(layers.Layer):
    """Average of 2 x 2 pixels; the last row and column of an odd size have fewer."""

    def call(self, x):
        height, width = x.shape[1], x.shape[2]
        pads = [[0, 0], [0, height % 2], [0, width % 2], [0, 0]]
        total = keras.ops.average_pool(keras.ops.pad(x, pads), 2, 2, data_format="channels_last")
        count = keras.ops.average_pool(
            keras.ops.pad(keras.ops.ones_like(x), pads), 2, 2, data_format="channels_last"
        )
        return total / count


def bottleneck(x, width, stride, project, name):
    y = layers.ReLU()(conv_bn(x, width, 1, 1, f"{name}_a"))
    y = layers.ReLU()(conv_bn(y, width, 3, stride, f"{name}_b"))
    y = conv_bn(y, 4 * width, 1, 1, f"{name}_c")
    if project:
        if stride > 1:
            x = HalfPool(name=f"{name}_pool")(x)
        x = conv_bn(x, 4 * width, 1, 1, f"{name}_d")
    return layers.ReLU()(layers.Add()([x, y]))


def build(height, width):
    image = keras.Input((height, width, 3))
    x = layers.ReLU()(conv_bn(image, WIDTH, 7, 2, "stem"))
    x = layers.ZeroPadding2D(1)(x)  # all values are positive here, so that zeros never win
    x = layers.MaxPooling2D(3, 2, data_format="channels_last")(x)
    x = bottleneck(x, WIDTH, 1, True, "block0")
    x = bottleneck(x, WIDTH, 1, False, "block1")
    x = bottleneck(x, 2 * WIDTH, 2, True, "block2")
    x = bottleneck(x, 2 * WIDTH, 1, False, "block3")
    x = layers.GlobalAveragePooling2D(data_format="channels_last")(x)
    return keras.Model(image, layers.Dense(CLASSES, name="head")(x))


def fill(model, w):
    def take(name, conv, norm):
        model.get_layer(name).set_weights([w[f"{conv}.weight"].transpose(2, 3, 1, 0)])
        keys = ("weight", "bias", "running_mean", "running_var")
        model.get_layer(f"{name}_norm").set_weights([w[f"{norm}.{key}"] for key in keys])

    take("stem", "conv", "bn")
    for i in range(4):
        take(f"block{i}_a", f"blocks.{i}.conv1", f"blocks.{i}.bn1")
        take(f"block{i}_b", f"blocks.{i}.conv2", f"blocks.{i}.bn2")
        take(f"block{i}_c", f"blocks.{i}.conv3", f"blocks.{i}.bn3")
        if f"blocks.{i}.short.weight" in w:
            take(f"block{i}_d", f"blocks.{i}.short", f"blocks.{i}.bn4")
    model.get_layer("head").set_weights([w["fc.weight"].T, w["fc.bias"]])
    return model


def load(path):
    w = load_file(path)
    return lambda height, width: fill(build(height, width), w)


def run(sized, images):
    model = sized(*images.shape[2:])
    return np.asarray(model.predict_on_batch(images.transpose(0, 2, 3, 1)))
