"""From any age of Caffe's nets to the current one; rules of ``upgrade_proto.cpp``, in their order.

V0 (to spring 2014): ``layers { layer { type: "conv" } }``. V1 (to the end of 2014): ``layers { type:
CONVOLUTION }``. V2: ``layer { type: "Convolution" }``. Text and bytes are upgraded alike, and every value
keeps its line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import ReadError

if TYPE_CHECKING:
    from netweave.files.protobuf import Message

_SAME_IN_V0 = (
    "accuracy", "bnll", "concat", "data", "dropout", "euclidean_loss", "flatten", "hdf5_data",
    "hdf5_output", "im2col", "infogain_loss", "lrn", "multinomial_logistic_loss", "relu", "sigmoid",
    "softmax", "softmax_loss", "split", "tanh", "window_data",
)  # fmt: skip
V0_TYPES = {name: name.upper() for name in _SAME_IN_V0} | {
    "conv": "CONVOLUTION",
    "images": "IMAGE_DATA",
    "innerproduct": "INNER_PRODUCT",
    "pool": "POOLING",
}
"""V1's word for each type of V0, most of them the same in other letters."""

_IN_WORDS = (
    "AbsVal", "Accuracy", "ArgMax", "BNLL", "Concat", "Contrastive_Loss", "Convolution", "Data",
    "Deconvolution", "Dropout", "Dummy_Data", "Eltwise", "Euclidean_Loss", "Exp", "Flatten",
    "HDF5_Data", "HDF5_Output", "Hinge_Loss", "Im2col", "Image_Data", "Infogain_Loss", "Inner_Product",
    "LRN", "Memory_Data", "Multinomial_Logistic_Loss", "MVN", "Pooling", "Power", "ReLU", "Sigmoid",
    "Sigmoid_Cross_Entropy_Loss", "Silence", "Slice", "Softmax", "Split", "TanH", "Threshold",
    "Window_Data", "Convolution3D", "Deconvolution3D", "Pooling3D", "Video_Data",
)  # fmt: skip
"""Current types, in the words of which V1 has capitals: ``Hinge_Loss`` was HINGE_LOSS and is HingeLoss."""

V1_TYPES = {"NONE": "", "SOFTMAX_LOSS": "SoftmaxWithLoss"}
V1_TYPES |= {name.upper(): name.replace("_", "") for name in _IN_WORDS}
"""The current name of each type of V1; the last four words are C3D's."""

_CONV_POOL = {"conv": "convolution_param", "im2col": "convolution_param", "pool": "pooling_param"}
_DENSE = {"conv": "convolution_param", "innerproduct": "inner_product_param"}
_SOURCES = {
    "data": "data_param",
    "hdf5_data": "hdf5_data_param",
    "images": "image_data_param",
    "window_data": "window_data_param",
}
_TRANSFORMED = dict.fromkeys(("data", "images", "window_data"), "transform_param")
_WINDOWS = {"window_data": "window_data_param"}

_MOVED = (
    ("num_output biasterm=bias_term weight_filler bias_filler", _DENSE),
    ("pad kernelsize=kernel_size stride", _CONV_POOL),
    ("group", {"conv": "convolution_param"}),
    ("pool", {"pool": "pooling_param"}),
    ("dropout_ratio", {"dropout": "dropout_param"}),
    ("local_size alpha beta k", {"lrn": "lrn_param"}),
    ("source", _SOURCES | {"infogain_loss": "infogain_loss_param"}),
    ("batchsize=batch_size", _SOURCES),
    ("scale meanfile=mean_file cropsize=crop_size mirror", _TRANSFORMED),
    ("rand_skip", {"data": "data_param", "images": "image_data_param"}),
    ("shuffle_images=shuffle new_height new_width", {"images": "image_data_param"}),
    ("concat_dim", {"concat": "concat_param"}),
    ("det_fg_threshold=fg_threshold det_bg_threshold=bg_threshold det_fg_fraction=fg_fraction", _WINDOWS),
    ("det_context_pad=context_pad det_crop_mode=crop_mode", _WINDOWS),
)
"""Fields of V0, with their later names where these differ, and the message that each type's moved to."""

V0_FIELDS = tuple(
    (old, later or old, targets)
    for names, targets in _MOVED
    for old, _, later in (name.partition("=") for name in names.split())
)
"""V0 field, its later name, and by V0 type the message that it moved to; elsewhere it has no effect."""

_SAME_IN_V1 = ("name", "blobs", "blobs_lr", "weight_decay", "hdf5_output_param")
_KEPT_OF_V0_NETS = {"name", "layers", "input", "input_dim", "force_backward"}
_MOVED_TO_TRANSFORM = {
    "DATA": "data_param",
    "IMAGE_DATA": "image_data_param",
    "WINDOW_DATA": "window_data_param",
}
_PARAM_SPECS = (
    ("param", "name"),
    ("blob_share_mode", "share_mode"),
    ("blobs_lr", "lr_mult"),
    ("weight_decay", "decay_mult"),
)


def upgrade(net: Message, *, place: str) -> None:
    """Bring a NetParameter to the current form, in place.

    Args:
        net: The net of any age.
        place: Name of the file, for errors.

    Raises:
        ReadError: The net mixes ages or cannot be upgraded.
    """
    if any("layer" in layer for layer in net["layers"]):
        _upgrade_v0(net, place)
    if net["layers"]:
        if net["layer"]:
            line = net["layer"][0].line
            raise ReadError(
                "the net has both 'layers' (old) and 'layer' (new) entries; use only one of the two",
                place=_at(place, line),
            )
        for old in net["layers"]:
            _move_transforms(old)
            net.put("layer", _from_v1(net, old, place), old.line)
        net.drop("layers")
    _inputs_to_layer(net, place)
    for layer in net["layer"]:
        if layer["type"] == "BatchNorm" and len(layer["param"]) == 3:  # written by hand in older nets
            for spec in layer["param"]:
                for name in ("lr_mult", "decay_mult"):
                    spec.drop(name)
                    spec.put(name, 0.0, spec.line)


