"""Every operator of TensorFlow that is read, with its options: a graph with a branch for each, what it gives.

    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.tensorflow_operators

Writes ``tests/golden/tensorflow_operators``: a SavedModel in which each output has the name of its
operator, with what is special about the case behind a slash, and ``operators.npz`` with inputs
(``in/NAME``) and outputs. ORACLE is an environment with tensorflow 2.21.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.oracles.tensorflow_detection import detection

GOLDEN = Path(__file__).parent.parent / "golden" / "tensorflow_operators"
v1 = tf.compat.v1
random = np.random.default_rng(0)


class _Gone:
    """What an operator makes that TensorFlow 2.21 writes no more."""

    def __getitem__(self, number: int) -> _Gone:
        return self


class _Raw:
    """``tf.raw_ops``, whose retired operators make ``_Gone``."""

    def __getattr__(self, op: str) -> Any:
        def make(**arguments: Any) -> Any:
            try:
                return getattr(tf.raw_ops, op)(**arguments)
            except NotImplementedError:
                return _Gone()

        return make


raw = _Raw()

INPUTS = {
    "image": random.standard_normal((2, 6, 5, 4)),
    "volume": random.standard_normal((1, 4, 5, 4, 2)),
    "matrix": random.standard_normal((3, 4)),
    "other": random.standard_normal((3, 4)),
    "positive": random.uniform(0.2, 2, (3, 4)),
    "unit": random.uniform(-0.9, 0.9, (3, 4)),
    "stack": random.standard_normal((2, 3, 4)),
}

UNARY = {
    "matrix": (
        "Abs Asinh Atan Ceil Cos Cosh Elu Erf Erfc Exp Expm1 Floor Identity LogSoftmax Neg OnesLike "
        "PreventGradient Relu Relu6 Rint Round Selu Sigmoid Sign Sin Sinh Snapshot Softmax Softplus Softsign "
        "Square StopGradient Tan Tanh ZerosLike LeakyRelu IsInf IsNan"
    ),
    "positive": "Inv Log Log1p Reciprocal Rsqrt Sqrt",
    "unit": "Acos Asin Atanh",
}
BINARY = (
    "Add AddV2 Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less LessEqual Maximum Minimum Mul "
    "NotEqual RealDiv SquaredDifference Sub"
)
REDUCTIONS = "EuclideanNorm Max Mean Min Prod Sum"


def floats(*shape: int) -> Any:
    """Return a constant that stands for weights."""
    return tf.constant(0.5 * random.standard_normal(shape).astype(np.float32))


def cases(x: dict[str, Any]) -> dict[str, Any]:
    """Return what each operator makes, by its name."""
    image, volume, m, n, positive, stack = (
        x[name] for name in ("image", "volume", "matrix", "other", "positive", "stack")
    )
    one, same = [1, 1, 1, 1], "SAME"
    made = {
        op: getattr(raw, op)(**{_first(op): x[name]}) for name, ops in UNARY.items() for op in ops.split()
    }
    made |= {op: getattr(raw, op)(x=m, y=n) for op in BINARY.split()}
    made |= {op: getattr(raw, op)(input=stack, axis=[0, 2], keep_dims=False) for op in REDUCTIONS.split()}
    flags, others = raw.Greater(x=m, y=n), raw.Greater(x=m, y=0.0)
    made |= {
        "All": raw.All(input=others, axis=[1]),
        "Any": raw.Any(input=others, axis=[1]),
        "LogicalAnd": raw.LogicalAnd(x=flags, y=others),
        "LogicalOr": raw.LogicalOr(x=flags, y=others),
        "LogicalNot": raw.LogicalNot(x=flags),
        "Select": raw.Select(condition=flags, x=m, y=n),
        "SelectV2": raw.SelectV2(condition=flags, t=m, e=2.0),
        "Pow": raw.Pow(x=positive, y=m),
        "Mod": raw.Mod(x=m, y=positive),
        "TruncateDiv": raw.TruncateDiv(x=tf.cast(10 * m, tf.int32), y=3),
        "AddN": raw.AddN(inputs=[m, n, m]),
        "AccumulateNV2": raw.AccumulateNV2(inputs=[m, n], shape=[3, 4]),
        "ArgMax": raw.ArgMax(input=stack, dimension=2),
        "ArgMin": raw.ArgMin(input=stack, dimension=1),
        "Cumsum": raw.Cumsum(x=stack, axis=1, exclusive=True, reverse=True),
        "L2Loss": raw.L2Loss(t=m),
        "ClipByValue": raw.ClipByValue(t=m, clip_value_min=-0.5, clip_value_max=0.25),
        "CheckNumerics": raw.CheckNumerics(tensor=m, message="x"),
        "Cast": raw.Cast(x=3 * m, DstT=tf.int32),
        "Bitcast": raw.Bitcast(input=m, type=tf.float32),
        "EnsureShape": raw.EnsureShape(input=m, shape=[3, 4]),
        "IdentityN": raw.IdentityN(input=[m, n])[1],
        # products
        "MatMul": raw.MatMul(a=m, b=n, transpose_a=True),
        "BatchMatMul": raw.BatchMatMul(x=stack, y=floats(2, 5, 4), adj_y=True),
        "BatchMatMulV2": raw.BatchMatMulV2(x=stack, y=floats(2, 4, 5)),
        "BatchMatMulV3": raw.BatchMatMulV3(x=stack, y=floats(2, 4, 5), Tout=tf.float32),
        "Einsum": raw.Einsum(inputs=[stack, floats(4, 5)], equation="bij,jk->bki"),
        "BiasAdd": raw.BiasAdd(value=m, bias=floats(4)),
        "BiasAddV1": raw.BiasAddV1(value=m, bias=floats(4)),
        # windows
        "Conv2D": raw.Conv2D(input=image, filter=floats(3, 2, 4, 3), strides=[1, 2, 1, 1], padding=same),
        "Conv2DBackpropInput": raw.Conv2DBackpropInput(
            input_sizes=[2, 12, 5, 3],
            filter=floats(3, 2, 3, 4),
            out_backprop=image,
            strides=[1, 2, 1, 1],
            padding=same,
        ),
        "DepthwiseConv2dNative": raw.DepthwiseConv2dNative(
            input=image, filter=floats(3, 3, 4, 2), strides=one, padding="VALID"
        ),
        "Conv3D": raw.Conv3D(
            input=volume, filter=floats(2, 3, 2, 2, 3), strides=[1, 1, 2, 1, 1], padding=same
        ),
        "Conv3DBackpropInputV2": raw.Conv3DBackpropInputV2(
            input_sizes=[1, 4, 5, 4, 3],
            filter=floats(2, 3, 2, 3, 2),
            out_backprop=volume,
            strides=[1] * 5,
            padding=same,
        ),
        "MaxPool": raw.MaxPool(input=image, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding=same),
        "MaxPoolV2": raw.MaxPoolV2(input=image, ksize=[1, 2, 2, 1], strides=[1, 1, 2, 1], padding="VALID"),
        "MaxPoolWithArgmax": raw.MaxPoolWithArgmax(
            input=image, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
        )[0],
        "AvgPool": raw.AvgPool(value=image, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding=same),
        "MaxPool3D": raw.MaxPool3D(
            input=volume, ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 1, 1], padding=same
        ),
        "AvgPool3D": raw.AvgPool3D(
            input=volume, ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 1, 1], padding=same
        ),
        # normalisation
        "LRN": raw.LRN(input=image, depth_radius=1, bias=1.5, alpha=0.3, beta=0.6),
        **{
            op: getattr(raw, op)(
                x=image,
                scale=floats(4),
                offset=floats(4),
                mean=floats(4),
                variance=floats(4) ** 2 + 0.1,
                epsilon=0.01,
                is_training=False,
            )[0]
            for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
        },
        # sizes and places
        "SpaceToDepth": raw.SpaceToDepth(
            input=tf.constant(random.random((1, 4, 6, 2), np.float32)), block_size=2
        ),
        "DepthToSpace": raw.DepthToSpace(input=image, block_size=2),
        "BroadcastTo": raw.BroadcastTo(input=m, shape=[2, 3, 4]),
        "Concat": raw.Concat(concat_dim=1, values=[m, n]),
        "ConcatV2": raw.ConcatV2(values=[stack, stack], axis=2),
        "ExpandDims": raw.ExpandDims(input=m, axis=1),
        "Fill": raw.Fill(dims=[2, 3], value=1.5),
        "Gather": raw.Gather(params=m, indices=[2, 0]),
        "GatherV2": raw.GatherV2(params=stack, indices=[2, 0], axis=1),
        "GatherNd": raw.GatherNd(params=stack, indices=[[0, 2], [1, 1]]),
        "InTopKV2": raw.InTopKV2(predictions=m, targets=[0, 3, 1], k=2),
        "InTopK": raw.InTopK(predictions=m, targets=[0, 3, 1], k=2),
        "MirrorPad": raw.MirrorPad(input=m, paddings=[[1, 0], [2, 1]], mode="REFLECT"),
        "OneHot": raw.OneHot(indices=[2, 0, 1], depth=4, on_value=2.0, off_value=-1.0, axis=0),
        "Pack": raw.Pack(values=[m, n], axis=1),
        "Pad": raw.Pad(input=m, paddings=[[1, 0], [0, 2]]),
        "PadV2": raw.PadV2(input=m, paddings=[[1, 0], [0, 2]], constant_values=1.5),
        "Rank": raw.Rank(input=stack),
        "Reshape": raw.Reshape(tensor=image, shape=[2, -1, 10]),
        "ResizeBilinear": raw.ResizeBilinear(images=image, size=[9, 7], half_pixel_centers=True),
        "ResizeNearestNeighbor": raw.ResizeNearestNeighbor(images=image, size=[12, 10]),
        "ResizeBicubic": raw.ResizeBicubic(images=image, size=[12, 10], half_pixel_centers=True),
        "ReverseV2": raw.ReverseV2(tensor=stack, axis=[1, 2]),
        "Shape": raw.Shape(input=stack),
        "ShapeN": raw.ShapeN(input=[m, stack])[1],
        "Size": raw.Size(input=stack),
        "Slice": raw.Slice(input=stack, begin=[0, 1, 1], size=[2, 2, -1]),
        "Split": raw.Split(axis=2, value=stack, num_split=2)[1],
        "SplitV": raw.SplitV(value=stack, size_splits=[1, 3], axis=2, num_split=2)[1],
        "Squeeze": raw.Squeeze(input=raw.ExpandDims(input=m, axis=0), axis=[0]),
        "StridedSlice": stack[:, ::-2, 1:3],
        "Tile": raw.Tile(input=m, multiples=[2, 1]),
        "TopK": raw.TopK(input=m, k=2)[0],
        "TopKV2": raw.TopKV2(input=m, k=2)[0],
        "Transpose": raw.Transpose(x=stack, perm=[2, 0, 1]),
        "Unpack": raw.Unpack(value=stack, num=3, axis=1)[2],
        # losses and cells
        "SoftmaxCrossEntropyWithLogits": raw.SoftmaxCrossEntropyWithLogits(
            features=m, labels=raw.Softmax(logits=n)
        )[0],
        "SparseSoftmaxCrossEntropyWithLogits": raw.SparseSoftmaxCrossEntropyWithLogits(
            features=m, labels=[3, 0, 1]
        )[0],
        "LSTMBlockCell": raw.LSTMBlockCell(
            x=m,
            cs_prev=floats(3, 5),
            h_prev=floats(3, 5),
            w=floats(9, 20),
            b=floats(20),
            wci=floats(5),
            wcf=floats(5),
            wco=floats(5),
            forget_bias=0.5,
            cell_clip=0.4,
            use_peephole=False,
        )[6],
        "GRUBlockCell": raw.GRUBlockCell(
            x=m, h_prev=floats(3, 5), w_ru=floats(9, 10), w_c=floats(9, 5), b_ru=floats(10), b_c=floats(5)
        )[3],
    }
    return {op: value for op, value in made.items() if not isinstance(value, _Gone)}


def options(x: dict[str, Any]) -> dict[str, Any]:
    """Return what operators make with other settings than above, by the operator's name and a word."""
    image, m, n, stack = (x[name] for name in ("image", "matrix", "other", "stack"))
    one, two, valid, same = [1, 1, 1, 1], [1, 2, 2, 1], "VALID", "SAME"
    whole = tf.cast(tf.math.floor(4 * m), tf.int32)
    around = [0, 0, 1, 2, 0, 1, 0, 0]
    first = tf.transpose(image, [0, 3, 1, 2])
    return {
        "Conv2D/dilated": raw.Conv2D(
            input=image, filter=floats(2, 2, 4, 3), strides=one, dilations=[1, 2, 3, 1], padding=valid
        ),
        "Conv2D/groups": raw.Conv2D(input=image, filter=floats(3, 3, 2, 6), strides=one, padding=same),
        "Conv2D/pads": raw.Conv2D(
            input=image, filter=floats(3, 3, 4, 2), strides=two, padding="EXPLICIT", explicit_paddings=around
        ),
        "Conv2D/first": raw.Conv2D(
            input=first, filter=floats(3, 3, 4, 2), strides=one, padding=same, data_format="NCHW"
        ),
        "Conv2DBackpropInput/valid": raw.Conv2DBackpropInput(
            input_sizes=[2, 14, 11, 3],
            filter=floats(3, 2, 3, 4),
            out_backprop=image,
            strides=two,
            padding=valid,
        ),
        "DepthwiseConv2dNative/dilated": raw.DepthwiseConv2dNative(
            input=image, filter=floats(2, 2, 4, 1), strides=one, dilations=[1, 2, 2, 1], padding=same
        ),
        "MaxPool/pads": raw.MaxPool(
            input=image, ksize=[1, 3, 3, 1], strides=two, padding="EXPLICIT", explicit_paddings=around
        ),
        "AvgPool/valid": raw.AvgPool(value=image, ksize=[1, 2, 3, 1], strides=[1, 1, 2, 1], padding=valid),
        "BiasAdd/first": raw.BiasAdd(value=first, bias=floats(4), data_format="NCHW"),
        "MatMul/both": raw.MatMul(a=m, b=floats(5, 3), transpose_a=True, transpose_b=True),
        "BatchMatMulV2/broadcast": raw.BatchMatMulV2(x=stack, y=floats(1, 5, 4), adj_y=True),
        "BatchMatMulV2/adj": raw.BatchMatMulV2(x=stack, y=floats(2, 3, 5), adj_x=True),
        "Einsum/ellipsis": raw.Einsum(inputs=[stack, floats(4, 5)], equation="...j,jk->...k"),
        "Einsum/trace": raw.Einsum(inputs=[stack], equation="bij->bj"),
        "LeakyRelu/alpha": raw.LeakyRelu(features=m, alpha=0.3),
        "FloorMod/whole": raw.FloorMod(x=whole, y=3),
        "FloorDiv/whole": raw.FloorDiv(x=whole, y=3),
        "TruncateMod": raw.TruncateMod(x=m, y=n),
        "Mod/whole": raw.Mod(x=whole, y=3),
        "TruncateDiv/negative": raw.TruncateDiv(x=-whole, y=2),
        "Pow/whole": raw.Pow(x=whole, y=2),
        "Cast/bool": raw.Cast(x=tf.cast(tf.nn.relu(m), tf.int32), DstT=tf.bool),
        "Cast/real": raw.Cast(x=whole, DstT=tf.float32),
        "Select/rows": raw.Select(condition=tf.constant([True, False, True]), x=m, y=n),
        "SelectV2/broadcast": raw.SelectV2(condition=[True, False, True, False], t=m, e=n),
        "ArgMax/int32": raw.ArgMax(input=image, dimension=3, output_type=tf.int32),
        "Acosh": raw.Acosh(x=x["positive"] + 1.0),
        "ReverseSequence": raw.ReverseSequence(input=stack, seq_lengths=[3, 2], seq_dim=1, batch_dim=0),
        "Cumsum/plain": raw.Cumsum(x=stack, axis=-1),
        "Mean/keep": raw.Mean(input=image, axis=[1, 2], keep_dims=True),
        "Sum/all": raw.Sum(input=stack, axis=[0, 1, 2]),
        "Max/channels": raw.Max(input=image, axis=-1),
        "Min/whole": raw.Min(input=whole, axis=[0]),
        "Gather/table": raw.Gather(params=floats(6, 3), indices=tf.math.floormod(whole, 6)),
        "GatherV2/batch": raw.GatherV2(params=stack, indices=[[2, 0], [1, 1]], axis=1, batch_dims=1),
        "GatherV2/channels": raw.GatherV2(params=image, indices=[3, 1], axis=3),
        "GatherV2/negative": raw.GatherV2(params=stack, indices=1, axis=-1),
        "GatherNd/deep": raw.GatherNd(params=stack, indices=[[[0, 2, 1]], [[1, 1, 3]]]),
        "OneHot/last": raw.OneHot(indices=[[2, 0], [5, -1]], depth=3, on_value=1.0, off_value=0.0),
        "MirrorPad/symmetric": raw.MirrorPad(input=m, paddings=[[2, 0], [1, 2]], mode="SYMMETRIC"),
        "Pad/image": raw.Pad(input=image, paddings=[[0, 0], [1, 2], [0, 1], [2, 0]]),
        "Pack/image": raw.Pack(values=[image, image], axis=3),
        "ConcatV2/channels": raw.ConcatV2(values=[image, image], axis=-1),
        "Reshape/flat": raw.Reshape(tensor=image, shape=[-1]),
        "Squeeze/all": raw.Squeeze(input=tf.reshape(m, [1, 3, 1, 4])),
        "Tile/image": raw.Tile(input=image, multiples=[1, 2, 1, 2]),
        "Transpose/first": raw.Transpose(x=image, perm=[0, 3, 1, 2]),
        "StridedSlice/new": stack[:, tf.newaxis, ..., 1],
        "StridedSlice/negative": stack[-1, -2:, ::2],
        "StridedSlice/image": image[:, 1:-1, ::2, 1:3],
        "StridedSlice/last": image[..., -1],
        "Slice/image": raw.Slice(input=image, begin=[0, 1, 0, 1], size=[-1, 3, -1, 2]),
        "Split/image": raw.Split(axis=3, value=image, num_split=2)[0],
        "SplitV/rest": raw.SplitV(value=stack, size_splits=[1, -1, 1], axis=1, num_split=3)[1],
        "Unpack/image": raw.Unpack(value=image, num=4, axis=3)[1],
        "ReverseV2/image": raw.ReverseV2(tensor=image, axis=[2]),
        "TopKV2/numbers": raw.TopKV2(input=m, k=2)[1],
        "TopKV2/image": raw.TopKV2(input=image, k=3)[0],
        "SpaceToDepth/image": raw.SpaceToDepth(input=image[:, :, :4], block_size=2),
        "SpaceToBatchND/alone": raw.SpaceToBatchND(
            input=image, block_shape=[2, 3], paddings=[[1, 1], [0, 1]]
        ),
        "BatchToSpaceND/alone": raw.BatchToSpaceND(
            input=tf.tile(image, [2, 1, 1, 1]), block_shape=[2, 1], crops=[[1, 2], [0, 0]]
        ),
        "FusedBatchNormV3/first": raw.FusedBatchNormV3(
            x=first,
            scale=floats(4),
            offset=floats(4),
            mean=floats(4),
            variance=floats(4) ** 2 + 0.1,
            is_training=False,
            data_format="NCHW",
        )[0],
        "LRN/wide": raw.LRN(input=image, depth_radius=5, bias=1.0, alpha=1e-2, beta=0.75),
        "ResizeBilinear/corners": raw.ResizeBilinear(images=image, size=[11, 9], align_corners=True),
        "ResizeBilinear/old": raw.ResizeBilinear(images=image, size=[9, 7]),
        "ResizeBilinear/smaller": raw.ResizeBilinear(images=image, size=[3, 2], half_pixel_centers=True),
        "ResizeNearestNeighbor/corners": raw.ResizeNearestNeighbor(
            images=image, size=[11, 9], align_corners=True
        ),
        "ResizeNearestNeighbor/half": raw.ResizeNearestNeighbor(
            images=image, size=[4, 7], half_pixel_centers=True
        ),
        "LSTMBlockCell/clipped": raw.LSTMBlockCell(
            x=m,
            cs_prev=floats(3, 5),
            h_prev=floats(3, 5),
            w=3 * floats(9, 20),
            b=floats(20),
            wci=floats(5),
            wcf=floats(5),
            wco=floats(5),
            cell_clip=0.2,
            use_peephole=True,
        )[6],
        **_block_lstm(x["stack"]),
    }


