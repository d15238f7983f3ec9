"""SINGA's messages: ``job.proto`` and ``common.proto`` of 0.3 (Apache-2.0), and what 0.1 and 0.2 had.

Texts name their fields and values, so that one schema reads the files of all three; the numbers are those of
0.3, whose checkpoints are the same in all. ``location`` stands in documents only; no version has read it.
The fields of ``ClusterProto`` from 200 on are Netweave's own. The notation is that of
``netweave.files.protobuf``.
"""

from __future__ import annotations

from functools import cache

from netweave.files.protobuf import Schema

JOB = """
message JobProto
  1 name string!; 3 neuralnet NetProto; 5 train_one_batch AlgProto; 7 updater UpdaterProto;
  9 cluster ClusterProto; 16 train_steps int32; 17 disp_freq int32 =0; 18 gpu int32[]; 20 test_freq int32 =0;
  21 test_steps int32 =0; 25 validate_freq int32 =0; 26 validate_steps int32 =0; 30 checkpoint_freq int32 =0;
  60 checkpoint_path string[]; 61 warmup_steps int32 =0; 62 debug bool =false;
  63 reset_param_version bool =true; 64 num_openblas_threads int32 =1; 80 checkpoint_after int32 =0;
  81 disp_after int32 =0; 82 test_after int32 =0; 83 validate_after int32 =0; 90 resume bool =false;
  91 step int32 =0; 92 id int32 =-1
message AlgProto
  1 alg AlgType =kUserAlg; 2 user_alg string; 10 cd_conf CDProto
message CDProto
  1 cd_k int32 =1
enum AlgType
  kBP=1 kCD=2 kBPTT=3 kUserAlg=104
message NetProto
  1 layer LayerProto[]; 20 partition_dim int32 =0; 21 layer_group LayerGroupProto[]; 22 unroll_len int32 =1
message LayerGroupProto
  1 layer string[]
message UpdaterProto
  1 type UpdaterType =kUserUpdater; 2 user_type string; 3 rmsprop_conf RMSPropProto;
  4 adadelta_conf AdaDeltaProto; 5 adam_conf AdamProto; 6 adammax_conf AdamProto; 11 learning_rate LRGenProto;
  31 momentum float =0; 32 weight_decay float =0; 35 delta float =0.00000001; 36 clip_low float =0;
  37 clip_high float =0
message RMSPropProto
  1 rho float!
message AdaDeltaProto
  1 rho float! =0.9
message AdamProto
  1 beta1 float! =0.9; 2 beta2 float! =0.999
enum UpdaterType
  kSGD=1 kAdaGrad=2 kRMSProp=3 kNesterov=4 kAdaDelta=5 kAdam=6 kAdamMax=7 kUserUpdater=105
message LRGenProto
  1 type ChangeMethod =kUserChange; 2 user_type string; 3 base_lr float =0.01;
  40 fixedstep_conf FixedStepProto; 41 step_conf StepProto; 42 linear_conf LinearProto;
  43 exponential_conf ExponentialProto; 44 inverse_conf InverseProto; 45 inverset_conf InverseTProto
enum ChangeMethod
  kFixed=0 kInverseT=1 kInverse=2 kExponential=3 kLinear=4 kStep=5 kFixedStep=6 kUserChange=100
message FixedStepProto
  28 step int32[]; 29 step_lr float[]
message StepProto
  35 gamma float! =1; 40 change_freq int32!
message LinearProto
  39 final_lr float!; 40 change_freq int32!
message ExponentialProto
  40 change_freq int32!
message InverseTProto
  39 final_lr float!
message InverseProto
  1 gamma float! =1; 2 pow float! =0
message ClusterProto
  1 nworker_groups int32 =1; 2 nserver_groups int32 =1; 3 nworkers_per_group int32 =1;
  4 nservers_per_group int32 =1; 5 nworkers_per_procs int32 =1; 6 nservers_per_procs int32 =1;
  10 workspace string; 20 server_worker_separate bool =false; 21 sync_freq int32 =1;
  60 start_port int32 =6723; 62 share_memory bool =true; 81 poll_time int32 =100;
  200 staleness int32; 201 placement string; 202 outer string; 203 outer_rate float;
  204 outer_momentum float; 205 layer LayerCutProto[]
message LayerCutProto
  1 name string!; 60 partition_dim int32; 61 location int32; 200 image_grid string
"""

