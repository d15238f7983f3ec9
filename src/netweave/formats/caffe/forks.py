"""Fields that other branches of Caffe add to BVLC's messages, so that their files are known by name.

``ssd`` is the branch of W. Liu's fork; ``intel`` the branch of BVLC's repository, which holds the SSD
messages as well; ``ceil_mode`` is of many branches for nets from PyTorch, ``scale_train`` of the one for
Faster R-CNN. ``BN`` and ``Upsample`` are two layers each: of SegNet and ENet, and of PSPNet and of YOLO's
ports. Some number some fields as BVLC numbers others: text knows every name, and the bytes of such a number
are read as BVLC's (see ``netweave.files.protobuf``). Numbers from 7000 on are ours: there each branch has its
own, and bytes that hold them are no net of ours to read.
"""

from __future__ import annotations

SSD = """
message LayerParameter
  200 annotated_data_param AnnotatedDataParameter; 201 multibox_loss_param MultiBoxLossParameter;
  202 permute_param PermuteParameter; 203 prior_box_param PriorBoxParameter;
  204 detection_output_param DetectionOutputParameter;
  205 detection_evaluate_param DetectionEvaluateParameter; 206 norm_param NormalizeParameter;
  207 video_data_param VideoDataParameter
message SolverParameter
  41 eval_type string ="classification"; 42 ap_version string ="Integral"; 43 plateau_winsize int32[];
  44 show_per_class_result bool =false
message SolverState
  5 minimum_loss float =1E38; 6 iter_last_event int32
message TransformationParameter
  8 resize_param ResizeParameter[]; 9 noise_param NoiseParameter; 10 emit_constraint EmitConstraint;
  11 crop_h uint32 =0; 12 crop_w uint32 =0; 13 distort_param DistortionParameter;
  14 expand_param ExpansionParameter
message LabelMapItem
  1 name string; 2 label int32; 3 display_name string
message LabelMap
  1 item LabelMapItem[]
message Sampler
  1 min_scale float =1.; 2 max_scale float =1.; 3 min_aspect_ratio float =1.; 4 max_aspect_ratio float =1.
message SampleConstraint
  1 min_jaccard_overlap float; 2 max_jaccard_overlap float; 3 min_sample_coverage float;
  4 max_sample_coverage float; 5 min_object_coverage float; 6 max_object_coverage float
message BatchSampler
  1 use_original_image bool =true; 2 sampler Sampler; 3 sample_constraint SampleConstraint;
  4 max_sample uint32; 5 max_trials uint32 =100
message EmitConstraint
  1 emit_type EmitType =CENTER; 2 emit_overlap float
enum EmitConstraint.EmitType
  CENTER=0 MIN_OVERLAP=1
message NormalizedBBox
  1 xmin float; 2 ymin float; 3 xmax float; 4 ymax float; 5 label int32; 6 difficult bool; 7 score float;
  8 size float
message Annotation
  1 instance_id int32 =0; 2 bbox NormalizedBBox
message AnnotationGroup
  1 group_label int32; 2 annotation Annotation[]
message AnnotatedDatum
  1 datum Datum; 2 type AnnotationType; 3 annotation_group AnnotationGroup[]
enum AnnotatedDatum.AnnotationType
  BBOX=0
message ResizeParameter
  1 prob float =1; 2 resize_mode Resize_mode =WARP; 3 height uint32 =0; 4 width uint32 =0;
  5 pad_mode Pad_mode =CONSTANT; 6 pad_value float[]; 7 interp_mode Interp_mode[];
  8 height_scale uint32 =0; 9 width_scale uint32 =0
enum ResizeParameter.Resize_mode
  WARP=1 FIT_SMALL_SIZE=2 FIT_LARGE_SIZE_AND_PAD=3
enum ResizeParameter.Pad_mode
  CONSTANT=1 MIRRORED=2 REPEAT_NEAREST=3
enum ResizeParameter.Interp_mode
  LINEAR=1 AREA=2 NEAREST=3 CUBIC=4 LANCZOS4=5
message SaltPepperParameter
  1 fraction float =0; 2 value float[]
message NoiseParameter
  1 prob float =0; 2 hist_eq bool =false; 3 inverse bool =false; 4 decolorize bool =false;
  5 gauss_blur bool =false; 6 jpeg float =-1; 7 posterize bool =false; 8 erode bool =false;
  9 saltpepper bool =false; 10 saltpepper_param SaltPepperParameter; 11 clahe bool =false;
  12 convert_to_hsv bool =false; 13 convert_to_lab bool =false
message DistortionParameter
  1 brightness_prob float =0.0; 2 brightness_delta float =0.0; 3 contrast_prob float =0.0;
  4 contrast_lower float =0.0; 5 contrast_upper float =0.0; 6 hue_prob float =0.0; 7 hue_delta float =0.0;
  8 saturation_prob float =0.0; 9 saturation_lower float =0.0; 10 saturation_upper float =0.0;
  11 random_order_prob float =0.0
message ExpansionParameter
  1 prob float =1; 2 max_expand_ratio float =1.
message AnnotatedDataParameter
  1 batch_sampler BatchSampler[]; 2 label_map_file string; 3 anno_type AnnotatedDatum.AnnotationType
message DetectionEvaluateParameter
  1 num_classes uint32; 2 background_label_id uint32 =0; 3 overlap_threshold float =0.5;
  4 evaluate_difficult_gt bool =true; 5 name_size_file string; 6 resize_param ResizeParameter
message NonMaximumSuppressionParameter
  1 nms_threshold float =0.3; 2 top_k int32; 3 eta float =1.0
message SaveOutputParameter
  1 output_directory string; 2 output_name_prefix string; 3 output_format string; 4 label_map_file string;
  5 name_size_file string; 6 num_test_image uint32; 7 resize_param ResizeParameter
message DetectionOutputParameter
  1 num_classes uint32; 2 share_location bool =true; 3 background_label_id int32 =0;
  4 nms_param NonMaximumSuppressionParameter; 5 save_output_param SaveOutputParameter;
  6 code_type PriorBoxParameter.CodeType =CORNER; 7 keep_top_k int32 =-1;
  8 variance_encoded_in_target bool =false; 9 confidence_threshold float; 10 visualize bool =false;
  11 visualize_threshold float; 12 save_file string
message MultiBoxLossParameter
  1 loc_loss_type LocLossType =SMOOTH_L1; 2 conf_loss_type ConfLossType =SOFTMAX; 3 loc_weight float =1.0;
  4 num_classes uint32; 5 share_location bool =true; 6 match_type MatchType =PER_PREDICTION;
  7 overlap_threshold float =0.5; 8 use_prior_for_matching bool =true; 9 background_label_id uint32 =0;
  10 use_difficult_gt bool =true; 11 do_neg_mining bool; 12 neg_pos_ratio float =3.0;
  13 neg_overlap float =0.5; 14 code_type PriorBoxParameter.CodeType =CORNER;
  16 encode_variance_in_target bool =false; 17 map_object_to_agnostic bool =false;
  18 ignore_cross_boundary_bbox bool =false; 19 bp_inside bool =false;
  20 mining_type MiningType =MAX_NEGATIVE; 21 nms_param NonMaximumSuppressionParameter;
  22 sample_size int32 =64; 23 use_prior_for_nms bool =false
enum MultiBoxLossParameter.LocLossType
  L2=0 SMOOTH_L1=1
enum MultiBoxLossParameter.ConfLossType
  SOFTMAX=0 LOGISTIC=1
enum MultiBoxLossParameter.MatchType
  BIPARTITE=0 PER_PREDICTION=1
enum MultiBoxLossParameter.MiningType
  NONE=0 MAX_NEGATIVE=1 HARD_EXAMPLE=2
message NormalizeParameter
  1 across_spatial bool =true; 2 scale_filler FillerParameter; 3 channel_shared bool =true;
  4 eps float =1e-10
message PermuteParameter
  1 order uint32[]
message PriorBoxParameter
  1 min_size float[]; 2 max_size float[]; 3 aspect_ratio float[]; 4 flip bool =true; 5 clip bool =false;
  6 variance float[]; 7 img_size uint32; 8 img_h uint32; 9 img_w uint32; 10 step float; 11 step_h float;
  12 step_w float; 13 offset float =0.5; 7011 is_dense bool =false
enum PriorBoxParameter.CodeType
  CORNER=1 CENTER_SIZE=2 CORNER_SIZE=3
message VideoDataParameter
  1 video_type VideoType =WEBCAM; 2 device_id int32 =0; 3 video_file string; 4 skip_frames uint32 =0
enum VideoDataParameter.VideoType
  WEBCAM=0 VIDEO=1
"""

