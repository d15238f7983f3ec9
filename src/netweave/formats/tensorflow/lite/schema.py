"""TFLite's tables, as far as a net needs them (tensorflow/compiler/mlir/lite/schema/schema.fbs, version 3).

``tests/oracles/tflite_schema.py`` holds the slots and defaults against TensorFlow's generated code.
"""

from __future__ import annotations

from netweave.files.flatbuffers import FlatSchema

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
