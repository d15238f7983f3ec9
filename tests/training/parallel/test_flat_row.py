"""Gradients in one row: what is in it, and when the memory of backward is free again."""

from __future__ import annotations

import weakref

import pytest
import torch

from netweave.training.optim.rule import flat_layout
from netweave.training.parallel.exchange import GradientRow

SIZES = {"a": (20, 10), "b": (150,), "c": (3,)}


@pytest.fixture
def parameters():
    return {key: torch.zeros(shape, requires_grad=True) for key, shape in SIZES.items()}


@pytest.fixture
def row(parameters):
    layout = flat_layout({key: one.numel() for key, one in parameters.items()}, slice_elements=128)
    return GradientRow(layout, parameters)


def test_gradients_become_views_of_the_row(row, parameters):
    gradients = {key: torch.randn(shape) for key, shape in SIZES.items()}
    for key, gradient in gradients.items():
        parameters[key].grad = gradient.clone()
    for number in (3, 0, 2, 1):
        row.take(number, scale=0.5)
    for key, parameter in parameters.items():
        torch.testing.assert_close(parameter.grad, 0.5 * gradients[key], rtol=0, atol=0)
        assert parameter.grad.data_ptr() == row.view(key).data_ptr()


def test_the_gradient_of_backward_is_let_go_when_its_last_slice_is_copied(row, parameters):
    """The next layers' gradients are then written to memory that is in the cache still."""
    for parameter in parameters.values():
        parameter.grad = torch.ones_like(parameter)
    of_backward = weakref.ref(parameters["a"].grad)
    row.take(1)
    assert of_backward() is not None
    row.take(0)
    assert of_backward() is None


def test_a_gradient_lies_in_memory_as_its_parameter(row, parameters):
    gradient = torch.arange(200.0).reshape(10, 20).T
    parameters["a"].grad = gradient
    for number in range(4):
        row.take(number)
    assert torch.equal(row.row[:200], gradient.contiguous().reshape(-1))


def test_what_has_no_fresh_gradient_adds_nothing(row, parameters):
    """Of the update before, a parameter that this one does not reach has a view of the row."""
    for parameter in parameters.values():
        parameter.grad = torch.ones_like(parameter)
    for number in range(4):
        row.take(number)
    parameters["b"].grad = torch.full_like(parameters["b"], 2.0)
    parameters["c"].grad = None
    for number in range(4):
        row.take(number)
    assert [float(parameters[key].grad.sum()) for key in SIZES] == [0.0, 300.0, 0.0]
