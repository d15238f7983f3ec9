"""What a detector does with its heads: functions that the written file defines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.text import literal
from netweave.formats.pytorch.functions import FUNCTIONS
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN, find_operator

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Module, Step

_NAMES = {function.op_type: name for name, function in FUNCTIONS.items()}
_FLAGS = frozenset({"clip", "force_suppress", "iou_loss"})


@writes(*_NAMES, domain=DOMAIN)
def function(node: PyTorchNode) -> Step:
    """A call of the function, with the settings that are not its defaults."""
    numbers: list[int] = []
    parts: list[str] = []
    modules: list[Module] = []
    for index in range(node.num_inputs):
        text, read, module = node.operand(index, len(numbers))
        numbers += read
        parts.append(text)
        modules += [module] if module else []
    if len(modules) > 1:
        raise NotWritable("two of its inputs are stored")
    defaults = find_operator(node.op_type).defaults
    for name, value in node.attributes.items():
        given = tuple(value) if isinstance(value, list | tuple) else value
        if name not in defaults or given != defaults[name]:
            parts.append(f"{name}={literal(bool(given)) if name in _FLAGS else _shown(given)}")
    count = len(node.outputs)
    is_first = count == 1 and node.op_type in {"Proposal", "RegionProposal"}
    return node.step(
        f"{_NAMES[node.op_type]}({', '.join(parts)}){'[0]' if is_first else ''}",
        inputs=numbers,
        module=modules[0] if modules else None,
        num_outputs=count,
    )


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if not isinstance(value, tuple):
        return literal(value)
    return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
