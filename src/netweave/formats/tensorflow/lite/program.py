"""Programs of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.files import Source
from netweave.files.flatbuffers import FlatSchema, Record
from netweave.files.source import read_bytes
from netweave.formats.tensorflow.attributes import Function
from netweave.formats.tensorflow.lite.tensors import LiteTensor, tensor_of
from netweave.formats.tensorflow.nodes import Body, Node, Program, Ref
from netweave.formats.tensorflow.opening import Opened

# ``tests/oracles/tflite_schema.py`` holds the slots and defaults against TensorFlow's generated code.

SCHEMA = FlatSchema(
    """
table Model
  version uint32; operator_codes OperatorCode[]; subgraphs SubGraph[]; description string;
  buffers Buffer[]; -; metadata Metadata[]; signature_defs SignatureDef[]
table OperatorCode
  deprecated_builtin_code int8; custom_code string; version int32 =1; builtin_code int32
table SubGraph
  tensors Tensor[]; inputs int32[]; outputs int32[]; operators Operator[]; name string
table Tensor
  shape int32[]; type TensorType; buffer uint32; name string; quantization QuantizationParameters;
  is_variable bool; sparsity SparsityParameters; shape_signature int32[]; has_rank bool; -;
  external_buffer uint32
table QuantizationParameters
  min float32[]; max float32[]; scale float32[]; zero_point int64[]; details_type uint8; -;
  quantized_dimension int32
table SparsityParameters
  traversal_order int32[]
table Operator
  opcode_index uint32; inputs int32[]; outputs int32[]; builtin_options_type uint8;
  builtin_options BuiltinOptions
table Buffer
  data uint8[]; offset uint64; size uint64
table Metadata
  name string; buffer uint32
table TensorMap
  name string; tensor_index uint32
table SignatureDef
  inputs TensorMap[]; outputs TensorMap[]; signature_key string; -; subgraph_index uint32

table Conv2DOptions
  padding Padding; stride_w int32; stride_h int32; fused_activation_function ActivationFunctionType;
  dilation_w_factor int32 =1; dilation_h_factor int32 =1
table Conv3DOptions
  padding Padding; stride_d int32; stride_w int32; stride_h int32;
  fused_activation_function ActivationFunctionType; dilation_d_factor int32 =1; dilation_w_factor int32 =1;
  dilation_h_factor int32 =1
table Pool2DOptions
  padding Padding; stride_w int32; stride_h int32; filter_width int32; filter_height int32;
  fused_activation_function ActivationFunctionType
table DepthwiseConv2DOptions
  padding Padding; stride_w int32; stride_h int32; depth_multiplier int32;
  fused_activation_function ActivationFunctionType; dilation_w_factor int32 =1; dilation_h_factor int32 =1
table FullyConnectedOptions
  fused_activation_function ActivationFunctionType; weights_format WeightsFormat; keep_num_dims bool;
  asymmetric_quantize_inputs bool
table SoftmaxOptions
  beta float32
table ConcatenationOptions
  axis int32; fused_activation_function ActivationFunctionType
table AddOptions
  fused_activation_function ActivationFunctionType
table MulOptions
  fused_activation_function ActivationFunctionType
table SubOptions
  fused_activation_function ActivationFunctionType
table DivOptions
  fused_activation_function ActivationFunctionType
table L2NormOptions
  fused_activation_function ActivationFunctionType
table LocalResponseNormalizationOptions
  radius int32; bias float32; alpha float32; beta float32
table UnidirectionalSequenceLSTMOptions
  fused_activation_function ActivationFunctionType; cell_clip float32; proj_clip float32; time_major bool;
  asymmetric_quantize_inputs bool; diagonal_recurrent_tensors bool
table ResizeBilinearOptions
  -; -; align_corners bool; half_pixel_centers bool
table ResizeNearestNeighborOptions
  align_corners bool; half_pixel_centers bool
table CallOptions
  subgraph uint32
table ReshapeOptions
  new_shape int32[]
table SpaceToDepthOptions
  block_size int32
table DepthToSpaceOptions
  block_size int32
table GatherOptions
  axis int32; batch_dims int32
table ReducerOptions
  keep_dims bool
