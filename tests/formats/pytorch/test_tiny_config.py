"""Shrunk configurations: what hangs together stays together. No package of Hugging Face is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from netweave.formats.pytorch.tiny_config import POSITIONS, TOKENS, WORDS, shrink, with_stored

if TYPE_CHECKING:
    from collections.abc import Mapping

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}

GEMMA = LLAMA | {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2,
}

DEEPSEEK = LLAMA | {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "head_dim": 64,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "first_k_dense_replace": 3,
    "moe_intermediate_size": 2048,
}

MAMBA = {
    "model_type": "mamba2",
    "hidden_size": 4096,
    "num_hidden_layers": 64,
    "num_heads": 128,
    "head_dim": 64,
    "expand": 2,
    "n_groups": 8,
    "state_size": 128,
    "vocab_size": 32768,
}

BERT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 514,
    "vocab_size": 50265,
    "type_vocab_size": 1,
    "pad_token_id": 1,
}

QWEN_VL = {
    "model_type": "qwen2_vl",
    "image_token_id": 151655,
    "video_token_id": 151656,
    "text_config": LLAMA
    | {"hidden_size": 1536, "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936}
    | {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
    "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "num_heads": 16, "patch_size": 14},
}

FALCON = LLAMA | {"hidden_size": 4544, "num_attention_heads": 71, "num_key_value_heads": 1, "head_dim": 64}

SWIN = {"depths": [2, 2, 18, 2], "num_heads": [3, 6, 12, 24], "embed_dim": 96}

ALL = {
    "llama": LLAMA,
    "gemma": GEMMA,
    "deepseek": DEEPSEEK,
    "mamba": MAMBA,
    "bert": BERT,
    "qwen-vl": QWEN_VL,
    "falcon": FALCON,
    "swin": SWIN,
}


@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_a_shrunk_configuration_does_not_shrink_further(config: Mapping[str, Any]) -> None:
    before = repr(config)
    once = shrink(config).config
    assert repr(config) == before  # it is the caller's
    assert once != config
    assert shrink(once).config == once
    assert once.keys() == config.keys()


@pytest.mark.parametrize("config", [LLAMA, GEMMA, FALCON, BERT], ids=["llama", "gemma", "falcon", "bert"])
def test_heads_keep_their_groups_and_features(config: Mapping[str, Any]) -> None:
    small = shrink(config).config

    def groups(settings: Mapping[str, Any]) -> float:
        heads = settings["num_attention_heads"]
        return heads / settings.get("num_key_value_heads", heads)

    def joined(settings: Mapping[str, Any]) -> bool:
        head_dim = settings.get("head_dim", settings["hidden_size"] // settings["num_attention_heads"])
        return bool(settings["num_attention_heads"] * head_dim == settings["hidden_size"])

    assert groups(small) == groups(config) or config["num_attention_heads"] == 71
    assert (groups(small) > 1) == (groups(config) > 1)
    assert joined(small) == joined(config)
    assert small["num_hidden_layers"] == 2
    assert small["intermediate_size"] / small["hidden_size"] == pytest.approx(
        config["intermediate_size"] / config["hidden_size"], rel=0.15
    )
    assert small["hidden_size"] <= 256


def test_of_each_kind_of_layer_one_stays() -> None:
    small = shrink(GEMMA).config
    assert small["layer_types"] == ["sliding_attention", "full_attention"]
    chosen = shrink(LLAMA | {"cross_attention_layers": [3, 8, 13]}).config
    assert (chosen["num_hidden_layers"], chosen["cross_attention_layers"]) == (2, [1])
    wider = shrink(GEMMA | {"per_layer_config": {"5": {"head_dim": 512}, "11": {"head_dim": 512}}}).config
    assert wider["per_layer_config"] == {"1": {"head_dim": 512}}
    assert shrink(DEEPSEEK).config["first_k_dense_replace"] == 1
    assert shrink(LLAMA | {"full_attention_interval": 4}).config["full_attention_interval"] == 2


def test_a_backbone_returns_its_last_layer() -> None:
    names = {"stage_names": ["stem", "stage12"], "out_features": ["stage12"], "out_indices": [12]}
    assert not names.keys() & shrink(BERT | names).config.keys()  # Transformers chooses what is left
    assert shrink({"depths": [3, 3], "stage_names": ["stem", "stage2"]}).config["stage_names"]


@pytest.mark.parametrize("config", [LLAMA, GEMMA, DEEPSEEK], ids=["llama", "gemma", "deepseek"])
def test_lengths_and_words_are_within_reach(config: Mapping[str, Any]) -> None:
    small = shrink(config).config
    assert small["max_position_embeddings"] == POSITIONS
    assert small["rope_scaling"]["original_max_position_embeddings"] == TOKENS
    assert small.get("sliding_window", 1) < TOKENS
    tokens = [small["bos_token_id"], *small["eos_token_id"]]
    assert len(set(tokens)) == 4
    assert max(tokens) < small["vocab_size"] <= WORDS


def test_experts_and_ranks_of_deepseek() -> None:
    small = shrink(DEEPSEEK).config
    assert (small["n_routed_experts"], small["n_group"], small["topk_group"]) == (8, 2, 1)
    assert small["num_experts_per_tok"] == 2
    assert small["qk_nope_head_dim"] == 2 * small["qk_rope_head_dim"] == small["v_head_dim"] == 16
    assert small["q_lora_rank"] < small["hidden_size"] <= 64


def test_what_depends_on_several_settings() -> None:
    mamba = shrink(MAMBA).config
    assert mamba["num_heads"] * mamba["head_dim"] == mamba["expand"] * mamba["hidden_size"]
    assert mamba["num_heads"] % mamba["n_groups"] == 0
    assert shrink(BERT).config["max_position_embeddings"] == POSITIONS + 2  # positions count from 2 on
    small = shrink(QWEN_VL).config
    text, vision = small["text_config"], small["vision_config"]
    assert text["hidden_size"] == vision["hidden_size"] == text["num_attention_heads"] * 16
    assert sum(text["rope_scaling"]["mrope_section"]) == 8
    assert vision["embed_dim"] % vision["num_heads"] == 0
    assert len({small["image_token_id"], small["video_token_id"]}) == 2
    swin = shrink(SWIN).config
    assert swin["depths"] == [2, 2, 2, 2]
    assert swin["embed_dim"] % swin["num_heads"][0] == 0


def test_only_what_there_is_much_of() -> None:
    small = shrink(LLAMA, widths=False).config
    assert {name: small[name] for name in ("hidden_size", "head_dim", "num_attention_heads")} == {
        "hidden_size": 4096,
        "head_dim": 128,
        "num_attention_heads": 32,
    }
    assert small["num_hidden_layers"] == 2


def test_the_names_of_a_file_stay() -> None:
    """Transformers 5 keeps ``rope_theta`` elsewhere; a port reads it where the file has it."""
    read = {"hidden_size": 64, "rope_parameters": {"rope_theta": 5e5}, "dtype": "bfloat16"}
    merged = with_stored(read, {"rope_theta": 5e5, "hidden_size": 64, "torch_dtype": "bfloat16"})
    assert merged == {"hidden_size": 64, "rope_theta": 5e5, "dtype": "float32", "torch_dtype": "float32"}
    assert with_stored(read, {"hidden_size": 64})["rope_parameters"] == {"rope_theta": 5e5}


ORACLES = {
    "LlamaForCausalLM": ("LlamaConfig", LLAMA),
    "Gemma3ForCausalLM": ("Gemma3TextConfig", GEMMA),
    "DeepseekV3ForCausalLM": ("DeepseekV3Config", DEEPSEEK),
    "Mamba2ForCausalLM": ("Mamba2Config", MAMBA),
    "RobertaModel": ("RobertaConfig", BERT),
}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("kind", ORACLES)
def test_transformers_makes_a_small_net_of_it(kind: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config_kind, settings = ORACLES[kind]
    config = getattr(transformers, config_kind)(**shrink(settings).config)
    net = getattr(transformers, kind)(config).eval()
    assert sum(array.numel() for array in net.parameters()) < 2e6
    with torch.no_grad():
        made = net(input_ids=torch.arange(TOKENS)[None])[0]
    assert made.isfinite().all()
