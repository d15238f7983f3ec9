"""Public re-implementations against Transformers, tiny and with drawn weights.

::

    python -m benchmarks decoders.public --sources FOLDER [--only NAME]

FOLDER holds the files that ``FILES`` names, as their repositories have them. What an original and its
re-implementation have otherwise was written down in ``DIFFERENCES`` before any pair was compared.
"""

from __future__ import annotations

import math
import re
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import netweave
from benchmarks.decoders.scoring import WRONG_CASE, Row, compared, counts, distance, judge, run_cases
from benchmarks.record import Namespace, Record, option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FILES = {
    "nanogpt/model.py": "karpathy/nanoGPT: model.py",
    "llms_from_scratch/*.py": "rasbt/LLMs-from-scratch: pkg/llms_from_scratch",
    "llama/model.py": "meta-llama/llama: llama/model.py",
    "litgpt/*.py": "Lightning-AI/litgpt: litgpt/model.py and config.py",
    "clip/model.py": "openai/CLIP: clip/model.py",
    "whisper/model.py": "openai/whisper: whisper/model.py",
    "dinov2/": "facebookresearch/dinov2: dinov2/layers and dinov2/models",
    "swin/swin_transformer.py": "microsoft/Swin-Transformer: models/swin_transformer.py",
    "convnext/convnext.py": "facebookresearch/ConvNeXt: models/convnext.py",
    "vit/vit.py": "lucidrains/vit-pytorch: vit_pytorch/vit.py",
    "gemma/*.py": "google/gemma_pytorch: gemma/model.py and config.py",
    "mamba_minimal/model.py": "johnma2006/mamba-minimal: model.py",
    "llama2c/model.py": "karpathy/llama2.c: model.py",
    "mingpt/*.py": "karpathy/minGPT: mingpt/model.py and utils.py",
    "llama3/model.py": "meta-llama/llama3: llama/model.py",
    "gptfast/model.py": "pytorch-labs/gpt-fast: model.py",
}
"""Files in the folder of sources, and where they are from."""

DIFFERENCES = {
    "nanogpt": (r"mlp|act", r"(?i)gelu|tanh|erf"),  # GELU by erf; GPT-2's is by tanh
    "vit-pytorch": (r"patch|embed", r"(?i)norm"),  # two more normalisations around the patches
}
"""Place and cause of what differs; all other pairs compute the same."""

TEXT = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "use_cache": False}
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


class Only(nn.Module):
    """A net that gives one tensor of what another returns."""

    def __init__(self, net: nn.Module, pick: Callable[[Any], torch.Tensor], *more: Any) -> None:
        super().__init__()
        self.net, self.pick, self.more = net, pick, more

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the tensor."""
        return self.pick(self.net(tokens, *self.more))


class Listening(nn.Module):
    """Whisper of Transformers, up to the logits."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, sound: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.net(sound, decoder_input_ids=tokens).logits
        return logits


class Encode(nn.Module):
    """One tower of OpenAI's CLIP."""

    def __init__(self, net: nn.Module, method: str) -> None:
        super().__init__()
        self.net, self.method = net, method

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features."""
        features: torch.Tensor = getattr(self.net, self.method)(x)
        return features


class Filled(nn.Module):
    """The prefill of a net that is given positions."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.net(tokens, torch.arange(tokens.shape[1]))
        return logits


class GemmaFilled(nn.Module):
    """The prefill of Google's Gemma, which is given positions, caches and a mask; logits of the last step."""

    def __init__(self, net: nn.Module, cache: tuple[int, ...]) -> None:
        super().__init__()
        self.net, self.cache = net, cache

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        count, steps = tokens.shape
        sizes = (count, steps, *self.cache)
        caches = [(torch.zeros(sizes), torch.zeros(sizes)) for _ in self.net.model.layers]  # type: ignore[union-attr, arg-type]  # Google's
        mask = torch.full((1, 1, steps, steps), -2.3819763e38).triu(1)
        places, last = torch.arange(steps), torch.tensor([steps - 1])
        logits: torch.Tensor = self.net(tokens, places, None, caches, mask, last, None, None, None)[1]
        return logits