table SqueezeOptions
  squeeze_dims int32[]
table SplitOptions
  num_splits int32
table SplitVOptions
  num_splits int32
table StridedSliceOptions
  begin_mask int32; end_mask int32; ellipsis_mask int32; new_axis_mask int32; shrink_axis_mask int32;
  offset bool
table CastOptions
  in_data_type TensorType; out_data_type TensorType
table ArgMaxOptions
  output_type TensorType
table ArgMinOptions
  output_type TensorType
table TransposeConvOptions
  padding Padding; stride_w int32; stride_h int32; fused_activation_function ActivationFunctionType
table ShapeOptions
  out_type TensorType
table FakeQuantOptions
  min float32; max float32; num_bits int32; narrow_range bool
table PackOptions
  values_count int32; axis int32
table OneHotOptions
  axis int32
table UnpackOptions
  num int32; axis int32
table LeakyReluOptions
  alpha float32
table MirrorPadOptions
  mode MirrorPadMode
table ReverseSequenceOptions
  seq_dim int32; batch_dim int32
table IfOptions
  then_subgraph_index int32; else_subgraph_index int32
table WhileOptions
  cond_subgraph_index int32; body_subgraph_index int32
table BatchMatMulOptions
  adj_x bool; adj_y bool; asymmetric_quantize_inputs bool
table CumsumOptions
  exclusive bool; reverse bool
table GeluOptions
  approximate bool

union BuiltinOptions
  Conv2DOptions=1 DepthwiseConv2DOptions=2 Pool2DOptions=5 FullyConnectedOptions=8 SoftmaxOptions=9
  ConcatenationOptions=10 AddOptions=11 L2NormOptions=12 LocalResponseNormalizationOptions=13
  ResizeBilinearOptions=15 CallOptions=16 ReshapeOptions=17 SpaceToDepthOptions=19 MulOptions=21
  GatherOptions=23 ReducerOptions=27 SubOptions=28 DivOptions=29 SqueezeOptions=30 StridedSliceOptions=32
  SplitOptions=35 CastOptions=37 ArgMaxOptions=40 TransposeConvOptions=49 ShapeOptions=55 ArgMinOptions=57
  FakeQuantOptions=58 PackOptions=59 OneHotOptions=61 UnpackOptions=64 UnidirectionalSequenceLSTMOptions=71
  ResizeNearestNeighborOptions=74 LeakyReluOptions=75 MirrorPadOptions=77 SplitVOptions=79
  ReverseSequenceOptions=87 IfOptions=92 WhileOptions=93 DepthToSpaceOptions=94 BatchMatMulOptions=101
  CumsumOptions=102 Conv3DOptions=106 GeluOptions=116
enum Padding
  SAME=0 VALID=1
enum ActivationFunctionType
  NONE=0 RELU=1 RELU_N1_TO_1=2 RELU6=3 TANH=4 SIGN_BIT=5
enum MirrorPadMode
  REFLECT=0 SYMMETRIC=1
enum WeightsFormat
  DEFAULT=0 SHUFFLED4x16INT8=1
enum TensorType
  FLOAT32=0 FLOAT16=1 INT32=2 UINT8=3 INT64=4 STRING=5 BOOL=6 INT16=7 COMPLEX64=8 INT8=9 FLOAT64=10
  COMPLEX128=11 UINT64=12 RESOURCE=13 VARIANT=14 UINT32=15 UINT16=16 INT4=17 BFLOAT16=18 INT2=19 UINT4=20
"""
)
"""The tables."""

_NAMES = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
    FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION
    LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN
    SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
    UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
    UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
    DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
    GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL
    NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR
    ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE
    CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE
    MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND
    SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE
    BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT
    HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS
    RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1
    UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN
    BITCAST BITWISE_XOR RIGHT_SHIFT
"""

OPERATORS = dict(enumerate(_NAMES.split()))
"""Names of the built-in operators by number; those behind them are StableHLO's, which no converter writes
unless it is asked for them."""

OLD_CODES = 127
"""From this number on an operator stands in ``builtin_code`` alone."""


CUSTOM = "CUSTOM"
"""The operator whose name is in ``custom_code``."""

OPERANDS = "_operands"
"""The attribute of a node with its ``Operands``."""

