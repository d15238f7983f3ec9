"""Records of trainings: what is recorded, saved, and put back."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import netweave
from netweave.errors import ReadError, UsageError
from netweave.files.sandbox import has_guard


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 2)
    ).double()


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_a_module_is_as_before_afterwards():
    net, x = make_net().eval(), torch.randn(5, 4).double()
    optimizer = torch.optim.Adam(net.parameters())
    net[0].weight.grad = torch.ones_like(net[0].weight)
    before, random = state(net), torch.random.get_rng_state()
    netweave.record_training(net, x, optimizer=optimizer)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert not any(part.training for part in net.modules())
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight))
    assert not optimizer.state_dict()["state"]


def test_a_record_has_gradients_updates_and_statistics():
    net, x = make_net(), torch.randn(5, 4).double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    record = netweave.record_training(
        net, x, loss=lambda y: y.square().mean(), optimizer=optimizer, num_updates=2
    )
    assert len(record.gradients) == len(record.updated) == 2
    for name, gradient in record.gradients[0].items():
        np.testing.assert_allclose(record.weights[name] - 0.5 * gradient, record.updated[0][name])
    hidden = net[0](x).detach().numpy()
    np.testing.assert_allclose(record.updated_buffers["1.running_mean"], 0.1 * hidden.mean(0))
    assert [each.rate for each in record.dropouts] == [0.3]
    assert record.rules["0.weight"]["lr"] == 0.5


def test_a_saved_record_is_the_same(tmp_path):
    net, x = make_net(), torch.randn(5, 4).double()
    record = netweave.record_training(net, x, optimizer=torch.optim.Adam(net.parameters()))
    netweave.save_training(record, tmp_path / "a.npz")
    read = netweave.load_training(tmp_path / "a.npz")
    for name, x in record.to_arrays().items():
        np.testing.assert_array_equal(read.to_arrays()[name], x)
    compared = netweave.compare_training(tmp_path / "a.npz", record)
    assert compared.equal
    assert compared.sentence == "equal in training: gradients of 6 weights and 3 updates agree"
    json.dumps(compared.to_json())


def test_bad_input_is_one_clear_error(tmp_path):
    net, x = make_net(), torch.randn(5, 4).double()
    with pytest.raises(UsageError, match=r"takes a PyTorch nn\.Module, not int"):
        netweave.record_training(3, x)
    with pytest.raises(UsageError, match="do not fit forward of Sequential"):
        netweave.record_training(net, [x, x])
    record = netweave.record_training(net, x)
    with pytest.raises(UsageError, match=r"is saved as \.npz"):
        netweave.save_training(record, tmp_path / "a.pt")
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    with pytest.raises(ReadError, match="is no record of a training"):
        netweave.load_training(tmp_path / "other.npz")
    other = netweave.record_training(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)).double(), x)
    with pytest.raises(UsageError, match=r"do not start from the same weights: nothing has the values of"):
        netweave.compare_training(record, other)


def test_records_of_unlike_length_are_compared_as_far_as_both_go():
    net, x = make_net(), torch.randn(5, 4).double()
    records = [
        netweave.record_training(net, x, optimizer=torch.optim.Adam(net.parameters()), num_updates=number)
        for number in (3, 2)
    ]
    compared = netweave.compare_training(*records)
    assert (compared.equal, compared.num_updates) == (True, 2)


def test_a_net_without_any_gradient_differs_and_two_of_them_are_refused(tmp_path):
    net, x = make_net(), torch.randn(5, 4).double()
    right = netweave.record_training(net, x, optimizer=torch.optim.Adam(net.parameters()))
    net.requires_grad_(False)
    frozen = netweave.record_training(net, x, optimizer=torch.optim.Adam(net.parameters()))
    netweave.save_training(frozen, tmp_path / "frozen.npz")
    compared = netweave.compare_training(right, tmp_path / "frozen.npz")
    assert not compared.equal
    assert "require a gradient in B" in compared.sentence
    with pytest.raises(UsageError, match="no gradient reaches any weight"):
        netweave.compare_training(frozen, frozen)


NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.hidden = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        hidden = self.norm(self.hidden(self.table(ids).mean(1))).relu()
        return self.head(hidden)

def make_optimizer(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-3)
"""

PORT = NET.replace("self.head(hidden)", "self.head(hidden.detach() if self.training else hidden)").replace(
    "AdamW", "Adam"
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "port.py").write_text(PORT)
    names: dict = {}
    exec(NET, names)
    torch.save(names["Net"]().state_dict(), tmp_path / "net.pt")
    monkeypatch.chdir(tmp_path)
    return "net.py,net.pt", "port.py,net.pt"


@pytest.mark.skipif(not has_guard(), reason="needs bubblewrap")
def test_code_that_predicts_the_same_may_learn_otherwise(files):
    compared = netweave.compare_training(*files, optimizer="make_optimizer")
    assert compared.forward.equal
    cut, decay = compared.findings
    assert (
        cut.cause
        == "no gradient reaches table.weight, hidden.weight, norm.weight, norm.bias in B: detach cuts it"
    )
    assert cut.place_b.endswith("port.py:15")
    assert decay.cause == "the weight decay is 0.01 in A, 0 in B for head.weight, head.bias"
    assert compared.exit_status == 1
    same = netweave.compare_training(files[0], files[0], optimizer="make_optimizer")
    assert (same.exit_status, same.num_updates) == (0, 3)


@pytest.mark.skipif(not has_guard(), reason="needs bubblewrap")
def test_code_without_weights_or_function_is_refused(files):
    with pytest.raises(UsageError, match="PyTorch code with its weights"):
        netweave.compare_training("net.py", "port.py")
    with pytest.raises(netweave.errors.SourceError, match="has no function 'missing'"):
        netweave.compare_training(*files, optimizer="missing")
