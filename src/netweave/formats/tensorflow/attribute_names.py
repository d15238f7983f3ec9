"""The attributes that TensorFlow defines for each operator that is read.

An attribute that the operator does not have is mistyped, or belongs to a newer TensorFlow: if it were
ignored, the net would be another one. Attributes that begin with ``_`` are TensorFlow's annotations
(``_class``, ``_output_shapes``), which any node may have. ``tests/oracles/tensorflow_attributes.py`` lists
the attributes of an operator that is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.unknown import UnknownLayer, UnknownSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.formats.tensorflow.nodes import Node

_TABLE = """
Abs: T
AccumulateNV2: N T shape
Acos: T
Acosh: T
Add: T
AddN: N T
AddV2: T
All: Tidx keep_dims
Any: Tidx keep_dims
ArgMax: T Tidx output_type
ArgMin: T Tidx output_type
Asin: T
Asinh: T
Assert: T summarize
Atan: T
Atanh: T
AvgPool: T data_format ksize padding strides
AvgPool3D: T data_format ksize padding strides
BatchMatMul: T adj_x adj_y grad_x grad_y
BatchMatMulV2: T adj_x adj_y grad_x grad_y
BatchMatMulV3: Ta Tb Tout adj_x adj_y grad_x grad_y
BatchNormWithGlobalNormalization: T scale_after_normalization variance_epsilon
BatchToSpace: T Tidx block_size
BatchToSpaceND: T Tblock_shape Tcrops
BiasAdd: T data_format
BiasAddV1: T
Bitcast: T type
BlockLSTM: T cell_clip forget_bias use_peephole
BlockLSTMV2: T cell_clip use_peephole
BroadcastTo: T Tidx
Cast: DstT SrcT Truncate
Ceil: T
CheckNumerics: T message
ClipByValue: T
Concat: N T
ConcatV2: N T Tidx
Const: dtype value
ControlTrigger:
Conv2D: T data_format dilations explicit_paddings padding strides use_cudnn_on_gpu
Conv2DBackpropInput: T data_format dilations explicit_paddings padding strides use_cudnn_on_gpu
Conv3D: T data_format dilations padding strides
Conv3DBackpropInputV2: T Tshape data_format dilations padding strides
Cos: T
Cosh: T
CropAndResize: T extrapolation_value method
CudnnRNN: T direction dropout input_mode is_training rnn_mode seed seed2
CudnnRNNV2: T direction dropout input_mode is_training rnn_mode seed seed2
CudnnRNNV3: T direction dropout input_mode is_training num_proj rnn_mode seed seed2 time_major
Cumsum: T Tidx exclusive reverse
DepthToSpace: T block_size data_format
DepthwiseConv2dNative: T data_format dilations explicit_paddings padding strides
Div: T
DivNoNan: T
Einsum: N T equation
Elu: T
EmptyTensorList: element_dtype shape_type
EnsureShape: T shape
Equal: T incompatible_shape_error
Erf: T
Erfc: T
EuclideanNorm: T Tidx keep_dims
Exp: T
ExpandDims: T Tdim
Expm1: T
ExtractImagePatches: T ksizes padding rates strides
FakeQuantWithMinMaxArgs: max min narrow_range num_bits
FakeQuantWithMinMaxVars: narrow_range num_bits
FakeQuantWithMinMaxVarsPerChannel: narrow_range num_bits
Fill: T index_type
Floor: T
FloorDiv: T
FloorMod: T
FusedBatchNorm: T data_format epsilon exponential_avg_factor is_training
FusedBatchNormV2: T U data_format epsilon exponential_avg_factor is_training
FusedBatchNormV3: T U data_format epsilon exponential_avg_factor is_training
GRUBlockCell: T
Gather: Tindices Tparams validate_indices
GatherNd: Tindices Tparams bad_indices_policy
GatherV2: Taxis Tindices Tparams batch_dims
Greater: T
GreaterEqual: T
HostConst: dtype value
Identity: T
IdentityN: T
If: Tcond Tin Tout else_branch output_shapes then_branch
InTopK: T k
InTopKV2: T
Inv: T
IsInf: T
IsNan: T
L2Loss: T
LRN: T alpha beta bias depth_radius
LSTMBlockCell: T cell_clip forget_bias use_peephole
LeakyRelu: T alpha
Less: T
LessEqual: T
Log: T
Log1p: T
LogSoftmax: T
LogicalAnd:
LogicalNot:
LogicalOr:
LoopCond:
MatMul: T grad_a grad_b transpose_a transpose_b
MatrixBandPart: T Tindex
Max: T Tidx keep_dims
MaxPool: T data_format explicit_paddings ksize padding strides
MaxPool3D: T data_format ksize padding strides
MaxPoolV2: T data_format padding
MaxPoolWithArgmax: T Targmax include_batch_in_index ksize padding strides
Maximum: T
Mean: T Tidx keep_dims
Merge: N T
Min: T Tidx keep_dims
Minimum: T
MirrorPad: T Tpaddings mode
Mod: T
Mul: T
Neg: T
NoOp:
NonMaxSuppression: iou_threshold
NonMaxSuppressionV2: T T_threshold
NonMaxSuppressionV3: T T_threshold
NonMaxSuppressionV4: T T_threshold pad_to_max_output_size
NonMaxSuppressionV5: T pad_to_max_output_size
NotEqual: T incompatible_shape_error
OneHot: T TI axis
OnesLike: T
Pack: N T axis
Pad: T Tpaddings
PadV2: T Tpaddings
PartitionedCall: Tin Tout config config_proto executor_type f
Placeholder: dtype shape
PlaceholderV2: dtype shape
PlaceholderWithDefault: dtype shape
Pow: T
PreventGradient: T message
Prod: T Tidx keep_dims
Range: Tidx
Rank: T
ReadVariableOp: dtype
RealDiv: T
Reciprocal: T
RefIdentity: T
RefMerge: N T
RefSwitch: T
Relu: T
Relu6: T
Reshape: T Tshape
ResizeBicubic: T align_corners half_pixel_centers
ResizeBilinear: T align_corners half_pixel_centers
ResizeNearestNeighbor: T align_corners half_pixel_centers
ResourceGather: Tindices batch_dims dtype validate_indices
RestoreV2: dtypes
ReverseSequence: T Tlen batch_dim seq_dim
ReverseV2: T Tidx
Rint: T
Round: T
Rsqrt: T
ScatterNd: T Tindices bad_indices_policy
Select: T
SelectV2: T
Selu: T
Shape: T out_type
ShapeN: N T out_type
Sigmoid: T
Sign: T
Sin: T
Sinh: T
Size: T out_type
Slice: Index T
Snapshot: T
Softmax: T
SoftmaxCrossEntropyWithLogits: T
Softplus: T
Softsign: T
SpaceToBatch: T Tpaddings block_size
SpaceToBatchND: T Tblock_shape Tpaddings
SpaceToDepth: T block_size data_format
SparseSoftmaxCrossEntropyWithLogits: T Tlabels
Split: T num_split
SplitV: T Tlen num_split
Sqrt: T
Square: T
SquaredDifference: T
Squeeze: T squeeze_dims
StatefulPartitionedCall: Tin Tout config config_proto executor_type f
StatelessIf: Tcond Tin Tout else_branch output_shapes then_branch
StatelessWhile: T body cond output_shapes parallel_iterations
StopGradient: T
StridedSlice: Index T begin_mask ellipsis_mask end_mask new_axis_mask shrink_axis_mask
Sub: T
Sum: T Tidx keep_dims
Switch: T
Tan: T
Tanh: T
TemporaryVariable: dtype shape var_name
TensorArrayCloseV3:
TensorArrayConcatV3: dtype element_shape_except0
TensorArrayGatherV3: dtype element_shape
TensorArrayReadV3: dtype
TensorArrayScatterV3: T
TensorArraySizeV3:
TensorArraySplitV3: T
TensorArrayV3: clear_after_read dtype dynamic_size element_shape identical_element_shapes
    tensor_array_name