INTEL = """
message LayerParameter
  148 smooth_l1_loss_param SmoothL1LossParameter; 149 engine string;
  153 psroi_pooling_param PSROIPoolingParameter; 154 roi_pooling_param ROIPoolingParameter;
  159 reorg_param ReorgParameter; 150 multinode MultinodeLayerParameter;
  151 mn_activation_param MnActivationParameter; 156 mn_grad_compress_param MnParamGradCompressParameter;
  158 quantization_param QuantizationParameter
message MultinodeLayerParameter
  1 num_nodes uint32; 2 model_parts uint32 =1
message MnActivationParameter
  1 num_nodes_in uint32; 2 num_nodes_out uint32; 3 model_parts_in uint32 =1; 4 model_parts_out uint32 =1;
  5 need_reduce bool =true
message MnParamGradCompressParameter
  1 param_grad_compress_enable bool[]
message QuantizationParameter
  1 precision Precision =DYNAMIC_FIXED_POINT; 2 rounding_scheme Rounding =NEAREST;
  3 bw_layer_in uint32 =32; 4 bw_layer_out uint32 =32; 5 bw_params uint32 =32; 6 fl_layer_in int32[];
  7 fl_layer_out int32[]; 8 fl_params int32[]; 20 scale_in float[]; 21 scale_out float[];
  22 scale_params float[]; 23 is_negative_input bool =false; 24 force_u8_input bool =false
enum QuantizationParameter.Precision
  DYNAMIC_FIXED_POINT=0
enum QuantizationParameter.Rounding
  NEAREST=0
message ConcatParameter
  7010 per_fla_fuse bool =false
message SmoothL1LossParameter
  1 sigma float =1
message PSROIPoolingParameter
  1 spatial_scale float; 2 output_dim int32; 3 group_size int32
message ROIPoolingParameter
  1 pooled_h uint32 =0; 2 pooled_w uint32 =0; 3 spatial_scale float =1; 4 pooled_size uint32 =0
message ReorgParameter
  1 stride uint32; 2 reverse bool =false
message NetParameter
  9 engine string; 11 bn_stats_batch_size uint32 =0
message PoolingParameter
  13 avg_include_pad bool =true
message ConvolutionParameter
  19 relu bool =false; 20 negative_slope float =0; 21 conv_algorithm string; 23 coeff float[];
  24 fusion_type FusionType =NONE_FUSION
enum ConvolutionParameter.FusionType
  NONE_FUSION=0 SUM_FUSION=1
message InnerProductParameter
  7 engine Engine =DEFAULT; 8 relu bool =false; 9 negative_slope float =0
message BatchNormParameter
  4 engine Engine =DEFAULT; 5 use_weight_bias bool =true; 6 bias_term bool =true; 7 filler FillerParameter;
  8 bias_filler FillerParameter; 9 stats_batch_size uint32 =0; 10 relu bool =false
message SolverParameter
  46 disabled_update string; 47 engine string; 48 warmup_iter int32 =0; 49 warmup_start_lr float;
  50 local_lr_auto bool =false; 51 local_gw_ratio float; 150 stagelr float[]; 151 stageiter int32[]
enum Engine
  MKL2017=3 MKLDNN=4
"""