class Lookup(nn.Embedding):
    """An embedding that takes the arguments of fairscale's."""

    def __init__(self, rows: int, width: int, **_: Any) -> None:
        super().__init__(rows, width)


class Dense(nn.Linear):
    """A dense layer that takes the arguments of fairscale's."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, **_: Any) -> None:
        super().__init__(inputs, outputs, bias=bias)


STANDS_IN = {
    "fairscale.nn.model_parallel.initialize": {"get_model_parallel_world_size": lambda: 1},
    "fairscale.nn.model_parallel.layers": {
        "ColumnParallelLinear": Dense, "RowParallelLinear": Dense, "ParallelEmbedding": Lookup,
        "VocabParallelEmbedding": Lookup,
    },
    "timm.models.layers": {
        "DropPath": nn.Identity, "trunc_normal_": nn.init.trunc_normal_, "to_2tuple": lambda x: (x, x),
    },
    "timm.models.registry": {"register_model": lambda function: function},
    "gemma.tokenizer": {"Tokenizer": lambda path: None},
    "gemma.siglip_vision": {"config": SimpleNamespace(SiglipVisionModelConfig=object)},
    "tiktoken": {}, "tiktoken.load": {"load_tiktoken_bpe": None}, "requests": {},
    "litgpt.scripts.convert_hf_checkpoint": {"qkv_reassemble": None},
    "whisper.decoding": {"decode": None, "detect_language": None}, "whisper.transcribe": {"transcribe": None},
}  # fmt: skip
"""Packages that the files import for what is not computed here: many devices, tokens, training."""


def source(sources: Path, name: str) -> Any:
    """Return a module of the sources; what it imports beside it and needs no installation stands in."""
    if str(sources) not in sys.path:
        sys.path.insert(0, str(sources))
        for path, names in STANDS_IN.items():
            parts = path.split(".")
            for number in range(1, len(parts) + 1):
                package = ".".join(parts[:number])
                if (sources / parts[0]).is_dir() and number < len(parts):
                    continue  # a package of the sources itself
                module = sys.modules.setdefault(package, ModuleType(package))
                module.__path__ = []
            vars(sys.modules[path]).update(names)
    return import_module(name)


def drawn(net: nn.Module) -> nn.Module:
    """Return a net with drawn weights: those it starts with hide mistakes."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, x in net.named_parameters():
            noise = torch.randn(x.shape, generator=generator)
            if x.ndim <= 1:
                is_scale = "bias" not in name and re.search(r"norm|ln|lambda|gamma|layer_scale", name)
                x.copy_(0.2 * noise + (1.0 if is_scale else 0.0))
            elif re.search(r"embed|shared|wte|wpe|bias_table|class_emb|cls", name):
                x.copy_(0.5 * noise)
            else:
                x.copy_(1.2 * noise / math.sqrt(x[0].numel()))
    return net.eval()


def given(
    net: nn.Module, theirs: nn.Module, rules: Sequence[tuple[str, str]], *, fused: str = "", turned: str = ""
) -> nn.Module:
    """Return a re-implementation with an original's weights.

    Args:
        net: The re-implementation.
        theirs: The original.
        rules: Patterns of names of Transformers and what they become, applied in this order.
        fused: Names of queries, keys and values, by commas, and of the layer that joins them.
        turned: Pattern of matrices that are stored the other way round.
    """
    made: dict[str, torch.Tensor] = {}
    for name, value in theirs.state_dict().items():
        new = name
        for old, other in rules:
            new = re.sub(old, other, new)
        made[new] = value.T if turned and re.search(turned, new) and value.ndim == 2 else value
    if fused:
        *parts, joined = fused.split(",")
        for name in [name for name in made if parts[0] in name]:
            values = [made.pop(name.replace(parts[0], part), None) for part in parts]
            made[name.replace(parts[0], joined)] = torch.cat([x for x in values if x is not None])
    own = net.state_dict()
    computed = r"mask|\bbias$|index|_cache|freqs_cis"
    missing = [name for name in own if name not in made and not re.search(computed, name)]
    if missing:
        raise KeyError(f"no weights for {missing} among {list(made)}")
    with torch.no_grad():
        for name, value in own.items():
            if name in made:
                value.copy_(made[name].reshape(value.shape))
    return net.eval()


