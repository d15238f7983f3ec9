"""Folders of Hugging Face, as transformers saves them, against transformers itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import netweave
from netweave.errors import CodeError, UsageError
from netweave.files import sandbox

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.slow, pytest.mark.multi, pytest.mark.oracle]

LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
STAGES = {"depths": [1, 1, 2, 1], "hidden_sizes": [8, 16, 24, 32]}

CASES: dict[str, tuple[str, str, dict[str, Any], tuple[int, ...]]] = {
    "vit": (
        "ViTConfig",
        "ViTForImageClassification",
        LAYERS | {"image_size": 32, "patch_size": 8},
        (2, 3, 32, 32),
    ),
    "bert": ("BertConfig", "BertModel", LAYERS | {"vocab_size": 50}, (2, 7)),
    "masked-bert": ("BertConfig", "BertForMaskedLM", LAYERS | {"vocab_size": 50}, (2, 7)),
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "n_positions": 64},
        (2, 7),
    ),
    "mixtral": (
        "MixtralConfig",
        "MixtralForCausalLM",
        LAYERS
        | {"vocab_size": 50, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
        (2, 7),
    ),
    "resnet": (
        "ResNetConfig",
        "ResNetForImageClassification",
        STAGES | {"embedding_size": 8, "layer_type": "basic"},
        (2, 3, 64, 64),
    ),
    "convnext": ("ConvNextConfig", "ConvNextForImageClassification", STAGES, (2, 3, 64, 64)),
}
"""By a name of ours: the classes of configuration and model, what is set, and the sizes of the input."""


def saved(folder: Path, case: str) -> Any:
    config, kind, settings, _ = CASES[case]
    torch.manual_seed(0)
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval()
    model.save_pretrained(folder)
    return model


def load(net: str, **options: Any) -> netweave.Graph:
    return netweave.load(net, trust=not sandbox.has_guard(), **options)


def drawn(case: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 50, shape) if len(shape) == 2 else rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_transformers(tmp_path: Path, case: str) -> None:
    model, shape = saved(tmp_path, case), CASES[case][3]
    assert (tmp_path / "model.safetensors").is_file()
    name = model.main_input_name
    graph = load(str(tmp_path), input_shapes={name: shape})
    assert [value.name for value in graph.inputs] == [name]
    assert not graph.initial
    x = drawn(case, shape)
    found = next(iter(netweave.run(graph, {name: x}).values()))
    with torch.no_grad():
        expected = model(**{name: torch.from_numpy(x)})[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("case", ["bert", "resnet"])
def test_sizes_need_not_be_given(tmp_path: Path, case: str) -> None:
    model = saved(tmp_path, case)
    graph = load(str(tmp_path))
    assert [value.name for value in graph.inputs] == [model.main_input_name]
    assert any("nobody said the size" in note for note in graph.notes)


def test_a_configuration_alone_is_the_model_with_first_values(tmp_path: Path) -> None:
    saved(tmp_path, "convnext")
    (tmp_path / "model.safetensors").unlink()
    graph = load(str(tmp_path), input_shapes={"pixel_values": (1, 3, 64, 64)})
    assert graph.initial
    assert any("no weights were named" in note for note in graph.notes)


def test_what_a_folder_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nothing", "architectures": ["Nothing"]}))
    with pytest.raises((CodeError, UsageError), match=r"its code fails: ValueError: .*config\.json"):
        load(str(tmp_path))
