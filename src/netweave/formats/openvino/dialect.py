"""OpenVINO's words for the settings of layers: the attributes of the ``data`` elements of an IR file."""

from netweave.formats.dialect import Dialect, Padding

DIALECT = Dialect(
    setting='{name}="{value}"',
    names={
        "kernel_shape": "kernel", "epsilon": "eps", "count_include_pad": "exclude-pad",
        "LRN.size": "size", "LRN.bias": "bias", "LeakyRelu.alpha": "negative_slope",
    },
    sizes="{sizes}",
    separator=",",
    booleans=("false", "true"),
    inverted=frozenset({"count_include_pad"}),
    rounding={
        "floor": 'rounding_type="floor"',
        "ceil": 'rounding_type="ceil_torch"',
        "full": 'rounding_type="ceil"',
    },
    padding=Padding(each='pads_begin="{begin}" pads_end="{end}"'),
    filters="{:,} filters, the first axis of the kernel",
    units="{:,} rows of the weights",
    slopes=("one slope", "one slope for each channel"),
    operators=(
        {"MaxPool": 'type="MaxPool"', "AveragePool": 'type="AvgPool"'},
        {"ReduceMean": 'type="ReduceMean"', "ReduceMax": 'type="ReduceMax"', "ReduceSum": 'type="ReduceSum"'},
        {
            "Add": 'type="Add"', "Mul": 'type="Multiply"', "Sub": 'type="Subtract"', "Max": 'type="Maximum"',
            "Min": 'type="Minimum"',
        },
        {
            "Relu": 'type="ReLU"', "Elu": 'type="Elu"', "Selu": 'type="Selu"', "Sigmoid": 'type="Sigmoid"',
            "Tanh": 'type="Tanh"', "Softplus": 'type="SoftPlus"', "Softsign": 'type="SoftSign"',
            "Mish": 'type="Mish"', "HardSwish": 'type="HSwish"', "Gelu": 'type="Gelu"',
            "Swish": 'type="Swish"',
        },
    ),
)  # fmt: skip
