"""Settings of ``ImageDetRecordIter`` that MXNet and Netweave run (``tests/oracles/mxnet_detection.py``)."""

from __future__ import annotations

from typing import Any

CASES: list[dict[str, Any]] = [
    {"data_shape": (3, 10, 12)},
    {"data_shape": (3, 20, 16), "label_pad_width": 24, "label_pad_value": -2.5, "batch_size": 3},
    {"data_shape": (3, 12, 12), "resize": 16, "rand_mirror_prob": 1.0, "inter_method": 9},
    {"data_shape": (3, 24, 30), "mean_r": 123, "mean_g": 117, "std_b": 2.0, "std_r": 4.0, "scale": 0.5},
    {"data_shape": (1, 9, 14), "inter_method": 2, "label_pad_width": -1},
    {"data_shape": (3, 8, 8), "path_imglist": "objects.lst", "inter_method": 3},
]
"""Settings without chance."""

OBJECT = [2, 5, 1, 0.3, 0.4, 0.6, 0.8]
"""The label whose first object is followed through what is drawn."""

SAMPLER = {"min_crop_aspect_ratios": 0.5, "max_crop_aspect_ratios": 2.0, "min_crop_scales": 0.3}

DRAWN: dict[str, dict[str, Any]] = {
    "crop": {"rand_crop_prob": 1.0, "min_crop_overlaps": 0.3, **SAMPLER},
    "coverage": {
        "rand_crop_prob": 1.0,
        "min_crop_object_coverages": 0.5,
        "max_crop_sample_coverages": 0.6,
        "crop_emit_mode": "overlap",
        "emit_overlap_thresh": 0.4,
        **SAMPLER,
    },
    "pad": {"rand_pad_prob": 1.0, "max_pad_scale": 4.0},
    "samplers": {
        "rand_crop_prob": 5 / 6,
        "num_crop_sampler": 5,
        "min_crop_scales": (0.3,) * 5,
        "min_crop_overlaps": (0.1, 0.3, 0.5, 0.7, 0.9),
        "min_crop_aspect_ratios": 0.5,
        "max_crop_aspect_ratios": 2.0,
        "rand_pad_prob": 0.5,
        "max_pad_scale": 4.0,
        "rand_mirror_prob": 0.5,
    },
    "colors": {
        "random_hue_prob": 0.5,
        "max_random_hue": 18,
        "random_saturation_prob": 0.5,
        "max_random_saturation": 32,
        "random_illumination_prob": 0.5,
        "max_random_illumination": 32,
        "random_contrast_prob": 0.5,
        "max_random_contrast": 0.5,
    },
}
"""Settings of which many draws are kept: the mean colour (red first) of ``colors``, else the corners."""
