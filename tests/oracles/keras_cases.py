"""Keras's layers with their options, as one model with a branch for each; for both ages of Keras.

``keras_layers.py`` saves the model and what it computes. A case is named after the class of its layer, and
what is special about it follows behind two underscores. Nothing here imports Keras: the caller hands it in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

INPUTS: dict[str, tuple[tuple[int, ...], str]] = {
    "vector": ((6,), "float32"),
    "sequence": ((9, 4), "float32"),
    "image": ((7, 8, 4), "float32"),
    "other": ((7, 8, 4), "float32"),
    "channels": ((4, 7, 8), "float32"),
    "volume": ((5, 4, 6, 2), "float32"),
    "film": ((3, 6, 6, 2), "float32"),
    "words": ((7,), "int32"),
    "padded": ((9, 4), "float32"),
    "query": ((5, 6), "float32"),
}
"""Inputs of the model: sizes without the batch, and the element type."""

Cases = dict[str, tuple[Any, Any]]


def cases(keras: Any, *, legacy: bool) -> Cases:
    """Return each case by name: a layer and the name or names of its inputs.

    Args:
        keras: The package, of either age.
        legacy: Whether it is Keras 2.
    """
    layers = keras.layers
    found = {
        **_activations(layers, legacy=legacy),
        **_convolutions(layers),
        **_channels_first(layers),
        **_pooling(layers),
        **_dense_and_merging(layers),
        **_normalisation(layers, legacy=legacy),
        **_shaping(layers),
        **_preprocessing(layers, legacy=legacy),
        **_recurrent(layers, legacy=legacy),
        **_wrappers(layers),
    }
    return found | _attention(layers) | ({} if legacy else _functions(keras.ops))


def _activations(layers: Any, *, legacy: bool) -> Cases:
    names = "elu exponential gelu hard_sigmoid linear relu selu sigmoid softmax softplus softsign swish tanh"
    later = "relu6 mish silu hard_silu leaky_relu log_softmax celu glu hard_tanh soft_shrink tanh_shrink"
    wanted = names if legacy else f"{names} {later}"
    made: Cases = {f"Activation__{name}": (layers.Activation(name), "sequence") for name in wanted.split()}
    slope = "alpha" if legacy else "negative_slope"
    return made | {
        "ReLU": (layers.ReLU(), "image"),
        "ReLU__max": (layers.ReLU(max_value=0.7), "image"),
        "ReLU__slope": (layers.ReLU(negative_slope=0.2), "image"),
        "LeakyReLU": (layers.LeakyReLU(), "image"),
        "LeakyReLU__slope": (layers.LeakyReLU(**{slope: 0.1}), "image"),
        "ELU": (layers.ELU(alpha=0.7), "image"),
        "PReLU": (layers.PReLU(), "image"),
        "PReLU__shared": (layers.PReLU(shared_axes=[1, 2]), "image"),
        "Softmax": (layers.Softmax(), "image"),
        "Softmax__axis": (layers.Softmax(axis=1), "image"),
        "Dropout": (layers.Dropout(0.3), "image"),
        "SpatialDropout1D": (layers.SpatialDropout1D(0.3), "sequence"),
        "SpatialDropout2D": (layers.SpatialDropout2D(0.3), "image"),
        "SpatialDropout3D": (layers.SpatialDropout3D(0.3), "volume"),
        "GaussianDropout": (layers.GaussianDropout(0.3), "image"),
        "GaussianNoise": (layers.GaussianNoise(0.3), "image"),
        "AlphaDropout": (layers.AlphaDropout(0.3), "image"),
        "Identity": (layers.Identity(), "image"),
        "ActivityRegularization": (layers.ActivityRegularization(l1=0.1), "image"),
    }


def _convolutions(layers: Any) -> Cases:
    return {
        "Conv1D": (layers.Conv1D(3, 3), "sequence"),
        "Conv1D__same": (layers.Conv1D(3, 4, strides=2, padding="same", activation="relu"), "sequence"),
        "Conv1D__causal": (layers.Conv1D(3, 3, padding="causal", dilation_rate=2), "sequence"),
        "Conv2D": (layers.Conv2D(3, (3, 2), strides=(2, 1)), "image"),
        "Conv2D__same": (layers.Conv2D(3, 3, strides=2, padding="same", use_bias=False), "image"),
        "Conv2D__dilated": (layers.Conv2D(3, 2, dilation_rate=(2, 3), padding="same"), "image"),
        "Conv2D__groups": (layers.Conv2D(6, 3, groups=2, activation="tanh"), "image"),
        "Conv2D__layer": (layers.Conv2D(3, 3, activation=layers.LeakyReLU()), "image"),
        "Conv3D": (layers.Conv3D(3, 2, padding="same", strides=(1, 2, 2)), "volume"),
        "DepthwiseConv1D": (layers.DepthwiseConv1D(3, strides=2, depth_multiplier=2), "sequence"),
        "DepthwiseConv2D": (
            layers.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=2),
            "image",
        ),
        "DepthwiseConv2D__dilated": (layers.DepthwiseConv2D(2, dilation_rate=2, use_bias=False), "image"),
        "SeparableConv1D": (layers.SeparableConv1D(3, 3, padding="same", depth_multiplier=2), "sequence"),
        "SeparableConv2D": (layers.SeparableConv2D(3, 3, depth_multiplier=2, activation="elu"), "image"),
        "SeparableConv2D__same": (layers.SeparableConv2D(3, 3, 2, padding="same", use_bias=False), "image"),
        "Conv1DTranspose": (layers.Conv1DTranspose(3, 3, strides=2, padding="same"), "sequence"),
        "Conv1DTranspose__valid": (layers.Conv1DTranspose(3, 2, strides=3), "sequence"),
        "Conv2DTranspose": (layers.Conv2DTranspose(3, 3, strides=2, padding="same"), "image"),
        "Conv2DTranspose__valid": (
            layers.Conv2DTranspose(3, (2, 3), strides=(3, 2), activation="relu"),
            "image",
        ),
        "Conv2DTranspose__output": (
            layers.Conv2DTranspose(3, 3, strides=2, padding="same", output_padding=1),
            "image",
        ),
        "Conv3DTranspose": (layers.Conv3DTranspose(3, 2, strides=2, padding="same"), "volume"),
    }


def _channels_first(layers: Any) -> Cases:
    first = {"data_format": "channels_first"}
    return {
        "Conv2D__first": (layers.Conv2D(3, 3, padding="same", **first), "channels"),
        "DepthwiseConv2D__first": (layers.DepthwiseConv2D(3, **first), "channels"),
        "SeparableConv2D__first": (layers.SeparableConv2D(3, 3, **first), "channels"),
        "Conv2DTranspose__first": (layers.Conv2DTranspose(3, 3, strides=2, **first), "channels"),
        "MaxPooling2D__first": (layers.MaxPooling2D(2, **first), "channels"),
        "AveragePooling2D__first": (layers.AveragePooling2D(3, 2, padding="same", **first), "channels"),
        "GlobalAveragePooling2D__first": (layers.GlobalAveragePooling2D(**first), "channels"),
        "GlobalMaxPooling2D__first": (layers.GlobalMaxPooling2D(keepdims=True, **first), "channels"),
        "ZeroPadding2D__first": (layers.ZeroPadding2D((1, 2), **first), "channels"),
        "Cropping2D__first": (layers.Cropping2D((1, 2), **first), "channels"),
        "UpSampling2D__first": (layers.UpSampling2D(2, **first), "channels"),
        "Flatten__first": (layers.Flatten(**first), "channels"),
        "BatchNormalization__first": (layers.BatchNormalization(axis=1), "channels"),
        "SpatialDropout2D__first": (layers.SpatialDropout2D(0.2, **first), "channels"),
    }


def _pooling(layers: Any) -> Cases:
    made: Cases = {}
    for rank, name in ((1, "sequence"), (2, "image"), (3, "volume")):
        for kind in ("MaxPooling", "AveragePooling"):
            of = getattr(layers, f"{kind}{rank}D")
            made[f"{kind}{rank}D"] = (of(2), name)
            made[f"{kind}{rank}D__same"] = (of(3, strides=2, padding="same"), name)
        for kind in ("GlobalMaxPooling", "GlobalAveragePooling"):
            of = getattr(layers, f"{kind}{rank}D")
            made[f"{kind}{rank}D"] = (of(), name)
            made[f"{kind}{rank}D__keep"] = (of(keepdims=True), name)
    return made


def _dense_and_merging(layers: Any) -> Cases:
    both = ("image", "other")
    return {
        "Dense": (layers.Dense(3, activation="relu"), "vector"),
        "Dense__plain": (layers.Dense(3, use_bias=False), "vector"),
        "Dense__steps": (layers.Dense(3, activation="softmax"), "sequence"),
        "Dense__places": (layers.Dense(3), "image"),
        "EinsumDense": (layers.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d"), "sequence"),
        "Embedding": (layers.Embedding(20, 5), "words"),
        **{
            name: (getattr(layers, name)(), both)
            for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")
        },
        "Concatenate__axis": (layers.Concatenate(axis=1), both),
        "Dot": (layers.Dot(axes=2), ("sequence", "padded")),
        "Dot__normal": (layers.Dot(axes=(1, 1), normalize=True), ("vector", "vector")),
    }


def _normalisation(layers: Any, *, legacy: bool) -> Cases:
    made: Cases = {
        "BatchNormalization": (layers.BatchNormalization(epsilon=0.02), "image"),
        "BatchNormalization__plain": (layers.BatchNormalization(center=False, scale=False), "image"),
        "BatchNormalization__vector": (layers.BatchNormalization(), "vector"),
        "BatchNormalization__middle": (layers.BatchNormalization(axis=2), "image"),
        "LayerNormalization": (layers.LayerNormalization(), "image"),
        "LayerNormalization__plain": (layers.LayerNormalization(center=False, scale=False), "sequence"),
        "LayerNormalization__axis": (layers.LayerNormalization(axis=1), "image"),
        "LayerNormalization__axes": (layers.LayerNormalization(axis=[1, 2, 3]), "image"),
        "GroupNormalization": (layers.GroupNormalization(2), "image"),
        "GroupNormalization__instance": (layers.GroupNormalization(-1, center=False), "image"),
        "GroupNormalization__axis": (layers.GroupNormalization(2, axis=1), "channels"),
        "UnitNormalization": (layers.UnitNormalization(), "image"),
        "Normalization": (layers.Normalization(mean=[0.1, 0.2, 0.3, 0.4], variance=[1, 2, 3, 4]), "image"),
        "Normalization__invert": (
            layers.Normalization(mean=[0.1, 0.2, 0.3, 0.4], variance=[1, 2, 3, 4], invert=True),
            "image",
        ),
    }
    if not legacy:
        made["RMSNormalization"] = (layers.RMSNormalization(), "image")
    return made


def _shaping(layers: Any) -> Cases:
    return {
        "Flatten": (layers.Flatten(), "image"),
        "Reshape": (layers.Reshape((4, -1)), "image"),
        "Permute": (layers.Permute((3, 1, 2)), "image"),
        "RepeatVector": (layers.RepeatVector(3), "vector"),
        "ZeroPadding1D": (layers.ZeroPadding1D((1, 2)), "sequence"),
        "ZeroPadding2D": (layers.ZeroPadding2D(((1, 0), (2, 1))), "image"),
        "ZeroPadding3D": (layers.ZeroPadding3D(1), "volume"),
        "Cropping1D": (layers.Cropping1D((1, 2)), "sequence"),
        "Cropping2D": (layers.Cropping2D(((1, 0), (2, 1))), "image"),
        "Cropping3D": (layers.Cropping3D(1), "volume"),
        "UpSampling1D": (layers.UpSampling1D(2), "sequence"),
        "UpSampling2D": (layers.UpSampling2D((2, 3)), "image"),
        "UpSampling2D__bilinear": (layers.UpSampling2D(2, interpolation="bilinear"), "image"),
        "UpSampling3D": (layers.UpSampling3D((1, 2, 2)), "volume"),
    }


def _preprocessing(layers: Any, *, legacy: bool) -> Cases:
    made: Cases = {
        "Rescaling": (layers.Rescaling(1 / 127.5, offset=-1), "image"),
        "Resizing": (layers.Resizing(5, 9), "image"),
        "Resizing__nearest": (layers.Resizing(14, 16, interpolation="nearest"), "image"),
        "CenterCrop": (layers.CenterCrop(3, 4), "image"),
    }
    names = "RandomFlip RandomContrast RandomRotation RandomTranslation RandomZoom RandomBrightness"
    for name in names.split():
        arguments = {"RandomFlip": (), "RandomTranslation": (0.1, 0.1)}.get(name, (0.1,))
        made[name] = (getattr(layers, name)(*arguments), "image")
    return made


def _recurrent(layers: Any, *, legacy: bool) -> Cases:
    made: Cases = {}
    for kind in ("SimpleRNN", "LSTM", "GRU"):
        of = getattr(layers, kind)
        made |= {
            kind: (of(3), "sequence"),
            f"{kind}__steps": (of(3, return_sequences=True, use_bias=False), "sequence"),
            f"{kind}__backwards": (of(3, return_sequences=True, go_backwards=True), "sequence"),
            f"{kind}__state": (of(3, return_state=True), "sequence"),
            f"{kind}__relu": (of(3, activation="relu"), "sequence"),
            f"{kind}__masked": (of(3), "masked"),
            f"{kind}__maskedsteps": (of(3, return_sequences=True), "masked"),
            f"{kind}__maskedback": (of(3, return_sequences=True, go_backwards=True), "masked"),
            f"{kind}__embedded": (of(3, return_state=True), "embedded"),
        }
    made["GRU__before"] = (layers.GRU(3, reset_after=False), "sequence")
    made["LSTM__hard"] = (layers.LSTM(3, recurrent_activation="hard_sigmoid"), "sequence")
    for mode in ("concat", "sum", "mul", "ave"):
        inner = layers.LSTM(3, return_sequences=True)
        made[f"Bidirectional__{mode}"] = (layers.Bidirectional(inner, merge_mode=mode), "sequence")
    made["Bidirectional__apart"] = (layers.Bidirectional(layers.GRU(3), merge_mode=None), "sequence")
    made["Bidirectional__last"] = (layers.Bidirectional(layers.LSTM(3)), "sequence")
    made["Bidirectional__state"] = (layers.Bidirectional(layers.LSTM(3, return_state=True)), "sequence")
    made["Bidirectional__masked"] = (layers.Bidirectional(layers.LSTM(3)), "masked")
    made["Bidirectional__maskedsteps"] = (
        layers.Bidirectional(layers.GRU(3, return_sequences=True)),
        "masked",
    )
    made["Bidirectional__two"] = (
        layers.Bidirectional(
            layers.LSTM(3, return_sequences=True),
            backward_layer=layers.LSTM(3, return_sequences=True, go_backwards=True, activation="relu"),
        ),
        "sequence",
    )
    made["RNN"] = (layers.RNN(layers.LSTMCell(3), return_sequences=True), "sequence")
    made["RNN__stacked"] = (layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)]), "sequence")
    made["ConvLSTM2D"] = (layers.ConvLSTM2D(2, 3, padding="same", return_sequences=True), "film")
    made["ConvLSTM2D__valid"] = (layers.ConvLSTM2D(2, 2, strides=2), "film")
    return made


def _wrappers(layers: Any) -> Cases:
    return {
        "TimeDistributed": (layers.TimeDistributed(layers.Dense(3)), "sequence"),
        "TimeDistributed__conv": (layers.TimeDistributed(layers.Conv2D(3, 3, padding="same")), "film"),
        "TimeDistributed__flat": (layers.TimeDistributed(layers.Flatten()), "film"),
        "Masking": (layers.Masking(0.5), "padded"),
        "GlobalAveragePooling1D__masked": (layers.GlobalAveragePooling1D(), "masked"),
        "Dense__masked": (layers.Dense(3), "masked"),
    }


def _attention(layers: Any) -> Cases:
    pair = ("query", "sequence")
    heads = {"num_heads": 2, "key_dim": 3}
    return {
        "MultiHeadAttention": (layers.MultiHeadAttention(**heads), pair),
        "MultiHeadAttention__self": (layers.MultiHeadAttention(**heads), ("query", "query")),
        "MultiHeadAttention__value": (layers.MultiHeadAttention(**heads, value_dim=5, use_bias=False), pair),
        "MultiHeadAttention__output": (layers.MultiHeadAttention(**heads, output_shape=7), pair),
        "MultiHeadAttention__causal": (layers.MultiHeadAttention(**heads), ("query", "query", "causal")),
        "MultiHeadAttention__masked": (layers.MultiHeadAttention(**heads), ("query", "masked")),
        "Attention": (layers.Attention(), ("sequence", "padded")),
        "Attention__scaled": (layers.Attention(use_scale=True), ("sequence", "padded")),
        "Attention__masked": (layers.Attention(), ("sequence", "masked")),
        "AdditiveAttention": (layers.AdditiveAttention(), ("sequence", "padded")),
    }


def _functions(ops: Any) -> Cases:
    """Return functions of ``keras.ops``, which stand between layers."""
    both = ("image", "other")
    names = "divide equal greater greater_equal less less_equal not_equal true_divide"
    made: Cases = {f"ops_{name}": (getattr(ops, name), both) for name in names.split()}
    return (
        made
        | {
            "ops_logic": (_Logic(ops), both),
            "ops_expand_dims": (lambda x: ops.expand_dims(x, -1), "vector"),
        }
        | _elements(ops)
        | _parts(ops)
    )


def _elements(ops: Any) -> Cases:
    names = "absolute ceil cos erf exp floor negative reciprocal sigmoid sign sin softplus square tanh"
    made: Cases = {f"ops_{name}": (getattr(ops, name), "image") for name in names.split()}
    names = "max mean min prod sum"
    made |= {f"ops_{name}": (_over(getattr(ops, name), [1, 3]), "image") for name in names.split()}
    return made | {
        "ops_sum__all": (lambda x: ops.sum(x, axis=-1, keepdims=True), "image"),
        "ops_log": (lambda x: ops.log(ops.absolute(x)), "image"),
        "ops_sqrt": (lambda x: ops.sqrt(ops.absolute(x)), "image"),
        "ops_rsqrt": (lambda x: ops.rsqrt(ops.absolute(x) + 0.1), "image"),
        "ops_power": (lambda x: ops.power(ops.absolute(x) + 0.1, 0.75), "image"),
        "ops_log_softmax": (ops.log_softmax, "image"),
        "ops_clip": (lambda x: ops.clip(x, -0.3, 0.7), "image"),
        "ops_cast": (lambda x: ops.cast(ops.cast(3 * x, "int32"), "float32"), "image"),
        "ops_array": (lambda x: x * np.array([1, 2, 3, 4], np.float32), "image"),
    }


def _parts(ops: Any) -> Cases:
    around = ((0, 0), (1, 2), (0, 1), (0, 0))
    return {
        "ops_squeeze": (lambda x: ops.squeeze(ops.expand_dims(x, 2), 2), "image"),
        "ops_transpose": (lambda x: ops.transpose(x, (0, 3, 1, 2)), "image"),
        "ops_split": (lambda x: ops.split(x, 2, axis=-1), "image"),
        "ops_split__places": (lambda x: ops.split(x, [1, 3, 6], axis=1), "image"),
        "ops_get_item": (lambda x: x[:, 1:-2, 3, ::2], "image"),
        "ops_get_item__last": (lambda x: x[..., None, 1:3], "image"),
        "ops_stack": (lambda a, b: ops.stack([a, b], axis=-2), ("image", "other")),
        "ops_pad": (lambda x: ops.pad(x, around, constant_values=2.0), "image"),
        "ops_pad__reflect": (lambda x: ops.pad(x, around, mode="reflect"), "image"),
        "ops_take": (lambda x: ops.take(x, np.array([3, 0]), axis=2), "image"),
        "ops_flip": (lambda x: ops.flip(x, axis=1), "image"),
        "ops_matmul": (lambda a, b: ops.matmul(a, ops.transpose(b, (0, 1, 3, 2))), ("image", "other")),
        "ops_tile": (lambda x: ops.tile(x, (1, 2, 1, 3)), "image"),
        "ops_reshape": (lambda x: ops.reshape(x, (-1, 8, 4)), "image"),
    }


def _over(function: Any, axis: list[int]) -> Any:
    return lambda x: function(x, axis=axis)


class _Logic:
    """Both of two comparisons, or neither, over an axis."""

    def __init__(self, ops: Any) -> None:
        self._ops = ops

    def __call__(self, a: Any, b: Any) -> Any:
        ops = self._ops
        low, high = ops.less(a, 0.5), ops.greater(b, -0.5)
        either = ops.logical_or(ops.logical_and(low, high), ops.logical_not(ops.logical_or(low, high)))
        return ops.all(either, axis=[1, 3], keepdims=True)