def _logits(output: Any) -> torch.Tensor:
    logits: torch.Tensor = output.logits
    return logits


GPT2 = [
    (r"transformer\.wte", "tok_emb"), (r"transformer\.wpe", "pos_emb"), (r"transformer\.h", "trf_blocks"),
    ("ln_1.weight", "norm1.scale"), ("ln_1.bias", "norm1.shift"), ("ln_2.weight", "norm2.scale"),
    ("ln_2.bias", "norm2.shift"), (r"transformer\.ln_f.weight", "final_norm.scale"),
    (r"transformer\.ln_f.bias", "final_norm.shift"), ("attn.c_proj", "att.out_proj"),
    ("mlp.c_fc", "ff.layers.0"), ("mlp.c_proj", "ff.layers.2"), ("lm_head", "out_head"),
]  # fmt: skip
SCRATCH = [
    ("model.embed_tokens", "tok_emb"), ("model.layers", "trf_blocks"), ("model.norm", "final_norm"),
    ("lm_head", "out_head"), ("self_attn", "att"), ("q_proj", "W_query"), ("k_proj", "W_key"),
    ("v_proj", "W_value"), ("o_proj", "out_proj"), ("mlp.gate_proj", "ff.fc1"), ("mlp.up_proj", "ff.fc2"),
    ("mlp.down_proj", "ff.fc3"), ("input_layernorm", "norm1"), ("post_attention_layernorm", "norm2"),
    (r"(q|k)_norm\.weight", r"\1_norm.scale"), (r"norm(1|2)\.weight", r"norm\1.scale"),
    (r"final_norm\.weight", "final_norm.scale"),
]  # fmt: skip


def _gpt2(activation: str) -> nn.Module:
    import transformers as hf

    config = hf.GPT2Config(
        vocab_size=97, n_positions=64, n_embd=64, n_layer=2, n_head=4, activation_function=activation, **TEXT
    )
    return drawn(hf.GPT2LMHeadModel(config))


def nanogpt(sources: Path, activation: str = "gelu_new") -> tuple[nn.Module, nn.Module]:
    """Return GPT-2 and nanoGPT, which gives the logits of the last token alone."""
    code, theirs = source(sources, "nanogpt.model"), _gpt2(activation)
    net = code.GPT(code.GPTConfig(block_size=64, vocab_size=97, n_layer=2, n_head=4, n_embd=64, dropout=0.0))
    net = given(net, theirs, [], turned=r"(c_attn|c_proj|c_fc)\.weight")
    return Only(theirs, lambda output: output.logits[:, -1:]), Only(net, lambda output: output[0])


def scratch_gpt(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return GPT-2 and the GPT of Build a Large Language Model from Scratch."""
    code, theirs = source(sources, "llms_from_scratch.ch04"), _gpt2("gelu_new")
    sizes = {"vocab_size": 97, "context_length": 64, "emb_dim": 64, "n_heads": 4, "n_layers": 2}
    net = code.GPTModel({**sizes, "drop_rate": 0.0, "qkv_bias": True})
    parts = theirs.state_dict()
    split = {}
    for layer in range(2):
        for kind in ("weight", "bias"):
            joined = parts[f"transformer.h.{layer}.attn.c_attn.{kind}"]
            for part, own in zip(joined.chunk(3, -1), ("W_query", "W_key", "W_value"), strict=True):
                split[f"trf_blocks.{layer}.att.{own}.{kind}"] = part.T if kind == "weight" else part
    net.load_state_dict(split, strict=False)
    stand_in = SimpleNamespace(state_dict=lambda: parts | split)
    turned = r"(out_proj|layers\.\d)\.weight"
    return Only(theirs, _logits), given(net, stand_in, GPT2, turned=turned)  # type: ignore[arg-type]


def _llama(**settings: Any) -> nn.Module:
    import transformers as hf

    sizes = {"vocab_size": 97, "intermediate_size": 96, "num_key_value_heads": 2, **SIZES, **TEXT}
    sizes |= {"max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
    return drawn(hf.LlamaForCausalLM(hf.LlamaConfig(**{**sizes, **settings})))


def scratch_llama(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Llama 3 and the one of Build a Large Language Model from Scratch."""
    code = source(sources, "llms_from_scratch.llama3")
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    theirs = _llama(rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, **scaling,
                                     "original_max_position_embeddings": 32})  # fmt: skip
    net = code.Llama3Model({
        "vocab_size": 97, "context_length": 64, "emb_dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 96,
        "n_kv_groups": 2, "rope_base": 500000.0, "dtype": torch.float32,
        "rope_freq": {**scaling, "original_context_length": 32},
    })  # fmt: skip
    rules = [(old, new) for old, new in SCRATCH if "scale" not in new]
    return Only(theirs, _logits), given(net, theirs, rules)