SEGMENTATION = """
message LayerParameter
  7000 bn_param BNParameter; 7001 upsample_param UpsampleParameter; 7002 interp_param InterpParameter
message BNParameter
  1 scale_filler FillerParameter; 2 shift_filler FillerParameter; 3 bn_mode BNMode =LEARN;
  7000 slope_filler FillerParameter; 7001 bias_filler FillerParameter; 7002 momentum float =0.9;
  7003 eps float =1e-5; 7004 frozen bool =false; 7005 engine Engine =DEFAULT
enum BNParameter.BNMode
  LEARN=0 INFERENCE=1
message UpsampleParameter
  1 scale uint32 =2; 2 scale_h uint32; 3 scale_w uint32; 4 pad_out_h bool =false; 5 pad_out_w bool =false;
  6 upsample_h uint32; 7 upsample_w uint32
message InterpParameter
  1 height int32 =0; 2 width int32 =0; 3 zoom_factor int32 =1; 4 shrink_factor int32 =1; 5 pad_beg int32 =0;
  6 pad_end int32 =0; 7020 use_blob_size bool =false
"""

REARRANGING = """
message LayerParameter
  7010 shuffle_channel_param ShuffleChannelParameter; 7011 flip_param FlipParameter;
  7012 transpose_param TransposeParameter; 7013 reverse_param ReverseParameter; 7014 relu6_param ReLUParameter
message ShuffleChannelParameter
  1 group uint32 =1
message FlipParameter
  1 flip_width bool =true; 2 flip_height bool =false
message TransposeParameter
  1 dim int32[]
message ReverseParameter
  1 axis int32 =0
"""

