"""Mistakes of ports as edits of right ones: what people get wrong (``reference``), a row each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in one port.

    Attributes:
        net: Folder of the net.
        port: The port's framework.
        kind: The mistake in a few words, for the truth and for reports.
        old: Text of the right port; it occurs once.
        new: Text in its place.
    """

    net: str
    port: str
    kind: str
    old: str
    new: str

    @property
    def place(self) -> tuple[str, str]:
        """The port's file, by net and framework."""
        return self.net, self.port


def _rows(net: str, port: str, *rows: tuple[str, str, str]) -> list[Mistake]:
    return [Mistake(net, port, *row) for row in rows]


MISTAKES: tuple[Mistake, ...] = (
    *_rows(
        "cnn",
        "torch",
        ("ceil mode of a pooling", "stride=2, ceil_mode=True)", "stride=2)"),
        ("window of the response norm", "(0, 0, 0, 0, 2, 2))", "(0, 0, 0, 0, 0, 4))"),
        ("alpha not divided by the window", "0.01 / 5 * total", "0.01 * total"),
        ("padding counted in an average", " / F.avg_pool2d(ones, 3, 2, 1)", ""),
        (
            "activation on both sides",
            "y = torch.where(y > 0, y, torch.expm1(y))",
            "y = torch.where(y > 0, y, 0.1 * y)",
        ),
        ("bins of an adaptive pooling", "-(-(i + 1) * size // count)", "(i + 1) * size // count"),
        ("groups exchanged", '"grouped.0.bias": first_bias', '"grouped.0.bias": second_bias'),
    ),
    *_rows(
        "cnn",
        "jax",
        ("flatten order", ".reshape(64, -1, 4, 4).transpose(2, 3, 1, 0).reshape(-1, 64)", ".T"),
        ("ceil mode of a pooling", "return (0, (size - 3) % 2)", "return (0, 0)"),
        ("padding counted in an average", "lax.add, pads) / counts", "lax.add, pads) / 9.0"),
        ("dilation missing", "x, padding=2, dilation=2)", "x, padding=1)"),
        ("slope of an activation", "padding=2, dilation=2), 0.1)", "padding=2, dilation=2))"),
        ("bins of an adaptive pooling", "-(-(i + 1) * size // count)", "(i + 1) * size // count"),
        ("alpha not divided by the window", "0.01 / 5 * total", "0.01 * total"),
    ),
    *_rows(
        "residual",
        "torch",
        ("ceil mode of a pooling", "ceil_mode=True, count_include_pad=False)", "count_include_pad=False)"),
        ("eps of batch norm", "+ 1e-5)", "+ 1e-3)"),
        (
            "stride on the wrong convolution",
            "ConvBN(inputs, middle, 1)\n        self.spatial = ConvBN(middle, middle, 3, stride=step)",
            "ConvBN(inputs, middle, 1, stride=step)\n        self.spatial = ConvBN(middle, middle, 3)",
        ),
        ("activation before the sum", "return torch.relu(y + x)", "return torch.relu(y) + x"),
        ("norms of two layers exchanged", 'conv2", f"blocks.{i}.bn2")', 'conv2", f"blocks.{i}.bn1")'),
        (
            "mean of a norm without its scale",
            '- w[f"{norm}.running_mean"] * scale',
            '- w[f"{norm}.running_mean"]',
        ),
        (
            "pooling after the projection",
            "            x = F.avg_pool2d(x, kernel_size=2, stride=2, ceil_mode=True, "
            "count_include_pad=False)\n",
            "            x = F.max_pool2d(x, kernel_size=2, stride=2, ceil_mode=True)\n",
        ),
    ),
    *_rows(
        "residual",
        "keras",
        ("eps of batch norm", "epsilon=1e-5", "epsilon=1e-3"),
        (
            "padding of a strided convolution",
            "x = layers.ZeroPadding2D(size // 2)(x)",
            "x = layers.ZeroPadding2D(((size // 2, size // 2), (size // 2, size // 2)))(x) if stride == 1 else "
            "layers.ZeroPadding2D(((size // 2 - 1, size // 2), (size // 2 - 1, size // 2)))(x)",
        ),
        ("padding counted in an average", "return total / count", "return total"),
        ("norms of two layers exchanged", 'conv2", f"blocks.{i}.bn2")', 'conv2", f"blocks.{i}.bn1")'),
        (
            "stride on the wrong convolution",
            'width, 1, 1, f"{name}_a"))\n    y = layers.ReLU()(conv_bn(y, width, 3, stride,',
            'width, 1, stride, f"{name}_a"))\n    y = layers.ReLU()(conv_bn(y, width, 3, 1,',
        ),
        (
            "frame at the wrong end",
            "x = layers.ZeroPadding2D(1)(x)",
            "x = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)",
        ),
        (
            "activation before the sum",
            "return layers.ReLU()(layers.Add()([x, y]))",
            "return layers.Add()([x, layers.ReLU()(y)])",
        ),
    ),
    *_rows(
        "gpt",
        "torch",
        (
            "eps of a norm",
            "self.norm_a = nn.LayerNorm(WIDTH, eps=1e-5)",
            "self.norm_a = nn.LayerNorm(WIDTH, eps=1e-6)",
        ),
        ("form of GELU", "self.down(gelu(", "self.down(F.gelu("),
        ("window off by one", "full.triu(1 - self.reach)", "full.triu(-self.reach)"),
        ("scale of attention", "* (WIDTH // HEADS) ** -0.5", "* WIDTH ** -0.5"),
        (
            "windows on the wrong blocks",
            "WINDOW if i % 2 == 1 else CONTEXT",
            "WINDOW if i % 2 == 0 else CONTEXT",
        ),
        ("queries and keys exchanged", "q, k, v = w[", "k, q, v = w["),
        ("matrix transposed", '= w[f"h.{i}.attn.c_proj.{kind}"]', '= w[f"h.{i}.attn.c_proj.{kind}"].T'),
        ("weights of another block", '= w[f"h.{i}.c_proj.{kind}"]', '= w[f"h.{i and i - 1}.c_proj.{kind}"]'),
    ),
    *_rows(
        "gpt",
        "jax",
        ("eps of a norm", "variance + 1e-5", "variance + 1e-6"),
        ("form of GELU", "approximate=True", "approximate=False"),
        ("window off by one", "(i - j < reach)", "(i - j <= reach)"),
        (
            "order of a fused projection",
            "reshape(n, t, 3, HEADS, WIDTH // HEADS)\n    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]",
            "reshape(n, t, HEADS, 3, WIDTH // HEADS)\n    q, k, v = qkv[:, :, :, 0], qkv[:, :, :, 1], qkv[:, :, :, 2]",
        ),
        ("scale of attention", " / jnp.sqrt(q.shape[-1])", " / jnp.sqrt(WIDTH)"),
        ("last norm missing", '    x = layer_norm(params["norm"], x)\n', ""),
        ("norms exchanged", '"norm1": norm(f"h.{i}.ln_1")', '"norm1": norm(f"h.{i}.ln_2")'),
    ),
    *_rows(
        "llama",
        "torch",
        (
            "rotary pairs",
            "    pairs = torch.complex(x[..., : SIZE // 2], x[..., SIZE // 2 :]) * phases[:, None]\n",
            "    pairs = torch.complex(x[..., 0::2], x[..., 1::2]) * phases[:, None]\n",
        ),
        ("theta", "THETA ** -(", "10000.0 ** -("),
        ("eps of a norm", "eps=1e-5", "eps=1e-6"),
        ("window off by one", "triu(1 - WINDOW)", "triu(-WINDOW)"),
        (
            "heads grouped in another order",
            "q = q.view(n, t, GROUPS, HEADS // GROUPS, SIZE)",
            "q = q.view(n, t, HEADS // GROUPS, GROUPS, SIZE).transpose(2, 3)",
        ),
        ("gate and factor exchanged", "gate, up = ", "up, gate = "),
        ("keys not rotated", "q, k = turn(q, phases), turn(k, phases)", "q = turn(q, phases)"),
        (
            "norms exchanged",
            'state[f"{new}.before"] = w[f"{old}.input_layernorm.weight"]',
            'state[f"{new}.before"] = w[f"{old}.post_attention_layernorm.weight"]',
        ),
    ),
    *_rows(
        "llama",
        "jax",
        (
            "keys repeated in another order",
            "k = jnp.repeat(k, HEADS // GROUPS, axis=2)",
            "k = jnp.tile(k, (1, 1, HEADS // GROUPS, 1))",
        ),
        ("theta", "1.0 / THETA **", "1.0 / 10000.0 **"),
        ("window off by one", "(behind < WINDOW)", "(behind <= WINDOW)"),
        ("eps of a norm", "keepdims=True) + 1e-5)", "keepdims=True) + 1e-6)"),
        ("activation of the gate", "jax.nn.silu(", "jax.nn.gelu("),
        ("scale missing", " * SIZE**-0.5", ""),
        (
            "rotation in the other direction",
            "[a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)]",
            "[a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) - a * jnp.sin(angles)]",
        ),
    ),
    *_rows(
        "vit",
        "torch",
        ("positions interpolated linearly", 'mode="bicubic"', 'mode="bilinear"'),
        ("corners of an interpolation", "align_corners=False", "align_corners=True"),
        ("form of GELU", "nn.GELU()", 'nn.GELU(approximate="tanh")'),
        ("eps of a norm", "self.ln1 = nn.LayerNorm(WIDTH, eps=1e-6)", "self.ln1 = nn.LayerNorm(WIDTH)"),
        ("pixels of a patch in another order", "permute(0, 2, 4, 1, 3, 5)", "permute(0, 2, 4, 3, 5, 1)"),
        ("rows and columns exchanged", "permute(0, 2, 4, 1, 3, 5)", "permute(0, 4, 2, 1, 3, 5)"),
        ("position of the class token missing", "(self.token + self.table[0])", "self.token"),
        (
            "heads split in another order",
            "x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)",
            "x.unflatten(-1, (WIDTH // HEADS, HEADS)).movedim(-1, 1)",
        ),
    ),
    *_rows(
        "recurrent",
        "torch",
        ("order of the gates", "i, f, g, o = (", "i, g, f, o = ("),
        ("one of two biases missing", ' + w[f"lstm.bias_hh_{end}"]', ""),
        ("reset gate before the product", "n = torch.tanh(xn + r * hn)", "n = torch.tanh(xn + hn)"),
        ("update gate reversed", "(1 - z) * n + z * h", "z * n + (1 - z) * h"),
        (
            "backward states not put in order",
            "torch.stack([states[t] for t in range(x.shape[1])], 1)",
            "torch.stack(list(states.values()), 1)",
        ),
        ("eps of a norm", "nn.LayerNorm(HIDDEN, eps=1e-5)", "nn.LayerNorm(HIDDEN, eps=1e-3)"),
        (
            "directions exchanged",
            "[self.walk(self.ahead, x, range(t)), self.walk(self.back, x, range(t - 1, -1, -1))]",
            "[self.walk(self.back, x, range(t - 1, -1, -1)), self.walk(self.ahead, x, range(t))]",
        ),
    ),
    *_rows(
        "recurrent",
        "jax",
        ("order of the gates", "i, f, g, o = jnp", "i, f, o, g = jnp"),
        ("update gate reversed", "h = (1 - z) * n + z * h", "h = z * n + (1 - z) * h"),
        ("variance with n - 1", "x.var(-1, keepdims=True)", "x.var(-1, keepdims=True, ddof=1)"),
        ("one of two biases missing", ' + w[f"lstm.bias_hh_{end}"]', ""),
        ("direction not reversed", ", reverse=True)", ")"),
        ("reset gate before the product", "n = jnp.tanh(xn + r * hn)", "n = jnp.tanh(xn + hn)"),
    ),
    *_rows(
        "recurrent",
        "keras",
        ("order of the gates", "return np.concatenate([z, r, n])", "return np.concatenate([r, z, n])"),
        ("eps of a norm", "epsilon=1e-5", "epsilon=1e-3"),
        ("one of two biases missing", ' + w[f"lstm.bias_hh_{end}"]', ""),
        (
            "recurrent matrix transposed",
            'w[f"lstm.weight_ih_{end}"].T, w[f"lstm.weight_hh_{end}"].T',
            'w[f"lstm.weight_ih_{end}"].T, w[f"lstm.weight_hh_{end}"].reshape(HIDDEN, -1)',
        ),
        (
            "token 0 taken as padding",
            'layers.Embedding(VOCABULARY, WIDTH, name="embedding")',
            'layers.Embedding(VOCABULARY, WIDTH, mask_zero=True, name="embedding")',
        ),
        (
            "biases of the GRU exchanged",
            'np.stack([update_first(w["gru.bias_ih_l0"]), update_first(w["gru.bias_hh_l0"])])',
            'np.stack([update_first(w["gru.bias_hh_l0"]), update_first(w["gru.bias_ih_l0"])])',
        ),
    ),
    *_rows(
        "unet",
        "torch",
        ("mode of a padding", 'mode="reflect"', 'mode="replicate"'),
        ("corners of an interpolation", "align_corners=False", "align_corners=True"),
        (
            "order of a concatenation",
            "torch.cat([b, self.grow_b(c)], dim=1)",
            "torch.cat([self.grow_b(c), b], dim=1)",
        ),
        ("maximum for average", "F.avg_pool2d(b, 2)", "F.max_pool2d(b, 2)"),
        ("slope of an activation", "nn.LeakyReLU(0.2)", "nn.LeakyReLU()"),
        ("number of groups", "nn.GroupNorm(4, o, eps=1e-5)", "nn.GroupNorm(2, o, eps=1e-5)"),
        (
            "border at the wrong end",
            "(0, (4 - columns % 4) % 4, 0, (4 - rows % 4) % 4)",
            "((4 - columns % 4) % 4, 0, (4 - rows % 4) % 4, 0)",
        ),
        ("eps of a norm", "eps=1e-5", "eps=1e-3"),
    ),
    *_rows(
        "unet",
        "keras",
        ("crop at the wrong end", "Cropping2D(((1, 0), (1, 0))", "Cropping2D(((0, 1), (0, 1))"),
        ("mode of a padding", 'mode="reflect"', 'mode="symmetric"'),
        ("eps of a norm", "epsilon=1e-5", "epsilon=1e-3"),
        ("interpolation", 'interpolation="bilinear"', 'interpolation="nearest"'),
        ("order of a concatenation", "layers.Concatenate()([a, up])", "layers.Concatenate()([up, a])"),
        ("maximum for average", "layers.AveragePooling2D(2", "layers.MaxPooling2D(2"),
    ),
    *_rows(
        "mixer",
        "torch",
        ("eps of a norm", "keepdim=True) + 1e-6)", "keepdim=True) + 1e-3)"),
        ("variance with n - 1", "centred.square().mean(1, keepdim=True)", "x.var(1, keepdim=True)"),
        ("input scaled otherwise", "images * 4 - 2", "images * 2 - 1"),
        (
            "form of GELU",
            'pointwise(f"{block}_channel2", F.gelu(y))',
            'pointwise(f"{block}_channel2", F.gelu(y, approximate="tanh"))',
        ),
        (
            "mean before the last norm",
            'x = self.norm("norm", x).mean(2)',
            'x = self.norm("norm", x.mean(2, keepdim=True))[:, :, 0]',
        ),
        ("norms exchanged", 'self.norm(f"{block}_norm2", x)', 'self.norm(f"{block}_norm1", x)'),
    ),
    *_rows(
        "mixer",
        "keras",
        (
            "form of GELU",
            "layers.Activation(keras.activations.gelu)",
            "layers.Activation(lambda v: keras.activations.gelu(v, approximate=True))",
        ),
        ("eps of a norm", 'epsilon=1e-6, name=f"blocks_{i}_norm2"', 'name=f"blocks_{i}_norm2"'),
        (
            "tokens in another order",
            "    x = layers.Reshape((TOKENS, WIDTH))(x)\n",
            "    x = layers.Reshape((TOKENS, WIDTH))(layers.Permute((2, 1, 3))(x))\n",
        ),
        ("input scaled otherwise", "offset=-2.0", "offset=-0.5"),
        ("maximum for average", "layers.GlobalAveragePooling1D", "layers.GlobalMaxPooling1D"),
        (
            "sum with the normalised",
            "        x = layers.Add()([x, layers.Permute((2, 1))(y)])\n        y = layers.LayerNormalization(epsilon=1e-6",
            "        y = x = layers.Add()([x, layers.Permute((2, 1))(y)])\n        x = y = layers.LayerNormalization(epsilon=1e-6",
        ),
    ),
    *_rows(
        "bert",
        "torch",
        ("eps of a norm", "self.ln = nn.LayerNorm(WIDTH, eps=1e-12)", "self.ln = nn.LayerNorm(WIDTH)"),
        ("norm before the layer", "norm_first=False", "norm_first=True"),
        ("activation", 'activation="gelu"', 'activation="relu"'),
        ("padding not masked", "layer(x, src_key_padding_mask=padding)", "layer(x)"),
        (
            "padding in a mean",
            "x.masked_fill(padding[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)",
            "x.mean(1)",
        ),
        ("positions off by one", "mask.cumsum(-1) * mask + 1", "mask.cumsum(-1) * mask"),
        ("order of a fused projection", '("query", "key", "value")]', '("key", "query", "value")]'),
        (
            "positions of padded texts",
            "mask.cumsum(-1) * mask + 1",
            "torch.arange(ids.shape[1]).expand_as(ids) + 2",
        ),
    ),
    *_rows(
        "bert",
        "jax",
        ("form of GELU", "approximate=False", "approximate=True"),
        ("eps of a norm", "keepdims=True) + 1e-12)", "keepdims=True) + 1e-6)"),
        ("padding not masked", "    scores = jnp.where(mask[:, None, None, :] > 0, scores, -1e9)\n", ""),
        (
            "padding in a mean",
            "(x * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]",
            "(x * mask[:, :, None]).mean(1)",
        ),
        (
            "positions of padded texts",
            "jnp.cumsum(mask, 1) * mask + 1",
            "jnp.arange(2, ids.shape[1] + 2) * mask + (1 - mask)",
        ),
        ("scale of attention", "/ np.sqrt(WIDTH // HEADS)", "/ np.sqrt(WIDTH)"),
        (
            "norm of the input of a sum",
            'layer_norm(p["norm2"], x + dense(p["output"], hidden))',
            'x + layer_norm(p["norm2"], dense(p["output"], hidden))',
        ),
    ),
    *_rows(
        "mobilenet",
        "torch",
        (
            "symmetric padding",
            "(columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)",
            "(columns - columns // 2, columns // 2, rows - rows // 2, rows // 2)",
        ),
        ("upper limit of an activation", "y = y.clamp(0, 6)", "y = y.clamp(min=0)"),
        ("eps of a norm", "eps=1e-3)", "eps=1e-5)"),
        ("form of the hard sigmoid", "x / 6 + 0.5", "x / 5 + 0.5"),
        (
            "residual missing",
            "return y + x if stride == 1 and inputs == outputs else y",
            "return y + x if stride == 1 and index == 0 else y",
        ),
        ("maximum for average", "gate = F.adaptive_avg_pool2d(y, 1)", "gate = F.adaptive_max_pool2d(y, 1)"),
    ),
    *_rows(
        "mobilenet",
        "keras",
        ("upper limit of an activation", "layers.ReLU(max_value=6.0)(y)", "layers.ReLU()(y)"),
        ("eps of a norm", "epsilon=1e-3", "epsilon=1e-5"),
        (
            "height and width of a filter",
            "weight = weight.transpose(2, 3, 0, 1)",
            "weight = weight.transpose(3, 2, 0, 1)",
        ),
        (
            "gate of the wrong tensor",
            'y = layers.Multiply()([y, layers.Activation("hard_sigmoid")(gate)])',
            'y = layers.Multiply()([y, layers.Activation("sigmoid")(gate)])',
        ),
        ("residual missing", "if stride == 1 and inputs == outputs else y", "if index == 0 else y"),
        ("activation left out", 'hard_swish(norm(y, f"{name}_bn2"))', 'norm(y, f"{name}_bn2")'),
    ),
)
"""All mistakes, by port."""
