"""TensorFlow's words for the settings of operations: the attributes of a graph's nodes, channels last."""

from netweave.formats.dialect import Dialect, Padding, Resizing

DIALECT = Dialect(
    names={"kernel_shape": "ksize", "axis": "axis", "size": "depth_radius"},
    window_sizes="[1, {sizes}, 1]",
    booleans=("False", "True"),
    rounding=None,
    padding=Padding(
        zero="padding='VALID'",
        same="padding='SAME'",
        before_both_sides="padding='VALID' after tf.pad(x, [[0, 0], {pairs}, [0, 0]])",
    ),
    channels_last=True,
    filters="{:,} filters, the last axis of the kernel",
    units="{:,} columns of the matrix",
    slopes=("one slope", "one slope for each channel"),
    resizing=Resizing(
        modes={
            "nearest": "ResizeNearestNeighbor", "linear": "ResizeBilinear", "cubic": "ResizeBicubic",
        },
        rules={
            "align_corners": "align_corners=True",
            "half_pixel": "half_pixel_centers=True",
            "asymmetric": "align_corners=False half_pixel_centers=False",
        },
        modes_with_rules=frozenset({"nearest", "linear", "cubic"}),
    ),
    operators=(
        {"MaxPool": "op: 'MaxPool'", "AveragePool": "op: 'AvgPool'"},
        {"ReduceMean": "op: 'Mean'", "ReduceMax": "op: 'Max'", "ReduceSum": "op: 'Sum'"},
        {"Add": "op: 'AddV2'", "Mul": "op: 'Mul'", "Sub": "op: 'Sub'", "Max": "op: 'Maximum'"},
        {
            "Relu": "op: 'Relu'", "LeakyRelu": "op: 'LeakyRelu'", "Elu": "op: 'Elu'", "Selu": "op: 'Selu'",
            "Sigmoid": "op: 'Sigmoid'", "Tanh": "op: 'Tanh'", "Softplus": "op: 'Softplus'",
            "Softsign": "op: 'Softsign'",
        },
    ),
    bounded_rectifiers={"6": "op: 'Relu6'"},
    sums_in_lrn=True,
    radius=frozenset({"LRN.size"}),
)  # fmt: skip
