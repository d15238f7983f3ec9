"""Port: the encoder on ``nn.TransformerEncoderLayer``."""

import torch
from safetensors.torch import load_file
from torch import nn

WIDTH = 32
HEADS = 4
DEPTH = 2
VOCABULARY = 83


def transformer_layer():
    return nn.TransformerEncoderLayer(
        WIDTH,
        HEADS,
        3 * WIDTH,
        dropout=0.0,
        activation="gelu",
        layer_norm_eps=1e-12,
        batch_first=True,
        norm_first=False,
    )


class TextScorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_table = nn.Embedding(VOCABULARY, WIDTH)
        self.place_table = nn.Embedding(42, WIDTH)
        self.kind_table = nn.Embedding(2, WIDTH)
        self.ln = nn.LayerNorm(WIDTH, eps=1e-12)
        self.encoder = nn.ModuleList([transformer_layer() for _ in range(DEPTH)])
        self.first = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(2 * WIDTH, 3)

    def forward(self, ids, types, mask):
        places = mask.cumsum(-1) * mask + 1
        x = self.word_table(ids) + self.place_table(places) + self.kind_table(types)
        x = self.ln(x)
        padding = mask == 0
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=padding)
        kept = x.masked_fill(padding[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)
        return self.head(torch.cat([self.first(x[:, 0]).tanh(), kept], -1))


def load(path):
    w = load_file(path)
    state = {
        "word_table.weight": w["words.weight"],
        "place_table.weight": w["positions.weight"],
        "kind_table.weight": w["types.weight"],
    }
    for kind in ("weight", "bias"):
        state[f"ln.{kind}"] = w[f"norm.{kind}"]
        state[f"first.{kind}"] = w[f"pooler.{kind}"]
        state[f"head.{kind}"] = w[f"score.{kind}"]
        for i in range(DEPTH):
            old, new = f"layers.{i}", f"encoder.{i}"
            parts = [w[f"{old}.{name}.{kind}"] for name in ("query", "key", "value")]
            state[f"{new}.self_attn.in_proj_{kind}"] = torch.cat(parts)
            state[f"{new}.self_attn.out_proj.{kind}"] = w[f"{old}.dense.{kind}"]
            state[f"{new}.norm1.{kind}"] = w[f"{old}.norm1.{kind}"]
            state[f"{new}.linear1.{kind}"] = w[f"{old}.intermediate.{kind}"]
            state[f"{new}.linear2.{kind}"] = w[f"{old}.output.{kind}"]
            state[f"{new}.norm2.{kind}"] = w[f"{old}.norm2.{kind}"]
    net = TextScorer()
    net.load_state_dict(state)
    return net.eval()


def run(net, ids, types, mask):
    with torch.no_grad():
        return net(*(torch.from_numpy(x) for x in (ids, types, mask))).numpy()