def _block_lstm(stack: Any) -> dict[str, Any]:
    """Return three steps over two examples of four numbers, by both orders of the gates."""
    x = tf.transpose(stack, [1, 0, 2])
    arrays = {
        "x": x,
        "cs_prev": floats(2, 5),
        "h_prev": floats(2, 5),
        "w": 2 * floats(9, 20),
        "wci": floats(5),
        "wcf": floats(5),
        "wco": floats(5),
        "b": floats(20),
    }
    steps = tf.constant(3, tf.int64)
    plain = raw.BlockLSTM(seq_len_max=steps, **arrays, forget_bias=0.7, cell_clip=-1.0, use_peephole=False)
    later = raw.BlockLSTMV2(seq_len_max=steps, **arrays, cell_clip=0.0, use_peephole=False)
    short = raw.BlockLSTMV2(seq_len_max=tf.constant(2, tf.int64), **arrays, cell_clip=0.3, use_peephole=True)
    return {
        "BlockLSTM": plain[6],
        "BlockLSTM/cells": plain[1],
        "BlockLSTMV2": later[6],
        "BlockLSTMV2/short": short[6],
    }


def control(x: dict[str, Any]) -> dict[str, Any]:
    """Return what lists of tensors, functions, conditions and loops of both ages make."""
    m, n, stack = (x[name] for name in ("matrix", "other", "stack"))
    listed = raw.EmptyTensorList(element_shape=[3, 4], max_num_elements=4, element_dtype=tf.float32)
    for item in (m, n, m - n):
        listed = raw.TensorListPushBack(input_handle=listed, tensor=item)
    stacked = raw.TensorListStack(input_handle=listed, element_shape=[3, 4], element_dtype=tf.float32)
    unpacked = raw.TensorListFromTensor(tensor=stack, element_shape=[3, 4])
    item = {"element_shape": [3, 4], "element_dtype": tf.float32}
    reserved = raw.TensorListReserve(element_shape=[3, 4], num_elements=2, element_dtype=tf.float32)
    reserved = raw.TensorListSetItem(input_handle=reserved, index=1, item=m)
    double = tf.function(lambda a: 2 * a).get_concrete_function(tf.TensorSpec([3, 4], tf.float32))
    halve = tf.function(lambda a: a / 2).get_concrete_function(tf.TensorSpec([3, 4], tf.float32))
    smaller = tf.function(lambda i, _: i < 3).get_concrete_function(
        tf.TensorSpec([], tf.int32), tf.TensorSpec([3, 4], tf.float32)
    )
    more = tf.function(lambda i, a: (i + 1, a * 0.5 + tf.cast(i, tf.float32))).get_concrete_function(
        tf.TensorSpec([], tf.int32), tf.TensorSpec([3, 4], tf.float32)
    )
    with tf.control_dependencies([raw.Assert(condition=True, data=[1.0]), raw.ControlTrigger()]):
        after = raw.Neg(x=m)
    branches = {"then_branch": double, "else_branch": halve}
    loop = {"input": [0, m], "cond": smaller, "body": more}
    return {
        "TensorListStack": stacked,
        "Neg/after": after,
        **_arrays(m, n, stack),
        "TensorListLength": raw.TensorListLength(input_handle=listed),
        "TensorListFromTensor": raw.TensorListGetItem(input_handle=unpacked, index=1, **item),
        "TensorListGetItem": raw.TensorListGetItem(input_handle=reserved, index=1, **item),
        "PartitionedCall": raw.PartitionedCall(args=[m], Tout=[tf.float32], f=double)[0],
        "StatefulPartitionedCall": raw.StatefulPartitionedCall(args=[m], Tout=[tf.float32], f=halve)[0],
        "If": raw.If(cond=True, input=[m], Tout=[tf.float32], **branches)[0],
        "StatelessIf": raw.StatelessIf(cond=False, input=[m], Tout=[tf.float32], **branches)[0],
        "While": raw.While(**loop)[1],
        "StatelessWhile": raw.StatelessWhile(**loop)[1],
    }


