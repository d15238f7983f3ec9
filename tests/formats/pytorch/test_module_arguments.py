"""Modules whose ``forward`` names no arguments, that cache in plain tensors, or need the traced batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netweave

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow


class AnyArguments(torch.nn.Module):
    """Passes on whatever it is given, as DINOv2's ``forward`` does."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(4, 3)

    def features(self, x: torch.Tensor, shift: torch.Tensor | None = None) -> torch.Tensor:
        made: torch.Tensor = self.dense(x)
        return made if shift is None else made - 2 * shift

    def forward(self, *args: Any, doubles: bool = False, **kwargs: Any) -> torch.Tensor:
        return self.features(*args, **kwargs) * (2 if doubles else 1)


class Cached(torch.nn.Module):
    """Writes what it reads into a plain tensor, as Meta's Llama does with its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(4, 4)
        self.cache = torch.zeros(8, 6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache = self.cache.to(x)
        self.cache[: x.shape[0], : x.shape[1]] = self.dense(x)
        return self.cache[: x.shape[0], : x.shape[1]].cumsum(1)


class BoundToBatch(torch.nn.Module):
    """Computes the batch as a number, as Swin's windows do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, 4)
        return rows.reshape(int(rows.shape[0] / 2), 2, 4).flip(1).sum((1, 2))


def same(graph: netweave.Graph, module: torch.nn.Module, *given: torch.Tensor) -> None:
    names = [str(value.name) for value in graph.inputs]
    made = netweave.run(graph, dict(zip(names, (x.numpy() for x in given), strict=True)))
    with torch.no_grad():
        np.testing.assert_allclose(next(iter(made.values())), module(*given).numpy(), rtol=1e-5, atol=1e-6)


def test_arguments_without_names_are_given_in_order() -> None:
    module, x, shift = AnyArguments(), torch.randn(2, 4), torch.randn(2, 3)
    same(netweave.load(module, examples=[x]), module, x)
    same(netweave.load(module, examples=[x, shift]), module, x, shift)
    same(netweave.load(module, input_shapes={"x": (2, 4)}), module, x)
    assert "forward" not in vars(module)


def test_a_cache_that_is_no_buffer_is_read_and_left_as_it_is() -> None:
    module, x = Cached(), torch.randn(2, 6, 4)
    graph = netweave.load(module, examples=[x])
    assert torch.equal(module.cache, torch.zeros(8, 6, 4))
    assert not list(module.buffers())
    same(graph, module, x)


def test_a_batch_that_the_code_computes_as_a_number_is_run_as_traced() -> None:
    module, x = BoundToBatch(), torch.randn(2, 2, 4)
    same(netweave.load(module, examples=[x]), module, x)


def test_tensors_side_by_side_are_joined_along_an_axis() -> None:
    """As Meta's Llama joins the mask of the steps in its cache to that of the new ones."""

    class Side(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            mask = torch.hstack([torch.zeros((x.shape[1], 0)), torch.zeros((x.shape[1], x.shape[1]))])
            scores = x @ x.transpose(1, 2) + mask
            return torch.hstack([scores, x @ x.transpose(1, 2)]), torch.vstack([x, x]), torch.dstack([x, x])

    x = torch.randn(3, 7, 4)
    graph = netweave.load(Side(), examples=[x])
    assert not {node.op_type for node in graph.nodes} & {"SequenceConstruct", "SequenceMap", "SequenceAt"}
    made = netweave.run(graph, {"x": x.numpy()})
    for got, expected in zip(made.values(), Side()(x), strict=True):
        np.testing.assert_allclose(got, expected.numpy(), atol=1e-6)


class ThroughCache(torch.nn.Module):
    """Attention as Meta's Llama has it: fewer keys than queries go through a cache, and are repeated."""

    def __init__(self, *, plain: bool = False) -> None:
        super().__init__()
        self.q, self.kv = torch.nn.Linear(16, 16, bias=False), torch.nn.Linear(16, 16, bias=False)
        self.keys, self.values = torch.zeros(4, 32, 2, 4), torch.zeros(4, 32, 2, 4)
        self.plain = plain

    def forward(self, x: Any) -> Any:
        n, steps, _ = x.shape
        q = self.q(x).view(n, steps, 4, 4).transpose(1, 2)
        k, v = self.kv(x).view(n, steps, 4, 4).split(2, 2)
        if self.plain:
            k, v = (each.transpose(1, 2).repeat_interleave(2, 1) for each in (k, v))
        else:
            self.keys[:n, :steps] = k
            self.values[:n, :steps] = v
            k, v = self.keys[:n, :steps], self.values[:n, :steps]
            k, v = (each.repeat_interleave(2, 2).transpose(1, 2) for each in (k, v))
        mixed = ((q @ k.transpose(2, 3)) / 2).softmax(-1) @ v
        return mixed.transpose(1, 2).reshape(n, steps, 16)


def test_what_is_read_of_a_cache_as_it_was_written_is_what_was_written() -> None:
    torch.manual_seed(0)
    module, plain, x = ThroughCache().eval(), ThroughCache(plain=True).eval(), torch.randn(3, 7, 16)
    plain.load_state_dict(module.state_dict())
    graph = netweave.load(module, examples=[x])
    assert "ScatterND" not in {node.op_type for node in graph.nodes}
    with torch.no_grad():
        for batch in (3, 6):  # more examples than the cache has rows for
            got = next(iter(netweave.run(graph, {"x": x.repeat(2, 1, 1)[:batch].numpy()}).values()))
            np.testing.assert_allclose(got, plain(x.repeat(2, 1, 1)[:batch]).numpy(), atol=1e-5)
    found = netweave.compare(netweave.load(plain, examples=[x]), graph)
    assert found.exit_status == 0, found.sentence


def test_another_part_of_a_cache_than_was_written_is_read_from_it() -> None:
    class Other(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.arange(40.0).view(4, 10))

        def forward(self, x: Any) -> Any:
            cache = self.cache.clone()
            cache[:, 2:5] = x
            first = cache[:, 1:4]
            cache[:, 2:5] += 1
            again = cache[:, 2:5] * 3
            own = x * 1
            cache[:, 5:8] = own
            own += 1
            last = cache[:, 5:8] - 1
            cache[:, 2:5] = x
            cache.view(-1)[:20] = 7.0
            through_view = cache[:, 2:5] * 1
            whole = x * 1
            cache[:, 5:8] = whole.view(4, 3)
            whole.mul_(3)
            return first * 2, again, last, through_view, cache[:, 5:8] * 1

    x = torch.randn(4, 3)
    got = netweave.run(netweave.load(Other(), examples=[x]), {"x": x.numpy()})
    for one, expected in zip(got.values(), Other()(x), strict=True):
        np.testing.assert_allclose(one, expected.numpy(), atol=1e-6)
