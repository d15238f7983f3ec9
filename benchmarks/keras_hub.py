"""Backbones of KerasHub at small sizes: are they read, and do they compute what Keras computes?

::

    python -m benchmarks keras_hub [--folder FOLDER] [--every seen] [--json FILE]

Each backbone of ``keras_hub.models`` whose configuration is flat is built by a file of a few lines, as a user
would write it, with weights that are drawn once more from normal numbers. Netweave reads the file, and both
compute the outputs of two examples, one of them padded. Of the list in its order, the first, third, ... were
mended against; the others were run once at the end. Needs keras-hub on PyTorch's backend in the same
environment; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import netweave
from benchmarks.record import Namespace, Record, option
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from collections.abc import Mapping

os.environ.setdefault("KERAS_BACKEND", "torch")

TOLERANCE = 1e-4
"""Largest difference from Keras, relative to the rms."""

TEXT = {"vocabulary_size": 100, "num_layers": 2, "hidden_dim": 32, "intermediate_dim": 64}
ENCODER = TEXT | {"num_heads": 2, "max_sequence_length": 16}
DECODER = TEXT | {"num_query_heads": 4, "num_key_value_heads": 2}
VISION = {"num_layers": 2, "hidden_dim": 32, "num_heads": 2, "intermediate_dim": 64}
EXPERTS = {"num_experts": 4, "top_k": 2}
T5 = {"num_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "hidden_dim": 32, "intermediate_dim": 64, "layer_types": ["full_attention"] * 2}  # fmt: skip

NETS: dict[str, dict[str, Any]] = {
    "AlbertBackbone": ENCODER | {
        "max_sequence_length": 12, "num_groups": 1, "num_inner_repetitions": 1, "embedding_dim": 16},
    "BartBackbone": ENCODER | {"max_sequence_length": 12},
    "BertBackbone": ENCODER,
    "BloomBackbone": TEXT | {"num_heads": 2, "dropout": 0.0, "layer_norm_epsilon": 1e-5},
    "CSPNetBackbone": {
        "stem_filters": 8, "stem_kernel_size": 3, "stem_strides": 1, "stackwise_depth": [1, 2, 2],
        "stackwise_strides": [1, 2, 2], "stackwise_num_filters": [8, 16, 32], "image_shape": (32, 32, 3),
        "block_type": "dark"},
    "DINOV2Backbone": VISION | {
        "patch_size": 14, "image_shape": (56, 56, 3), "position_embedding_shape": (70, 70)},
    "DINOV3Backbone": VISION | {"patch_size": 14, "image_shape": (56, 56, 3)},
    "DebertaV3Backbone": ENCODER | {"bucket_size": 8},
    "DeiTBackbone": VISION | {"image_shape": (32, 32, 3), "patch_size": 8},
    "DenseNetBackbone": {"stackwise_num_repeats": [2, 2], "image_shape": (64, 64, 3)},
    "DistilBertBackbone": ENCODER,
    "ESM2Backbone": TEXT | {"num_heads": 2},
    "ElectraBackbone": {
        "vocab_size": 100, "num_layers": 2, "num_heads": 2, "hidden_dim": 32, "embedding_dim": 16,
        "intermediate_dim": 64, "max_sequence_length": 16},
    "FNetBackbone": TEXT | {"max_sequence_length": 16},
    "FalconBackbone": TEXT | {
        "num_attention_heads": 2, "layer_norm_epsilon": 1e-5, "attention_dropout_rate": 0,
        "feedforward_dropout_rate": 0},
    "GPT2Backbone": ENCODER,
    "GPTNeoXBackbone": ENCODER,
    "Gemma3Backbone": DECODER | {
        "image_size": 16, "num_layers": 6, "head_dim": 8, "query_head_dim_normalize": True,
        "use_query_key_norm": True, "use_post_ffw_norm": True, "use_post_attention_norm": True,
        "sliding_window_size": 4, "use_sliding_window_attention": True, "vision_encoder": None},
    "GemmaBackbone": DECODER | {"num_key_value_heads": 1, "head_dim": 8},
    "GptOssBackbone": DECODER | EXPERTS | {"sliding_window": 4, "head_dim": 8},
    "HGNetV2Backbone": {
        "depths": [1, 2, 2], "embedding_size": 8, "hidden_sizes": [16, 32, 64], "stem_channels": [3, 8, 8],
        "hidden_act": "relu", "use_learnable_affine_block": True, "image_shape": (64, 64, 3),
        "stackwise_stage_filters": [(8, 8, 16, 1, 1, 3), (16, 8, 32, 2, 1, 3), (32, 16, 64, 2, 1, 3)],
        "apply_downsample": [False, True, True], "use_lightweight_conv_block": [False, False, True]},
    "Llama3Backbone": DECODER,
    "LlamaBackbone": DECODER,
    "MiTBackbone": {
        "image_shape": (64, 64, 3), "layerwise_depths": [1, 1], "hidden_dims": [16, 32], "num_layers": 2,
        "layerwise_num_heads": [1, 2], "layerwise_sr_ratios": [4, 2], "layerwise_patch_sizes": [7, 3],
        "layerwise_strides": [4, 2], "max_drop_path_rate": 0.1},
    "MistralBackbone": DECODER | {"sliding_window": 4},
    "MixtralBackbone": DECODER | EXPERTS | {"sliding_window": 4},
    "OPTBackbone": ENCODER,
    "Phi3Backbone": DECODER,
    "Qwen2Backbone": DECODER | {"use_sliding_window_attention": False},
    "Qwen3Backbone": DECODER | {"head_dim": 8},
    "Qwen3MoeBackbone": DECODER | EXPERTS | {
        "head_dim": 8, "moe_intermediate_dim": 16, "norm_top_k_prob": True},
    "QwenMoeBackbone": DECODER | EXPERTS | {
        "moe_intermediate_dim": 16, "shared_expert_intermediate_dim": 16},
    "RWKV7Backbone": {
        "hidden_size": 32, "head_size": 16, "num_layers": 2, "vocabulary_size": 100, "intermediate_dim": 64,
        "gate_lora": 8, "mv_lora": 8, "aaa_lora": 8, "decay_lora": 8},
    "ResNetBackbone": {
        "input_conv_filters": [8], "input_conv_kernel_sizes": [7], "stackwise_num_filters": [8, 16],
        "stackwise_num_blocks": [2, 2], "stackwise_num_strides": [1, 2], "block_type": "basic_block",
        "image_shape": (32, 32, 3)},
    "RobertaBackbone": ENCODER,
    "RoformerV2Backbone": TEXT | {"num_heads": 2, "max_wavelength": 10000},
    "SmolLM3Backbone": TEXT | {
        "num_attention_heads": 4, "num_key_value_heads": 2, "attention_bias": False, "attention_dropout": 0.0,
        "rope_layer_enabled_list": [True, False], "layer_types": ["attention"] * 2, "mlp_bias": False,
        "layer_norm_epsilon": 1e-5, "max_position_embeddings": 64, "rope_theta": 10000.0,
        "partial_rotary_factor": 1.0},
    "SwinTransformerBackbone": {
        "image_shape": (32, 32, 3), "embed_dim": 8, "depths": (2, 2), "num_heads": (2, 4), "window_size": 4,
        "patch_size": 2},
    "T5Backbone": TEXT | {"num_heads": 2},
    "T5GemmaBackbone": {
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in T5.items()},
        "vocabulary_size": 100, "dropout_rate": 0.0, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 1.0,
        "attention_bias": False, "hidden_activation": "gelu_approximate"},
    "VGGBackbone": {
        "stackwise_num_repeats": [1, 2], "stackwise_num_filters": [8, 16], "image_shape": (32, 32, 3)},
    "ViTBackbone": {
        "image_shape": (32, 32, 3), "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 32,
        "mlp_dim": 64},
    "ViTDetBackbone": {
        "image_shape": (16, 16, 3), "patch_size": 2, "hidden_size": 4, "num_layers": 2,
        "global_attention_layer_indices": [2, 5, 8, 11], "intermediate_dim": 16, "num_heads": 2,
        "num_output_channels": 2, "window_size": 2},
    "WhisperBackbone": TEXT | {
        "num_heads": 2, "num_mels": 8, "max_encoder_sequence_length": 16, "max_decoder_sequence_length": 16},
    "XLMRobertaBackbone": ENCODER,
    "XLNetBackbone": TEXT | {"num_heads": 2},
    "XceptionBackbone": {
        "stackwise_conv_filters": [[8, 16], [16, 32], [32, 32]], "stackwise_pooling": [True, True, False],
        "image_shape": (64, 64, 3)},
}  # fmt: skip
"""Small configurations, in the order of the names."""

CODE = """import keras
import keras_hub
import numpy as np