C3D = """
message LayerParameter
  6661 convolution3d_param Convolution3DParameter; 6662 pooling3d_param Pooling3DParameter
enum V1LayerParameter.LayerType
  CONVOLUTION3D=7030 POOLING3D=7031 DECONVOLUTION3D=7032 VIDEO_DATA=7033
message ConvolutionParameter
  7030 kernel_depth uint32; 7031 temporal_stride uint32 =1; 7032 temporal_pad uint32 =0;
  7033 filter_group uint32 =1
message PoolingParameter
  7030 kernel_depth uint32; 7031 temporal_stride uint32 =1
message Convolution3DParameter
  1 num_output uint32; 2 bias_term bool =true; 3 pad uint32 =0; 4 kernel_size uint32; 5 group uint32 =1;
  6 kernel_depth uint32; 7 stride uint32 =1; 8 temporal_stride uint32 =1; 9 weight_filler FillerParameter;
  10 bias_filler FillerParameter; 11 filter_group uint32 =1; 12 temporal_pad uint32 =0
message Pooling3DParameter
  1 pool PoolMethod =MAX; 2 kernel_size uint32; 3 stride uint32 =1; 4 pad uint32 =0; 5 kernel_depth uint32;
  6 temporal_stride uint32 =1
enum Pooling3DParameter.PoolMethod
  MAX=0 AVE=1 STOCHASTIC=2
message ImageDataParameter
  7030 new_length uint32; 7031 show_data int32 =0; 7032 use_image bool =false; 7033 sampling_rate int32 =1;
  7034 use_label bool =true; 7035 use_temporal_jitter bool =false; 7036 mean_value float =0
"""

