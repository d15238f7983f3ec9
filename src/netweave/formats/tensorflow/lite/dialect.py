"""TFLite's words for the settings of operators: the fields of ``schema.fbs``, channels last."""

from netweave.formats.dialect import Dialect, Padding, Resizing

DIALECT = Dialect(
    setting="{name}: {value}",
    names={
        "kernel_shape": "filter_height: {}, filter_width: {}",
        "strides": "stride_h: {}, stride_w: {}",
        "dilations": "dilation_h_factor: {}, dilation_w_factor: {}",
        "size": "radius",
    },
    sizes="{sizes}",
    booleans=("false", "true"),
    rounding=None,
    padding=Padding(
        zero="padding: VALID",
        same="padding: SAME",
        before_both_sides="padding: VALID after a PAD operator with the paddings [[0, 0], {pairs}, [0, 0]]",
    ),
    channels_last=True,
    filters="{:,} filters, the first axis of the kernel",
    units="{:,} rows of the weights",
    slopes=("one slope", "one slope for each channel"),
    resizing=Resizing(
        modes={"nearest": "RESIZE_NEAREST_NEIGHBOR", "linear": "RESIZE_BILINEAR"},
        rules={
            "align_corners": "align_corners: true",
            "half_pixel": "half_pixel_centers: true",
            "asymmetric": "align_corners: false, half_pixel_centers: false",
        },
        modes_with_rules=frozenset({"nearest", "linear"}),
    ),
    operators=(
        {"MaxPool": "builtin_code: MAX_POOL_2D", "AveragePool": "builtin_code: AVERAGE_POOL_2D"},
        {"ReduceMean": "builtin_code: MEAN", "ReduceMax": "builtin_code: REDUCE_MAX"},
        {
            "Add": "builtin_code: ADD", "Mul": "builtin_code: MUL", "Sub": "builtin_code: SUB",
            "Max": "builtin_code: MAXIMUM",
        },
        {
            "Relu": "builtin_code: RELU", "LeakyRelu": "builtin_code: LEAKY_RELU", "Elu": "builtin_code: ELU",
            "Sigmoid": "builtin_code: LOGISTIC", "Tanh": "builtin_code: TANH",
            "HardSwish": "builtin_code: HARD_SWISH", "Gelu": "builtin_code: GELU",
        },
    ),
    bounded_rectifiers={"6": "builtin_code: RELU6"},
    sums_in_lrn=True,
    radius=frozenset({"LRN.size"}),
)  # fmt: skip
