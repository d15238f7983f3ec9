"""Attributes of TensorFlow's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError
from netweave.files.protobuf import Message, Schema
from netweave.files.unknown_names import UnknownLayer, UnknownSetting
from netweave.graph.costs import MAX_AXES, MAX_ELEMENTS, MAX_FILLED, num_elements

if TYPE_CHECKING:
    from netweave.formats.tensorflow.nodes import Node


_STORED = {
    "FLOAT": (np.float32, "float_val"),
    "DOUBLE": (np.float64, "double_val"),
    "HALF": (np.float16, "half_val"),
    "BFLOAT16": (ml_dtypes.bfloat16, "half_val"),
    "INT8": (np.int8, "int_val"),
    "INT16": (np.int16, "int_val"),
    "INT32": (np.int32, "int_val"),
    "INT64": (np.int64, "int64_val"),
    "UINT8": (np.uint8, "int_val"),
    "UINT16": (np.uint16, "int_val"),
    "UINT32": (np.uint32, "uint32_val"),
    "UINT64": (np.uint64, "uint64_val"),
    "BOOL": (np.bool_, "bool_val"),
}
"""Element types that a net computes with, and the field of TensorProto that lists such values."""

DTYPES: dict[str, np.dtype[Any]] = {f"DT_{name}": np.dtype(dtype) for name, (dtype, _) in _STORED.items()}
_VALUES = {f"DT_{name}": field for name, (_, field) in _STORED.items()}

_PLAIN = ("s", "i", "f", "b", "type", "placeholder")


class Function:
    """A function that an attribute names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"function {self.name!r}"


def attribute(message: Message, *, place: str) -> Any:
    """Return the value of an attribute: a number, bytes, the name of a type, sizes, an array, a list.

    Raises:
        ReadError: A stored tensor is damaged.
    """
    for name in _PLAIN:
        if name in message:
            return message[name]
    if "shape" in message:
        return sizes(message["shape"])
    if "tensor" in message:
        return array(message["tensor"], place=place)
    if "func" in message:
        return Function(message["func"]["name"])
    return _list(message["list"], place=place) if "list" in message else None


def _list(message: Message, *, place: str) -> list[Any]:
    for name in message:
        if name == "shape":
            return [sizes(item) for item in message[name]]
        if name == "tensor":
            return [array(item, place=place) for item in message[name]]
        if name == "func":
            return [Function(item["name"]) for item in message[name]]
        return list(message[name])
    return []


def sizes(message: Message) -> tuple[int | None, ...] | None:
    """Return the sizes of a shape, None for an open one; None as a whole if the rank is open."""
    if message["unknown_rank"]:
        return None
    return tuple(dim["size"] if dim["size"] >= 0 else None for dim in message["dim"])


def array(message: Message, *, place: str) -> np.ndarray:
    """Return a stored tensor; a list of values that is too short goes on with its last one.

    Raises:
        ReadError: Its sizes and its values do not fit together, or its type is not a number.
    """
    kind = str(message["dtype"])
    shape = sizes(message["tensor_shape"])
    if shape is None or any(size is None for size in shape):
        raise ReadError("contains a stored tensor with open sizes", place=place)
    whole = tuple(int(size or 0) for size in shape)
    count = num_elements(whole)
    if count is None:
        raise ReadError(
            f"contains a stored tensor of more than {MAX_ELEMENTS:,} elements or {MAX_AXES} axes", place=place
        )
    if kind == "DT_STRING":
        return strings(message["string_val"], whole, place=place)
    if kind not in DTYPES:
        raise ReadError(f"contains a stored tensor of type {kind}, which is not supported", place=place)
    dtype = DTYPES[kind]
    content = message["tensor_content"]
    if content:
        return from_bytes(content, dtype, whole, place=place)
    return _filled(_values(message, kind, dtype), whole, count, place=place)


