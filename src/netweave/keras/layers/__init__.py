"""Keras' layers, by their own names and with their own arguments; images have channels last by default.

A layer is a class for each row of ``signatures``; what it computes is the rule that the reader of Keras'
files has for it.
"""

from functools import partial
from typing import Any

from netweave.errors import UsageError
from netweave.formats.keras.layers import READERS
from netweave.keras.layer import LAYERS, Layer, layer_class
from netweave.keras.layers.signatures import SIGNATURES, Input, InputLayer
from netweave.keras.objects import missing
from netweave.keras.operation import KerasTensor

OTHER_NAMES = {
    "AvgPool1D": "AveragePooling1D",
    "AvgPool2D": "AveragePooling2D",
    "AvgPool3D": "AveragePooling3D",
    "Convolution1D": "Conv1D",
    "Convolution2D": "Conv2D",
    "Convolution3D": "Conv3D",
    "GlobalAvgPool1D": "GlobalAveragePooling1D",
    "GlobalAvgPool2D": "GlobalAveragePooling2D",
    "GlobalAvgPool3D": "GlobalAveragePooling3D",
    "GlobalMaxPool1D": "GlobalMaxPooling1D",
    "GlobalMaxPool2D": "GlobalMaxPooling2D",
    "GlobalMaxPool3D": "GlobalMaxPooling3D",
    "MaxPool1D": "MaxPooling1D",
    "MaxPool2D": "MaxPooling2D",
    "MaxPool3D": "MaxPooling3D",
}
"""Names that Keras has for the same classes."""

MERGING = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot")
"""Layers that Keras also has as functions of a list of tensors, by their names in lower case."""


def _adapt(layer: Layer, *args: Any, **kwargs: Any) -> None:
    """Fail with the way out: here statistics are settings, which a file of the model holds."""
    raise UsageError(
        f"{layer.name!r}: Normalization.adapt is not supported; pass the statistics of the data: "
        "Normalization(mean=x.mean(axis), variance=x.var(axis)), over all axes but the one of the features"
    )


METHODS = {"Normalization": {"adapt": _adapt}}
"""Methods that a class of layers alone has."""

MODEL_LAYERS: dict[str, type[Any]] = {}
"""Layers that are models of what they call; ``netweave.keras.models`` puts them here."""

for _name, _parameters in SIGNATURES.items():
    _doc = (READERS[_name].read.__doc__ or "").strip()
    layer_class(_name, _parameters, f"Keras' {_name}: {_doc[:1].lower()}{_doc[1:]}", **METHODS.get(_name, {}))


def _merged(name: str, tensors: list[Any], settings: dict[str, Any]) -> "KerasTensor":
    made: KerasTensor = LAYERS[name](**settings)(tensors)
    return made


def _convolution(name: str, filters: Any = None, *args: Any, **settings: Any) -> Layer:
    """Return a convolution by its name in Keras 1, whose kernel may be as many numbers as it has axes."""
    axes = int(name[-2])
    if axes > 1 and len(args) >= axes and all(isinstance(size, int) for size in args[:axes]):
        args = (args[:axes], *args[axes:])
    given = () if filters is None else (filters,)
    return LAYERS[name](*given, *args, **settings)


def __getattr__(name: str) -> Any:
    if name in {"Convolution1D", "Convolution2D", "Convolution3D"}:
        return partial(_convolution, OTHER_NAMES[name])
    known = OTHER_NAMES.get(name, name)
    if known in LAYERS:
        return LAYERS[known]
    if known in MODEL_LAYERS:
        return MODEL_LAYERS[known]
    for merging in MERGING:
        if name == merging.lower():
            return lambda inputs, **settings: _merged(merging, inputs, settings)
    raise missing("keras.layers", name, [*LAYERS, *OTHER_NAMES])


def __dir__() -> list[str]:
    return sorted(
        {"Input", "InputLayer", "Layer", *LAYERS, *MODEL_LAYERS, *OTHER_NAMES, *map(str.lower, MERGING)}
    )


__all__ = ["LAYERS", "Input", "InputLayer", "Layer"]
