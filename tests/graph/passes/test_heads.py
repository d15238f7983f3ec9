"""Heads of attention in one form; PyTorch says what the nets compute."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison.metric import comparable  # noqa: E402
from netweave.graph import attributes_of  # noqa: E402
from netweave.graph.passes.heads import (  # noqa: E402
    num_neighbours,
    pair_halves,
    part_projections,
    parted_columns,
    stored_before_rotations,
)
from netweave.graph.passes.sums import order_sums, sum_orders  # noqa: E402
from netweave.runtime.backends import prepare  # noqa: E402
from tests.comparison.onnx_text import read_text  # noqa: E402

STEPS, WIDTH, HEADS = 5, 8, 2
REPEATS = {
    "interleave": lambda x: x.repeat_interleave(2, dim=1),
    "expand": lambda x: x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(x.shape[0], 4, STEPS, WIDTH),
    "stack": lambda x: torch.stack([x] * 2, dim=2).flatten(1, 2),
    "index": lambda x: x[:, torch.arange(4) // 2],
    "tile": lambda x: x.repeat(1, 2, 1, 1),
}


class Net(torch.nn.Module):
    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.parts = function, torch.nn.ModuleList(modules)

    def forward(self, x):
        return self.function(x, *self.parts)


def form(function, *modules, shape=(1, 2, STEPS, WIDTH)):
    torch.manual_seed(0)
    for module in modules:
        module.reset_parameters()
    return comparable(netweave.load(Net(function, *modules).eval(), input_shapes={"x": shape}))


def check(graph, function, *modules, shape):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((3, *shape[1:]), dtype=np.float32))
    (found,) = prepare(graph).run({graph.inputs[0].name: x.numpy()}).values()
    with torch.no_grad():
        np.testing.assert_allclose(found, function(x, *modules).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", REPEATS)
def test_repeated_heads_are_one_gather(how):
    repeat = REPEATS[how]
    graph = form(lambda x: repeat(x))
    (node,) = graph.nodes
    assert node.op_type == "Gather"
    places = [0, 1, 0, 1] if how == "tile" else [0, 0, 1, 1]
    assert node.inputs[1].const_value.numpy().tolist() == places
    check(graph, repeat, shape=(1, 2, STEPS, WIDTH))


def per_block(x, dense):
    q, k = dense(x).split(WIDTH * HEADS, dim=-1)
    return q.view(*q.shape[:2], HEADS, WIDTH).transpose(1, 2) - k.view(*k.shape[:2], HEADS, WIDTH).transpose(
        1, 2
    )


def per_head(x, dense):
    q, k = dense(x).view(*x.shape[:2], HEADS, 2 * WIDTH).transpose(1, 2).chunk(2, dim=-1)
    return q - k


def parts_first(x, dense):
    """Queries and keys lie along a first axis, in front of the examples."""
    q, k = dense(x).view(*x.shape[:2], 2, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
    return q - k


def single_columns(x, dense):
    """One column is read at a time, so that no axis is left for them."""
    y = dense(x)
    return y[..., 0] - y[..., 3]


@pytest.mark.parametrize("function", [per_block, per_head, parts_first, single_columns])
@pytest.mark.parametrize("bias", [False, True])
def test_parts_of_a_dense_layer_get_layers_of_their_own(function, bias):
    dense = torch.nn.Linear(6, 2 * WIDTH * HEADS, bias=bias)
    graph = form(function, dense, shape=(1, STEPS, 6))
    widths = [width for width, _ in parted_columns(graph)]
    assert widths == [2 * WIDTH * HEADS] * 2
    parted = part_projections(graph)
    assert [node.op_type for node in parted.nodes].count("MatMul") == 2
    assert not parted_columns(parted)
    check(parted, function, dense, shape=(1, STEPS, 6))


def attended(x, query, key, interleaved):
    def rotate(y):
        angles = torch.outer(torch.arange(STEPS).float(), 0.5 ** torch.arange(WIDTH // 2))
        if interleaved:
            first, second = y[..., ::2], y[..., 1::2]
        else:
            first, second = y.chunk(2, dim=-1)
        turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)

    q, k = (dense(x).view(*x.shape[:2], HEADS, WIDTH).transpose(1, 2) for dense in (query, key))
    return torch.nn.functional.scaled_dot_product_attention(rotate(q), rotate(k), k, is_causal=True)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotations_of_neighbours_whose_keys_are_read_elsewhere_stay(interleaved):
    denses = [torch.nn.Linear(6, WIDTH * HEADS) for _ in range(2)]
    graph = form(lambda x, q, k: attended(x, q, k, interleaved), *denses, shape=(1, STEPS, 6))
    assert num_neighbours(graph) == 2 * interleaved
    assert num_neighbours(pair_halves()(graph)) == 2 * interleaved
    assert not stored_before_rotations(graph)  # no attention is one operator here


def test_sums_of_three_are_added_in_the_order_of_the_net():
    def other(x, first, second):
        return second(x).relu() + first(x) + x

    denses = [torch.nn.Linear(6, 6) for _ in range(2)]
    graph = form(other, *denses, shape=(1, STEPS, 6))
    assert sum_orders(graph) == [(2, 1, 0)]
    ordered = order_sums(graph)
    assert sum_orders(ordered) == [(0, 1, 2)]
    check(ordered, other, *denses, shape=(1, STEPS, 6))


def test_a_sum_may_have_thousands_of_terms(tmp_path):
    """As dynamo unrolls an adaptive pooling."""
    terms = 1200
    steps = [f"t{i} = Relu(x) s{i} = Add({f's{i - 1}' if i else 'x'}, t{i})" for i in range(terms)]
    net = read_text(f"g (float[2] x) => (float[2] s{terms - 1}) {{ {' '.join(steps)} }}", tmp_path, "net")
    (order,) = sum_orders(net)
    assert len(order) == terms + 1


def test_two_sums_of_three_in_a_row():
    def other(x, first, second):
        x = second(x).relu() + first(x) + x
        return second(x).relu() + first(x) + x

    denses = [torch.nn.Linear(6, 6) for _ in range(2)]
    ordered = order_sums(form(other, *denses, shape=(1, STEPS, 6)))
    assert sum_orders(ordered) == [(0, 1, 2), (0, 1, 2)]
    check(ordered, other, *denses, shape=(1, STEPS, 6))


def rms(x, eps=1e-3):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


@pytest.mark.parametrize(
    "function",
    [
        rms,
        lambda x: x / (x * x).mean(-1, keepdim=True).add(1e-3).sqrt(),
        lambda x: x * (x * x).mean(-1, keepdim=True).add(1e-3).pow(-0.5),
        lambda x: (torch.arange(WIDTH).float() + 1) * rms(x),
    ],
)
def test_the_root_mean_square_is_one_operator(function):
    graph = form(function)
    (node,) = graph.nodes
    assert node.op_type == "RMSNormalization"
    assert attributes_of(node)["epsilon"] == pytest.approx(1e-3)
    check(graph, function, shape=(1, 2, STEPS, WIDTH))


@pytest.mark.parametrize(
    ("axes", "keepdim", "count"),
    [
        (-1, True, WIDTH),
        (-1, False, WIDTH),
        ((1, 3), True, 2 * WIDTH),
        ((2, 3), True, WIDTH),
        (-1, True, WIDTH + 1),
    ],
)
def test_a_sum_divided_by_the_number_of_its_terms_is_a_mean(axes, keepdim, count):
    def divided(x):
        return x.sum(axes, keepdim=keepdim) / count

    graph = form(divided)
    is_mean = axes != (2, 3) and count != WIDTH + 1
    assert [node.op_type for node in graph.nodes] == (["ReduceMean"] if is_mean else ["ReduceSum", "Div"])
    check(graph, divided, shape=(1, 2, STEPS, WIDTH))


def test_a_norm_by_sums_is_one_operator():
    def norm(x):
        return x * torch.rsqrt((x * x).sum(-1).unsqueeze(-1) / WIDTH + 1e-3)

    graph = form(norm)
    assert [node.op_type for node in graph.nodes] == ["RMSNormalization"]
    check(graph, norm, shape=(1, 2, STEPS, WIDTH))


@pytest.mark.parametrize("equation", ["bhqd,bhkd->bhqk", "bhqd,bhkd->bkhq", "bhqd,bhke->bhqk"])
def test_an_einsum_of_two_matrices_is_a_product(equation):
    def product(x):
        return torch.einsum(equation, x, x.relu())

    graph = form(product)
    assert ("MatMul" in {node.op_type for node in graph.nodes}) == ("e" not in equation)
    check(graph, product, shape=(1, 2, STEPS, WIDTH))


def test_grouped_queries_may_be_turned_without_an_order(tmp_path):
    """ONNX's Transpose without ``perm`` turns all axes round."""
    graph = read_text(
        """g (float[1,4,2,2,3] q, float[1,5,2,3] k) => (float[5,4,2,2,1] y)
        { s = Einsum<equation = "nqgrd,nkgd->ngrqk">(q, k) y = Transpose(s) }""",
        tmp_path,
        "turned",
    )
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal(shape, dtype=np.float32) for shape in ((1, 4, 2, 2, 3), (1, 5, 2, 3)))
    (y,) = prepare(comparable(graph)).run({"q": q, "k": k}).values()
    np.testing.assert_allclose(y, np.einsum("nqgrd,nkgd->ngrqk", q, k).T, rtol=1e-5)


