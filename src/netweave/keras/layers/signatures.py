"""Signatures of Keras's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netweave.errors import UsageError
from netweave.keras.layer import LAYERS, Layer
from netweave.keras.operation import KerasTensor, Shape, unique_name

# ``tests/keras/test_curves.py`` compares them with an installed Keras (``-m oracle``). Arguments that every
# layer has (``name``, ``trainable``, ``dtype``) and those of quantised layers are left out.

_WEIGHTS = (
    "kernel_initializer='glorot_uniform', bias_initializer='zeros', kernel_regularizer=None, "
    "bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None"
)
_DEPTHWISE = _WEIGHTS.replace("kernel", "depthwise")
_SEPARABLE = (
    "depthwise_initializer='glorot_uniform', pointwise_initializer='glorot_uniform', "
    "bias_initializer='zeros', depthwise_regularizer=None, pointwise_regularizer=None, "
    "bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, "
    "pointwise_constraint=None, bias_constraint=None"
)
_INITIAL = "kernel_initializer='glorot_uniform', recurrent_initializer='orthogonal', bias_initializer='zeros'"
_RECURRENT = (
    "kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, "
    "kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, "
    "recurrent_dropout=0.0"
)
_RETURNED = "return_sequences=False, return_state=False, go_backwards=False, stateful=False"
_GATED = "activation='tanh', recurrent_activation='sigmoid', use_bias=True, " + _INITIAL
_SCALED = (
    "epsilon=0.001, center=True, scale=True, beta_initializer='zeros', gamma_initializer='ones', "
    "beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None"
)
_PLACED = "padding='valid', data_format=None"


def _signatures_with_axes(axes: int) -> dict[str, str]:
    """Return the signatures of layers that Keras has for each number of image axes."""
    ones, twos = ("1", "2") if axes == 1 else (str((1,) * axes), str((2,) * axes))
    # Keras has the arguments of this one in another order
    placed = "padding='valid', output_padding=None, data_format=None"
    if axes == 3:
        placed = f"{_PLACED}, output_padding=None"
    signatures = {
        "Conv{}DTranspose": (
            f"filters, kernel_size, strides={ones}, {placed}, dilation_rate={ones}, activation=None, "
            f"use_bias=True, {_WEIGHTS}"
        ),
        "AveragePooling{}D": f"pool_size, strides=None, {_PLACED}",
        "Conv{}D": (
            f"filters, kernel_size, strides={ones}, {_PLACED}, dilation_rate={ones}, groups=1, "
            f"activation=None, use_bias=True, {_WEIGHTS}"
        ),
        "ConvLSTM{}D": (
            f"filters, kernel_size, strides=1, {_PLACED}, dilation_rate=1, {_GATED}, unit_forget_bias=True, "
            f"{_RECURRENT}, seed=None, {_RETURNED}"
        ),
        "GlobalAveragePooling{}D": "data_format=None, keepdims=False",
        "GlobalMaxPooling{}D": "data_format=None, keepdims=False",
        "MaxPooling{}D": f"pool_size={twos}, strides=None, {_PLACED}",
    }
    if axes < 3:
        signatures |= {
            "DepthwiseConv{}D": (
                f"kernel_size, strides={ones}, padding='valid', depth_multiplier=1, data_format=None, "
                f"dilation_rate={ones}, activation=None, use_bias=True, {_DEPTHWISE}"
            ),
            "SeparableConv{}D": (
                f"filters, kernel_size, strides={ones}, {_PLACED}, dilation_rate={ones}, "
                f"depth_multiplier=1, activation=None, use_bias=True, {_SEPARABLE}"
            ),
        }
    return {name.format(axes): signature for name, signature in signatures.items()}


SIGNATURES: dict[str, str] = {
    "Activation": "activation",
    "ActivityRegularization": "l1=0.0, l2=0.0",
    "Add": "",
    "AdditiveAttention": "use_scale=True, dropout=0.0",
    "AlphaDropout": "rate, noise_shape=None, seed=None",
    "Attention": "use_scale=False, score_mode='dot', dropout=0.0, seed=None",
    "Average": "",
    "BatchNormalization": (
        "axis=-1, momentum=0.99, epsilon=0.001, center=True, scale=True, beta_initializer='zeros', "
        "gamma_initializer='ones', moving_mean_initializer='zeros', moving_variance_initializer='ones', "
        "beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None, "
        "renorm=False, renorm_clipping=None, renorm_momentum=0.99, synchronized=False"
    ),
    "Bidirectional": "layer, merge_mode='concat', backward_layer=None",
    "CenterCrop": "height, width, data_format=None",
    "Concatenate": "axis=-1",
    "Cropping1D": "cropping=(1, 1)",
    "Cropping2D": "cropping=((0, 0), (0, 0)), data_format=None",
    "Cropping3D": "cropping=((1, 1), (1, 1), (1, 1)), data_format=None",
    "Dense": f"units, activation=None, use_bias=True, {_WEIGHTS}",
    "Dot": "axes, normalize=False",
    "Dropout": "rate, noise_shape=None, seed=None",
    "ELU": "alpha=1.0",
    "EinsumDense": (
        "equation, output_shape, activation=None, bias_axes=None, kernel_initializer='glorot_uniform', "
        "bias_initializer='zeros', kernel_regularizer=None, bias_regularizer=None, "
        "kernel_constraint=None, bias_constraint=None"
    ),
    "Embedding": (
        "input_dim, output_dim, embeddings_initializer='uniform', embeddings_regularizer=None, "
        "embeddings_constraint=None, mask_zero=False"
    ),
    "Flatten": "data_format=None",
    "GRU": (
        f"units, {_GATED}, {_RECURRENT}, seed=None, {_RETURNED}, unroll=False, reset_after=True, "
        "use_cudnn='auto'"
    ),
    "GaussianDropout": "rate, seed=None",
    "GaussianNoise": "stddev, seed=None",
    "GroupNormalization": f"groups=32, axis=-1, {_SCALED}",
    "Identity": "",
    "LSTM": (
        f"units, {_GATED}, unit_forget_bias=True, {_RECURRENT}, seed=None, {_RETURNED}, unroll=False, "
        "use_cudnn='auto'"
    ),
    "LayerNormalization": f"axis=-1, {_SCALED}",
    "LeakyReLU": "negative_slope=0.3",
    "Masking": "mask_value=0.0",
    "Maximum": "",
    "Minimum": "",
    "MultiHeadAttention": (
        "num_heads, key_dim, value_dim=None, dropout=0.0, use_bias=True, output_shape=None, "
        f"attention_axes=None, sliding_window=None, flash_attention=None, {_WEIGHTS}, use_gate=False, "
        "seed=None"
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
        "height, width, interpolation='bilinear', crop_to_aspect_ratio=False, pad_to_aspect_ratio=False, "
        "fill_mode='constant', fill_value=0.0, antialias=False, data_format=None"
    ),
    "SimpleRNN": (
        f"units, activation='tanh', use_bias=True, {_INITIAL}, {_RECURRENT}, {_RETURNED}, unroll=False, "
        "seed=None"
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
    **_signatures_with_axes(1),
    **_signatures_with_axes(2),
    **_signatures_with_axes(3),
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
