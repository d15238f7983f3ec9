"""Signatures of Keras's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netweave.errors import UsageError
from netweave.keras.layer import LAYERS, Layer
from netweave.keras.operation import KerasTensor, Shape, unique_name

# ``tests/keras/test_curves.py`` compares them with an installed Keras (``-m oracle``). Arguments that every
# layer has (``name``, ``trainable``, ``dtype``) and those of quantised layers are left out.

SIGNATURES: dict[str, str] = {
    "Activation": "activation",
    "ActivityRegularization": "l1=0.0, l2=0.0",
    "Add": "",
    "AdditiveAttention": "use_scale=True, dropout=0.0",
    "AlphaDropout": "rate, noise_shape=None, seed=None",
    "Attention": "use_scale=False, score_mode='dot', dropout=0.0, seed=None",
    "Average": "",
    "AveragePooling1D": "pool_size, strides=None, padding='valid', data_format=None",
    "AveragePooling2D": "pool_size, strides=None, padding='valid', data_format=None",
    "AveragePooling3D": "pool_size, strides=None, padding='valid', data_format=None",
    "BatchNormalization": (
        "axis=-1, momentum=0.99, epsilon=0.001, center=True, scale=True, beta_initializer='zeros', "
        "gamma_initializer='ones', moving_mean_initializer='zeros', "
        "moving_variance_initializer='ones', beta_regularizer=None, gamma_regularizer=None, "
        "beta_constraint=None, gamma_constraint=None, renorm=False, renorm_clipping=None, "
        "renorm_momentum=0.99, synchronized=False"
    ),
    "Bidirectional": "layer, merge_mode='concat', backward_layer=None",
    "CenterCrop": "height, width, data_format=None",
    "Concatenate": "axis=-1",
    "Conv1D": (
        "filters, kernel_size, strides=1, padding='valid', data_format=None, dilation_rate=1, "
        "groups=1, activation=None, use_bias=True, kernel_initializer='glorot_uniform', "
        "bias_initializer='zeros', kernel_regularizer=None, bias_regularizer=None, "
        "activity_regularizer=None, kernel_constraint=None, bias_constraint=None"
    ),
    "Conv1DTranspose": (
        "filters, kernel_size, strides=1, padding='valid', output_padding=None, data_format=None, "
        "dilation_rate=1, activation=None, use_bias=True, kernel_initializer='glorot_uniform', "
        "bias_initializer='zeros', kernel_regularizer=None, bias_regularizer=None, "
        "activity_regularizer=None, kernel_constraint=None, bias_constraint=None"
    ),
    "Conv2D": (
        "filters, kernel_size, strides=(1, 1), padding='valid', data_format=None, dilation_rate=(1, "
        "1), groups=1, activation=None, use_bias=True, kernel_initializer='glorot_uniform', "
        "bias_initializer='zeros', kernel_regularizer=None, bias_regularizer=None, "
        "activity_regularizer=None, kernel_constraint=None, bias_constraint=None"
    ),
    "Conv2DTranspose": (
        "filters, kernel_size, strides=(1, 1), padding='valid', output_padding=None, "
        "data_format=None, dilation_rate=(1, 1), activation=None, use_bias=True, "
        "kernel_initializer='glorot_uniform', bias_initializer='zeros', kernel_regularizer=None, "
        "bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, "
        "bias_constraint=None"
    ),
    "Conv3D": (
        "filters, kernel_size, strides=(1, 1, 1), padding='valid', data_format=None, "
        "dilation_rate=(1, 1, 1), groups=1, activation=None, use_bias=True, "
        "kernel_initializer='glorot_uniform', bias_initializer='zeros', kernel_regularizer=None, "
        "bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, "
        "bias_constraint=None"
    ),
    "Conv3DTranspose": (
        "filters, kernel_size, strides=(1, 1, 1), padding='valid', data_format=None, "
        "output_padding=None, dilation_rate=(1, 1, 1), activation=None, use_bias=True, "
        "kernel_initializer='glorot_uniform', bias_initializer='zeros', kernel_regularizer=None, "
        "bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, "
        "bias_constraint=None"
    ),
    "ConvLSTM1D": (
        "filters, kernel_size, strides=1, padding='valid', data_format=None, dilation_rate=1, "
        "activation='tanh', recurrent_activation='sigmoid', use_bias=True, "
        "kernel_initializer='glorot_uniform', recurrent_initializer='orthogonal', "
        "bias_initializer='zeros', unit_forget_bias=True, kernel_regularizer=None, "
        "recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, "
        "kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, "
        "recurrent_dropout=0.0, seed=None, return_sequences=False, return_state=False, "
        "go_backwards=False, stateful=False"
    ),
    "ConvLSTM2D": (
        "filters, kernel_size, strides=1, padding='valid', data_format=None, dilation_rate=1, "
        "activation='tanh', recurrent_activation='sigmoid', use_bias=True, "
        "kernel_initializer='glorot_uniform', recurrent_initializer='orthogonal', "
        "bias_initializer='zeros', unit_forget_bias=True, kernel_regularizer=None, "
        "recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, "
        "kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, "
        "recurrent_dropout=0.0, seed=None, return_sequences=False, return_state=False, "
        "go_backwards=False, stateful=False"
    ),
    "ConvLSTM3D": (
        "filters, kernel_size, strides=1, padding='valid', data_format=None, dilation_rate=1, "
        "activation='tanh', recurrent_activation='sigmoid', use_bias=True, "
        "kernel_initializer='glorot_uniform', recurrent_initializer='orthogonal', "
        "bias_initializer='zeros', unit_forget_bias=True, kernel_regularizer=None, "
        "recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, "
        "kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, "
        "recurrent_dropout=0.0, seed=None, return_sequences=False, return_state=False, "
        "go_backwards=False, stateful=False"
    ),
    "Cropping1D": "cropping=(1, 1)",
    "Cropping2D": "cropping=((0, 0), (0, 0)), data_format=None",
    "Cropping3D": "cropping=((1, 1), (1, 1), (1, 1)), data_format=None",
    "Dense": (
        "units, activation=None, use_bias=True, kernel_initializer='glorot_uniform', "
        "bias_initializer='zeros', kernel_regularizer=None, bias_regularizer=None, "
        "activity_regularizer=None, kernel_constraint=None, bias_constraint=None"
    ),
    "DepthwiseConv1D": (
        "kernel_size, strides=1, padding='valid', depth_multiplier=1, data_format=None, "
        "dilation_rate=1, activation=None, use_bias=True, depthwise_initializer='glorot_uniform', "
        "bias_initializer='zeros', depthwise_regularizer=None, bias_regularizer=None, "
        "activity_regularizer=None, depthwise_constraint=None, bias_constraint=None"
    ),
    "DepthwiseConv2D": (
        "kernel_size, strides=(1, 1), padding='valid', depth_multiplier=1, data_format=None, "
        "dilation_rate=(1, 1), activation=None, use_bias=True, "
        "depthwise_initializer='glorot_uniform', bias_initializer='zeros', "
        "depthwise_regularizer=None, bias_regularizer=None, activity_regularizer=None, "
        "depthwise_constraint=None, bias_constraint=None"
    ),
    "Dot": "axes, normalize=False",
    "Dropout": "rate, noise_shape=None, seed=None",
    "ELU": "alpha=1.0",
    "EinsumDense": (
        "equation, output_shape, activation=None, bias_axes=None, "
        "kernel_initializer='glorot_uniform', bias_initializer='zeros', kernel_regularizer=None, "
        "bias_regularizer=None, kernel_constraint=None, bias_constraint=None"
    ),
    "Embedding": (
        "input_dim, output_dim, embeddings_initializer='uniform', embeddings_regularizer=None, "
        "embeddings_constraint=None, mask_zero=False"
    ),
    "Flatten": "data_format=None",
    "GRU": (
        "units, activation='tanh', recurrent_activation='sigmoid', use_bias=True, "
        "kernel_initializer='glorot_uniform', recurrent_initializer='orthogonal', "
        "bias_initializer='zeros', kernel_regularizer=None, recurrent_regularizer=None, "
        "bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, "
        "recurrent_constraint=None, bias_constraint=None, dropout=0.0, recurrent_dropout=0.0, "
        "seed=None, return_sequences=False, return_state=False, go_backwards=False, stateful=False, "
        "unroll=False, reset_after=True, use_cudnn='auto'"
    ),
    "GaussianDropout": "rate, seed=None",
    "GaussianNoise": "stddev, seed=None",
    "GlobalAveragePooling1D": "data_format=None, keepdims=False",
    "GlobalAveragePooling2D": "data_format=None, keepdims=False",
    "GlobalAveragePooling3D": "data_format=None, keepdims=False",
    "GlobalMaxPooling1D": "data_format=None, keepdims=False",
    "GlobalMaxPooling2D": "data_format=None, keepdims=False",
    "GlobalMaxPooling3D": "data_format=None, keepdims=False",
    "GroupNormalization": (
        "groups=32, axis=-1, epsilon=0.001, center=True, scale=True, beta_initializer='zeros', "
        "gamma_initializer='ones', beta_regularizer=None, gamma_regularizer=None, "
        "beta_constraint=None, gamma_constraint=None"
    ),
    "Identity": "",
    "LSTM": (
        "units, activation='tanh', recurrent_activation='sigmoid', use_bias=True, "
        "kernel_initializer='glorot_uniform', recurrent_initializer='orthogonal', "
        "bias_initializer='zeros', unit_forget_bias=True, kernel_regularizer=None, "
        "recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, "
        "kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, "
        "recurrent_dropout=0.0, seed=None, return_sequences=False, return_state=False, "
        "go_backwards=False, stateful=False, unroll=False, use_cudnn='auto'"
    ),
    "LayerNormalization": (
        "axis=-1, epsilon=0.001, center=True, scale=True, beta_initializer='zeros', "
        "gamma_initializer='ones', beta_regularizer=None, gamma_regularizer=None, "
        "beta_constraint=None, gamma_constraint=None"
    ),
    "LeakyReLU": "negative_slope=0.3",
    "Masking": "mask_value=0.0",
    "MaxPooling1D": "pool_size=2, strides=None, padding='valid', data_format=None",
    "MaxPooling2D": "pool_size=(2, 2), strides=None, padding='valid', data_format=None",
    "MaxPooling3D": "pool_size=(2, 2, 2), strides=None, padding='valid', data_format=None",
    "Maximum": "",
    "Minimum": "",
    "MultiHeadAttention": (
        "num_heads, key_dim, value_dim=None, dropout=0.0, use_bias=True, output_shape=None, "
        "attention_axes=None, sliding_window=None, flash_attention=None, "
        "kernel_initializer='glorot_uniform', bias_initializer='zeros', kernel_regularizer=None, "
        "bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, "
        "bias_constraint=None, use_gate=False, seed=None"
    ),
    "Multiply": "",
    "Normalization": "axis=-1, mean=None, variance=None, invert=False",
    "PReLU": ("alpha_initializer='Zeros', alpha_regularizer=None, alpha_constraint=None, shared_axes=None"),
    "Permute": "dims",
    "RMSNormalization": "axis=-1, epsilon=1e-06",
    "ReLU": "max_value=None, negative_slope=0.0, threshold=0.0",
    "RepeatVector": "n",
    "Rescaling": "scale, offset=0.0",
    "Reshape": "target_shape",
    "Resizing": (
        "height, width, interpolation='bilinear', crop_to_aspect_ratio=False, "
        "pad_to_aspect_ratio=False, fill_mode='constant', fill_value=0.0, antialias=False, "
        "data_format=None"
    ),
    "SeparableConv1D": (
        "filters, kernel_size, strides=1, padding='valid', data_format=None, dilation_rate=1, "
        "depth_multiplier=1, activation=None, use_bias=True, depthwise_initializer='glorot_uniform', "
        "pointwise_initializer='glorot_uniform', bias_initializer='zeros', "
        "depthwise_regularizer=None, pointwise_regularizer=None, bias_regularizer=None, "
        "activity_regularizer=None, depthwise_constraint=None, pointwise_constraint=None, "
        "bias_constraint=None"
    ),
    "SeparableConv2D": (
        "filters, kernel_size, strides=(1, 1), padding='valid', data_format=None, dilation_rate=(1, "
        "1), depth_multiplier=1, activation=None, use_bias=True, "
        "depthwise_initializer='glorot_uniform', pointwise_initializer='glorot_uniform', "
        "bias_initializer='zeros', depthwise_regularizer=None, pointwise_regularizer=None, "
        "bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, "
        "pointwise_constraint=None, bias_constraint=None"
    ),
    "SimpleRNN": (
        "units, activation='tanh', use_bias=True, kernel_initializer='glorot_uniform', "
        "recurrent_initializer='orthogonal', bias_initializer='zeros', kernel_regularizer=None, "
        "recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, "
        "kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, "
        "recurrent_dropout=0.0, return_sequences=False, return_state=False, go_backwards=False, "
        "stateful=False, unroll=False, seed=None"
    ),
    "Softmax": "axis=-1",
    "SpatialDropout1D": "rate, seed=None",
    "SpatialDropout2D": "rate, data_format=None, seed=None",
    "SpatialDropout3D": "rate, data_format=None, seed=None",
    "Subtract": "",
    "TimeDistributed": "layer",
    "UnitNormalization": "axis=-1",
    "UpSampling1D": "size=2",
    "UpSampling2D": "size=(2, 2), data_format=None, interpolation='nearest'",
    "UpSampling3D": "size=(2, 2, 2), data_format=None",
    "ZeroPadding1D": "padding=1, data_format=None",
    "ZeroPadding2D": "padding=(1, 1), data_format=None",
    "ZeroPadding3D": "padding=((1, 1), (1, 1), (1, 1)), data_format=None",
}
"""By the name of the class, as Python writes parameters."""


class InputLayer(Layer):
    """An input of a net.

    Args:
        shape: Sizes of one record.
        batch_size: Records in a batch, if a net is for one number of them alone.
        dtype: Type of the elements.
        batch_shape: The sizes with the batch.
        name: Its name.

    Raises:
        UsageError: The sizes are not given.
    """

    makes_own = True

    def __init__(
        self,
        shape: Sequence[int | None] | None = None,
        batch_size: int | None = None,
        dtype: str | None = None,
        *,
        batch_shape: Sequence[int | None] | None = None,
        name: str | None = None,
        **ignored: Any,
    ) -> None:
        unknown = [key for key in ignored if key not in {"sparse", "ragged", "optional", "trainable"}]
        if unknown:
            raise UsageError(f"Input has no argument {unknown[0]!r}; expected shape, batch_size, dtype, name")
        if isinstance(shape, int):
            raise UsageError(f"shape is {shape}, expected the sizes of a record, as in ({shape},)")
        if batch_shape is None:
            if shape is None:
                raise UsageError("Input needs a shape: the sizes of one record, without the batch")
            batch_shape = (batch_size, *shape)
        super().__init__(name=name or unique_name("input_layer" if name is None else name), dtype=dtype)
        self.class_name = "InputLayer"
        self.built = True
        self.config = {
            "batch_shape": list(batch_shape),
            "dtype": dtype or "float32",
            "sparse": False,
            "name": self.name,
        }
        super().__call__()

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Shape, str], ...]:
        """Return the sizes and the element type."""
        return ((tuple(self.config["batch_shape"]), str(self.config["dtype"])),)

    @property
    def output(self) -> KerasTensor:
        """The tensor."""
        return self.nodes[0].outputs[0]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> InputLayer:
        """Return an input with settings that ``get_config`` returned."""
        shape = config.get("batch_shape") or config.get("batch_input_shape")
        dtype = config.get("dtype")
        return cls(
            batch_shape=shape, dtype=dtype if isinstance(dtype, str) else None, name=config.get("name")
        )


LAYERS["InputLayer"] = InputLayer


def Input(  # noqa: N802 - Keras' name
    shape: Sequence[int | None] | None = None,
    batch_size: int | None = None,
    dtype: str | None = None,
    name: str | None = None,
    **more: Any,
) -> KerasTensor:
    """Return a symbolic tensor that a net is given.

    >>> Input((28, 28, 1)).shape
    (None, 28, 28, 1)

    Args:
        shape: Sizes of one record.
        batch_size: Records in a batch, if a net is for one number of them alone.
        dtype: Type of the elements.
        name: Its name.
        more: ``batch_shape``, the sizes with the batch.
    """
    return InputLayer(shape, batch_size, dtype, name=name, **more).output
