"""Style transfer: the parts by their formulas, and the story from end to end."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("cv2")
pytest.importorskip("torch")

import torch

from examples.style import demo
from netweave import run
from netweave import symbol as sym
from netweave.backends.torch import TorchNet
from tests.examples import story


def test_the_gram_matrix_is_its_formula():
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 5)).astype(np.float32)
    net = demo.gram(sym.Variable("x"), (1, 3, 4, 5), "gram")
    (found,) = run(net.graph(x=x.shape), {"x": x}).values()
    flat = x.reshape(3, 20)
    np.testing.assert_allclose(found[0], flat @ flat.T / 20, rtol=1e-5)


def drawn(seed=0):
    """What a transfer looks at, with drawn weights."""
    net = demo.classifier()
    graph = TorchNet(net.graph(data=(1, 1, demo.SIZE, demo.SIZE)))
    arrays = {key: tensor.detach().numpy() for key, tensor in graph.params.items()}
    content = torch.rand((1, 1, demo.SIZE, demo.SIZE), generator=torch.Generator().manual_seed(seed))
    return demo.transfer(net, arrays, content, demo.strokes()), content


def test_a_picture_is_no_way_from_itself():
    drawing, content = drawn()
    assert float(drawing.distances(content)[1].detach()) == pytest.approx(0, abs=1e-9)
    assert float(drawing.distances(demo.strokes())[0].detach()) == pytest.approx(0, abs=1e-9)
    assert min(float(distance.detach()) for distance in drawing.distances(content * 0.5)) > 0.01


def test_the_gradient_of_the_picture_is_that_of_differences():
    """Central differences in float64, along drawn directions."""
    drawing, content = drawn()
    drawing.judging.to(torch.float64)
    drawing.wanted = {name: tensor.double() for name, tensor in drawing.wanted.items()}
    picture = (content.double() * 0.7).requires_grad_()
    sum(drawing.distances(picture)).backward()
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        way = torch.randn(picture.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            ahead, behind = (sum(drawing.distances(picture + step * way)) for step in (1e-6, -1e-6))
        assert float((picture.grad * way).sum()) == pytest.approx(float(ahead - behind) / 2e-6, rel=1e-4)


@pytest.mark.slow
def test_the_story(tmp_path):
    folder = story.copied(tmp_path)
    done = story.told(folder, "style")
    assert done.returncode == 0, done.stdout + done.stderr
    story.assert_in_order(done.stdout, ["the net knows", "style:", "content:"])
    assert (folder / "examples" / "style" / "style.png").stat().st_size > 1000