def _arrays(m: Any, n: Any, stack: Any) -> dict[str, Any]:
    """Return what arrays of tensors make."""
    made = raw.TensorArrayV3(size=2, dtype=tf.float32, dynamic_size=True)
    handle = {"handle": made.handle}
    flow = raw.TensorArraySplitV3(**handle, value=stack[0][:2], lengths=[1, 1], flow_in=made.flow)
    flow = raw.TensorArrayWriteV3(**handle, index=2, value=n, flow_in=flow)
    other = raw.TensorArrayV3(size=2, dtype=tf.float32)
    full = raw.TensorArrayScatterV3(handle=other.handle, indices=[1, 0], value=stack, flow_in=other.flow)
    read = raw.TensorArrayReadV3(handle=other.handle, index=1, flow_in=full, dtype=tf.float32)
    with tf.control_dependencies([read]):
        size = raw.TensorArraySizeV3(handle=other.handle, flow_in=full)
    last = raw.TensorArrayV3(size=2, dtype=tf.float32)
    flows = raw.TensorArrayScatterV3(handle=last.handle, indices=[1, 0], value=stack, flow_in=last.flow)
    taken = raw.TensorArrayGatherV3(handle=last.handle, indices=[0, 1], flow_in=flows, dtype=tf.float32)
    joined = raw.TensorArrayConcatV3(**handle, flow_in=flow, dtype=tf.float32)
    with tf.control_dependencies([joined.value]):
        closed = raw.TensorArrayCloseV3(**handle)
    with tf.control_dependencies([closed]):
        lengths = tf.identity(joined.lengths)
    return {
        "TensorArrayReadV3": read,
        "TensorArraySizeV3": size,
        "TensorArrayGatherV3": taken,
        "TensorArrayConcatV3": joined.value,
        "TensorArrayConcatV3/lengths": lengths,
    }