def from_bytes(content: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], *, place: str) -> np.ndarray:
    """Return the array that some bytes are, in little endian.

    Raises:
        ReadError: They are too few or too many.
    """
    wanted = prod(shape) * dtype.itemsize
    if len(content) != wanted:
        raise ReadError(
            f"contains {len(content):,} bytes for a tensor of shape {list(shape)}, expected {wanted:,}",
            place=place,
        )
    return np.frombuffer(content, dtype.newbyteorder("<") if dtype.kind in "iuf" else dtype).reshape(shape)


def strings(items: Sequence[bytes], shape: tuple[int, ...], *, place: str) -> np.ndarray:
    """Return an array of bytes objects."""
    if len(items) != prod(shape):
        raise ReadError(f"contains {len(items)} strings for the shape {list(shape)}", place=place)
    texts = np.empty(len(items), dtype=object)
    texts[:] = list(items)
    return texts.reshape(shape)


def num_filled(message: Message) -> int:
    """Return how many elements of an attribute's stored tensors repeat the last value that is given."""
    tensors = [message["tensor"]] if "tensor" in message else []
    if "list" in message and "tensor" in message["list"]:
        tensors += message["list"]["tensor"]
    return sum(map(_num_filled, tensors))


def _num_filled(tensor: Message) -> int:
    shape, name = sizes(tensor["tensor_shape"]), _VALUES.get(str(tensor["dtype"]))
    if shape is None or tensor["tensor_content"] or name is None:
        return 0
    filled = (num_elements(size or 0 for size in shape) or 0) - len(tensor[name])
    return filled if 0 < filled <= MAX_FILLED else 0  # of others ``array`` says what is wrong


def _values(message: Message, kind: str, dtype: np.dtype[Any]) -> np.ndarray:
    values = message[_VALUES[kind]]
    if kind in {"DT_HALF", "DT_BFLOAT16"}:
        return (np.asarray(values, dtype=np.int64) & 0xFFFF).astype(np.uint16).view(dtype)
    return np.asarray(values).astype(dtype)


def _filled(values: np.ndarray, shape: tuple[int, ...], count: int, *, place: str) -> np.ndarray:
    if values.size > count:
        raise ReadError(f"contains {values.size:,} values for a tensor of shape {list(shape)}", place=place)
    if count - values.size > MAX_FILLED:
        raise ReadError(
            f"contains {values.size:,} values for a tensor of {count:,} elements; at most {MAX_FILLED:,} may "
            "repeat the last of them",
            place=place,
        )
    if not values.size:
        values = np.zeros(1, values.dtype)
    if values.size == 1:
        return np.broadcast_to(values, (count,)).reshape(shape) if count else np.empty(shape, values.dtype)
    return np.concatenate([values, np.repeat(values[-1:], count - values.size)]).reshape(shape)


# An attribute that the operator does not have is mistyped, or belongs to a newer TensorFlow: if it were
# ignored, the net would be another one. Attributes that begin with ``_`` are TensorFlow's annotations
# (``_class``, ``_output_shapes``), which any node may have. ``tests/oracles/tensorflow_attributes.py``
# lists the attributes of an operator that is added.

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


# In bytes the nodes of a graph stay bytes until they are asked for one by one: a graph may have a hundred
# thousand messages, and each node becomes a small object of ours at once.

