"""ONNX's words for the settings of operators: the attributes of its nodes."""

from netweave.formats.dialect import Dialect, Editor, Padding

DIALECT = Dialect(
    rounding={"floor": "ceil_mode=0", "ceil": "ceil_mode=1"},
    padding=Padding(each="pads={begin_end}"),
    is_op_type=True,
    editor=Editor(name="model"),
)
