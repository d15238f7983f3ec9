"""``netweave.exact`` in one process: it is the loop that it is written around, and says what cannot be."""

from __future__ import annotations

import collections
import copy
import random
from itertools import chain

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import netweave
from netweave import exact
from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.exact.checkpoint import packed, unpacked
from netweave.exact.overlap import ShardGradients
from netweave.training.checkpoint_file import read_checkpoint


def small(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def records(count=24):
    draw = torch.Generator().manual_seed(1)
    return TensorDataset(
        torch.randn(count, 4, generator=draw).double(), torch.randint(0, 3, (count,), generator=draw)
    )


def updates(exchange, model, loader, optimizer):
    """Train for one epoch of the loader."""
    for batch in exchange.batches(loader):
        for inputs, targets in batch:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            exchange.record(loss=loss)
        optimizer.step()


def test_updates_are_those_of_the_whole_batch():
    """In float64, where rounding is small; the plain loop takes the same records in the same order."""
    model, whole, data = small(), small(), records()
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.1) for one in (model, whole)]
    with exact.Exchange(model, shards=4) as exchange:
        sampler = exact.sampler(data, exchange, batch_size=8)
        for epoch in range(2):
            shards = list(sampler)
            assert len(shards) == len(sampler) == 12
            updates(exchange, model, DataLoader(data, batch_sampler=sampler), optimizers[0])
            for number in range(3):
                inputs, targets = data[[*chain(*shards[4 * number : 4 * number + 4])]]
                optimizers[1].zero_grad()
                loss = nn.functional.cross_entropy(whole(inputs), targets)
                loss.backward()
                optimizers[1].step()
            assert exchange.iteration == 3 * (epoch + 1)
            assert exchange.means["loss"] == pytest.approx(float(loss.detach()), abs=1e-12)
    for key, tensor in model.state_dict().items():
        assert torch.allclose(tensor, whole.state_dict()[key], rtol=0, atol=1e-12), key


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_has_each_record_once_and_goes_on_where_the_updates_are(shuffle):
    with exact.Exchange(small(), shards=2, seed=5) as exchange:
        sampler = exact.sampler(range(24), exchange, batch_size=8, shuffle=shuffle)
        epochs = []
        for exchange.iteration in (0, 3):
            epochs.append(list(sampler))
            assert sorted(chain(*epochs[-1])) == list(range(24))
        assert (epochs[0] != epochs[1]) is shuffle
        exchange.iteration = 4
        assert list(sampler) == epochs[1][2:]
        short = exact.sampler(range(26), exchange, batch_size=8, drop_last=True)
        assert len(short) == 6


def test_each_shard_begins_with_the_statistics_of_the_last_update():
    model = nn.BatchNorm1d(4, momentum=0.5)
    inputs = torch.randn(4, 6, 4)
    with exact.Exchange(model, shards=4) as exchange:
        for batch in exchange.batches(inputs):
            for shard in batch:
                model(shard).sum().backward()
    assert model.num_batches_tracked == 1
    expected = 0.5 * inputs.double().mean((0, 1))
    assert torch.allclose(model.running_mean.double(), expected, rtol=0, atol=1e-7)


def test_draws_depend_on_update_and_shard_and_others_go_on():
    def drawn(first):
        model, seen = nn.Linear(1, 1), []
        with exact.Exchange(model, shards=2, seed=3) as exchange:
            exchange.iteration = first
            torch.manual_seed(9)
            before = torch.rand(1)
            for batch in exchange.batches(range(4)):
                for _ in batch:
                    seen.append((float(torch.rand(1)), random.random(), float(np.random.rand())))  # noqa: NPY002
                    model(torch.ones(1)).backward()
            return seen, [float(before), float(torch.rand(1))]

    seen, outside = drawn(0)
    torch.manual_seed(9)
    assert outside == torch.rand(2).tolist()
    assert len({number for one in seen for number in one}) == 12
    assert drawn(0) == (seen, outside)
    assert drawn(1)[0][:2] == seen[2:]


