"""Bad models of Keras."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from netweave.errors import NetweaveError, ReadError, ShapeError, UnsupportedError, WeightError
from tests.hostile.cases.case import ANY, add, file
from tests.hostile.nets import KERAS

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = json.loads((KERAS / "unet.json").read_text())
HUGE = 2**62


def _changed(change: Callable[[dict[str, Any]], object]) -> str:
    """Return the configuration of a U-Net with something changed in the settings of the model."""
    config = copy.deepcopy(CONFIG)
    change(config["config"])
    return json.dumps(config)


def _first(config: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(layer for layer in config["layers"] if layer["class_name"] == kind)


def _set(kind: str, name: str, value: Any) -> str:
    return _changed(lambda config: _first(config, kind)["config"].__setitem__(name, value))


def _chain(*layers: tuple[str, dict[str, Any]], shape: Any = (None, 8, 8, 3)) -> str:
    rows = [{"class_name": "InputLayer", "config": {"name": "x", "batch_shape": list(shape)}}]
    rows += [
        {"class_name": kind, "config": {"name": f"layer{number}", **settings}}
        for number, (kind, settings) in enumerate(layers)
    ]
    return json.dumps({"class_name": "Sequential", "config": {"name": "net", "layers": rows}})


def _held(kind: str, **settings: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": "inner", **settings}}


def _nested(depth: int) -> str:
    model: dict[str, Any] = json.loads(_chain(("ReLU", {})))
    for _ in range(depth):
        inner = {**model, "name": "inner"}
        model = {"class_name": "Sequential", "config": {"layers": [model["config"]["layers"][0], inner]}}
    return json.dumps(model)


def _itself(config: dict[str, Any]) -> None:
    layer = _first(config, "Concatenate")
    keras_tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": [layer["name"], 0, 0]}}
    layer["inbound_nodes"] = [{"args": [[keras_tensor, keras_tensor]], "kwargs": {}}]


def _function(kind: str, settings: dict[str, Any], *args: Any) -> str:
    """Return a model of one function of ``keras.ops`` that is called with an image and more."""
    image = {"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}
    layers = [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 8, 8, 3]}},
        {"class_name": kind, "config": settings, "inbound_nodes": [{"args": [image, *args], "kwargs": {}}]},
    ]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [[kind.lower(), 0, 0]]}
    return json.dumps({"class_name": "Functional", "config": {"name": "net", "layers": layers, **ends}})


def _special(kind: str, **config: Any) -> dict[str, Any]:
    return {"class_name": f"__{kind}__", "config": config}


_CONFIGS = {
    "an unknown layer": (_chain(("Fly", {})), UnsupportedError, "Fly.*'layer0'"),
    "a lambda": (_chain(("Lambda", {"function": "x"})), UnsupportedError, "its code is in the program"),
    "a class of one's own": ('{"class_name": "MyNet", "config": {}}', ReadError, "'MyNet'"),
    "no layers": ('{"class_name": "Functional", "config": {"name": "a"}}', ReadError, "'layers'"),
    "a layer that reads itself": (_changed(_itself), ReadError, "depends on its own output"),
    "an output that is not there": (
        _changed(lambda c: c.__setitem__("output_layers", [["what", 0, 0]])),
        ReadError,
        "'what'",
    ),
    "a call that is not there": (
        _changed(lambda c: c.__setitem__("output_layers", [["mask", 7, 0]])),
        ReadError,
        "call 7",
    ),
    "an input that is not there": (
        _changed(lambda c: c.__setitem__("input_layers", [["what", 0, 0]])),
        ReadError,
        "'what'",
    ),
    "2^62 filters": (_chain(("Conv2D", {"filters": HUGE, "kernel_size": [3, 3]})), ShapeError, ANY),
    "a setting that Keras has not": (
        _chain(("Conv2D", {"filters": 4, "kernel_size": [3, 3], "strid": 2})),
        UnsupportedError,
        "the setting strid=2 is not supported",
    ),
    "images made smaller without aliasing": (
        _chain(("Resizing", {"height": 4, "width": 4, "antialias": True})),
        UnsupportedError,
        "the setting antialias=True is not supported",
    ),
    "sequences with the steps first": (
        _chain(("Bidirectional", {"layer": _held("LSTM", units=3, time_major=True)}), shape=(None, 5, 3)),
        UnsupportedError,
        "the setting time_major=True is not supported",
    ),
    "steps of 0": (
        _chain(("MaxPooling2D", {"pool_size": [2, 2], "strides": [0, 0]})),
        ReadError,
        r"stride is \[0, 0\], expected 1 or more",
    ),
    "no filters": (_chain(("Conv2D", {"kernel_size": [3, 3]})), ReadError, "filters=None"),
    "filters below zero": (
        _chain(("Conv2D", {"filters": -4, "kernel_size": [3, 3]})),
        ReadError,
        "filters=-4",
    ),
    "a kernel that is a word": (
        _chain(("Conv2D", {"filters": 4, "kernel_size": "wide"})),
        ReadError,
        "kernel_size='wide'",
    ),
    "a kernel larger than the image": (
        _chain(("Conv2D", {"filters": 4, "kernel_size": [99, 99]})),
        ShapeError,
        ANY,
    ),
    "a step of 2^62": (
        _chain(("Conv2DTranspose", {"filters": 4, "kernel_size": [3, 3], "strides": [HUGE, 1]})),
        NetweaveError,
        ANY,
    ),
    "groups that do not fit": (
        _chain(("Conv2D", {"filters": 4, "kernel_size": [3, 3], "groups": 2})),
        ShapeError,
        "2 groups",
    ),
    "an unknown activation": (_chain(("Activation", {"activation": "wow"})), UnsupportedError, "'wow'"),
    "padded by 2^62": (_chain(("ZeroPadding2D", {"padding": HUGE})), ShapeError, ANY),
    "reshaped to 2^62": (_chain(("Reshape", {"target_shape": [HUGE, -1]})), NetweaveError, ANY),
    "repeated 2^62 times": (_chain(("Flatten", {}), ("RepeatVector", {"n": HUGE})), ShapeError, ANY),
    "an axis beyond": (_chain(("BatchNormalization", {"axis": 9})), ShapeError, "axis 9"),
    "attention to nothing": (
        _chain(("MultiHeadAttention", {"num_heads": 2, "key_dim": HUGE}), shape=(None, 5, 3)),
        UnsupportedError,
        "a query without a value",
    ),
    "an array that is none": (
        _function("Multiply", {}, _special("numpy", value=[[1], [2, 3]], dtype="float32")),
        ReadError,
        "among the arguments",
    ),
    "an array of an unknown type": (
        _function("Multiply", {}, _special("numpy", value=[1], dtype="wow")),
        ReadError,
        "among the arguments",
    ),
    "a part by steps of 0": (
        _function("GetItem", {}, [_special("slice", start=0, stop=4, step=0)]),
        UnsupportedError,
        "integers and slices",
    ),
    "a part by a word": (_function("GetItem", {}, "wow"), UnsupportedError, "integers and slices"),
    "a part of five axes": (_function("GetItem", {}, [0, 0, 0, 0, 0]), ShapeError, "5 axes"),
    "a tensor without a history": (
        _function("Multiply", {}, _special("keras_tensor", keras_history=[7])),
        ReadError,
        "among the arguments",
    ),
    "cut into 2^62 parts": (
        _function("Split", {"indices_or_sections": HUGE, "axis": 1}),
        ShapeError,
        "indices_or_sections",
    ),
    "cut behind its end": (_function("Split", {"indices_or_sections": [9], "axis": 1}), ShapeError, "size 8"),
    "padded by less than 0": (_function("Pad", {"pad_width": [[0, -1]] * 4}), ReadError, "pad_width"),
    "a sum over a word": (_function("Sum", {"axis": "wow"}), ReadError, "axis='wow'"),
    "entries by a word": (_function("Take", {"axis": 1}, "wow"), UnsupportedError, "indices='wow'"),
    "cast to a word": (_function("Cast", {"dtype": "wow"}), UnsupportedError, "dtype='wow'"),
    "models inside models": (_nested(40), ReadError, "is nested more than 100 deep"),
    "an input without sizes": (
        _chain(("ReLU", {}), shape=()).replace("[]", "null"),
        ShapeError,
        "--input-shape x=",
    ),
    "lists without an end": ('{"class_name": ' + "[" * 100_000, ReadError, ANY),
}
for _name, (_content, _error, _message) in _CONFIGS.items():
    add(f"keras: {_name}", file("net.json", _content), _error, _message)


def _archive(**members: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr({"config": "config.json", "arrays": "model.weights.h5"}[name], content)
    return held.getvalue()


_MODEL = (KERAS / "unet.json").read_bytes()
_ARRAYS = (KERAS / "unet.weights.h5").read_bytes()
_OTHER = _set("Conv2D", "filters", 5).encode()
_ARCHIVES = {
    "a bomb": (_archive(config=b" " * (60 << 20), arrays=_ARRAYS), ReadError, "bytes of JSON, expected"),
    "arrays that are a text": (_archive(config=_MODEL, arrays=b"hello" * 9), ReadError, "complete HDF5"),
    "arrays cut short": (_archive(config=_MODEL, arrays=_ARRAYS[: len(_ARRAYS) // 2]), ReadError, "HDF5"),
    "arrays of another model": (
        _archive(config=_OTHER, arrays=_ARRAYS),
        WeightError,
        "with the shape .*, expected",
    ),
    "a configuration that is no JSON": (_archive(config=b"{", arrays=_ARRAYS), ReadError, "not valid JSON"),
}
for _name, (_bytes, _error, _message) in _ARCHIVES.items():
    add(f"keras: {_name}", file("net.keras", _bytes), _error, _message)

add("keras: arrays without a model", file("net.weights.h5", _ARRAYS), ReadError, "contains only arrays")
_WHOLE = (KERAS / "words.h5").read_bytes()
add(
    "keras: a configuration that is no text",
    file("net.h5", _WHOLE.replace(b'{"class_name"', b'{"class_\x80\x80me"', 1)),
    ReadError,
    "not a JSON text",
)
