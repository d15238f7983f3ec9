"""Keras' words for the settings of layers: the arguments of their constructors."""

from netweave.formats.dialect import Dialect, Editor, Padding, PoolCalls, Resizing

DIALECT = Dialect(
    names={
        "kernel_shape": "kernel_size", "MaxPool.kernel_shape": "pool_size",
        "AveragePool.kernel_shape": "pool_size", "dilations": "dilation_rate", "group": "groups",
        "LeakyRelu.alpha": "negative_slope",
    },
    sizes="({sizes})",
    is_one_size=True,
    booleans=("False", "True"),
    rounding=None,
    padding=Padding(
        zero="padding='valid'", same="padding='same'", before="padding='valid' after ZeroPadding2D({axes})"
    ),
    padding_layer="padding=(({rows}), ({columns}))",
    channels_last=True,
    filters="filters={}",
    units="units={}",
    bias=("use_bias=False", "use_bias=True"),
    slopes=("shared_axes=[1, 2, 3]", "shared_axes=[1, 2]"),
    resizing=Resizing(
        modes={
            "nearest": "interpolation='nearest'",
            "linear": "interpolation='bilinear'",
            "cubic": "interpolation='bicubic'",
        },
        lacks=frozenset({"align_corners"}),
        is_complete=True,
    ),
    activations={
        "Relu": "ReLU()", "LeakyRelu": "LeakyReLU()", "LeakyRelu.alpha": "LeakyReLU({alpha})",
        "Elu": "ELU()", "Elu.alpha": "ELU({alpha})", "Sigmoid": "Activation('sigmoid')",
        "Tanh": "Activation('tanh')",
    },
    bounded_rectifier="ReLU({bound})",
    arithmetic={"Add": "Add", "Mul": "Multiply", "Sub": "Subtract", "Max": "Maximum"},
    reductions={"ReduceMean": "GlobalAveragePooling{rank}D", "ReduceMax": "GlobalMaxPooling{rank}D"},
    functions={
        "Mish": "Activation('mish')",
        "Swish": "Activation('swish')",
        "GELU (tanh)": "keras.activations.gelu(approximate=True)",
    },
    # the class says which pooling it is, and its settings are those of the other one
    poolings=PoolCalls(
        max="MaxPooling{rank}D",
        average="AveragePooling{rank}D",
        global_max="GlobalMaxPooling{rank}D",
        global_average="GlobalAveragePooling{rank}D",
    ),
    editor=Editor(name="python", endings=(".py",)),
)  # fmt: skip
