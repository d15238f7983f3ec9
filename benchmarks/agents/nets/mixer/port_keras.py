"""Port to Keras 3: ``run`` takes and gives what the original does."""

import keras
import numpy as np
from keras import layers
from safetensors.numpy import load_file

WIDTH = 24
DEPTH = 3
TOKENS = 48
CLASSES = 10


def mlp(x, hidden, outputs, names):
    x = layers.Dense(hidden, name=names[0])(x)
    x = layers.Activation(keras.activations.gelu)(x)
    return layers.Dense(outputs, name=names[1])(x)


def build():
    image = keras.Input((24, 32, 3))
    x = layers.Rescaling(4.0, offset=-2.0)(image)
    x = layers.Conv2D(WIDTH, 4, strides=4, data_format="channels_last", name="patch")(x)
    x = layers.Reshape((TOKENS, WIDTH))(x)
    for i in range(DEPTH):
        y = layers.LayerNormalization(epsilon=1e-6, name=f"blocks_{i}_norm1")(x)
        y = layers.Permute((2, 1))(y)
        y = mlp(y, 32, TOKENS, (f"blocks_{i}_token1", f"blocks_{i}_token2"))
        x = layers.Add()([x, layers.Permute((2, 1))(y)])
        y = layers.LayerNormalization(epsilon=1e-6, name=f"blocks_{i}_norm2")(x)
        y = mlp(y, 4 * WIDTH, WIDTH, (f"blocks_{i}_channel1", f"blocks_{i}_channel2"))
        x = layers.Add()([x, y])
    x = layers.LayerNormalization(epsilon=1e-6, name="norm")(x)
    x = layers.GlobalAveragePooling1D(data_format="channels_last")(x)
    return keras.Model(image, layers.Dense(CLASSES, name="head")(x))


def load(path):
    w = load_file(path)
    model = build()
    for layer in model.layers:
        name = layer.name.replace("_", ".")
        if f"{name}.weight" in w:
            weight = w[f"{name}.weight"]
            weight = weight.transpose(2, 3, 1, 0) if weight.ndim == 4 else weight.T
            layer.set_weights([weight, w[f"{name}.bias"]])
    return model


def run(model, images):
    return np.asarray(model.predict_on_batch(images.transpose(0, 2, 3, 1)))