def _upgrade_v0(net: Message, place: str) -> None:
    for name in set(net) - _KEPT_OF_V0_NETS:
        net.drop(name)
    layers = _fold_paddings(net["layers"], place)
    net.drop("layers")
    for old in layers:
        net.put("layers", _from_v0(net, old, place), old.line)


def _fold_paddings(layers: list[Message], place: str) -> list[Message]:
    """Remove ``padding`` layers: the convolution or pooling that reads one gets its ``pad``."""
    kept: list[Message] = []
    paddings: dict[str, Message] = {}
    for layer in layers:
        inner = layer["layer"]
        if inner["type"] == "padding":
            if len(layer["bottom"]) != 1 or len(layer["top"]) != 1:
                raise _error(layer, "a padding layer has one bottom and one top", place)
            paddings[layer["top"][0]] = layer
            continue
        for index, bottom in enumerate(layer["bottom"]):
            padding = paddings.get(bottom)
            if padding is None:
                continue
            if inner["type"] not in {"conv", "pool"} or len(layer["bottom"]) != 1:
                raise _error(
                    layer, "only a conv or pool layer with one bottom may read a padding layer", place
                )
            inner.drop("pad")
            inner.put("pad", padding["layer"]["pad"], padding.line)
            layer["bottom"][index] = padding["bottom"][0]
        for top in layer["top"]:
            paddings.pop(top, None)
        kept.append(layer)
    return kept


def _from_v0(net: Message, old: Message, place: str) -> Message:
    new = net.empty("layers", old.line)
    inner = old["layer"]
    kind = inner["type"]
    if kind not in V0_TYPES:
        raise _error(
            old, f"unknown type {kind!r} of a V0 layer; expected one of {', '.join(V0_TYPES)}", place
        )
    new.put("type", V0_TYPES[kind], inner.line_of("type"))
    for name in ("bottom", "top"):
        old.move(name, new)
    for name in _SAME_IN_V1:
        inner.move(name, new)
    for name, later, targets in V0_FIELDS:
        target = targets.get(kind)
        if target is not None and name in inner:
            if target not in new:
                new.put(target, new.empty(target, inner.line), inner.line)
            inner.move(name, new[target], later)
    return new


def _move_transforms(layer: Message) -> None:
    source = layer[_MOVED_TO_TRANSFORM[layer["type"]]] if layer["type"] in _MOVED_TO_TRANSFORM else None
    if source is None:
        return
    for name in ("scale", "mean_file", "crop_size", "mirror"):
        if name in source:
            if "transform_param" not in layer:
                layer.put("transform_param", layer.empty("transform_param", source.line), source.line)
            layer["transform_param"].drop(name)
            source.move(name, layer["transform_param"])


def _from_v1(net: Message, old: Message, place: str) -> Message:
    new = net.empty("layer", old.line)
    new.unknown = old.unknown
    kind = old["type"]
    if kind not in V1_TYPES:
        raise _error(old, f"unknown type number {kind} of a V1 layer", place)
    new.put("type", V1_TYPES[kind], old.line_of("type"))
    for name, later in _PARAM_SPECS:
        for index, value in enumerate(old[name]):
            line = old.line_of(name, index)
            while len(new["param"]) <= index:
                new.put("param", new.empty("param", line), line)
            new["param"][index].put(later, value, line)
        old.drop(name)
    old.drop("type")
    for name in list(old):
        old.move(name, new)
    return new


def _inputs_to_layer(net: Message, place: str) -> None:
    """Turn the net's own ``input`` fields into an Input layer before all others."""
    names = net["input"]
    if not names:
        return
    line = net.line_of("input", 0)
    layer = net.empty("layer", line)
    layer.put("name", "input", line)
    layer.put("type", "Input", line)
    parameter = layer.empty("input_param", line)
    layer.put("input_param", parameter, line)
    net.move("input", layer, "top")
    for shape in _input_shapes(net, len(names), place):
        parameter.put("shape", shape, shape.line)
    for name in ("input_shape", "input_dim"):
        net.drop(name)
    layers = net["layer"]
    net.drop("layer")
    for each in (layer, *layers):
        net.put("layer", each, each.line)


def _input_shapes(net: Message, num_inputs: int, place: str) -> list[Message]:
    shapes: list[Message] = list(net["input_shape"])
    dims = net["input_dim"]
    if shapes and len(shapes) != num_inputs:
        raise ReadError(
            f"the net has {num_inputs} 'input' and {len(shapes)} 'input_shape', expected one for each",
            place=_at(place, net.line_of("input_shape")),
        )
    if shapes or not dims:
        return shapes
    if len(dims) != 4 * num_inputs:
        raise ReadError(
            f"the net has {num_inputs} 'input' and {len(dims)} 'input_dim', expected 4 for each input",
            place=_at(place, net.line_of("input_dim")),
        )
    for index in range(num_inputs):
        shape = net.empty("input_shape", net.line_of("input_dim", 4 * index))
        for offset in range(4 * index, 4 * index + 4):
            shape.put("dim", dims[offset], net.line_of("input_dim", offset))
        shapes.append(shape)
    return shapes


def _at(place: str, line: int | None) -> str:
    return place if line is None else f"{place}:{line}"


def _error(layer: Message, message: str, place: str) -> ReadError:
    name = layer["name"] or layer["layer"]["name"]
    return ReadError(message, place=f"{_at(place, layer.line)}: layer {name!r}")
