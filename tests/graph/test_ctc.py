"""The loss of temporal classification, against a sum over all paths and against PyTorch."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest

from netweave.errors import RunError
from netweave.graph import find_operator
from netweave.graph.ops.losses import softmax
from netweave.graph.ops.recurrent import spelt


def drawn(steps: int, classes: int) -> np.ndarray:
    return np.random.default_rng(steps * classes).standard_normal((steps, classes))


def by_all_paths(scores: np.ndarray, label: list[int], blank: int) -> float:
    """Return the loss from the probability of every path that spells the label."""
    steps, classes = scores.shape
    probabilities = softmax(scores, 1)
    total = 0.0
    for path in product(range(classes), repeat=steps):
        if [key for key, _ in groupby(path) if key != blank] == label:
            total += np.prod([probabilities[step, key] for step, key in enumerate(path)])
    return float(-np.log(total))


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("label", [[], [1], [1, 1], [1, "other", 1], ["other", 1]])
def test_the_loss_is_the_sum_over_all_paths(label: list[object], blank: int) -> None:
    named = [2 - blank if key == "other" else int(str(key)) for key in label]
    scores = drawn(5, 3)
    loss, gradient = spelt(softmax(scores, 1), np.array(named, int), blank)
    assert loss == pytest.approx(by_all_paths(scores, named, blank))
    for place in np.ndindex(scores.shape):
        moved = [scores.copy(), scores.copy()]
        moved[0][place] += 1e-5
        moved[1][place] -= 1e-5
        slope = (by_all_paths(moved[0], named, blank) - by_all_paths(moved[1], named, blank)) / 2e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-6)


def test_a_label_that_the_steps_are_too_few_for_costs_nothing() -> None:
    loss, gradient = spelt(softmax(drawn(3, 3), 1), np.array([1, 1, 2]), 0)
    assert (loss, gradient.any()) == (0.0, False)


def test_losses_and_gradients_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((12, 4, 6)), rng.integers(0, 5, (4, 3))
    steps, lengths = np.array([12, 9, 7, 12]), np.array([3, 2, 1, 0])
    entry = find_operator("CTCLoss")
    attributes = {"blank_label": "last", "use_data_lengths": 1, "use_label_lengths": 1}
    inputs = [data, labels, steps, lengths]
    outputs = entry.forward(inputs, attributes)
    above = np.array([1.0, 2.0, 0.5, 1.0])
    gradient = entry.gradient(inputs, outputs, [above], attributes)[0]
    x = torch.tensor(data, requires_grad=True)
    expected = torch.nn.functional.ctc_loss(
        x.log_softmax(2), *map(torch.from_numpy, (labels, steps, lengths)), blank=5, reduction="none"
    )
    (expected * torch.from_numpy(above)).sum().backward()
    np.testing.assert_allclose(outputs[0], expected.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(gradient, x.grad.numpy(), atol=1e-6)


def test_the_output_with_a_loss_is_a_softmax_whose_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(1)
    data = rng.standard_normal((6, 2, 4))
    flat, labels = data.reshape(12, 4), np.array([0, 3, 1, 2, 0, 0])
    output, loss = find_operator("CTCOutput"), find_operator("CTCLoss")
    attributes = {"input_length": 6, "label_length": 3}
    outputs = output.forward([flat, labels], attributes)
    np.testing.assert_allclose(outputs[0].sum(1), 1)
    found = output.gradient([flat, labels], outputs, [np.zeros_like(flat)], attributes)[0]
    packed = [data, np.array([[3, 1, 0], [2, 0, 0]])]
    expected = loss.gradient(packed, loss.forward(packed, {}), [np.ones(2)], {})[0]
    np.testing.assert_allclose(found, expected.reshape(12, 4))


def test_a_label_beyond_the_classes_is_refused() -> None:
    with pytest.raises(RunError, match=r"a label has classes 1 to 7, expected 1 to 4"):
        find_operator("CTCLoss").forward([np.zeros((6, 1, 5)), np.array([[1, 7, 0]])], {})
