"""True differences that ports have, each planted alone: found, named, and the fix in B's own words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from netweave.comparison import Verdict, compare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn, effective, load  # noqa: E402
from tests.time_limits import many  # noqa: E402


class Small(nn.Module):
    """A small net with the settings that ports get wrong."""

    def __init__(self, *, zeros: bool = False, slopes: int = 1, order: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.wide, self.point = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.norm = nn.BatchNorm2d(16)
        self.act = nn.PReLU(slopes)
        self.last = nn.Conv2d(16, 8, 3)
        self.zeros, self.order, self.groups = zeros, order, groups

    def forward(self, x):
        x = self.first(x)
        if self.zeros:
            x = functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 2)
        else:
            x = functional.max_pool2d(x, 3, 2, 1)
        x = self.norm(torch.cat((self.wide(x), self.point(x))[:: self.order], 1))
        return self.last(self.act(self.shuffled(x)))

    def shuffled(self, x):
        if self.groups == 1:
            return x
        n, c, h, w = x.shape
        return x.reshape(n, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(n, c, h, w)


def the_one(right, ported):
    """Return the one finding of a pair."""
    comparison = compare(load(right), load(ported))
    assert comparison.verdict is Verdict.DIFFERENT, comparison.sentence
    (finding,) = effective(comparison)
    assert finding.error_fixed is not None, finding
    return finding


def test_a_max_pooling_padded_with_zeros_is_told_from_one_padded_with_minus_infinity():
    right = drawn(Small())
    finding = the_one(right, copied(right, Small(zeros=True)))
    assert finding.mismatch == "pool-padding"
    assert finding.fix == "padding=1, and no padding in front"
    finding = the_one(copied(right, Small(zeros=True)), right)
    assert finding.mismatch == "pool-padding"
    assert finding.fix == "pad with zeros in front (1), and not in the pooling"


def test_zeros_are_no_difference_behind_a_rectifier():
    """There minus infinity never wins against what is in the image, nor do zeros."""

    class Rectified(Small):
        def forward(self, x):
            x = functional.relu(self.first(x))
            own = 0 if self.zeros else 1
            return functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)) if self.zeros else x, 3, 2, own)

    right = drawn(Rectified())
    comparison = compare(load(right), load(copied(right, Rectified(zeros=True))))
    assert comparison.equal, comparison.sentence


def test_the_order_of_what_is_joined_is_told_where_it_is_joined():
    right = drawn(Small())
    finding = the_one(right, copied(right, Small(order=-1)))
    assert (finding.mismatch, finding.layer_b, finding.fix) == (
        "input-order",
        "cat",
        "put the inputs in the order 2, 1",
    )


def without_weights(module):
    """Return a port as its code makes it, which nobody trained."""
    graph = load(module)
    graph.parameters = {key: replace(p, initial=True) for key, p in graph.parameters.items()}
    return graph


def with_slopes(module, source):
    """Give a module another one's weights but its own slopes."""
    state = {**source.state_dict(), "act.weight": module.act.weight}
    module.load_state_dict(state)
    return module.eval()


@pytest.mark.parametrize("shared", ["A", "B"])
def test_slopes_that_are_shared_in_one_net_alone_are_told(shared):
    one, each = drawn(Small(slopes=1)), drawn(Small(slopes=16), seed=3)
    with_slopes(each, one)
    right, ported = (one, each) if shared == "A" else (each, one)
    finding = the_one(right, ported)
    assert (finding.mismatch, finding.layer_b) == ("slope-sharing", "act")
    assert finding.fix == ("num_parameters=1" if shared == "A" else "num_parameters=16")


def test_slopes_that_are_shared_are_told_of_a_port_without_weights():
    """No slopes that the port could be given make up for their number."""
    right = drawn(Small(slopes=16))
    for ported, fix in ((Small(slopes=1), "num_parameters=16"), (Small(slopes=16), "")):
        found = compare(load(right), without_weights(ported))
        assert [(f.mismatch, f.fix) for f in effective(found)] == ([("slope-sharing", fix)] if fix else [])


def test_a_bias_that_a_port_without_weights_lacks_is_a_setting():
    """What the port's own file must say is all; there are no values to be given."""
    ported = Small()
    ported.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
    (finding,) = effective(compare(load(drawn(Small())), without_weights(ported)))
    assert (finding.mismatch, finding.fix) == ("missing-bias", "bias=True")
    assert [(edit.name, edit.value) for edit in finding.edits] == [("bias", "True")]


