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
: ControlTrigger LogicalAnd LogicalNot LogicalOr LoopCond NoOp TensorArrayCloseV3 TensorArraySizeV3
    TensorListLength
T: Abs Acos Acosh Add AddV2 Asin Asinh Atan Atanh BiasAddV1 Ceil ClipByValue Cos Cosh Div DivNoNan Elu Erf
    Erfc Exp Expm1 Floor FloorDiv FloorMod GRUBlockCell Greater GreaterEqual Identity IdentityN InTopKV2 Inv
    IsInf IsNan L2Loss Less LessEqual Log Log1p LogSoftmax Maximum Minimum Mod Mul Neg OnesLike Pow Rank
    RealDiv Reciprocal RefIdentity RefSwitch Relu Relu6 Rint Round Rsqrt Select SelectV2 Selu Sigmoid Sign
    Sin Sinh Snapshot Softmax SoftmaxCrossEntropyWithLogits Softplus Softsign Sqrt Square SquaredDifference
    StopGradient Sub Switch Tan Tanh TensorArrayScatterV3 TensorArraySplitV3 TensorArrayWriteV3 TruncateDiv
    TruncateMod Where ZerosLike
Tidx: Range
dtype: ReadVariableOp TensorArrayReadV3
dtypes: RestoreV2
element_dtype: TensorListPushBack
iou_threshold: NonMaxSuppression
Index T: Slice
N T: AddN Concat Merge RefMerge
T T_threshold: NonMaxSuppressionV2 NonMaxSuppressionV3
T Tdim: ExpandDims
T Tidx: BroadcastTo ReverseV2
T Tindex: MatrixBandPart
T Tlabels: SparseSoftmaxCrossEntropyWithLogits
T Tmultiples: Tile
T Tpaddings: Pad PadV2
T Tperm: Transpose
T Tshape: Reshape
T alpha: LeakyRelu
T data_format: BiasAdd
T incompatible_shape_error: Equal NotEqual
T index_type: Fill
T k: InTopK
T message: CheckNumerics PreventGradient
T num_split: Split
T out_type: Shape Size
T pad_to_max_output_size: NonMaxSuppressionV5
T shape: EnsureShape
T squeeze_dims: Squeeze
T summarize: Assert
T type: Bitcast
Tidx keep_dims: All Any
Tshape element_dtype: TensorListGetItem
dtype element_shape: TensorArrayGatherV3
dtype element_shape_except0: TensorArrayConcatV3
dtype shape: Placeholder PlaceholderV2 PlaceholderWithDefault
dtype value: Const HostConst
element_dtype num_elements: TensorListStack
element_dtype resize_if_index_out_of_bounds: TensorListSetItem
element_dtype shape_type: EmptyTensorList TensorListFromTensor TensorListReserve
narrow_range num_bits: FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel
DstT SrcT Truncate: Cast
N T Tidx: ConcatV2
N T axis: Pack
N T equation: Einsum
N T out_type: ShapeN
N T shape: AccumulateNV2
T TI axis: OneHot
T T_threshold pad_to_max_output_size: NonMaxSuppressionV4
T Tblock_shape Tcrops: BatchToSpaceND
T Tblock_shape Tpaddings: SpaceToBatchND
T Tidx block_size: BatchToSpace
T Tidx keep_dims: EuclideanNorm Max Mean Min Prod Sum
T Tidx output_type: ArgMax ArgMin
T Tindices bad_indices_policy: ScatterNd TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
    TensorScatterUpdate
T Tlen num_split: SplitV
T Tpaddings block_size: SpaceToBatch
T Tpaddings mode: MirrorPad
T align_corners half_pixel_centers: ResizeBicubic ResizeBilinear ResizeNearestNeighbor
T axis num: Unpack
T block_size data_format: DepthToSpace SpaceToDepth
T cell_clip use_peephole: BlockLSTMV2
T data_format padding: MaxPoolV2
T extrapolation_value method: CropAndResize
T k sorted: TopK
T scale_after_normalization variance_epsilon: BatchNormWithGlobalNormalization
Tindices Tparams bad_indices_policy: GatherNd
Tindices Tparams validate_indices: Gather
dtype shape var_name: TemporaryVariable
T Tidx exclusive reverse: Cumsum
T Tk index_type sorted: TopKV2
T Tlen batch_dim seq_dim: ReverseSequence
T cell_clip forget_bias use_peephole: BlockLSTM LSTMBlockCell
Taxis Tindices Tparams batch_dims: GatherV2
Tindices batch_dims dtype validate_indices: ResourceGather
container dtype shape shared_name: Variable VariableV2
max min narrow_range num_bits: FakeQuantWithMinMaxArgs
T adj_x adj_y grad_x grad_y: BatchMatMul BatchMatMulV2
T alpha beta bias depth_radius: LRN
T body cond output_shapes parallel_iterations: StatelessWhile While
T data_format dilations padding strides: Conv3D
T data_format epsilon exponential_avg_factor is_training: FusedBatchNorm
T data_format ksize padding strides: AvgPool AvgPool3D MaxPool3D
T grad_a grad_b transpose_a transpose_b: MatMul
T ksizes padding rates strides: ExtractImagePatches
T Targmax include_batch_in_index ksize padding strides: MaxPoolWithArgmax
T Tshape data_format dilations padding strides: Conv3DBackpropInputV2
T U data_format epsilon exponential_avg_factor is_training: FusedBatchNormV2 FusedBatchNormV3
T data_format dilations explicit_paddings padding strides: DepthwiseConv2dNative
T data_format explicit_paddings ksize padding strides: MaxPool
Tcond Tin Tout else_branch output_shapes then_branch: If StatelessIf
Tin Tout config config_proto executor_type f: PartitionedCall StatefulPartitionedCall
allowed_devices container debug_name dtype shape shared_name: VarHandleOp
clear_after_read dtype dynamic_size element_shape identical_element_shapes tensor_array_name: TensorArrayV3
Index T begin_mask ellipsis_mask end_mask new_axis_mask shrink_axis_mask: StridedSlice
T data_format dilations explicit_paddings padding strides use_cudnn_on_gpu: Conv2D Conv2DBackpropInput
T epsilon fused_ops leakyrelu_alpha num_args transpose_a transpose_b: _FusedMatMul
Ta Tb Tout adj_x adj_y grad_x grad_y: BatchMatMulV3
T U activation_mode data_format epsilon exponential_avg_factor is_training num_side_inputs:
    _FusedBatchNormEx
T direction dropout input_mode is_training rnn_mode seed seed2: CudnnRNN CudnnRNNV2
T data_format dilations epsilon fused_ops leakyrelu_alpha num_args padding strides:
    _FusedDepthwiseConv2dNative
T direction dropout input_mode is_training num_proj rnn_mode seed seed2 time_major: CudnnRNNV3
T TArgs data_format dilations epsilon explicit_paddings filter_format fused_ops leakyrelu_alpha num_args
    num_host_args padding strides use_cudnn_on_gpu: _FusedConv2D
"""
"""Attributes, and the operators that have just these; lines that begin with a space continue one."""


def _parsed(table: str) -> dict[str, frozenset[str]]:
    rows = (row.partition(":") for row in table.replace("\n    ", " ").strip("\n").splitlines())
    return {op: frozenset(names.split()) for names, _, ops in rows for op in ops.split()}


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
