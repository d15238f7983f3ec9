"""How settings are written for people."""

from __future__ import annotations

import pytest

from netweave.graph.summary import amount_text, settings_texts


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"pool": "MAX", "kernel_size": 3}, "pool=MAX kernel_size=3"),
        ({"pooling_param": {"pool": "AVE", "pad": [1, 2]}, "param": [{"lr_mult": 1}]}, "pool=AVE pad=1,2"),
        ({"kernel": "(3, 3)", "no_bias": "True", "workspace": "1024"}, "kernel=(3,3) no_bias=True"),
        ({"shape": [{"dim": [1, 3]}, {"dim": [2]}], "axis": []}, "dim=1,3 dim=2 axis="),
        ({"bias_term": False, "eps": 1e-5, "include": [{"phase": "TEST"}]}, "bias_term=false eps=1e-05"),
    ],
)
def test_settings(settings, text):
    assert " ".join(f"{name}={value}" for name, value in settings_texts(settings)) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (999, "999"), (1000, "1.00 k"), (999_499, "999 k"), (999_500, "1.00 M"), (10**15, "1000 T")],
)
def test_amounts_keep_three_digits(amount, text):
    assert amount_text(amount) == text