TENSOR = "_tensor"
"""The attribute of an input, or of what the file stores, with its ``LiteTensor``."""


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """Inputs and outputs of an operator, as stored in the file.

    Attributes:
        inputs: The tensors that it reads; None for an optional one that is left out.
        outputs: The tensors that it makes.
    """

    inputs: tuple[LiteTensor | None, ...]
    outputs: tuple[LiteTensor, ...]


def open_net(source: Source) -> Opened:
    """Open a net.

    Raises:
        ReadError: The file cannot be read or is damaged.
    """
    place = str(source.net)
    content = read_bytes(source.net)
    model = SCHEMA.decode("Model", content, place=place)
    if model["version"] != 3:
        raise ReadError(f"has version {model['version']} of the format, expected 3", place=place)
    if not model["subgraphs"]:
        raise ReadError("contains no subgraph", place=place)
    types = [_type_of(code) for code in model["operator_codes"]]
    functions = [
        _Subgraph(record, types, model["buffers"], content, file=place, number=number)
        for number, record in enumerate(model["subgraphs"])
    ]
    main = functions[0]
    signature = next((item for item in model["signature_defs"] if not item["subgraph_index"]), None)
    program = Program(main.body(), {item.name: item.body() for item in functions[1:]}, place)
    inputs = {main.ref(index)[0]: name for name, index in _signed(main, signature, "inputs")}
    outputs = _named_apart([(name, main.ref(index)) for name, index in _signed(main, signature, "outputs")])
    return Opened(program, inputs=inputs, outputs=outputs, files=(place,))


def _signed(main: _Subgraph, signature: Record | None, kind: str) -> list[tuple[str, int]]:
    """Return the names of inputs or outputs, a signature's if there is one, with their tensors."""
    tensors = main.inputs if kind == "inputs" else main.outputs
    if signature is None:
        return [(main.label(index), index) for index in tensors]
    named = [(item["name"], int(item["tensor_index"])) for item in signature[kind]]
    if {index for _, index in named} != set(tensors):
        return [(main.label(index), index) for index in tensors]
    return sorted(named, key=lambda item: tensors.index(item[1]))


def _named_apart(outputs: Sequence[tuple[str, Ref]]) -> dict[str, str]:
    """Return outputs by name as ``node:number``; a name that several have is numbered."""
    named: dict[str, str] = {}
    for name, (node, number) in outputs:
        free, count = name, 1
        while free in named:
            free, count = f"{name}_{count}", count + 1
        named[free] = f"{node}:{number}"
    return named


def _type_of(code: Record) -> str:
    """Return the name of an operator; the number of a newer one did not fit in its first field."""
    old = code["deprecated_builtin_code"]
    number = code["builtin_code"] if old == OLD_CODES else max(old, code["builtin_code"])
    name = OPERATORS.get(number, f"operator {number}")
    return str(code["custom_code"] or CUSTOM) if name == CUSTOM else name


