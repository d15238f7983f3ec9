"""Port to Keras 3: channels come last inside; ``run`` takes and gives what the original does."""

import keras
import numpy as np
from keras import layers
from safetensors.numpy import load_file

WIDTH = 8
CLASSES = 10

LAST = "channels_last"


def hard_swish(x):
    return layers.Multiply()([x, layers.Activation("hard_sigmoid")(x)])


def conv(x, filters, name, *, size=1, stride=1, use_bias=False):
    return layers.Conv2D(
        filters, size, strides=stride, padding="same", use_bias=use_bias, data_format=LAST, name=name
    )(x)


def norm(x, name):
    return layers.BatchNormalization(axis=-1, epsilon=1e-3, name=name)(x)


def unit(x, index, outputs, size, stride):
    name = f"units_{index}"
    inputs = x.shape[-1]
    y = norm(conv(x, 3 * inputs, f"{name}_expand"), f"{name}_bn1")
    y = layers.ReLU(max_value=6.0)(y)
    y = layers.DepthwiseConv2D(
        size, strides=stride, padding="same", use_bias=False, data_format=LAST, name=f"{name}_depthwise"
    )(y)
    y = hard_swish(norm(y, f"{name}_bn2"))
    gate = layers.GlobalAveragePooling2D(data_format=LAST, keepdims=True)(y)
    gate = layers.ReLU()(conv(gate, 4, f"{name}_squeeze", use_bias=True))
    gate = conv(gate, 3 * inputs, f"{name}_excite", use_bias=True)
    y = layers.Multiply()([y, layers.Activation("hard_sigmoid")(gate)])
    y = norm(conv(y, outputs, f"{name}_project"), f"{name}_bn3")
    return layers.Add()([x, y]) if stride == 1 and inputs == outputs else y


def build():
    image = keras.Input((None, None, 3))
    x = hard_swish(norm(conv(image, WIDTH, "conv", size=3, stride=2), "bn"))
    x = unit(x, 0, WIDTH, 3, 1)
    x = unit(x, 1, 2 * WIDTH, 5, 2)
    x = unit(x, 2, 2 * WIDTH, 3, 1)
    x = layers.GlobalAveragePooling2D(data_format=LAST)(x)
    return keras.Model(image, layers.Dense(CLASSES, name="fc")(x))


def load(path):
    w = load_file(path)
    model = build()
    for layer in model.layers:
        name = layer.name.replace("_", ".")
        if f"{name}.weight" not in w:
            continue
        weight = w[f"{name}.weight"]
        if name.endswith("depthwise"):
            weight = weight.transpose(2, 3, 0, 1)
        elif weight.ndim == 4:
            weight = weight.transpose(2, 3, 1, 0)
        elif weight.ndim == 2:
            weight = weight.T
        keys = ("bias", "running_mean", "running_var")
        layer.set_weights([weight, *(w[f"{name}.{key}"] for key in keys if f"{name}.{key}" in w)])
    return model


def run(model, images):
    return np.asarray(model.predict_on_batch(images.transpose(0, 2, 3, 1)))