def test_what_takes_no_part_has_no_gradient():
    """A layer that one shard of the two uses has a gradient, one that none uses has none."""
    model = nn.ModuleList([nn.Linear(2, 2) for _ in range(4)])
    model[3].requires_grad_(requires_grad=False)
    uses = [[(0, 1), (1,)], [(1,), (1, 3)]]
    with exact.Exchange(model, shards=2) as exchange:
        for number, batch in enumerate(exchange.batches(range(4))):
            for shard in batch:
                sum(model[layer](torch.ones(2)).sum() for layer in uses[number][shard % 2]).backward()
            assert [one.weight.grad is not None for one in model] == [not number, True, False, False]
            assert torch.equal(model[1].bias.grad, torch.ones(2))
            if not number:
                assert torch.equal(model[0].bias.grad, torch.full((2,), 0.5))


def test_gradients_may_lie_in_memory_in_another_way_than_their_parameters():
    model = nn.Linear(2, 3, bias=False)
    gradient = torch.arange(6.0).reshape(2, 3).T
    with exact.Exchange(model, shards=2) as exchange:
        for _ in range(2):
            exchange.begin_shard()
            model.weight.grad = gradient
            exchange.end_shard()
        assert torch.equal(model.weight.grad, gradient)


@pytest.fixture
def overlapping(monkeypatch):
    """Let a process alone send its gradients early too, as one of several does."""

    def made(*arguments, overlaps, **options):
        return ShardGradients(*arguments, overlaps=True, **options)

    monkeypatch.setattr("netweave.exact.exchange.ShardGradients", made)


def trained(backward, *, num_updates=4):
    """Train with 4 shards; return the parameters, and how many slices each update has sent early."""
    model, data = small().float(), torch.arange(16.0).reshape(4, 4) / 10
    optimizer, early = torch.optim.SGD(model.parameters(), lr=0.1), []
    with exact.Exchange(model, shards=4) as exchange:
        for update in range(num_updates):
            for batch in exchange.batches(range(4)):
                for shard in batch:
                    backward(update, model, model(data[shard : shard + 1] + update).square().mean())
            early.append(exchange._gradients.num_sent_early)
            optimizer.step()
    return [tensor.detach().numpy().tobytes() for tensor in model.parameters()], early


def once(update, model, loss):
    loss.backward()


def twice(update, model, loss):
    (loss / 2).backward(retain_graph=True)
    (loss / 2).backward()


def scaled(update, model, loss):
    (2 * loss).backward()
    for tensor in model.parameters():
        tensor.grad /= 2


def replaced(update, model, loss):
    (2 * loss).backward()
    for tensor in model.parameters():
        tensor.grad = tensor.grad / 2


def test_gradients_are_sent_while_backward_goes_on(overlapping):
    assert trained(once)[1] == [0, 1, 1, 1]


@pytest.mark.parametrize("backward", [twice, scaled, replaced])
def test_gradients_that_change_before_the_end_of_a_shard_are_sent_at_its_end(overlapping, backward):
    ends, early = trained(backward)
    assert early == [0, 0, 0, 0]
    assert ends == trained(once)[0]


@pytest.mark.parametrize("backward", [twice, scaled, replaced])
def test_a_gradient_that_changes_after_it_was_sent_is_refused(overlapping, backward):
    def changing(update, model, loss):
        (once if update < 2 else backward)(update, model, loss)

    message = r"the gradient of '\d\.\w+' changed after backward had left it, .*Exchange\(..., overlap=False"
    with pytest.raises(UnsupportedError, match=message):
        trained(changing)


def test_hooks_leave_with_the_exchange(overlapping):
    model = small()
    with exact.Exchange(model, shards=2):
        assert copy.deepcopy(model).state_dict().keys() == model.state_dict().keys()
    assert not any(tensor._post_accumulate_grad_hooks for tensor in model.parameters())


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, 2))

    def forward(self, rows):
        return nn.functional.embedding(rows, self.table, sparse=True)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, number):
        self.seen += number
        return self.layer(torch.ones(1))