class _Subgraph:
    """The tensors and operators of a subgraph, as nodes.

    Args:
        record: Its table.
        types: Names of the operators that the file has.
        buffers: What the file stores.
        content: The file.
        file: Its name.
        number: Which subgraph it is; the first one is the net.
    """

    def __init__(
        self,
        record: Record,
        types: Sequence[str],
        buffers: Sequence[Record],
        content: bytes,
        *,
        file: str,
        number: int,
    ) -> None:
        self.name = f"subgraph {number}"
        self.file = file
        self.place = file if not number else f"{file}: {self.name}"
        self.is_main = not number
        self.types = types
        self.tensors = [tensor_of(item, buffers, content, place=self.place) for item in record["tensors"]]
        self.inputs = [self._index(index, "input") for index in record["inputs"]]
        self.outputs = [self._index(index, "output") for index in record["outputs"]]
        self.nodes: dict[str, Node] = {}
        self.refs: dict[int, Ref] = {}
        for index in dict.fromkeys(self.inputs):
            self._add_input(index)
        rows = [(item, *self._operands(item, at)) for at, item in enumerate(record["operators"])]
        # all are named before one is made: an operator may stand behind those that read it
        names = [self._name_outputs(item, made, at) for at, (item, _, made) in enumerate(rows)]
        for name, (item, read, made) in zip(names, rows, strict=True):
            self._add_operator(name, item, read, made)

    def body(self) -> Body:
        """Return its nodes."""
        arguments = tuple(self.refs[index][0] for index in self.inputs)
        results = tuple(self.ref(index) for index in self.outputs)
        return Body("" if self.is_main else self.name, self.nodes, () if self.is_main else arguments, results)

    def label(self, index: int) -> str:
        """Return the name of a tensor for people."""
        return self.tensors[index].name or self.ref(index)[0]

    def ref(self, index: int) -> Ref:
        """Return the node that makes a tensor, and which of its outputs it is; a stored one gets its node."""
        if index not in self.refs:
            tensor = self.tensors[index]
            sizes = [size for size in tensor.shape if size is not None]
            array = tensor.array
            if array is None and 0 in sizes and len(sizes) == len(tensor.shape):
                array = np.zeros(sizes, np.float32)
            if array is None:
                raise ReadError(
                    f"tensor {tensor.name!r:.200} is read, but neither stored nor made by an operator",
                    place=self.place,
                )
            name = self._free(tensor.name or f"constant {index}")
            self.nodes[name] = Node(name, "Const", (), {"value": array, TENSOR: tensor})
            self.refs[index] = (name, 0)
        return self.refs[index]

    def _index(self, index: int, noun: str) -> int:
        if not 0 <= index < len(self.tensors):
            raise ReadError(f"has tensor {index} of {len(self.tensors)} as an {noun}", place=self.place)
        return int(index)

    def _free(self, name: str) -> str:
        """Return a free name of a node; a colon is kept for the number of an output (``Opened``)."""
        name = name.replace(":", "_")
        free, count = name, 1
        while free in self.nodes:
            free, count = f"{name}_{count}", count + 1
        return free

    def _add_input(self, index: int) -> None:
        tensor = self.tensors[index]
        name = self._free(tensor.name or f"input {index}")
        attributes = {"dtype": tensor.real_type, "shape": list(tensor.shape), TENSOR: tensor}
        self.nodes[name] = Node(name, "Placeholder", (), attributes)
        self.refs[index] = (name, 0)

    def _operands(self, record: Record, at: int) -> tuple[list[int], list[int]]:
        if record["opcode_index"] >= len(self.types):
            raise ReadError(
                f"operator {at} has type {record['opcode_index']} of {len(self.types)}", place=self.place
            )
        noun = f"operand of operator {at} ({self.types[record['opcode_index']]})"
        inputs = [-1 if index == -1 else self._index(index, noun) for index in record["inputs"]]
        return inputs, [self._index(index, noun) for index in record["outputs"]]

    def _name_outputs(self, record: Record, outputs: Sequence[int], at: int) -> str:
        """Return the name of an operator's node, which its first output gives it, and note what it makes."""
        kind = self.types[record["opcode_index"]]
        label = self.tensors[outputs[0]].name if outputs else ""
        name = self._free(label or f"{kind} {at}")
        self.nodes[name] = Node(name, kind)
        for number, index in enumerate(outputs):
            if index in self.refs:
                raise ReadError(f"tensor {self.tensors[index].name!r:.200} is made twice", place=self.place)
            self.refs[index] = (name, number)
        return name

    def _add_operator(self, name: str, record: Record, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        tensors = Operands(
            tuple(None if index < 0 else self.tensors[index] for index in inputs),
            tuple(self.tensors[index] for index in outputs),
        )
        attributes = {**_settings(record["builtin_options"] or {}), OPERANDS: tensors}
        refs = tuple(self.ref(index) for index in inputs if index >= 0)
        self.nodes[name] = Node(name, self.types[record["opcode_index"]], refs, attributes)


def _settings(options: Record) -> dict[str, Any]:
    """Return an operator's options as Python values; a subgraph that it calls as a function."""
    settings: dict[str, Any] = {}
    for key, value in options.items():
        if key.endswith("subgraph_index") or key == "subgraph":
            settings[key] = Function(f"subgraph {value}")
        else:
            settings[key] = value.tolist() if isinstance(value, np.ndarray) else value
    return settings