def test_equal_slopes_for_each_channel_are_no_difference():
    right = drawn(Small())
    ported = Small(slopes=16)
    with torch.no_grad():
        ported.act.weight.fill_(right.act.weight.item())
    assert compare(load(right), load(with_slopes(ported, right))).equal


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rounded", ["A", "B"])
def test_weights_rounded_to_16_bits_are_called_that(dtype, rounded):
    plain = drawn(Small())
    stored = copied(plain, Small())
    with torch.no_grad():
        for array in stored.state_dict().values():
            if array.dtype == torch.float32:
                array.copy_(array.to(dtype).float())
    right, ported = (stored, plain) if rounded == "A" else (plain, stored)
    findings = effective(compare(load(right), load(ported)))
    name = str(dtype).removeprefix("torch.")
    other = "B" if rounded == "A" else "A"
    assert findings
    for finding in findings:
        if finding.layer_b == "act":  # one number, of which nothing tells how it was rounded
            continue
        assert finding.mismatch == "precision", finding
        assert f"of {rounded} are {other}'s rounded to {name}" in finding.cause


@pytest.mark.slow
@pytest.mark.parametrize(("num_layers", "eps"), [(60, 1e-3), (many(60, in_ci=25), 1e-2)])
def test_one_setting_that_differs_in_many_layers_is_explained_in_each(num_layers, eps):
    class Deep(nn.Module):
        def __init__(self, eps: float) -> None:
            super().__init__()
            channels = [3, *[4] * num_layers]
            self.filters = nn.ModuleList(nn.Conv2d(i, 4, 3, padding=1) for i in channels[:-1])
            self.norms = nn.ModuleList(nn.BatchNorm2d(4, eps=eps) for _ in range(num_layers))

        def forward(self, x):
            for layer, norm in zip(self.filters, self.norms, strict=True):
                x = functional.relu(norm(layer(x)))
            return x

    right = drawn(Deep(1e-5))
    comparison = compare(load(right), load(copied(right, Deep(eps))))
    findings = effective(comparison)
    assert len(findings) > num_layers * 2 / 3
    # one sentence for all of them: nothing else differs
    assert f"; the same in {len(findings) - 1} other layers. The outputs" in comparison.sentence
    assert {finding.mismatch for finding in findings} == {"epsilon"}
    assert {finding.fix for finding in findings} == {"eps=1e-05"}


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("shuffles", ["A", "B"])
@pytest.mark.parametrize("direct", [True, False])
def test_a_channel_shuffle_of_one_net_alone_is_told_where_it_stands(groups, shuffles, direct):
    class Direct(Small):
        """Shuffles in front of the convolution, and not in front of an activation."""

        def forward(self, x):
            x = functional.max_pool2d(self.first(x), 3, 2, 1)
            x = self.norm(torch.cat((self.wide(x), self.point(x)), 1))
            return self.last(self.shuffled(self.act(x)))

    net = Direct if direct else Small
    plain = drawn(net())
    other = copied(plain, net(groups=groups))
    finding = the_one(*((other, plain) if shuffles == "A" else (plain, other)))
    assert finding.mismatch == "channel-shuffle", finding
    assert f"in {groups} groups" in finding.cause
    assert ("remove" in finding.fix) == (shuffles == "B")


class Rows(nn.Module):
    """Dense layers, with an image in front of them or not."""

    def __init__(self, *, image: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1) if image else nn.Linear(12, 9)
        self.last = nn.Linear(4 * 8 * 8 if image else 9, 5)

    def forward(self, x):
        return self.last(functional.relu(self.first(x)).flatten(1))


@pytest.mark.parametrize(("image", "columns"), [(True, (7, 40)), (False, (2, 5))])
def test_two_swapped_columns_are_no_flatten_order(image, columns):
    right = drawn(Rows(image=image))
    ported = copied(right, Rows(image=image))
    with torch.no_grad():
        ported.last.weight[:, list(columns)] = ported.last.weight[:, list(columns[::-1])]
    shape = (1, 3, 8, 8) if image else (1, 12)
    (finding,) = effective(compare(load(right, x=shape), load(ported, x=shape)))
    assert finding.mismatch == "column-order"
    assert finding.cause.endswith(f"columns {columns[0]} and {columns[1]} are swapped")


