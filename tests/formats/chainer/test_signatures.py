"""The stand-in takes the arguments of Chainer 7.8.1, no others, and says where others are given."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING

import pytest

import netweave
from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions import FUNCTIONS
from netweave.formats.chainer.shim.links import LINKS
from tests.oracles.chainer_signatures import GOLDEN, signature_text

if TYPE_CHECKING:
    from pathlib import Path

CHAINER = json.loads(GOLDEN.read_text())

OPERATORS = {"astype", "div", "mul", "neg", "pow", "sub"}
"""What Chainer has as methods and signs of a variable, and not among its functions."""

CALLS = {
    "Classifier": "(self, x)",  # read as its predictor, which is given no label
    "GRU": "(self, x)",  # Chainer's (self, *args) is that of the stateful or the stateless one
}
"""Links whose call is another one here."""


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - OPERATORS))
def test_a_function_takes_what_chainers_takes(name):
    assert signature_text(FUNCTIONS[name]) == CHAINER["functions"][name]


@pytest.mark.parametrize("name", sorted(LINKS))
def test_a_link_takes_what_chainers_takes(name):
    assert signature_text(LINKS[name].__init__) == CHAINER["links"][name]
    wanted = CALLS.get(name, CHAINER["calls"][name])
    if name.startswith("NStep"):  # hands them on to a function that refuses each
        wanted = wanted.replace(", **kwargs", "")
    assert signature_text(LINKS[name].forward) == wanted


@pytest.mark.parametrize("kind", ["functions", "links"])
def test_none_takes_any_keyword(kind):
    """The golden file has such functions; none of them is recorded."""
    taken = FUNCTIONS if kind == "functions" else {n: c.__init__ for n, c in LINKS.items()}
    found = {name: list(inspect.signature(each).parameters.values()) for name, each in taken.items()}
    loose = {name for name, rows in found.items() if any(row.kind is row.VAR_KEYWORD for row in rows)}
    assert loose - {"pad"} == set()  # numpy.pad's keywords go by its mode; see the cases below


MODEL = """import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(3, 4, 3{conv})
            self.bn = L.BatchNormalization(4{bn})
            self.mlp = L.MLPConvolution2D(4, (4, 4), 1{mlp})
            self.fc = L.Linear(None, 5{fc})

    def forward(self, x):
        h = self.bn(self.conv(x){call})
        h = F.pad(self.mlp(h), ((0, 0), (0, 0), (1, 1), (1, 1)), "constant"{pad})
        h = F.average_pooling_2d(h, 2{pool})
        return self.fc(F.dropout(h{dropout}))
"""

WRONG = {
    "conv": (", strid=2", 10, "'strid'"),
    "bn": (", epsilon=1e-3", 11, "'epsilon'"),
    "mlp": (", wscale=2", 12, "'wscale'"),
    "fc": (", no_bias=True", 13, "'no_bias'"),
    "call": (", wscale=2", 16, "'wscale': not supported any more since Chainer 2, use chainer.using_config"),
    "pad": (", constant_value=3", 17, "unsupported keyword arguments for mode 'constant': 'constant_value'"),
    "pool": (", strides=3", 18, "average_pooling_2d() got an unexpected keyword argument 'strides'"),
    "dropout": (", 0.5, True", 19, "dropout() too many positional arguments"),
}
"""What is put into the model, the line, and what is said."""


def written(folder: Path, **wrong: str) -> Path:
    path = folder / "net.py"
    path.write_text(MODEL.format(**dict.fromkeys(WRONG, "") | wrong))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("place", WRONG)
@pytest.mark.parametrize("shapes", [{"x": (1, 3, 16, 16)}, {}], ids=["sized", "open"])
def test_other_arguments_are_refused_where_they_are_given(tmp_path, place, shapes):
    given, line, message = WRONG[place]
    path = written(tmp_path, **{place: given})
    with pytest.raises(CodeError) as caught:
        netweave.load(path, trust=True, input_shapes=shapes)
    assert caught.value.place == f"{path}:{line}"
    assert message in caught.value.message


@pytest.mark.slow
def test_the_model_itself_is_read(tmp_path):
    """So that each of the cases above fails for what it says."""
    net = netweave.load(written(tmp_path), trust=True, input_shapes={"x": (1, 3, 16, 16)})
    assert [node.op_type for node in net.nodes if node.op_type in {"Conv", "Gemm"}] == ["Conv"] * 3 + ["Gemm"]


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "mode"), [("TEST", "for inference"), ("TRAIN", "for training")])
def test_modes_that_code_of_chainer_1_gives_are_noted(tmp_path, phase, mode):
    path = written(tmp_path, call=", test=True, use_cudnn=False", dropout=", train=True")
    net = netweave.load(path, trust=True, input_shapes={"x": (1, 3, 16, 16)}, phase=phase)
    assert f"ignored: test= and train= of Chainer 1; read {mode}" in net.notes


PIXELS = """
import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__(score=L.Convolution2D(3, 5, 1), other=L.Convolution2D(3, 5, 1))

    def forward(self, x):
        return self.score(x)

    def __call__(self, x, t):
        self.loss = F.softmax_cross_entropy(self.forward(x), t)
        return self.loss
"""


@pytest.mark.slow
def test_a_loss_of_pixels_in_call_beside_a_forward(tmp_path):
    (tmp_path / "net.py").write_text(PIXELS)
    net = netweave.load(tmp_path / "net.py", trust=True)
    assert {value.name: tuple(value.shape)[1:] for value in net.inputs} == {
        "x": (3, 224, 224),
        "t": (224, 224),
    }
    assert list(net.layers) == ["score", "softmax_cross_entropy"]
