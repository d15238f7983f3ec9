"""Layers of type ``Python``: a class in a module that is not there, and settings that are text in YAML.

The code is never run: a class that Netweave knows has a rule like any other layer, under the name of its
module and its own (``rpn.proposal_layer.ProposalLayer``).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netweave.files.protobuf import Message

_MOST_CHARACTERS = 10_000
"""Longest text of settings that is looked at."""

_TAG = re.compile(r"!!python/\w+")
_BARE_NAME = re.compile(r"(?m)(^\s*|[{,]\s*)([A-Za-z_]\w*)\s*:")


def type_of(spec: Message) -> str:
    """Return the name that a layer's rule is found under: its type, or the Python class behind it."""
    if spec["type"] != "Python":
        return str(spec["type"])
    parameter = spec["python_param"]
    return f"{parameter['module']}.{parameter['layer']}"


def parse_settings(text: str) -> dict[str, Any]:
    r"""Return the settings of a Python layer: numbers, texts and lists by name.

    What files of Faster R-CNN hold is YAML that is almost Python: names with or without quotes, one a line or
    all between braces, and tuples with a tag.

    Raises:
        ValueError: They are no mapping of names to such values.

    >>> parse_settings("'feat_stride': 16\n'scales': !!python/tuple [4, 8]")
    {'feat_stride': 16, 'scales': [4, 8]}
    """
    plain = _BARE_NAME.sub(r"\1'\2':", _TAG.sub("", text)).strip()
    if not plain.startswith("{"):
        plain = "{" + ",".join(line for line in plain.splitlines() if line.strip()) + "}"
    try:
        return {str(name): value for name, value in ast.literal_eval(plain[:_MOST_CHARACTERS]).items()}
    except (AttributeError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"is {text!r:.80}, expected names with values, such as 'feat_stride': 16") from error