def scratch_qwen(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Qwen 3 and the one of Build a Large Language Model from Scratch."""
    import transformers as hf

    code = source(sources, "llms_from_scratch.qwen3")
    sizes = {"vocab_size": 97, "intermediate_size": 96, "num_key_value_heads": 2, "head_dim": 16, **SIZES}
    rotary = {"rope_type": "default", "rope_theta": 1000000.0}
    sizes |= {"max_position_embeddings": 64, "rope_parameters": rotary, "tie_word_embeddings": True}
    theirs = drawn(hf.Qwen3ForCausalLM(hf.Qwen3Config(**sizes, **TEXT)))
    net = code.Qwen3Model({
        "vocab_size": 97, "context_length": 64, "emb_dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 96,
        "head_dim": 16, "qk_norm": True, "n_kv_groups": 2, "rope_base": 1000000.0, "dtype": torch.float32,
    })  # fmt: skip
    return Only(theirs, _logits), given(net, theirs, SCRATCH)


META = [
    ("model.embed_tokens", "tok_embeddings"), ("model.layers", "layers"), ("model.norm", "norm"),
    ("lm_head", "output"), (r"self_attn\.(.)_proj", r"attention.w\1"), ("input_layernorm", "attention_norm"),
    ("post_attention_layernorm", "ffn_norm"), ("mlp.gate_proj", "feed_forward.w1"),
    ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"),
]  # fmt: skip


def neighbouring(theirs: nn.Module) -> SimpleNamespace:
    """Return Llama's weights with queries and keys in the order in which neighbours are rotated."""
    parts = dict(theirs.state_dict())
    for name, value in parts.items():
        if re.search(r"[qk]_proj", name):
            parts[name] = value.view(-1, 2, 8, 64).transpose(1, 2).reshape(value.shape)
    return SimpleNamespace(state_dict=lambda: parts)


def meta_llama(sources: Path, module: str = "llama.model", **rotary: Any) -> tuple[nn.Module, nn.Module]:
    """Return Llama and Meta's own, with its cache, which rotates neighbours, on a CPU."""
    keep = torch.Tensor.cuda, torch.inference_mode
    torch.Tensor.cuda = lambda x, *_: x  # type: ignore[method-assign, assignment]
    torch.inference_mode = lambda: lambda function: function  # type: ignore[assignment, misc]
    try:
        code = source(sources, module)
        sizes = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 97, "multiple_of": 32}
        net = code.Transformer(code.ModelArgs(**sizes, max_batch_size=4, max_seq_len=64, **rotary))
    finally:
        torch.Tensor.cuda, torch.inference_mode = keep  # type: ignore[method-assign, misc]
    sizes = {"intermediate_size": net.layers[0].feed_forward.w1.out_features}
    theirs = _llama(**sizes, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, **rotary})
    net = given(net, neighbouring(theirs), META)  # type: ignore[arg-type]
    return Only(theirs, _logits), Only(net, lambda output: output, 0)


def llama2_c(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Llama with a tied head and llama2.c's, which gives the logits of the last token alone."""
    code, theirs = source(sources, "llama2c.model"), _llama(tie_word_embeddings=True)
    sizes = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 97, "hidden_dim": 96}
    net = code.Transformer(code.ModelArgs(**sizes, max_seq_len=64))
    net = given(net, neighbouring(theirs), META)  # type: ignore[arg-type]
    return Only(theirs, lambda output: output.logits[:, -1:]), Only(net, lambda output: output)


