"""Branches of ``tensorflow_operators``: detection nets, quantised ones, and what the optimiser joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

raw = tf.raw_ops


def detection(x: dict[str, Any], floats: Callable[..., Any]) -> dict[str, Any]:
    """Return what operators of detection nets make, those of quantised ones, and some older ones."""
    image, matrix, stack = (x[name] for name in ("image", "matrix", "stack"))
    corners = tf.reshape(stack, [6, 4])
    centres, sizes = corners[:, :2], tf.abs(corners[:, 2:]) + 0.8
    boxes = tf.concat([centres, centres + sizes], axis=1)
    scores = tf.reshape(image, [-1])[:6]
    chosen = {"boxes": boxes, "scores": scores, "max_output_size": 4, "iou_threshold": 0.2}
    limited = chosen | {"score_threshold": -0.5}
    fourth = raw.NonMaxSuppressionV4(**limited, pad_to_max_output_size=True)
    fifth = raw.NonMaxSuppressionV5(**limited, soft_nms_sigma=0.0, pad_to_max_output_size=True)
    parts = tf.sigmoid(boxes)
    crops = {"image": image, "boxes": parts, "box_ind": [0, 1, 1, 0, 0, 1], "extrapolation_value": 0.5}
    over = parts * 1.4 - 0.2
    wide = {"inputs": 4 * image, "num_bits": 4, "narrow_range": True}
    written = {"tensor": matrix, "indices": [[2, 1], [0, 3]], "updates": matrix[0, :2]}
    added = {"tensor": matrix, "indices": [[2], [2]], "updates": matrix[:2]}
    return {
        "NonMaxSuppression": raw.NonMaxSuppression(
            boxes=boxes, scores=scores, max_output_size=3, iou_threshold=0.3
        ),
        "NonMaxSuppressionV2": raw.NonMaxSuppressionV2(**chosen),
        "NonMaxSuppressionV3": raw.NonMaxSuppressionV3(**limited),
        "NonMaxSuppressionV4": fourth[0],
        "NonMaxSuppressionV4/count": fourth[1],
        "NonMaxSuppressionV5": fifth[0],
        "NonMaxSuppressionV5/scores": fifth[1],
        "NonMaxSuppressionV5/count": fifth[2],
        "CropAndResize": raw.CropAndResize(**crops, crop_size=[3, 4]),
        "CropAndResize/outside": raw.CropAndResize(**(crops | {"boxes": over}), crop_size=[4, 4]),
        "CropAndResize/one": raw.CropAndResize(**crops, crop_size=[1, 2]),
        "ScatterNd": raw.ScatterNd(indices=[[4], [1], [4]], updates=matrix, shape=[5, 4]),
        "TensorScatterUpdate": raw.TensorScatterUpdate(**written),
        "TensorScatterAdd": raw.TensorScatterAdd(**added),
        "TensorScatterSub": raw.TensorScatterSub(**added),
        "TensorScatterMax": raw.TensorScatterMax(**added),
        "TensorScatterMin": raw.TensorScatterMin(**added),
        "Where": raw.Where(condition=matrix > 0),
        "Where/masked": tf.boolean_mask(stack, tf.constant([[True, False, True], [False, True, True]])),
        "Where/masked_by_numbers": tf.boolean_mask(stack, stack[:, :, 0] > 0),
        "MatrixBandPart": raw.MatrixBandPart(input=stack, num_lower=1, num_upper=0),
        "MatrixBandPart/upper": raw.MatrixBandPart(input=stack, num_lower=-1, num_upper=1),
        "FakeQuantWithMinMaxArgs": raw.FakeQuantWithMinMaxArgs(inputs=4 * image, min=-1.0, max=3.0),
        "FakeQuantWithMinMaxArgs/above": raw.FakeQuantWithMinMaxArgs(**wide, min=0.5, max=3.0),
        "FakeQuantWithMinMaxVars": raw.FakeQuantWithMinMaxVars(**wide, min=-2.2, max=1.3),
        "FakeQuantWithMinMaxVarsPerChannel": raw.FakeQuantWithMinMaxVarsPerChannel(
            inputs=image, min=[-1.0, -2.0, 0.0, -0.3], max=[1.0, 0.5, 1.5, 0.4]
        ),
        "SpaceToBatch": raw.SpaceToBatch(input=image, paddings=[[0, 0], [1, 0]], block_size=2),
        "BatchToSpace": raw.BatchToSpace(
            input=tf.concat([image, image], axis=0), crops=[[1, 0], [0, 2]], block_size=2
        ),
        "ExtractImagePatches": raw.ExtractImagePatches(
            images=image, ksizes=[1, 2, 3, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="SAME"
        ),
        **_joined(image, matrix, floats),
    }


def _joined(image: Any, matrix: Any, floats: Callable[..., Any]) -> dict[str, Any]:
    """Return what TensorFlow's optimiser writes in the place of several operators."""
    window = {"strides": [1, 1, 1, 1], "padding": b"SAME"}
    vectors = [floats(3), floats(3), floats(3), floats(3) ** 2 + 0.1]
    biased, normed = {"fused_ops": [b"BiasAdd", b"Relu6"]}, {"fused_ops": [b"FusedBatchNorm", b"LeakyRelu"]}
    turned = {"fused_ops": [b"BiasAdd", b"Tanh"], "transpose_b": True}
    small = {"epsilon": 1e-2, "leakyrelu_alpha": 0.3}
    x, kernel = image, floats(3, 3, 4, 3)
    return {
        "_FusedConv2D": _operator("_FusedConv2D", [x, kernel], [floats(3)], biased | window),
        "_FusedConv2D/normalised": _operator("_FusedConv2D", [x, kernel], vectors, normed | small | window),
        "_FusedMatMul": _operator("_FusedMatMul", [matrix, floats(5, 4)], [floats(5)], turned),
    }


def _operator(op: str, first: list[Any], more: list[Any], attributes: dict[str, Any]) -> Any:
    """Return the first output of an operator that has no function of Python."""

    def value(given: Any) -> Any:
        made = attr_value_pb2.AttrValue()
        if isinstance(given, list):
            (made.list.s if isinstance(given[0], bytes) else made.list.i).extend(given)
        else:
            setattr(made, {bool: "b", bytes: "s", int: "i", float: "f"}[type(given)], given)
        return made

    attrs = {key: value(given) for key, given in attributes.items()}
    attrs["T"] = attr_value_pb2.AttrValue(type=tf.float32.as_datatype_enum)
    attrs["num_args"] = value(len(more))
    if op == "_FusedConv2D":
        attrs["TArgs"] = attr_value_pb2.AttrValue()
        attrs["TArgs"].list.type.extend([tf.float32.as_datatype_enum] * len(more))
        attrs["num_host_args"] = value(0)
    made = tf.compat.v1.get_default_graph().create_op(op, [*first, *more], attrs=attrs, name=op.strip("_"))
    return made.outputs[0]