@pytest.mark.parametrize(
    ("module", "error", "message"),
    [
        (nn.Sequential(nn.SyncBatchNorm(3)), UnsupportedError, r"'0' is a SyncBatchNorm, .* use BatchNorm"),
        (nn.DataParallel(nn.Linear(1, 1)), UnsupportedError, r"is a DataParallel, .* give the module in it"),
        (
            nn.Embedding(3, 2, sparse=True),
            UnsupportedError,
            r"'Embedding' has sparse gradients, .*sparse=False",
        ),
        (nn.ReLU(), UsageError, r"no parameter that needs a gradient"),
        ([torch.ones(1)], UsageError, r"takes a module or its parameters, not Tensor"),
        (nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1).double()]), UsageError, r"float32.*float64"),
    ],
)
def test_what_cannot_be_is_said_before_the_first_update(module, error, message):
    with pytest.raises(error, match=message):
        exact.Exchange(module, shards=2)


def test_what_cannot_be_in_an_update_is_said():
    model = Sparse()
    with exact.Exchange(model.parameters(), shards=2) as exchange:
        exchange.begin_shard()
        model(torch.tensor([1])).sum().backward()
        with pytest.raises(UnsupportedError, match=r"gradient of '0' is sparse"):
            exchange.end_shard()
    model = Counting()
    with exact.Exchange(model, shards=2) as exchange:
        batch = next(exchange.batches([1, 2]))
        model(next(batch)).backward()
        model(next(batch)).backward()
        with pytest.raises(UnsupportedError, match=r"'seen' holds torch.int64 and differs from shard to"):
            next(batch)


def test_wrong_calls_are_said():
    model = nn.Linear(1, 1)
    with exact.Exchange(model, shards=2) as exchange:
        with pytest.raises(UsageError, match=r"call begin_shard before its forward"):
            exchange.end_shard()
        with pytest.raises(UsageError, match=r"record is for the pass of a shard"):
            exchange.record(loss=1.0)
        batches = exchange.batches(range(4))
        next(next(batches))
        with pytest.raises(UsageError, match=r"a shard begins before the last one has ended"):
            exchange.begin_shard()
        with pytest.raises(UsageError, match=r"a batch was left before its last shard"):
            next(batches)
    with exact.Exchange(model, shards=2) as exchange:
        batch = next(exchange.batches(range(1)))
        with pytest.raises(UsageError, match=r"ended after 1 of the 2 shards"):
            list(batch)
    with exact.Exchange(model, shards=2) as exchange:
        exchange.begin_shard()
        exchange.record(loss=1.0)
        exchange.end_shard()
        exchange.begin_shard()
        with pytest.raises(UsageError, match=r"recorded 0 to 1 values; record the same ones in each"):
            exchange.end_shard()


def test_records_that_make_no_shards_are_refused():
    with exact.Exchange(nn.Linear(1, 1), shards=4) as exchange:
        for count, size, message in (
            (24, 6, r"a batch has 6 records, which are not 4 shards"),
            (26, 8, r"the last batch of an epoch has 2 records, .*drop_last=True"),
            (4, 0, r"the batch size is 0"),
        ):
            with pytest.raises(UsageError, match=message):
                exact.sampler(range(count), exchange, batch_size=size)
        with pytest.raises(UsageError, match=r"generator has no length"):
            exact.sampler((one for one in range(3)), exchange, batch_size=4)


def test_a_checkpoint_resumes_bit_for_bit(tmp_path):
    def trained(folder, steps):
        model, data = small(), records()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
        with exact.Exchange(model, shards=2) as exchange:
            checkpoint = exact.Checkpoint(
                folder / "run",
                exchange,
                every=1,
                keep=2,
                model=model,
                optimizer=optimizer,
                scheduler=scheduler,
            )
            loader = DataLoader(data, batch_sampler=exact.sampler(data, exchange, batch_size=8))
            while exchange.iteration < steps:
                for batch in exchange.batches(loader):
                    for inputs, targets in batch:
                        nn.functional.cross_entropy(model(inputs), targets).backward()
                    optimizer.step()
                    scheduler.step()
                    checkpoint.step()
                    if exchange.iteration == steps:
                        break
        return {key: tensor.clone() for key, tensor in model.state_dict().items()}, checkpoint.resumed_from

    whole, _ = trained(tmp_path / "whole", 7)
    _, begun = trained(tmp_path / "parts", 4)
    parts, resumed = trained(tmp_path / "parts", 7)
    assert begun is None
    assert resumed.name == "run_iter_4.checkpoint"
    assert all(torch.equal(parts[key], whole[key]) for key in whole)
    names = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert names == ["run_iter_6.checkpoint", "run_iter_7.checkpoint"]