def gpt_fast(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Llama and gpt-fast's, with its cache of 64 steps, which fuses queries, keys and values."""
    code, theirs = source(sources, "gptfast.model"), _llama()
    sizes = {"dim": 64, "n_layer": 2, "n_head": 4, "n_local_heads": 2, "vocab_size": 97, "block_size": 64}
    net = code.Transformer(code.ModelArgs(**sizes, intermediate_size=96))
    net = given(net, neighbouring(theirs), META, fused="wq,wk,wv,wqkv")  # type: ignore[arg-type]
    net.setup_caches(2, 64)  # type: ignore[operator]
    return Only(theirs, _logits), Filled(net)


def gemma(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Gemma and Google's own, with its cache."""
    import transformers as hf

    code = source(sources, "gemma.model")
    sizes = {"vocab_size": 97, "intermediate_size": 96, "num_key_value_heads": 2, "head_dim": 16, **SIZES}
    sizes |= {"max_position_embeddings": 64}
    theirs = drawn(hf.GemmaForCausalLM(hf.GemmaConfig(**sizes, **TEXT)))
    net = code.GemmaForCausalLM(code.gemma_config.GemmaConfig(**sizes))
    rules = [("model.embed_tokens", "embedder")]
    net = given(net, theirs, rules, fused="q_proj,k_proj,v_proj,qkv_proj")
    return Only(theirs, lambda output: output.logits[:, -1]), GemmaFilled(net, (2, 16))


def mingpt(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return GPT-2 and minGPT."""
    code, theirs = source(sources, "mingpt.model"), _gpt2("gelu_new")
    config = code.GPT.get_default_config()
    sizes = {"vocab_size": 97, "block_size": 64, "n_layer": 2, "n_head": 4, "n_embd": 64}
    config.merge_from_dict({"model_type": None, **sizes})
    net = given(code.GPT(config), theirs, [], turned=r"(c_attn|c_proj|c_fc)\.weight")
    return Only(theirs, _logits), Only(net, lambda output: output[0])


def mamba_minimal(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Mamba and mamba-minimal's."""
    import transformers as hf

    code = source(sources, "mamba_minimal.model")
    config = hf.MambaConfig(vocab_size=104, hidden_size=32, num_hidden_layers=2, state_size=4, **TEXT)
    theirs = drawn(hf.MambaForCausalLM(config))
    net = code.Mamba(code.ModelArgs(d_model=32, n_layer=2, vocab_size=104, d_state=4))
    rules = [(r"^backbone\.embeddings", "embedding"), (r"^backbone\.", "")]
    return Only(theirs, _logits), given(net, theirs, rules)


def litgpt(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Llama and LitGPT's, which fuses queries, keys and values."""
    code, theirs = source(sources, "litgpt.model"), _llama()
    config = source(sources, "litgpt.config").Config(
        block_size=64, n_layer=2, n_embd=64, vocab_size=97, padded_vocab_size=97, n_head=4, n_query_groups=2,
        norm_class_name="RMSNorm", norm_eps=1e-5, parallel_residual=False, rotary_percentage=1.0, bias=False,
        mlp_class_name="LLaMAMLP", intermediate_size=96,
    )  # fmt: skip
    rules = [
        ("model.embed_tokens", "transformer.wte"), ("model.layers", "transformer.h"), ("self_attn", "attn"),
        ("model.norm", "transformer.ln_f"), ("o_proj", "proj"), ("input_layernorm", "norm_1"),
        ("post_attention_layernorm", "norm_2"), ("gate_proj", "fc_1"), ("up_proj", "fc_2"),
        ("down_proj", "proj"),
    ]  # fmt: skip
    net = given(code.GPT(config), theirs, rules, fused="q_proj,k_proj,v_proj,qkv")
    return Only(theirs, _logits), net


TOWER = [
    (r"(text|vision)_model\.", ""), ("encoder.layers", "transformer.resblocks"), ("layer_norm1", "ln_1"),
    ("layer_norm2", "ln_2"), ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj"), ("self_attn", "attn"),
    ("embeddings.token_embedding", "token_embedding"), ("final_layer_norm", "ln_final"),
    ("embeddings.position_embedding.weight", "positional_embedding"),
    ("text_projection.weight", "text_projection"),
    ("embeddings.class_embedding", "class_embedding"), ("embeddings.patch_embedding", "conv1"),
    ("pre_layrnorm", "ln_pre"), ("post_layernorm", "ln_post"), ("visual_projection.weight", "proj"),
    (r"([qkv])_proj\.(weight|bias)", r"\1_in_proj_\2"),
]  # fmt: skip


def clip(sources: Path, tower: str) -> tuple[nn.Module, nn.Module]:
    """Return a tower of CLIP and OpenAI's."""
    import transformers as hf

    code = source(sources, "clip.model")
    sizes = {**SIZES, "intermediate_size": 256, "projection_dim": 48, "hidden_act": "quick_gelu"}
    heads = 1 if tower == "vision" else 4  # OpenAI's has one head for 64 features of an image
    sizes["num_attention_heads"] = heads
    net = code.CLIP(48, 32, 2, 64, 8, 16, 97, 64, heads, 2)
    fused = "q_in_proj,k_in_proj,v_in_proj,in_proj"
    if tower == "text":
        config = hf.CLIPTextConfig(vocab_size=97, max_position_embeddings=16, eos_token_id=2, **sizes)
        theirs = drawn(hf.CLIPTextModelWithProjection(config))
        stand_in = SimpleNamespace(
            state_dict=lambda: (
                theirs.state_dict()
                | {f"visual.{name}": x for name, x in net.visual.state_dict().items()}
                | {"logit_scale": net.logit_scale}
            )
        )
        given(net, stand_in, TOWER, fused=fused, turned="^text_projection")  # type: ignore[arg-type]
        return Only(theirs, lambda output: output.text_embeds), Encode(net, "encode_text")
    vision = hf.CLIPVisionConfig(image_size=32, patch_size=8, **sizes)
    theirs = drawn(hf.CLIPVisionModelWithProjection(vision))
    given(net.visual, theirs, TOWER, fused=fused, turned="^proj$")
    return Only(theirs, lambda output: output.image_embeds), Encode(net.eval(), "encode_image")


def whisper(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Whisper and OpenAI's."""
    import transformers as hf

    code = source(sources, "whisper.model")
    heard = {"num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 16, "d_model": 64}
    heard |= {f"{side}_{name}": n for side in ("encoder", "decoder")
              for name, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 256))}  # fmt: skip
    heard |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
    config = hf.WhisperConfig(vocab_size=97, use_cache=False, **heard)
    theirs = drawn(hf.WhisperForConditionalGeneration(config))
    net = code.Whisper(code.ModelDimensions(8, 12, 64, 4, 2, 97, 16, 64, 4, 2))
    rules = [
        (r"^model\.", ""), (r"coder\.layers", "coder.blocks"), ("self_attn_layer_norm", "attn_ln"),
        ("encoder_attn_layer_norm", "cross_attn_ln"), ("encoder_attn", "cross_attn"), ("self_attn", "attn"),
        ("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"), ("fc1", "mlp.0"),
        ("fc2", "mlp.2"), ("final_layer_norm", "mlp_ln"), ("embed_positions.weight", "positional_embedding"),
        ("embed_tokens", "token_embedding"), ("encoder.layer_norm", "encoder.ln_post"),
        ("decoder.layer_norm", "decoder.ln"),
    ]  # fmt: skip
    stored = net._buffers.pop("alignment_heads")  # sparse, and not computed with
    net = given(net, theirs, rules)
    net.alignment_heads = stored.to_dense()
    return Listening(theirs), net


def dinov2(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return DINOv2 and Meta's own, which fuses queries, keys and values."""
    import transformers as hf

    code = source(sources, "dinov2.models.vision_transformer")
    theirs = drawn(hf.Dinov2Model(hf.Dinov2Config(image_size=32, patch_size=8, mlp_ratio=4, **SIZES)))
    net = code.DinoVisionTransformer(
        img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4, init_values=1.0, block_chunks=0,
        block_fn=partial(code.Block, attn_class=code.MemEffAttention), interpolate_offset=0.0,
    )  # fmt: skip
    rules = [
        ("embeddings.cls_token", "cls_token"), ("embeddings.mask_token", "mask_token"),
        ("embeddings.position_embeddings", "pos_embed"),
        ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
        (r"encoder\.layer\.", "blocks."), (r"layer_scale(\d)\.lambda1", r"ls\1.gamma"),
        (r"attention\.attention\.", "attn."), (r"attention\.output\.dense", "attn.proj"),
        (r"attention\.", "attn."),
        (r"([qkv])_proj", lambda m: {"q": "query", "k": "key", "v": "value"}[m[1]]),
        ("attn.o_proj", "attn.proj"), (r"^layernorm", "norm"),
    ]  # fmt: skip
    net = given(net, theirs, rules, fused="query,key,value,qkv")  # type: ignore[arg-type]
    return Only(theirs, lambda output: output.pooler_output), net


def swin(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return Swin and Microsoft's, with shifted windows."""
    import transformers as hf

    code = source(sources, "swin.swin_transformer")
    config = hf.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
        num_labels=10,
        drop_path_rate=0.0,
    )  # fmt: skip
    theirs = drawn(hf.SwinForImageClassification(config))
    net = code.SwinTransformer(
        img_size=32, patch_size=2, num_classes=10, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
    )  # fmt: skip
    rules = [
        (r"^swin\.", ""), ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
        ("embeddings.norm", "patch_embed.norm"), ("encoder.layers", "layers"), ("layernorm_before", "norm1"),
        ("layernorm_after", "norm2"), (r"attention\.(self|output)\.", "attn."), ("attn.dense", "attn.proj"),
        (r"relative_position_bias\.relative", "relative"), (r"attention\.", "attn."),
        (r"([qkv])_proj", lambda m: {"q": "query", "k": "key", "v": "value"}[m[1]]),
        ("attn.o_proj", "attn.proj"),
        (r"intermediate\.dense", "mlp.fc1"), (r"(\d)\.output\.dense", r"\1.mlp.fc2"), (r"^layernorm", "norm"),
        ("classifier", "head"),
    ]  # fmt: skip
    net = given(net, theirs, rules, fused="query,key,value,qkv")  # type: ignore[arg-type]
    return Only(theirs, _logits), net


def convnext(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return ConvNeXt and Meta's own."""
    import transformers as hf

    code = source(sources, "convnext.convnext")
    sizes, depths = [8, 16, 24, 32], [1, 1, 1, 1]
    config = hf.ConvNextConfig(hidden_sizes=sizes, depths=depths, num_labels=10, layer_norm_eps=1e-6)
    theirs = drawn(hf.ConvNextForImageClassification(config))
    net = code.ConvNeXt(num_classes=10, depths=depths, dims=sizes)
    rules = [
        (r"^convnext\.", ""), ("embeddings.patch_embeddings", "downsample_layers.0.0"),
        ("embeddings.layernorm", "downsample_layers.0.1"), (r"encoder\.stages", "stages"),
        (r"stages\.(\d)\.downsampling_layer", r"downsample_layers.\1"), (r"\.layers\.", "."),
        ("layer_scale_parameter", "gamma"), ("layernorm", "norm"), ("classifier", "head"),
    ]  # fmt: skip
    return Only(theirs, _logits), given(net, theirs, rules)


def vit_pytorch(sources: Path) -> tuple[nn.Module, nn.Module]:
    """Return ViT without biases of queries, keys and values, and vit-pytorch's."""
    import transformers as hf

    code = source(sources, "vit.vit")
    config = hf.ViTConfig(image_size=32, patch_size=8, intermediate_size=96, qkv_bias=False, num_labels=10,
                          layer_norm_eps=1e-5, **SIZES)  # fmt: skip
    theirs = drawn(hf.ViTForImageClassification(config))
    net = drawn(code.ViT(image_size=32, patch_size=8, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=96,
                         dim_head=16))  # fmt: skip
    rules = [
        (r"^vit\.", ""), ("embeddings.cls_token", "cls_token"),
        ("embeddings.position_embeddings", "pos_embedding"),
        ("embeddings.patch_embeddings.projection", "to_patch_embedding.2"),
        (r"(encoder\.layer|^layers)", "transformer.layers"),
        (r"attention\.attention\.", "0."), (r"attention\.output\.dense", "0.to_out.0"),
        (r"attention\.", "0."),
        (r"([qkv])_proj", lambda m: {"q": "query", "k": "key", "v": "value"}[m[1]]),
        ("0.o_proj", "0.to_out.0"),
        ("layernorm_before", "0.norm"), ("layernorm_after", "1.net.0"),
        (r"(intermediate\.dense|mlp\.fc1)", "1.net.1"), (r"(\d)\.(output\.dense|mlp\.fc2)", r"\1.1.net.4"),
        (r"^layernorm", "transformer.norm"), ("classifier", "mlp_head"),
    ]  # fmt: skip
    parts = dict(net.state_dict()) | theirs.state_dict()
    patches = next(name for name in parts if name.endswith("projection.weight"))
    parts[patches] = parts[patches].permute(0, 2, 3, 1)  # from channel, height, width
    stand_in = SimpleNamespace(state_dict=lambda: parts)
    net = given(net, stand_in, rules, fused="query,key,value,to_qkv")  # type: ignore[arg-type]
    return Only(theirs, _logits), net


PAIRS: dict[str, tuple[Callable[[Path], tuple[nn.Module, nn.Module]], str]] = {
    "nanogpt": (nanogpt, "text"),
    "nanogpt-erf": (partial(nanogpt, activation="gelu"), "text"),
    "scratch-gpt": (scratch_gpt, "text"),
    "scratch-llama": (scratch_llama, "text"),
    "scratch-qwen": (scratch_qwen, "text"),
    "meta-llama": (meta_llama, "text"),
    "litgpt": (litgpt, "text"),
    "gemma": (gemma, "text"),
    "mamba-minimal": (mamba_minimal, "text"),
    "llama2.c": (llama2_c, "text"),
    "mingpt": (mingpt, "text"),
    "llama3": (partial(meta_llama, module="llama3.model", rope_theta=500000.0), "text"),
    "gpt-fast": (gpt_fast, "text"),
    "clip-text": (partial(clip, tower="text"), "text"),
    "clip-vision": (partial(clip, tower="vision"), "image"),
    "whisper": (whisper, "sound"),
    "dinov2": (dinov2, "image"),
    "swin": (swin, "image"),
    "convnext": (convnext, "image"),
    "vit-pytorch": (vit_pytorch, "image"),
}
"""Pairs by name, and what they take."""


def row_of(name: str, sources: Path) -> Row:
    """Return what a comparison says of one pair, and whether it is right."""
    row: Row = {"is_mistake": name in DIFFERENCES}
    torch.manual_seed(0)
    make, kind = PAIRS[name]
    pair = make(sources)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 97, (2, 16), generator=generator)
    examples = {
        "text": [tokens],
        "image": [torch.randn(2, 3, 32, 32, generator=generator)],
        "sound": [torch.randn(2, 8, 24, generator=generator), tokens[:, :7]],
    }[kind]
    with torch.no_grad():
        row["truth"] = distance(*(net(*examples) for net in pair))
    if (row["truth"] < WRONG_CASE) == row["is_mistake"]:
        return row | {"said": "the case is wrong"}
    comparison = compared(row, lambda: netweave.compare(*(netweave.load(x, examples=examples) for x in pair)))
    if comparison is not None:
        judge(row, comparison, *DIFFERENCES.get(name, ("$^", "$^")))
    return row


OPTIONS = (
    option("--sources", default=Path("build/public"), help="the folder of the public files"),
    option("--only", default="", help="a pattern of names"),
)


def main(options: Namespace, record: Record) -> None:
    """Run the pairs, and print the counts."""
    wanted = {name: partial(row_of, name, options.sources) for name in PAIRS if re.search(options.only, name)}
    rows = run_cases(wanted, record)
    print(counts(rows, is_mistake=False), counts(rows, is_mistake=True))