def build():
    keras.utils.set_random_seed(1)
    model = keras_hub.models.{name}(**{settings!r})
    drawn = np.random.default_rng(1)
    for weight in model.weights:
        if str(weight.dtype).startswith("float"):
            values = 0.2 * drawn.standard_normal(weight.shape)
            known = keras.ops.convert_to_numpy(weight.value)
            weight.assign(abs(values) + 0.5 if "variance" in weight.path else known + values)
    return model
"""


def outcome(path: Path) -> str:
    """Return ``right``, or what went wrong, for the backbone that a file builds."""
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        code = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(code)
        model = code.build()
        batch = inputs_of(model)
        expected = computed_by_keras(model, batch)
    except Exception as error:  # noqa: BLE001  # the library's own, of any type
        return f"not built: {type(error).__name__}: {error}"[:300]
    try:
        net = netweave.load(f"{path}:build")
        if len(batch) == 1:  # Keras numbers the names of inputs that have none
            batch = dict(zip(net.declared, batch.values(), strict=True))
        outputs = netweave.run(net, batch).values()
    except NetweaveError as error:
        return f"{type(error).__name__}: {error}"[:300]
    errors = []
    for wanted in expected:
        alike = [made for made in outputs if made.shape == wanted.shape]
        rms = float(np.sqrt(np.square(wanted).mean())) or 1.0
        errors.append(min((float(abs(made - wanted).max()) / rms for made in alike), default=np.inf))
    return "right" if max(errors) <= TOLERANCE else f"wrong: differs by {max(errors):.2g} of the rms"


def inputs_of(model: Any) -> dict[str, np.ndarray]:
    """Return two examples of each input of a model, of 12 words where the length is open."""
    drawn, batch = np.random.default_rng(0), {}
    for tensor in model.inputs:
        shape = [2, *(12 if size is None else size for size in tensor.shape[1:])]
        if "mask" in tensor.name:
            batch[tensor.name] = np.ones(shape, tensor.dtype)
            batch[tensor.name][1, -3:] = 0
        elif "segment" in tensor.name:
            batch[tensor.name] = np.tile(np.arange(shape[1]) > shape[1] // 2, (2, 1)).astype(tensor.dtype)
        elif "int" in tensor.dtype:
            batch[tensor.name] = drawn.integers(0, 100, shape).astype(tensor.dtype)
        else:
            batch[tensor.name] = drawn.standard_normal(shape).astype(tensor.dtype)
    return batch


def computed_by_keras(model: Any, batch: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return all outputs of a model."""
    import keras
    import torch

    with torch.no_grad():
        made = model(dict(batch) if isinstance(model._inputs_struct, dict) else next(iter(batch.values())))
    return [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(made)]


OPTIONS = (
    option("--folder", default=Path("keras_hub_nets"), help="where the files go that build the backbones"),
    option("--every", default="seen", choices=["seen", "unseen"], help="which half of the list"),
)


def main(options: Namespace, record: Record) -> None:
    """Read each backbone of one half, print how it went, and record it."""
    options.folder.mkdir(parents=True, exist_ok=True)
    names = list(NETS)[options.every == "unseen" :: 2]
    rows = []
    for name in names:
        path = options.folder / f"{name}.py"
        path.write_text(CODE.format(name=name, settings=NETS[name]))
        start = time.perf_counter()
        rows.append({"net": name, "outcome": outcome(path), "seconds": round(time.perf_counter() - start, 1)})
        print(f"{name:28} {rows[-1]['seconds']:5} s  {rows[-1]['outcome']}", flush=True)
    print(f"{sum(row['outcome'] == 'right' for row in rows)} of {len(rows)} right")
    record.results[options.every] = rows
    record.save()
