"""One layer of a live module on the tensors of a dump."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import UsageError

torch = pytest.importorskip("torch")


class Layer(torch.nn.Module):
    """A gate, whose activation is a fault of the port."""

    def __init__(self, act):
        super().__init__()
        self.up, self.down, self.act = torch.nn.Linear(8, 12), torch.nn.Linear(12, 8), act

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


class Net(torch.nn.Module):
    """Three layers of which some have another activation."""

    def __init__(self, wrong=()):
        super().__init__()
        torch.manual_seed(0)
        silu, relu = torch.nn.functional.silu, torch.nn.functional.relu
        self.embed = torch.nn.Embedding(20, 8)
        self.layers = torch.nn.ModuleList(Layer(relu if i in wrong else silu) for i in range(3))
        self.spare = torch.nn.Linear(2, 2)

    def forward(self, ids, scale=None):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


IDS = torch.tensor([[3, 1, 4, 1, 5]])


def dump_of(net):
    with torch.no_grad(), netweave.capture(net) as dump:
        net(IDS)
    return dump


def test_a_layer_behind_a_wrong_one_is_right_on_tensors_of_the_original():
    port = Net(wrong={0})
    wrong = netweave.inject(port, dump_of(Net()), at="layers.0")
    right = netweave.inject(port, dump_of(Net()), at="layers.1")
    assert not wrong.agrees
    assert wrong.error > 1e-3
    assert wrong.given == {"x": "embed"}
    assert str(wrong).startswith("layers.0 is wrong itself: on x = 'embed' it differs from 'layers.0' by 0.")
    assert right.agrees
    assert right.given == {"x": "layers.0"}
    assert right.output == "layers.1"
    assert str(right).startswith("layers.1 is right: on x = 'layers.0' it differs from 'layers.1' by ")


def test_names_of_the_dump_say_nothing_and_layouts_may_differ(tmp_path):
    tensors = dump_of(Net()).tensors
    renamed = {f"t{i}": np.ascontiguousarray(np.moveaxis(x, 1, -1)) for i, x in enumerate(tensors.values())}
    np.savez(tmp_path / "dump.npz", **{"input.ids": tensors["input.ids"]}, **renamed)
    assert netweave.inject(Net(wrong={0}), tmp_path / "dump.npz", at="layers.2").agrees
    assert not netweave.inject(Net(wrong={2}), tmp_path / "dump.npz", at="layers.2").agrees


def test_a_given_tensor_replaces_the_input():
    tested = netweave.inject(Net(wrong={0, 1}), dump_of(Net()), at="layers.2.up", given={"input": "layers.1"})
    assert tested.agrees
    assert tested.given == {"input": "layers.1"}


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"at": "layer.1"}, r"there is no layer 'layer\.1' in the module: did you mean layers\.1"),
        ({"at": "spare"}, "the layer 'spare' is not called when the module runs"),
        (
            {"at": "layers.1", "given": {"x": "nothing"}},
            "the dump has no tensor 'nothing', which given names",
        ),
    ],
)
def test_what_cannot_be_tested_is_said(settings, match):
    with pytest.raises(UsageError, match=match):
        netweave.inject(Net(), dump_of(Net()), **settings)


def test_a_dump_without_inputs_is_refused():
    tensors = dump_of(Net()).tensors
    del tensors["input.ids"]
    with pytest.raises(UsageError, match=r"has no tensor 'input\.ids', which the module needs to run"):
        netweave.inject(Net(), tensors, at="layers.1")


class PreNorm(torch.nn.Module):
    """A block whose norm reads a sum that no layer returns."""

    def __init__(self, eps=1e-5):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8, eps=eps)

    def forward(self, x):
        return self.norm(x + 3 * self.up(x))


def test_a_layer_whose_input_the_dump_lacks_is_not_given_what_resembles_it():
    net, x = PreNorm(), torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    with netweave.capture(net) as dump:
        net(x)
    right = netweave.inject(net, dump, at="norm")
    assert right.agrees
    assert str(right) == "norm is right: on its own inputs it differs from 'norm' by nothing"
    assert not netweave.inject(PreNorm(eps=0.5), dump, at="norm").agrees
