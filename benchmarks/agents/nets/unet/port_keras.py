"""Port to Keras 3: channels come last inside; ``run`` takes and gives what the original does."""

import keras
import numpy as np
from keras import layers, ops
from safetensors.numpy import load_file

WIDTH = 8

LAST = "channels_last"


class Pad(layers.Layer):
    """Frame of one pixel, reflected."""

    def call(self, x):
        return ops.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="reflect")


def double(x, filters, name):
    x = layers.Conv2D(filters, 3, data_format=LAST, name=f"{name}_conv1")(Pad()(x))
    x = layers.GroupNormalization(4, axis=-1, epsilon=1e-5, name=f"{name}_norm")(x)
    x = layers.LeakyReLU(negative_slope=0.2)(x)
    x = layers.Conv2D(filters, 3, padding="same", data_format=LAST, name=f"{name}_conv2")(x)
    return layers.LeakyReLU(negative_slope=0.2)(x)


def build(height, width):
    image = keras.Input((height, width, 1))
    a = double(image, WIDTH, "down1")
    b = double(layers.MaxPooling2D(2, data_format=LAST)(a), 2 * WIDTH, "down2")
    c = double(layers.AveragePooling2D(2, data_format=LAST)(b), 4 * WIDTH, "middle")
    up = layers.Conv2DTranspose(2 * WIDTH, 3, strides=2, padding="valid", data_format=LAST, name="up2")(c)
    up = layers.Cropping2D(((1, 0), (1, 0)), data_format=LAST)(up)
    b = double(layers.Concatenate()([b, up]), 2 * WIDTH, "join2")
    up = layers.Conv2DTranspose(WIDTH, 2, strides=2, data_format=LAST, name="up1")(b)
    a = double(layers.Concatenate()([a, up]), WIDTH, "join1")
    fine = layers.Conv2D(1, 1, activation="sigmoid", data_format=LAST, name="fine")(a)
    coarse = layers.Conv2D(1, 1, data_format=LAST, name="coarse")(b)
    coarse = layers.UpSampling2D(2, interpolation="bilinear", data_format=LAST)(coarse)
    coarse = layers.Activation("sigmoid")(coarse)
    return keras.Model(image, layers.Concatenate()([fine, coarse]))


def fill(model, w):
    for layer in model.layers:
        key = layer.name.replace("_", ".")
        if f"{key}.weight" not in w:
            continue
        weight = w[f"{key}.weight"]
        if weight.ndim == 4:
            weight = weight.transpose(2, 3, 1, 0)
        layer.set_weights([weight, w[f"{key}.bias"]])
    return model


def load(path):
    w = load_file(path)
    return lambda height, width: fill(build(height, width), w)


def run(sized, images):
    height, width = images.shape[2:]
    padded = np.pad(images, [(0, 0), (0, 0), (0, -height % 4), (0, -width % 4)])
    model = sized(*padded.shape[2:])
    masks = np.asarray(model.predict_on_batch(padded.transpose(0, 2, 3, 1)))
    return masks.transpose(0, 3, 1, 2)[:, :, :height, :width]
