"""The settings that Darknet knows, of all types of sections together.

They are those that ``parser.c`` of pjreddie's or AlexeyAB's branch asks for, and three more that nets of
these branches contain although nothing reads them (beta1, max_epochs, seen). Most matter to training alone.
For any other name Darknet prints "Unused field" and goes on, so that a mistyped setting makes another net.
"""

# fmt: off
SETTINGS = frozenset({
    "absolute", "activation", "adam", "adversarial_lr", "alpha", "anchors", "angle", "antialiasing",
    "aspect", "assisted_excitation", "atoms", "attention", "augment_speed", "B1", "B2", "background",
    "badlabels_rejection_percentage", "batch", "batch_normalize", "beta", "beta1", "beta_nms", "bias_match",
    "bin_output", "binary", "blur", "bottleneck", "burn_in", "burnin_update", "cbn", "center", "channels",
    "class_scale", "classes", "classfix", "clip", "cls_normalizer", "contrastive", "contrastive_color",
    "contrastive_jit_flip", "contrastive_neg_max", "coord_scale", "coordconv", "coords",
    "counters_per_class", "crop_height", "crop_width", "cutmix", "decay", "delta_normalizer",
    "dets_for_show", "dets_for_track", "dilation", "dont_update", "dontload", "dontloadscales", "dontsave",
    "dot", "dropblock", "dropblock_size_abs", "dropblock_size_rel", "dynamic_minibatch", "ema_alpha",
    "embedding_layer", "eps", "equidistant_point", "exposure", "extra", "filters", "flatten", "flip",
    "flipped", "focal_loss", "forced", "from", "gamma", "gaussian_noise", "grad_centr", "group_id",
    "groups", "height", "hidden", "hidden_filters", "history_size", "hue", "ids", "ignore_thresh", "inputs",
    "iou_loss", "iou_normalizer", "iou_thresh", "iou_thresh_kind", "jitter", "kappa", "label_smooth_eps",
    "layers", "learning_rate", "learning_rate_min", "letter_box", "log", "logistic", "loss_scale",
    "lstm_activation", "map", "mask", "mask_scale", "max", "max_batches", "max_chart_loss", "max_crop",
    "max_delta", "max_epochs", "max_ratio", "maxpool_depth", "maxpool_zero_nonmax", "mean", "min_crop",
    "min_ratio", "mixup", "momentum", "mosaic", "mosaic_bound", "new_coords", "nms_kind", "noadjust",
    "noloss", "noobj", "noobject_scale", "notruth", "num", "num_sigmas_reject_badlabels", "numload",
    "obj_normalizer", "object_scale", "objectness_smooth", "onlyforward", "optimized_memory",
    "out_channels", "output", "output_filters", "pad", "padding", "peephole", "policy", "power",
    "probability", "random", "ratio", "reorg", "rescore", "resize", "resize_step", "reverse", "rotate",
    "saturation", "scale", "scale_wh", "scale_x_y", "scales", "seen", "seq_scales",
    "sequential_subdivisions", "sgdr_cycle", "sgdr_mult", "share_index", "shift", "shortcut",
    "show_details", "show_receptive_field", "side", "sim_thresh", "size", "smooth", "softmax", "spatial",
    "sqrt", "state_constrain", "std", "step", "steps", "stopbackward", "stream", "stretch", "stretch_sway",
    "stride", "stride_x", "stride_y", "subdivisions", "sway", "tanh", "temperature", "thresh",
    "time_normalizer", "time_steps", "track", "track_ciou_norm", "track_history_size", "train_only_bn",
    "tree", "truth", "truth_thresh", "try_fix_nan", "type", "uc_normalizer", "unsupervised",
    "use_cuda_graph", "wait_stream", "weights_normalization", "weights_reject_freq", "weights_type",
    "width", "workspace_size_limit_MB", "xnor", "yolo_layer", "yolo_point",
})
# fmt: on