def test_checkpoints_that_do_not_fit_are_refused(tmp_path):
    model = nn.Linear(2, 2)

    def resumed(shards=2, of=model, name="model", **options):
        with exact.Exchange(of, shards=shards) as exchange:
            checkpoint = exact.Checkpoint(tmp_path / "run", exchange, every=1, **{name: of}, **options)
            checkpoint.save()

    with pytest.raises(UsageError, match=r"there is no checkpoint"):
        resumed(resume=True)
    resumed()
    resumed(resume=True)
    with pytest.raises(UsageError, match=r"the number of shards was 2, and is 4"):
        resumed(shards=4)
    resumed(shards=4, other_bits=True)
    with pytest.raises(UsageError, match=r"is of model; this run has net"):
        resumed(name="net")
    with pytest.raises(UsageError, match=r"its model belongs to another one: .*size mismatch"):
        resumed(of=nn.Linear(3, 2))
    with exact.Exchange(model, shards=2) as exchange:
        with pytest.raises(UsageError, match=r"every is 0, expected at least 1 update"):
            exact.Checkpoint(tmp_path / "run", exchange, every=0, model=model)
        with pytest.raises(UsageError, match=r"without a module keeps nothing"):
            exact.Checkpoint(tmp_path / "run", exchange, every=1)
    norm = nn.BatchNorm1d(2)
    message = r"not its buffer 'running_mean', .* give the module itself"
    with exact.Exchange(norm.parameters(), shards=2) as exchange, pytest.raises(UsageError, match=message):
        exact.Checkpoint(tmp_path / "run", exchange, every=1, model=norm)
    path = tmp_path / "run_iter_0.checkpoint"
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    with pytest.raises(ReadError, match=r"is damaged"):
        resumed(resume=path)


def test_states_of_all_kinds_come_back():
    value = {
        0: [torch.arange(3), (1, 2.5, float("inf"), None)],
        "bf16": torch.randn(2, 3).bfloat16(),
        "bool": torch.tensor(data=True),
        "empty": torch.zeros(0, 4),
        "counter": collections.Counter({3: 2}),
        "ordered": collections.OrderedDict(a={1, 2}),
        "numpy": np.arange(4, dtype=np.int16),
        "number": np.float64(0.1),
    }
    arrays: dict[str, np.ndarray] = {}
    back = unpacked(packed(value, arrays, "state"), arrays, "file")
    value["number"] = 0.1
    assert str(back) == str(value)
    assert [type(one) for one in back.values()] == [type(one) for one in value.values()]
    assert back["bf16"].dtype is torch.bfloat16
    with pytest.raises(UnsupportedError, match=r"scheduler\['x'\]\[1\] is of type function"):
        packed({"x": [1, packed]}, {}, "scheduler")
    for wrong in ({"kind": "tensor", "name": "state:7"}, {"kind": "os"}, [1], {"kind": "dict", "rows": 3}):
        with pytest.raises(ReadError, match=r"f: is no checkpoint of netweave.exact"):
            unpacked(wrong, arrays, "f")


def test_a_checkpoint_holds_numbers_and_no_code(tmp_path):
    model = nn.Linear(2, 2)
    with exact.Exchange(model, shards=2) as exchange:
        exact.Checkpoint(tmp_path / "run", exchange, every=1, model=model).save()
    content = read_checkpoint(tmp_path / "run_iter_0.checkpoint")
    assert {str(array.dtype) for array in content.arrays.values()} == {"uint8"}


def test_train_says_what_it_takes():
    with pytest.raises(UsageError, match=r"train takes a Job, .*, not a module; .* netweave.exact.Exchange"):
        netweave.train(nn.Linear(1, 1))