def _first(op: str) -> str:
    """Return the name of an operator's argument."""
    if op in {"Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Softplus", "Softsign"}:
        return "features"
    if op in {"Identity", "PreventGradient", "Snapshot", "StopGradient"}:
        return "input"
    return "logits" if op in {"LogSoftmax", "Softmax"} else "x"


def main() -> None:
    """Write the graph and the arrays."""
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    arrays = {name: array.astype(np.float32) for name, array in INPUTS.items()}
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        inputs = {name: v1.placeholder(tf.float32, array.shape, name) for name, array in arrays.items()}
        branches = {**cases(inputs), **options(inputs), **control(inputs), **detection(inputs, floats)}
        old = v1.get_variable("old", initializer=INPUTS["other"].astype(np.float32), use_resource=False)
        branches["VariableV2"] = inputs["matrix"] * old
        made = {name: tf.identity(value, f"out/{name}") for name, value in branches.items()}
        session.run(v1.global_variables_initializer())
        values = session.run(made, {inputs[name]: array for name, array in arrays.items()})
        shutil.rmtree(GOLDEN, ignore_errors=True)
        v1.saved_model.simple_save(session, str(GOLDEN), inputs, made)
    _strip(GOLDEN / "saved_model.pb")
    np.savez_compressed(
        GOLDEN / "operators.npz", **{f"in/{name}": array for name, array in arrays.items()}, **values
    )


def _strip(path: Path) -> None:
    """Leave out of a SavedModel what describes TensorFlow's operators and not the net."""
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for meta in saved.meta_graphs:
        del meta.meta_info_def.stripped_op_list.op[1:]
        for node in meta.graph_def.node:
            node.attr.pop("_output_shapes", None)
    path.write_bytes(saved.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
