"""The face-detection nets of the corpus in PyTorch against their forms of Caffe, MXNet and TensorFlow."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave

if TYPE_CHECKING:
    from netweave.graph import Graph

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.multi]

NETS = Path(__file__).parent / "nets"

TURNED = "height and width swapped"
REVERSED = "channels reversed (RGB and BGR)"


@pytest.fixture(scope="module", params=[("pnet", "det1"), ("rnet", "det2")], ids=["pnet", "rnet"])
def forms(request: pytest.FixtureRequest, corpus: Path) -> dict[str, Graph]:
    name, det = request.param
    folder = corpus / "mtcnn"
    return {
        "caffe": netweave.load(folder / f"{det}.prototxt"),
        "mxnet": netweave.load(folder / f"{det}-symbol.json"),
        "pytorch": netweave.load(NETS / f"{name}.py", folder / f"{name}.pt", trust=True),
        "tensorflow": netweave.load(folder / f"{det}.npy"),
    }


def test_every_pair_has_its_relation_and_they_are_consistent(forms: dict[str, Graph]) -> None:
    """Each mapping undoes itself, so that A to B and B to C give A to C by leaving out what comes twice."""
    found: dict[tuple[str, str], set[str]] = {}
    for a, b in combinations(forms, 2):
        comparison = netweave.compare(forms[a], forms[b])
        assert comparison.exit_status == 0
        text = comparison.to_json()
        told = (
            text["groups"] if "tensorflow" in (a, b) else text["inputs"]
        )  # of weights alone the filters tell
        found[a, b] = {words for words in (TURNED, REVERSED) if words in str(told)}
        assert not comparison.findings
    assert found["caffe", "pytorch"] == {TURNED}
    assert found["mxnet", "pytorch"] == {REVERSED}
    assert found["caffe", "tensorflow"] == set()
    for a, b, c in combinations(forms, 3):
        assert found[a, c] == found[a, b] ^ found[b, c]


def test_values_are_pytorch_s(forms: dict[str, Graph], request: pytest.FixtureRequest) -> None:
    import importlib.util

    import torch

    graph = forms["pytorch"]
    path = NETS / graph.name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    module = getattr(code, {"pnet": "PNet", "rnet": "RNet"}[path.stem])()
    module.load_state_dict(torch.load(graph.files[1], weights_only=True))  # noqa: TID251 - the oracle
    x = np.random.default_rng(0).standard_normal((3, 3, 24, 24)).astype(np.float32)
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(x))
    got = netweave.run(graph, {"x": x})
    for value, reference in zip(got.values(), expected, strict=True):
        assert np.allclose(value, reference.numpy(), atol=1e-5)


def test_layers_say_scope_class_settings_and_line(forms: dict[str, Graph]) -> None:
    layers = forms["pytorch"].layers
    code = Path(forms["pytorch"].files[0]).read_text().splitlines()
    conv = layers["conv2"]
    assert (conv.type, conv.settings["kernel_size"], conv.call) == ("Conv2d", [3, 3], 0)
    assert conv.parameters == ("conv2.weight", "conv2.bias")
    assert conv.origin is not None
    assert conv.origin.line is not None
    assert "self.conv2(x)" in code[conv.origin.line - 1]
    assert layers["softmax"].type == "aten.softmax"
