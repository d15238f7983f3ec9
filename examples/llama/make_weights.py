"""Draws the weights of the reference, and writes them under the names of either net.

python make_weights.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from reference import Llama

NAMES = {
    "embed_tokens": "tokens",
    "layers": "blocks",
    "lm_head": "head",
    "input_layernorm": "norm1",
    "post_attention_layernorm": "norm2",
    "self_attn.o_proj": "out",
    "mlp.down_proj": "down",
}
"""Names of the port by those of the reference, where they are others."""

JOINED = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
}
"""Layers of the port that hold several of the reference."""


def draw() -> dict[str, torch.Tensor]:
    """Return the weights of the reference; those of norms are not 1, which would hide mistakes."""
    state: dict[str, torch.Tensor] = Llama().state_dict()
    generator = torch.Generator().manual_seed(0)
    for name, tensor in state.items():
        noise = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim == 1:
            state[name] = 1 + 0.2 * noise
        else:
            state[name] = noise if "embed" in name else 1.5 * noise / tensor.shape[-1] ** 0.5
    return state


def of_port(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the same weights under the names of the port."""
    made: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        new = name
        for own, other in NAMES.items():
            new = new.replace(own, other)
        parts = next((parts for parts in JOINED.values() if any(part in name for part in parts)), ())
        if not parts:
            new = new.replace(".weight", ".scale") if tensor.ndim == 1 else new
            made[new] = tensor
        elif parts[0] in name:
            joined = next(key for key, value in JOINED.items() if value == parts)
            tensors = [state[name.replace(parts[0], part)] for part in parts]
            made[new.replace(parts[0], joined)] = torch.cat(tensors)
    return made


def write(folder: Path) -> None:
    """Write ``reference.pt`` and ``port.pt``."""
    state = draw()
    torch.save(state, folder / "reference.pt")
    torch.save(of_port(state), folder / "port.pt")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