TensorArrayWriteV3: T
TensorListFromTensor: element_dtype shape_type
TensorListGetItem: Tshape element_dtype
TensorListLength:
TensorListPushBack: element_dtype
TensorListReserve: element_dtype shape_type
TensorListSetItem: element_dtype resize_if_index_out_of_bounds
TensorListStack: element_dtype num_elements
TensorScatterAdd: T Tindices bad_indices_policy
TensorScatterMax: T Tindices bad_indices_policy
TensorScatterMin: T Tindices bad_indices_policy
TensorScatterSub: T Tindices bad_indices_policy
TensorScatterUpdate: T Tindices bad_indices_policy
Tile: T Tmultiples
TopK: T k sorted
TopKV2: T Tk index_type sorted
Transpose: T Tperm
TruncateDiv: T
TruncateMod: T
Unpack: T axis num
VarHandleOp: allowed_devices container debug_name dtype shape shared_name
Variable: container dtype shape shared_name
VariableV2: container dtype shape shared_name
Where: T
While: T body cond output_shapes parallel_iterations
ZerosLike: T
_FusedBatchNormEx: T U activation_mode data_format epsilon exponential_avg_factor is_training
    num_side_inputs
_FusedConv2D: T TArgs data_format dilations epsilon explicit_paddings filter_format fused_ops
    leakyrelu_alpha num_args num_host_args padding strides use_cudnn_on_gpu
_FusedDepthwiseConv2dNative: T data_format dilations epsilon fused_ops leakyrelu_alpha num_args
    padding strides
_FusedMatMul: T epsilon fused_ops leakyrelu_alpha num_args transpose_a transpose_b
"""
"""One operator a line, with its attributes; lines that begin with a space continue it."""


def _parsed(table: str) -> dict[str, frozenset[str]]:
    rows = (row.partition(":") for row in table.replace("\n    ", " ").strip().splitlines())
    return {op: frozenset(names.split()) for op, _, names in rows}


ATTRIBUTES = _parsed(_TABLE)
"""Names of attributes by operator."""


def unknown_attributes(node: Node) -> Iterator[UnknownSetting]:
    """Yield the attributes of a node that its operator does not have."""
    known = ATTRIBUTES.get(node.op)
    if known is None:  # a call of a function, or an operator that TensorFlow has removed
        return
    for name, value in node.attributes.items():
        if name not in known and not name.startswith("_"):
            layer = UnknownLayer(node.op, node.name, node.line)
            yield UnknownSetting(name, value, layer, known=known)
