"""TensorFlow's messages, as far as a net needs them (tensorflow/core/framework and core/protobuf).

In bytes the nodes of a graph stay bytes until they are asked for one by one: a graph may have a hundred
thousand messages, and each node becomes a small object of ours at once.
"""

from __future__ import annotations

from netweave.files.protobuf import Schema

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
