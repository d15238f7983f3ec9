"""Nets of OpenVINO: its intermediate representation, a text of layers beside a file of arrays.

``document`` reads the layers of ``NET.xml``, ``constants`` the arrays of ``NET.bin``, ``reader`` lowers the
layers in order, each by its function in ``operators/``. To add an operator see
docs/how-to/add-an-openvino-operator.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.files import Source

__all__ = ["match"]

_NET = re.compile(rb"\s*(<\?xml[^>]*\?>)?\s*(<!--.*?-->\s*)*<net\s", re.DOTALL)


def match(source: Source) -> bool:
    """Return whether the file is a text whose first element is a net."""
    return _NET.match(source.head().removeprefix(b"\xef\xbb\xbf")) is not None
