"""The Inception-style net of symbols: what it is made of, and its story from end to end."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from examples.inception import demo
from netweave import symbol as sym
from tests.examples import story


def test_parameters_are_those_counted_by_hand():
    """Weights of each convolution, two numbers per channel for its normalisation, and the classes."""

    def convolved(inputs, width, kernel):
        return inputs * width * kernel**2 + 2 * width

    def inception(inputs, width):
        ways = [
            (inputs, width, 1),
            (inputs, width // 2, 1),
            (width // 2, width, 3),
            (inputs, width // 4, 1),
            (width // 4, width // 2, 5),
            (inputs, width // 2, 1),
        ]
        return sum(convolved(*way) for way in ways)

    with sym.NameManager():
        net = demo.net()
    arguments, outputs, _ = net.infer_shape(data=(4, 1, demo.SIZE, demo.SIZE))
    count = convolved(1, 16, 3) + inception(16, 16) + inception(48, 32) + 96 * 10 + 10
    sizes = dict(zip(net.list_arguments(), arguments, strict=True))
    total = 0
    for name, shape in sizes.items():
        if name not in {"data", "softmax_label"}:
            elements = 1
            for size in shape:
                elements *= size
            total += elements
    assert total == count
    assert outputs == [(4, 10)]
    assert net.get_internals()["mixed2_concat_output"].infer_shape(data=(4, 1, 16, 16))[1] == [(4, 96, 4, 4)]


def test_the_split_has_as_many_of_each_class():
    learn, judge, _, labels = demo.digits()
    assert (learn.shape, judge.shape) == ((1437, 1, 16, 16), (360, 1, 16, 16))
    assert all(34 <= (labels == label).sum() <= 38 for label in range(10))


@pytest.mark.slow
def test_the_story(tmp_path):
    folder = story.copied(tmp_path)
    done = story.told(folder, "inception")
    assert done.returncode == 0, done.stdout + done.stderr
    story.assert_in_order(done.stdout, ["values", "Epoch[0]", "Epoch[5]", "accuracy = 0.9", "identical"])
    assert float(re.search(r"accuracy = ([\d.]+)", done.stdout)[1]) >= 0.97
    made = folder / "examples" / "inception"
    assert sym.load(made / "inception-symbol.json").list_arguments()[-1] == "softmax_label"
    assert "mixed1_concat" in (made / "inception.svg").read_text()