def test_a_flatten_order_is_called_one():
    right = drawn(Rows(image=True))
    ported = copied(right, Rows(image=True))
    with torch.no_grad():
        images = right.last.weight.reshape(5, 4, 8, 8)
        ported.last.weight.copy_(images.permute(0, 2, 3, 1).reshape(5, -1))
    (finding,) = effective(compare(load(right, x=(1, 3, 8, 8)), load(ported, x=(1, 3, 8, 8))))
    assert finding.mismatch == "flatten-order"


def test_an_activation_is_named_as_pytorch_writes_it():
    class Other(Small):
        def __init__(self, act: nn.Module) -> None:
            super().__init__()
            self.act = act

    right = drawn(Other(nn.ReLU()))
    leaky = copied(right, Other(nn.LeakyReLU(0.2)))
    assert the_one(right, leaky).fix == "use nn.ReLU()"
    assert the_one(leaky, right).fix == "use nn.LeakyReLU(0.2)"


def test_rounded_numbers_are_told_by_numpys_own_rounding():
    from netweave.comparison.explain.known_mismatches.windows import rounding_of

    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    bfloat16 = torch.from_numpy(x).bfloat16().float().numpy()
    assert rounding_of(x, x.astype(np.float16).astype(np.float32)) == "B are A's rounded to float16"
    assert rounding_of(bfloat16, x) == "A are B's rounded to bfloat16"
    assert rounding_of(x, x * np.float32(1.0001)) == ""


@pytest.mark.parametrize(
    ("sizes", "change", "cause", "fix"),
    [
        ((6, 6), lambda w: w.T, "the weights of B are A's, transposed", "transpose weights '0.weight'"),
        (
            (6, 9),
            lambda w: w.T.reshape(w.shape),
            "the weights of B are A's, reshaped where they are to be transposed",
            "transpose weights '0.weight'",
        ),
    ],
    ids=["transposed", "reshaped"],
)
def test_weights_that_are_not_transposed_are_told_from_other_weights(sizes, change, cause, fix):
    right = drawn(nn.Sequential(nn.Linear(*sizes), nn.Tanh(), nn.Linear(sizes[1], 4)))
    ported = copied(right, nn.Sequential(nn.Linear(*sizes), nn.Tanh(), nn.Linear(sizes[1], 4)))
    with torch.no_grad():
        ported[0].weight.copy_(change(right[0].weight.clone()))
    comparison = compare(load(right, input=(1, 6)), load(ported, input=(1, 6)))
    (finding,) = effective(comparison)
    assert (finding.cause, finding.fix) == (cause, fix)
    assert finding.error_fixed is not None
    assert finding.error_fixed <= 1e-5


class Fused(nn.Module):
    """Attention whose queries, keys and values are one layer, by head or not."""

    def __init__(self, *, by_head: bool = False) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.by_head = by_head

    def forward(self, x):
        parts = self.qkv(x)
        if self.by_head:
            parts = parts.reshape(*x.shape[:2], 2, 3, 4).permute(3, 0, 2, 1, 4)
        else:
            parts = parts.reshape(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        y = (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


def test_fused_queries_keys_and_values_that_are_cut_otherwise_are_one_cause():
    right = drawn(Fused())
    comparison = compare(*(load(net, x=(1, 5, 8)) for net in (right, copied(right, Fused(by_head=True)))))
    assert comparison.verdict is Verdict.DIFFERENT
    (cause,) = comparison.causes
    assert "A and B cut an array into its 3 parts otherwise" in cause.text
    assert {finding.mismatch for finding in cause.findings} == {"fused-order"}
    assert all(finding.error_fixed <= 1e-5 for finding in cause.findings)


class Unbiased(nn.LayerNorm):
    """A layer norm as it is written by hand."""

    def forward(self, x):
        variance = x.var(-1, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + self.eps) * self.weight + self.bias


@pytest.mark.parametrize("is_a", [False, True])
def test_a_variance_that_is_divided_by_one_less_is_named(is_a):
    right = drawn(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 4)))
    ported = copied(right, nn.Sequential(nn.Linear(8, 8), Unbiased(8), nn.Linear(8, 4)))
    pair = [load(net, input=(1, 5, 8)) for net in (right, ported)]
    (finding,) = effective(compare(*(pair[::-1] if is_a else pair)))
    assert finding.mismatch == "norm-variance"
    assert ("of A divides the sum of squares by n - 1" in finding.cause) is is_a
    assert finding.error_fixed <= 1e-5