FACES = """
message LayerParameter
  7040 center_loss_param CenterLossParameter; 7041 margin_inner_product_param MarginInnerProductParameter;
  7042 normalize_param ChannelNormParameter; 7043 label_specific_add_param LabelSpecificAddParameter;
  7044 label_specific_margin_param LabelSpecificMarginParameter
message InnerProductParameter
  7040 normalize bool =false
message AccuracyParameter
  7040 min_is_better bool =false
message CenterLossParameter
  1 num_output uint32; 2 center_filler FillerParameter; 3 axis int32 =1; 29 distance_type string ="L2"
message MarginInnerProductParameter
  1 num_output uint32; 2 type MarginInnerProductParameter.MarginType =SINGLE;
  3 weight_filler FillerParameter; 4 axis int32 =1; 5 base float =1; 6 gamma float =0; 7 power float =1;
  8 iteration int32 =0; 9 lambda_min float =0
enum MarginInnerProductParameter.MarginType
  SINGLE=0 DOUBLE=1 TRIPLE=2 QUADRUPLE=3
message ChannelNormParameter
  1 normalize_type string ="L2"; 2 fix_gradient bool =false; 3 bp_norm bool =false
message LabelSpecificAddParameter
  1 bias float =0; 2 transform_test bool =false; 3 bias_base float =0; 4 bias_gamma float =0;
  5 bias_power float =1; 6 bias_min float =0; 7 bias_max float =0; 8 iteration uint32 =0
message LabelSpecificMarginParameter
  1 margin_base float =0; 2 margin_max float =10; 3 power float =1; 4 gamma float =1; 5 iteration int32 =0;
  6 reset_margin bool =false; 7 margin_on_test bool =false; 8 auto_tune bool =false;
  9 type LabelSpecificMarginParameter.MarginType =HARD
enum LabelSpecificMarginParameter.MarginType
  HARD=0 SOFT=1
"""

OTHERS = """
message LayerParameter
  7020 dense_image_data_param DenseImageDataParameter
message DenseImageDataParameter
  7020 source string; 7021 batch_size uint32 =1; 7022 rand_skip uint32 =0; 7023 shuffle bool =false;
  7024 new_height uint32 =0; 7025 new_width uint32 =0; 7026 is_color bool =true; 7027 root_folder string
message PoolingParameter
  13 ceil_mode bool =true
message DropoutParameter
  2 scale_train bool =true; 7020 sample_weights_test bool =false
message ROIPoolingParameter
  7020 pad_ratio float =0
message LossParameter
  7020 pre_fixed_normalizer float =1; 7021 weight_by_label_freqs bool =false; 7022 class_weighting float[]
enum LossParameter.NormalizationMode
  PRE_FIXED=4
message FillerParameter
  7020 alpha float =1
message ImageDataParameter
  7020 label_type ImageDataParameter.LabelType =IMAGE; 7021 min_height uint32 =0;
  7022 min_width uint32 =0
enum ImageDataParameter.LabelType
  NONE=0 IMAGE=1 PIXEL=2
message WindowDataParameter
  7020 shuffle bool =false
message VideoDataParameter
  7020 source string; 7021 batch_size uint32; 7022 rand_skip uint32 =0; 7023 shuffle bool =false;
  7024 new_height uint32 =0; 7025 new_width uint32 =0; 7026 new_length uint32 =1; 7027 num_segments uint32 =1;
  7028 scale float =1; 7029 mean_file string; 7030 crop_size uint32 =0; 7031 mirror bool =false;
  7032 modality VideoDataParameter.Modality =FLOW; 7033 name_pattern string; 7034 encoded bool =false;
  7035 grayscale bool =false;
  7036 is_color bool =true; 7037 root_folder string; 7038 show_data bool =false; 7039 use_image bool =false;
  7040 use_temporal_jitter bool =false; 7041 sampling_rate uint32 =1; 7042 max_sampling_rate uint32 =1;
  7043 use_sampling_rate_jitter bool =false; 7044 use_multiple_label bool =false; 7045 num_of_labels uint32 =1
enum VideoDataParameter.Modality
  RGB=0 FLOW=1
message AnnotatedDataParameter
  7020 yolo_data_type int32 =0; 7021 yolo_data_jitter float =0.3; 7022 train_diffcult bool =true;
  7023 single_class bool =true; 7024 seg_scales int32 =8; 7025 seg_resize_width int32 =0;
  7026 seg_resize_height int32 =0; 7027 difficult_label_warmup bool =false
"""

FORKS = SSD + INTEL + SEGMENTATION + REARRANGING + C3D + FACES + OTHERS