@pytest.mark.parametrize(
    "made",
    [
        'e = Einsum<equation = "nkhd,nhqk->nhdq">(v, p) y = Transpose<perm = [0, 3, 1, 2]>(e)',
        'y = Einsum<equation = "nkhd,nhqk->nqhd">(v, p)',
        'y = Einsum<equation = "nhqk,nkhd->nqhd">(p, v)',
    ],
)
def test_the_factor_whose_rows_come_first_in_the_result_is_the_first(made, tmp_path):
    """JAX gives dot_general the values before the weights of attention, and turns the result."""
    text = f"g (float[1,2,4,5] p, float[1,5,2,3] v) => (float[1,4,2,3] y) {{ {made} }}"
    graph = read_text(text, tmp_path, "g")
    rng = np.random.default_rng(0)
    p, v = (rng.standard_normal(shape, dtype=np.float32) for shape in ((1, 2, 4, 5), (1, 5, 2, 3)))
    form_of_it = comparable(graph)
    (y,) = prepare(form_of_it).run({"p": p, "v": v}).values()
    np.testing.assert_allclose(y, np.einsum("nhqk,nkhd->nqhd", p, v), rtol=1e-5, atol=1e-6)
    (product,) = (node for node in form_of_it.nodes if node.op_type == "MatMul")
    assert product.inputs[0].name == "p"


def test_examples_that_are_repeated_are_no_heads():
    def twice(x):
        return x.flatten(0, 1).repeat_interleave(2, dim=0) * 2

    graph = form(twice)
    check(graph, twice, shape=(1, 2, STEPS, WIDTH))
