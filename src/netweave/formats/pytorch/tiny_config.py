"""Configurations of Hugging Face models, shrunk: few layers, heads, features, experts and words.

Settings are known by their names, as the classes of Transformers call them. What hangs together shrinks
together: head counts keep their groups, widths the ratio to their heads, and of each kind of layer one stays.
Lengths become so short that an input of ``TOKENS`` tokens reaches beyond windows and chunks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import Any

Config = dict[str, Any]

TOKENS = 16
"""Sequences that nets are traced with; windows become half of it."""

POSITIONS = 64
"""The longest sequence that a shrunk net is made for."""

WORDS = 128
"""Rows of embeddings; ids of special tokens beyond become others below."""

HEADS, KV_HEADS, HEAD_DIM = 4, 2, 16
"""Heads of a layer, those of keys where several queries share one, and features of a head."""

LARGEST_GROUP = 8
"""Queries that share a key keep their number up to this one; larger groups become groups of two."""

LEAST_WIDTH, STEP = 32, 8
"""Features of a layer are so many at least; other widths are multiples of ``STEP``."""

STAGE_WIDTH, STAGE_HEAD_DIM = 16, 8
"""Features of the first stage of a pyramid, and of a head in it."""

_LAYERS = re.compile(r"^(num_(hidden_|encoder_|decoder_)?layers|n_layers?|(encoder|decoder)_layers|depth)$")
_HEADS = re.compile(r"^(num_(attention_|query_)?heads|n_heads?|(encoder|decoder)_attention_heads)$")
_KV_HEADS = re.compile(r"^(num_key_value_heads|num_kv_heads|n_kv_heads?|n_head_kv|multi_query_group_num)$")
_OTHER_HEADS = re.compile(r"_num_(key|value)_heads$|^index_n_heads$|^(mamba|ssm)_n_heads$")
_HEAD_DIMS = re.compile(
    r"(^|_)(head_dim|head_size|d_kv|rotary_dim|d_head)$|^(global|kv|qk|v)_\w*(dim|channels)$|^rotary_dim$"
)
_HIDDEN = re.compile(r"^(hidden_size|d_model|n_embd|embed_dim|emb_dim|hidden_dim|dim|n_embed)$")
_WIDTHS = re.compile(
    r"(size|_dim|^dim|width|_rank|channels|_ffn|d_ff|^d_model|n_embd|n_embed|n_inner|d_inner|_units)(_\w+)?$"
)
_NO_WIDTHS = re.compile(
    r"vocab|patch|image|kernel|window|chunk|block|batch|context|position|crop|stride|pool|state_size"
    r"|num_channels|in_channels|out_channels|^size|frame|tubelet|code|group|conv_dim_|max_|min_|_token|temporal"
    r"|in_chans|input_dim|spectrogram|mel|feature_size|buckets|merge|embedding_size_|init"
)
_VOCABULARY = re.compile(r"^((src_|tgt_)?vocab_size|n_words|num_embeddings|vocab_size_per_layer_input)$")
_TOKEN = re.compile(r"token_(id|index|ids)$|^(pad|bos|eos|sep|cls|mask|decoder_start)_token_id$")
_POSITIONS = re.compile(
    r"^(max_(position_embeddings|seq_len(gth)?|sequence_length|source_positions|target_positions)|n_positions"
    r"|n_ctx|seq_length|original_max_position_embeddings|max_position|model_max_length|initial_context_length)$"
)
_WINDOWS = re.compile(
    r"^(sliding_window(_size|_attention)?|attention_chunk_size|local_attention|window_size|attention_window"
    r"|block_length|index_topk)$"
)
_PERIODS = re.compile(
    r"^(sliding_window_pattern|full_attention_interval|global_attn_every_n_layers|decoder_sparse_step"
    r"|encoder_sparse_step|\w+_layer_period|interleave_moe_layer_step|no_rope_layer_interval|moe_layer_freq"
    r"|moe_layer_interval|cross_attention_interval|attn_layer_period)$"
)
_OFFSETS = re.compile(r"^\w+_layer_offset$")
_FIRST = re.compile(r"^(first_k_dense_replace|max_window_layers|num_hash_layers|moe_layer_start_index)$")
_EXPERTS = re.compile(
    r"^(num_(local_|routed_)?experts|n_routed_experts|moe_num_experts|num_experts_total|ffn_num_experts)$"
)
_CHOSEN = re.compile(r"^(num_experts_per_tok(en)?|moe_(k|topk|top_k)|top_?k_experts|num_selected_experts)$")
_OF_BACKBONES = ("stage_names", "out_features", "out_indices")
"""Names and numbers of layers that a backbone returns: without, it returns the last one."""

_BY_INDEX = re.compile(r"layers$|indexes$|indices$")


@dataclass(slots=True)
class Shrunk:
    """A shrunk configuration.

    Attributes:
        config: The settings.
        changes: What became of which, in words: ``hidden_size 4,096 to 64``.
    """

    config: Config
    changes: list[str] = field(default_factory=list)


def with_stored(settings: Mapping[str, Any], stored: Mapping[str, Any]) -> Config:
    """Return the settings of ``config.json``, completed by those that it leaves to Transformers.

    What Transformers renames keeps the file's name alone: a port reads ``rope_theta`` where the file has it.

    Args:
        settings: All settings, as Transformers reads the file.
        stored: The file's.
    """
    known = {
        name: with_stored(value, stored[name])
        if _is_part(name, value) and isinstance(stored.get(name), dict)
        else value
        for name, value in settings.items()
    }
    if "rope_parameters" not in stored and {"rope_theta", "rope_scaling"} & stored.keys():
        known.pop("rope_parameters", None)
    merged = {**known, **{name: value for name, value in stored.items() if not _is_part(name, value)}}
    return merged | {name: "float32" for name in ("dtype", "torch_dtype") if merged.get(name)}


def shrink(config: Mapping[str, Any], *, widths: bool = True) -> Shrunk:
    """Return a configuration of the same architecture with two layers or few more, and small sizes.

    Args:
        config: All settings, as JSON values; those of a part in a dict of its own.
        widths: Shrink heads and features as well; without, only what a net has many of: layers, words,
            positions, experts.
    """
    shrunk = Shrunk(dict(config))
    shrunk.config.pop("quantization_config", None)
    _Part(shrunk.config, shrunk.changes, widths=widths).run()
    return shrunk


@dataclass(slots=True)
class _Part:
    """Shrinks the settings of a net or of a part with settings of its own.

    Attributes:
        config: The settings, which are changed.
        changes: What is changed, in words.
        widths: Whether heads and features shrink.
        prefix: Names of the part, for words.
        known: Widths that another part has shrunk: its features are what this one gives to it.
    """

    config: Config
    changes: list[str]
    widths: bool
    prefix: str = ""
    known: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Shrink all, the parts of it first: the text before what is made for it."""
        parts = [name for name, value in self.config.items() if _is_part(name, value)]
        for name in sorted(parts, key=lambda name: not re.search("text|decoder|thinker|talker", name)):
            self.config[name] = dict(self.config[name])
            _Part(self.config[name], self.changes, self.widths, f"{self.prefix}{name}.", self.known).run()
        self._layers()
        self._experts()
        self._lengths()
        self._words()
        if self.widths:
            self._features()

    def _set(self, name: str, value: Any) -> None:
        old = self.config[name]
        if old == value:
            return
        self.config[name] = value
        if type(old) is int:
            self.changes.append(f"{self.prefix}{name} {old:,} to {value:,}")

    def _named(self, pattern: re.Pattern[str]) -> dict[str, int]:
        """Return the positive whole numbers whose names match."""
        return {
            name: value
            for name, value in self.config.items()
            if pattern.search(name) and type(value) is int and value > 0
        }

    def _layers(self) -> None:
        counts = self._named(_LAYERS)
        for name in _OF_BACKBONES if counts else ():
            self.config.pop(name, None)
        for count in dict.fromkeys(counts.values()):
            kept = self._kept(count)
            for name in (name for name, value in counts.items() if value == count):
                self._set(name, len(kept))
        for name in self._named(_PERIODS):
            self._set(name, min(self.config[name], 2))
        for name, value in self.config.items():
            if _OFFSETS.search(name) and type(value) is int:
                self._set(name, min(value, 1))
        for name in self._named(_FIRST):
            self._set(name, 1)
        for name, value in list(self.config.items()):
            if name == "depths" and _is_numbers(value):
                self._set(name, [min(each, 2) for each in value])

    def _kept(self, count: int) -> list[int]:
        """Return which layers stay, one of each kind at least; cut the lists that say something of each."""
        lists = {
            name: value
            for name, value in self.config.items()
            if isinstance(value, list) and len(value) == count and count > 2
        }
        chosen = {
            name: value
            for name, value in self.config.items()
            if name not in lists and _BY_INDEX.search(name) and _is_numbers(value) and _rises(value, count)
        }
        tables = {
            name: {int(key): inner for key, inner in value.items()}
            for name, value in self.config.items()
            if "layer" in name and isinstance(value, dict) and all(str(key).isdecimal() for key in value)
        }
        kinds = [
            (
                *(str(value[i]) for value in lists.values()),
                *(i in value for value in chosen.values()),
                *(str(value.get(i)) for value in tables.values()),
            )
            for i in range(count)
        ]
        first = {kind: i for i, kind in reversed(list(enumerate(kinds)))}
        kept = sorted(first.values())
        if len(kept) < 2:
            kept = list(range(min(2, count)))
        for name, value in lists.items():
            self._set(name, [value[i] for i in kept])
        for name, chosen_layers in chosen.items():
            self._set(name, [at for at, i in enumerate(kept) if i in chosen_layers])
        for name, table in tables.items():
            self._set(name, {str(at): table[i] for at, i in enumerate(kept) if i in table})
        return kept

    def _experts(self) -> None:
        chosen = self._named(_CHOSEN)
        groups = self._named(re.compile(r"^n_group$")).get("n_group", 1)
        for name, value in chosen.items():
            self._set(name, min(value, 2))
        for name, value in self._named(_EXPERTS).items():
            self._set(name, min(value, 8 if groups > 1 else 4))
        if groups > 1:
            self._set("n_group", 2)
            if type(self.config.get("topk_group")) is int:
                self._set("topk_group", 1)

    def _lengths(self) -> None:
        for name, value in self._named(_WINDOWS).items():
            if name != "window_size" or "image_size" not in self.config:
                self._set(name, max(min(value, TOKENS // 2), self.config.get("index_kpool") or 0))
        self._shrink_positions(self.config)
        for name in ("rope_scaling", "rope_parameters"):
            scaling = self.config.get(name)
            if isinstance(scaling, dict):
                self.config[name] = {
                    key: dict(inner) if isinstance(inner, dict) else inner for key, inner in scaling.items()
                }
                for inner in (self.config[name], *self.config[name].values()):
                    if isinstance(inner, dict):
                        self._shrink_positions(inner)
        for name in self._named(re.compile(r"relative_attention_num_buckets$")):
            self._set(name, min(self.config[name], TOKENS // 2))
        for name in self._named(re.compile(r"relative_attention_max_distance$")):
            self._set(name, min(self.config[name], TOKENS))

    def _shrink_positions(self, settings: Config) -> None:
        for name, value in list(settings.items()):
            if not _POSITIONS.search(name) or type(value) is not int or value <= POSITIONS:
                continue
            most = TOKENS if name.startswith(("original", "initial")) else POSITIONS
            settings[name] = most + (
                value % POSITIONS if value % POSITIONS <= 2 else 0
            )  # RoBERTa: 2 for pads
            self.changes.append(f"{self.prefix}{name} {value:,} to {settings[name]:,}")

    def _words(self) -> None:
        sizes = self._named(_VOCABULARY)
        for name, value in sizes.items():
            self._set(name, min(value, WORDS))
        known: dict[int, int] = {}
        for name, value in self.config.items():
            if not _TOKEN.search(name):
                continue
            ids = value if isinstance(value, list) else [value]
            if all(type(each) is int for each in ids):
                fresh = [known.setdefault(each, _below(each, known)) for each in ids]
                self._set(name, fresh if isinstance(value, list) else fresh[0])

    def _features(self) -> None:
        if any(isinstance(self.config.get(name), list) for name in ("depths", "hidden_sizes")):
            self._pyramid()
            return
        heads, shared = self._named(_HEADS), self._named(_KV_HEADS)
        most = max(heads.values(), default=0)
        hidden = {name: value for name, value in self._named(_HIDDEN).items() if value > LEAST_WIDTH}
        own = [value for value in hidden.values() if value not in self.known]
        width = max(own or hidden.values(), default=0)
        if not width:
            return
        head_dim = self._head_dim(width, most)
        few, few_shared = _few_heads(most, min(shared.values(), default=most)) if most else (0, 0)
        small = min(HEAD_DIM, head_dim) if head_dim else 0
        expand = self.config.get("expand")
        is_inner = type(expand) is int and expand * width == most * head_dim
        scale = few * small / (most * head_dim) if most and head_dim else 2 * LEAST_WIDTH / width
        is_joined = width == most * head_dim or is_inner
        new = width * scale if is_joined else max(LEAST_WIDTH, _rounded(width * scale))
        for name, value in heads.items():
            self._set(name, few * value // most if (few * value) % most == 0 else few)
        for name, value in shared.items():
            self._set(name, few if value == most else few_shared)
        scalar = self.config.get("query_pre_attn_scalar")
        if most and scalar in {head_dim, width // most}:  # else it is a number of its own
            self._set("query_pre_attn_scalar", small if scalar == head_dim else int(new) // few)
        if head_dim:
            self._head_features(small, head_dim)
        self.known.setdefault(width, int(new))
        self._other_widths(width, int(new))
        self._other_heads(int(new))

    def _other_widths(self, width: int, new: int) -> None:
        """Shrink all widths in the ratio of one, which becomes a new one."""
        others = re.compile("|".join(each.pattern for each in (_NO_WIDTHS, _HEAD_DIMS, _HEADS)))
        for name, value in self._named(_WIDTHS).items():
            if others.search(name) and not _HIDDEN.search(name):
                continue
            if value in self.known and value >= width:
                self._set(name, self.known[value])
            elif value >= STEP:
                self._set(name, new if value == width else _rounded(value * new / width))
        for name in ("conv_dim", "tdnn_dim", "hidden_channels"):
            if _is_numbers(self.config.get(name)):
                self._set(name, [_rounded(each * new / width) for each in self.config[name]])

    def _head_dim(self, width: int, heads: int) -> int:
        """Return the features of a head, of queries and keys; 0 where there are no heads."""
        own = self._named(re.compile(r"^(head_dim|d_kv|qk_nope_head_dim|attention_head_dim|head_size)$"))
        if not heads:
            return 0
        return max(own.values()) if own else max(1, width // heads)

    def _head_features(self, small: int, head_dim: int) -> None:
        for name, value in self._named(_HEAD_DIMS).items():
            if not _HEADS.search(name) and value >= 4:
                self._set(name, max(2, 2 * round(value * small / head_dim / 2)))
        for scaling in [self.config.get(name) for name in ("rope_scaling", "rope_parameters")]:
            inner = [scaling, *scaling.values()] if isinstance(scaling, dict) else []
            for settings in (each for each in inner if isinstance(each, dict)):
                for name, value in list(settings.items()):
                    if name.endswith("_factor") and isinstance(value, list):
                        count = max(1, round(len(value) * small / head_dim))
                        settings[name] = [value[i * len(value) // count] for i in range(count)]
                    elif name == "mrope_section" and _is_numbers(value):
                        settings[name] = _shared_out(
                            value, max(len(value), round(sum(value) * small / head_dim))
                        )

    def _other_heads(self, width: int) -> None:
        counts = self._named(_OTHER_HEADS)
        least = min(counts.values(), default=0)
        for name, value in counts.items():
            self._set(name, max(1, 2 * value // least) if value >= least > 2 else value)
        expand = self.config.get("mamba_expand")
        if "mamba_n_heads" in counts and type(expand) is int and "mamba_d_head" in self.config:
            inner = expand * width  # heads of a scan share out the features inside a layer
            size = HEAD_DIM // 2 if inner % HEAD_DIM else HEAD_DIM
            self._set("mamba_d_head", size)
            self._set("mamba_n_heads", max(1, inner // size))
            if type(self.config.get("mamba_d_ssm")) is int:
                self._set("mamba_d_ssm", inner // size * size)
        for name, value in self._named(re.compile(r"^(n_groups|mamba_n_groups|ngroups)$")).items():
            self._set(name, min(value, 2))

    def _pyramid(self) -> None:
        """Shrink features that grow from stage to stage: each by the same factor."""
        heads = next((v for n, v in self.config.items() if _HEADS.search(n) and _is_numbers(v)), None)
        lists = {
            name: value
            for name, value in self.config.items()
            if _is_numbers(value)
            and re.search(r"sizes$|^embed_dims?$|_channels$|_dims?$", name)
            and not re.search(r"patch|kernel|window|stride|image|pool", name)
            and len(value) > 1
        }
        single = self._named(_HIDDEN) | self._named(re.compile(r"^embedding_size$"))
        widths = [min(value) for value in lists.values()] + list(single.values())
        least = min(widths, default=0)
        small = STAGE_HEAD_DIM * heads[0] if heads else STAGE_WIDTH
        if least <= small or least % small:
            return
        for name, value in lists.items():
            if all((each * small) % least == 0 for each in value):
                self._set(name, [each * small // least for each in value])
        for name, value in single.items():
            if (value * small) % least == 0:
                self._set(name, value * small // least)


def _is_part(name: str, value: Any) -> bool:
    return isinstance(value, dict) and (
        (name.endswith("_config") and name not in {"quantization_config"})
        or name in {"encoder", "decoder", "generator", "text_encoder", "audio_encoder"}
    )


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


def _rises(value: Sequence[int], count: int) -> bool:
    """Return whether numbers may be those of some of so many layers."""
    return value[0] >= 0 and value[-1] < count and all(a < b for a, b in pairwise(value))


def _few_heads(heads: int, shared: int) -> tuple[int, int]:
    """Return few heads of queries and of keys, in groups as large as they are, if these are not too large."""
    if heads <= HEADS or heads == shared or heads % shared:
        few = HEADS if heads % HEADS == 0 or heads > HEADS else heads
        return min(few, heads), min(few, shared)
    few_shared = min(shared, KV_HEADS)
    group = heads // shared
    if shared == 1:
        return HEADS, 1
    return few_shared * (group if group <= LARGEST_GROUP else 2), few_shared


def _rounded(value: float) -> int:
    return max(STEP, STEP * round(value / STEP))


def _shared_out(parts: Sequence[int], total: int) -> list[int]:
    """Return parts in about the same ratio that add up to a total, each at least 1."""
    step = gcd(*parts) or 1
    small = [max(1, part * total // sum(parts)) for part in parts]
    for at in sorted(range(len(parts)), key=lambda at: -parts[at] // step)[: total - sum(small)]:
        small[at] += 1
    return small


def _below(number: int, taken: Mapping[int, int]) -> int:
    """Return an id of a token that is below ``WORDS``: itself, or one that no other has."""
    if number < WORDS:
        return number
    return next(each for each in range(WORDS - 1, -1, -1) if each not in taken.values())
