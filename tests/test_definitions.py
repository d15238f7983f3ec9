"""House rules: a rule that frameworks share is defined once, and a second definition is found."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.definitions import (
    DEFINITIONS,
    found_in,
    names_of_functions,
    orders_of_gates,
    overlaps_of_boxes,
    windows_of_poolings,
)

SOURCE = Path(__file__).parent.parent / "src" / "netweave"

SPELLINGS = "dialect.py"
"""Modules of formats that say how operators are written, for messages; nothing is computed by them."""


@pytest.mark.slow
@pytest.mark.parametrize("detector", DEFINITIONS, ids=lambda detector: detector.__name__)
def test_a_rule_is_defined_once(detector):
    found = {
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != SPELLINGS and found_in(path.read_text(), detector)
    }
    assert found == {DEFINITIONS[detector]}


PLANTED = {
    overlaps_of_boxes: [
        """
        def shared(a, b):
            common = (a[2] - b[0]) * (a[3] - b[1])
            whole = area(a) + area(b) - common
            return common / whole
        """,
        """
        def f(a, b, inter):
            return np.divide(inter, a.prod() + b.prod() - inter)
        """,
        """
        def f(a, b, both):
            return op("Div", both, a + b - both)
        """,
        """
        TEXT = '''
        def f(a, b, c):
            return c / (a + b - c)
        '''
        """,
    ],
    windows_of_poolings: [
        """
        def f(node):
            return node.get("kernel_shape"), "ceil" if node.get("ceil_mode", 0) else "floor"
        """,
        """
        def f(attributes):
            size = attributes["kernel_shape"]
            return size, attributes.get("count_include_pad", 1)
        """,
    ],
    orders_of_gates: [
        'MINE = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}',
        'MINE = {"LSTM": ("i", "f", "g", "o")}',
        'MINE = {"GRU": "rzh"}',
    ],
    names_of_functions: [
        """
        T = {"Abs": "absval", "Exp": "exp", "Log": "log", "Relu": "relu", "Sigmoid": "logistic",
             "Sin": "sin", "Tanh": "tanh", "Softplus": "bnll"}
        """,
        """
        T = {"arccos": "Acos", "ceil": "Ceil", "cos": "Cos", "erf": "Erf", "exp": "Exp", "floor": "Floor",
             "log": "Log", "negative": "Neg"}
        """,
        """
        T = {"Abs": "torch.abs({0})", "Ceil": "torch.ceil({0})", "Cos": "torch.cos({0})",
             "Exp": "torch.exp({0})", "Relu": "F.relu({0})", "Sin": "torch.sin({0})",
             "Sqrt": "torch.sqrt({0})", "Tanh": "torch.tanh({0})"}
        """,
    ],
}
"""Second definitions, in other words than the first."""


@pytest.mark.parametrize(
    ("detector", "text"), [(detector, text) for detector, texts in PLANTED.items() for text in texts]
)
def test_a_second_definition_is_found(detector, text):
    assert found_in(textwrap.dedent(text), detector)


@pytest.mark.parametrize(
    ("detector", "text"),
    [
        (overlaps_of_boxes, "def f(a, b, c):\n    return (a + b - c) / c"),  # a number of windows, say
        (overlaps_of_boxes, "def f(a, b, c, d):\n    return d / (a + b - c)"),
        (
            windows_of_poolings,
            'def f():\n    return {"kernel_shape": [1], "ceil_mode": 1}',
        ),  # to write
        (windows_of_poolings, 'def f(node):\n    return node.get("kernel_shape")'),  # of a convolution
        (orders_of_gates, 'T = {"LSTM": 4, "GRU": 3}'),
        (orders_of_gates, 'T = {"LSTM": ("Sigmoid", "Tanh", "Tanh")}'),
        (names_of_functions, 'T = {"relu": "Relu", "tanh": "Tanh"}'),
    ],
)
def test_what_is_no_definition_is_not_found(detector, text):
    assert not found_in(text, detector)
