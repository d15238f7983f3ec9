"""What old Chainer code does besides computing: helpers of its time, which need not be installed."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.files.model_imports import imported
from netweave.formats.chainer.shim import installed

HEAD = """
import chainer
import chainer.functions as F
import chainer.links as L
import six
from chainer import static_graph
from chainer.dataset import concat_examples
from six.moves import range as numbers
"""

UNROLLED = (
    HEAD
    + """
class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.fc = L.Linear(4, 4)

    @static_graph
    def __call__(self, x):
        for _ in six.moves.range(2):
            x = F.relu(self.fc(x))
        total = 0
        for row in F.stack([x, x * 2, x * 3]):
            total = total + row
        return total
"""
)

COPIED = (
    HEAD
    + """
class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.fc = L.Linear(3, 2)

    def __call__(self, x):
        xp = chainer.cuda.get_array_module(x)
        columns = [chainer.Variable(xp.asarray(x[:, i])) for i in range(2)]
        return self.fc(columns[0]) - self.fc(columns[1])
"""
)

LOSSES = (
    HEAD
    + """
class Net(chainer.Chain):
    def __call__(self, x):
        return F.softmax_cross_entropy(x, chainer.Variable(LABELS), reduce='no')
"""
)


def written(tmp_path, text):
    path = tmp_path / "net.py"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_columns_that_are_copied_into_new_variables_stay_the_input_s(tmp_path):
    net = netweave.load(written(tmp_path, COPIED), trust=True, input_shapes={"x": (2, 2, 3)})
    x = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    (found,) = netweave.run(net, {"x": x}).values()
    arrays = {key: values[0].const_value.numpy() for key, values in stored(net).items()}
    weight = arrays["fc/W"].reshape(2, 3)
    np.testing.assert_allclose(found, (x[:, 0] - x[:, 1]) @ weight.T, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_net_that_counts_with_six_and_iterates_a_stack_is_read(tmp_path):
    net = netweave.load(written(tmp_path, UNROLLED), trust=True, input_shapes={"x": (2, 4)})
    assert [node.op_type for node in net.nodes].count("Relu") == 2
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    (found,) = netweave.run(net, {"x": x}).values()
    arrays = {key: values[0].const_value.numpy() for key, values in stored(net).items()}
    wanted = x
    for _ in range(2):
        wanted = np.maximum(wanted @ arrays["fc/W"].reshape(4, 4).T + arrays["fc/b"], 0)
    np.testing.assert_allclose(found, wanted * 6, rtol=1e-5, atol=1e-5)


def stored(net):
    from netweave.graph.stored import stored_values

    return stored_values(net)


@pytest.mark.slow
def test_losses_of_single_labels_are_those_of_the_formula(tmp_path):
    labels = [2, 0, -1]
    text = LOSSES.replace("LABELS", "np.array([2, 0, -1], np.int32)").replace(
        "import six\n", "import six\nimport numpy as np\n"
    )
    net = netweave.load(written(tmp_path, text), trust=True, input_shapes={"x": (3, 4)})
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    (found,) = netweave.run(net, {"x": x}).values()
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    wanted = [-logs[row, label] if label >= 0 else 0.0 for row, label in enumerate(labels)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


JUDGED = (
    HEAD
    + """
class Net(chainer.Chain):
    def __call__(self, x, t):
        return F.softmax_cross_entropy(x, t), F.accuracy(x, t)
"""
)


@pytest.mark.slow
def test_loss_and_accuracy_follow_chainer_where_caffe_bounds_and_counts_ties_otherwise(tmp_path):
    """The numbers are those of Chainer 7.8.1: no bound at -log(FLT_MIN), the first of equal classes wins."""
    net = netweave.load(written(tmp_path, JUDGED), trust=True, input_shapes={"x": (4, 4)})
    x = np.array([[900, -900, 20, 3], [1, 1, 1, 1], [0, 5, 5, -2], [7, 1, 7, 7]], np.float32)
    loss, accuracy = netweave.run(net, {"x": x, "t": np.array([2, 0, 1, 3], np.int32)}).values()
    assert float(loss) == pytest.approx(220.79567, rel=1e-6)
    assert float(accuracy) == 0.5


def test_six_is_stood_in_for_where_it_is_not_installed(tmp_path):
    text = HEAD + "TOTAL = sum(six.moves.range(4)) + sum(numbers(3))\nNAMES = list(six.iteritems({'a': 1}))\n"
    with installed(is_training=False, missing=["six"]):
        code = imported(written(tmp_path, text))
    assert (code.TOTAL, code.NAMES) == (9, [("a", 1)])
    assert code.static_graph(len) is len
    assert code.static_graph(minimize_cache_size=False)(len) is len
