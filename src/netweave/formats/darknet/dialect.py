"""Darknet's words for the settings of layers: the keys of a ``.cfg`` file."""

from netweave.formats.dialect import Dialect, Editor, Padding

_ACTIVATIONS = {
    "Relu": "activation=relu",
    "LeakyRelu": "activation=leaky",
    "Sigmoid": "activation=logistic",
    "Tanh": "activation=tanh",
    "Elu": "activation=elu",
    "Mish": "activation=mish",
}

DIALECT = Dialect(
    names={
        "kernel_shape": "size", "pads": "padding", "strides": "stride", "dilations": "dilation",
        "group": "groups",
    },
    sizes="({sizes})",
    is_one_size=True,
    booleans=("False", "True"),
    rounding=None,
    # a pooling's padding is divided, the smaller half before the image (maxpool_layer.c)
    padding=Padding(both="padding={begin}", divided="padding={}"),
    filters="filters={}",
    units="output={}",
    operators=(_ACTIVATIONS,),
    own_activations={"": "activation=linear", **_ACTIVATIONS},
    own_slope=0.1,
    functions={"Mish": "activation=mish", "Swish": "activation=swish"},
    has_modes=False,
    log="update",
    editor=Editor(name="cfg"),
)  # fmt: skip