_TYPES = """
enum DataType
  DT_INVALID=0 DT_FLOAT=1 DT_DOUBLE=2 DT_INT32=3 DT_UINT8=4 DT_INT16=5 DT_INT8=6 DT_STRING=7 DT_COMPLEX64=8
  DT_INT64=9 DT_BOOL=10 DT_QINT8=11 DT_QUINT8=12 DT_QINT32=13 DT_BFLOAT16=14 DT_QINT16=15 DT_QUINT16=16
  DT_UINT16=17 DT_COMPLEX128=18 DT_HALF=19 DT_RESOURCE=20 DT_VARIANT=21 DT_UINT32=22 DT_UINT64=23
  DT_FLOAT_REF=101 DT_DOUBLE_REF=102 DT_INT32_REF=103 DT_INT64_REF=109 DT_BOOL_REF=110 DT_HALF_REF=119
message Dim
  1 size int64; 2 name string
message TensorShapeProto
  2 dim Dim[]; 3 unknown_rank bool
message TensorProto
  1 dtype DataType; 2 tensor_shape TensorShapeProto; 3 version_number int32; 4 tensor_content bytes;
  5 float_val float[packed]; 6 double_val double[packed]; 7 int_val int32[]; 8 string_val bytes[];
  10 int64_val int64[]; 11 bool_val bool[]; 13 half_val int32[];
  16 uint32_val uint32[]; 17 uint64_val uint64[]
message ListValue
  2 s bytes[]; 3 i int64[]; 4 f float[]; 5 b bool[]; 6 type DataType[]; 7 shape TensorShapeProto[];
  8 tensor TensorProto[]; 9 func NameAttrList[]
message AttrValue
  1 list ListValue; 2 s bytes; 3 i int64; 4 f float; 5 b bool; 6 type DataType; 7 shape TensorShapeProto;
  8 tensor TensorProto; 9 placeholder string; 10 func NameAttrList
message AttrEntry
  1 key string; 2 value AttrValue
message NameAttrList
  1 name string; 2 attr AttrEntry[]
message NodeDef
  1 name string; 2 op string; 3 input string[]; 4 device string; 5 attr AttrEntry[]
message VersionDef
  1 producer int32; 2 min_consumer int32; 3 bad_consumers int32[]
message ArgDef
  1 name string; 3 type DataType; 4 type_attr string; 5 number_attr string; 6 type_list_attr string
message OpDef
  1 name string; 2 input_arg ArgDef[]; 3 output_arg ArgDef[]
message StringEntry
  1 key string; 2 value string
message FunctionDef
  1 signature OpDef; 3 node_def NodeDef[]; 4 ret StringEntry[]; 5 attr AttrEntry[]
message FunctionDefLibrary
  1 function FunctionDef[]
message GraphDef
  1 node NodeDef[]; 2 library FunctionDefLibrary; 3 version int32; 4 versions VersionDef
message TensorInfo
  1 name string; 2 dtype DataType; 3 tensor_shape TensorShapeProto
message TensorInfoEntry
  1 key string; 2 value TensorInfo
message SignatureDef
  1 inputs TensorInfoEntry[]; 2 outputs TensorInfoEntry[]; 3 method_name string
message SignatureEntry
  1 key string; 2 value SignatureDef
message SaverDef
  1 filename_tensor_name string; 2 save_tensor_name string; 3 restore_op_name string
message MetaInfoDef
  4 tags string[]; 5 tensorflow_version string
message MetaGraphDef
  1 meta_info_def MetaInfoDef; 2 graph_def GraphDef; 3 saver_def SaverDef; 5 signature_def SignatureEntry[]
message SavedModel
  1 saved_model_schema_version int64; 2 meta_graphs MetaGraphDef[]
message BundleHeaderProto
  1 num_shards int32; 2 endianness int32; 3 version VersionDef
message BundleEntryProto
  1 dtype DataType; 2 shape TensorShapeProto; 3 shard_id int32; 4 offset int64; 5 size int64;
  7 slices TensorShapeProto[]
"""

TEXT = Schema(_TYPES)
"""The messages as text has them."""

BYTES = Schema(
    _TYPES.replace("node NodeDef[]", "node bytes[]")
    .replace("node_def NodeDef[]", "node_def bytes[]")
    .replace("function FunctionDef[]", "function bytes[]")
    .replace("graph_def GraphDef", "graph_def bytes")
    .replace("meta_graphs MetaGraphDef[]", "meta_graphs bytes[]")
)
"""The messages as bytes have them: nodes, functions and graphs are opened one by one."""