NET = """
message LayerProto
  1 name string!; 3 srclayers string[]; 12 param ParamProto[]; 14 include Phase[]; 15 exclude Phase[];
  20 type LayerType =kUserLayer; 21 user_type string; 22 share_src_blobs bool =false; 23 unroll_len int32 =1;
  24 unroll_index int32 =0; 25 unroll_conn_type UnrollConnType[]; 26 shift int32[];
  60 partition_dim int32 =-1; 61 location int32; 90 partition_id int32 =0; 91 num_partitions int32 =1;
  100 store_conf StoreProto; 102 prefetch_conf PrefetchProto; 190 lmdbdata_conf DataProto;
  192 mnist_conf MnistProto; 193 rgbimage_conf RGBImageProto; 194 sharddata_conf DataProto;
  195 char_rnn_conf CharRNNProto; 196 onehot_conf OnehotProto; 200 activation_conf ActivationProto;
  201 convolution_conf ConvolutionProto; 203 dropout_conf DropoutProto; 204 dummy_conf DummyProto;
  205 innerproduct_conf InnerProductProto; 206 lrn_conf LRNProto; 207 pooling_conf PoolingProto;
  209 rbm_conf RBMProto; 211 relu_conf ReLUProto; 214 softmax_conf SoftmaxProto; 215 gru_conf GRUProto;
  216 embedding_conf EmbeddingProto; 217 bm_conf BMProto; 300 euclideanloss_conf EuclideanLossProto;
  301 softmaxloss_conf SoftmaxLossProto; 401 argsort_conf ArgSortProto; 502 concate_conf ConcateProto;
  503 slice_conf SliceProto; 504 split_conf SplitProto; 505 rnn_dummy_conf RNNDummyProto
enum LayerType
  kCSVInput=100 kImagePreprocess=101 kPrefetch=102 kRecordInput=103 kLMDBData=190 kLabel=191 kMnist=192
  kRGBImage=193 kShardData=194 kCharRNN=195 kRNNLabel=196 kOneHot=197 kConvolution=201 kCConvolution=202
  kDropout=203 kDummy=204 kInnerProduct=205 kLRN=206 kPooling=207 kCPooling=208 kRBMHid=209 kRBMVis=210
  kReLU=211 kSTanh=212 kSigmoid=213 kSoftmax=214 kGRU=215 kEmbedding=216 kActivation=217 kBM=218
  kCudnnConv=250 kCudnnPool=251 kCudnnLRN=252 kCudnnSoftmax=253 kCudnnActivation=254 kCudnnBM=255
  kEuclideanLoss=300 kSoftmaxLoss=301 kCudnnSoftmaxLoss=350 kAccuracy=400 kArgSort=401 kCSVOutput=402
  kRecordOutput=403 kCharRNNOutput=404 kBridgeDst=500 kBridgeSrc=501 kConcate=502 kSlice=503 kSplit=504
  kRNNDummy=505 kUserLayer=600
enum Phase
  kUnknown=0 kTrain=1 kVal=2 kTest=4 kPositive=8 kNegative=16 kForward=32 kBackward=64 kLoss=128 kDeploy=256
  kAggGrad=512
enum UnrollConnType
  kUnrollOneToOne=1 kUnrollOneToAll=2 kUnrollFirstToLast=3 kUnrollCustomized=4
message ParamProto
  1 name string =""; 3 type ParamType =kParam; 4 user_type string; 5 init ParamGenProto;
  15 lr_scale float =1; 16 wd_scale float =1; 60 share_from string; 90 id int32; 91 owner int32 =-1;
  92 partition_dim int32; 93 shape int32[]
enum ParamType
  kParam=0 kUser=103
message ParamGenProto
  1 type InitMethod =kUserInit; 2 user_type string; 3 value float =1; 4 mean float =0; 5 std float =1;
  8 low float =-1; 9 high float =1
enum InitMethod
  kConstant=0 kGaussian=1 kUniform=2 kGaussianSqrtFanIn=4 kUniformSqrtFanIn=5 kUniformSqrtFanInOut=6
  kUserInit=101
message StoreProto
  1 backend string; 2 path string; 3 separator string =","; 4 mean_file string; 5 std_file string;
  6 mean_value float; 7 std_value float; 8 batchsize int32[]; 9 shape int32[]; 10 encoded bool =false;
  11 random_skip int32 =0; 12 has_label bool =true; 13 prefetching bool =false
message PrefetchProto
  1 sublayers LayerProto[]
message DataProto
  2 path string!; 4 batchsize int32!; 30 random_skip int32 =0
message MnistProto
  1 norm_a float! =1; 2 norm_b float! =0; 30 kernel int32 =0; 31 sigma float =0; 32 alpha float =0;
  33 beta float =0; 34 gamma float =0; 35 resize int32 =0; 36 elastic_freq int32 =0
message RGBImageProto
  1 scale float =1.0; 2 cropsize int32 =0; 3 mirror bool =false; 4 meanfile string =""
message CharRNNProto
  1 path string; 2 vocab_path string; 3 unroll_len int32 =50; 4 batchsize int32 =1
message OnehotProto
  1 vocab_size int32 =0
message ActivationProto
  1 type ActivationType =RELU
enum ActivationType
  RELU=1 SIGMOID=2 TANH=3 STANH=4
message ConvolutionProto
  1 num_filters int32; 2 kernel int32 =3; 30 pad int32 =0; 31 stride int32 =1; 32 bias_term bool =true;
  41 kernel_x int32 =3; 42 kernel_y int32 =3; 44 pad_x int32 =0; 45 pad_y int32 =0; 47 stride_x int32 =1;
  48 stride_y int32 =1; 50 workspace_byte_limit int32 =512
message DropoutProto
  30 dropout_ratio float =0.5
message DummyProto
  1 input bool =false; 2 output bool =false; 3 shape int32[]
message InnerProductProto
  1 num_output int32!; 30 bias_term bool =true; 31 transpose bool =false
message LRNProto
  1 local_size int32! =5; 31 alpha float =1.0; 32 beta float =0.75; 34 knorm float =1.0
message PoolingProto
  1 kernel int32 =3; 30 pool PoolMethod =MAX; 31 pad uint32 =0; 32 stride uint32 =2; 41 kernel_x int32 =3;
  42 kernel_y int32 =3; 44 pad_x int32 =0; 45 pad_y int32 =0; 47 stride_x int32 =2; 48 stride_y int32 =2
enum PoolingProto.PoolMethod
  MAX=0 AVG=1
message RBMProto
  1 hdim int32!; 2 bias_term bool =true; 3 gaussian bool =false
message ReLUProto
  1 negative_slope float =0
message SoftmaxProto
  1 num_softmax_per_instance int32 =1
message GRUProto
  1 dim_hidden int32!; 2 bias_term bool =true
message EmbeddingProto
  1 vocab_size int32 =0; 2 feature_dim int32 =100
message BMProto
message EuclideanLossProto
message SoftmaxLossProto
  1 topk int32 =1; 30 scale float =1
message ArgSortProto
  1 topk int32 =1
message ConcateProto
  1 concate_dim int32 =0; 2 num_concates int32 =1
message SliceProto
  1 slice_dim int32 =0; 2 num_slices int32 =1
message SplitProto
  1 num_splits int32 =1
message RNNDummyProto
  1 dynamic_srclayer string; 2 shape int32[]; 3 integer bool =false; 4 low float =0; 5 high float =0
"""

RECORDS = """
message BlobProto
  1 shape int32[]; 2 data float[packed]
message BlobProtos
  2 id int32[]; 3 version int32[]; 4 name string[]; 5 blob BlobProto[]
message RecordProto
  1 shape int32[]; 2 label int32; 3 pixel bytes; 4 data float[packed]
message Record
  1 type int32; 2 user_type string; 5 image RecordProto
"""


SYNONYMS = {
    "net": "neuralnet",
    "layers": "layer",
    "srclayer": "srclayers",
    "kVisLayer": "kRBMVis",
    "kHidLayer": "kRBMHid",
    "kConst": "kConstant",
    "kTanh": "kSTanh",
    "kBackPropagation": "kBP",
    "kContrastiveDivergence": "kCD",
    "AVE": "AVG",
    "kGaussainSqrtFanIn": "kGaussianSqrtFanIn",
    "checkpoint": "checkpoint_path",
    "checkpoint_frequency": "checkpoint_freq",
}
"""Words of SINGA's documents, its papers and files of before 0.1 that the messages spell otherwise."""


@cache
def singa_schema() -> Schema:
    """Return the messages of SINGA 0.1 to 0.3."""
    return Schema(JOB, NET, RECORDS, synonyms=SYNONYMS)
