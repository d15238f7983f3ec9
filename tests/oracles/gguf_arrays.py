"""Files of GGUF as llama.cpp's own Python package writes them, with the numbers that it reads from them.

    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.gguf_arrays

Writes ``tests/golden/gguf``: ``arrays.gguf``, with an array of each type that is read, and ``arrays.npz``
with what ``gguf.dequantize`` makes of each. ORACLE is an environment with gguf 0.19.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "gguf"
Kind = gguf.GGMLQuantizationType

WRITTEN = (Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1)
"""Types that the package writes itself."""

DRAWN = {Kind.Q2_K: (80, 82), Kind.Q3_K: (108,), Kind.Q4_K: (0, 2), Kind.Q5_K: (0, 2), Kind.Q6_K: (208,)}
"""Types that it only reads: their blocks are drawn, with ordinary numbers where they have float16 ones."""


def stored() -> dict[str, tuple[np.ndarray, gguf.GGMLQuantizationType]]:
    """Return what is stored of each type."""
    random = np.random.default_rng(0)
    arrays = {}
    for kind in WRITTEN:
        real = random.standard_normal((3, 64)).astype(np.float32)
        arrays[f"{kind.name}.weight"] = (gguf.quants.quantize(real, kind), kind)
    for kind, halves in DRAWN.items():
        _, num_bytes = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (2, 2, num_bytes), dtype=np.uint8)
        for at in halves:
            numbers = random.uniform(-2, 2, (2, 2, 1)).astype("<f2")
            blocks[:, :, at : at + 2] = numbers.view(np.uint8)
        arrays[f"{kind.name}.weight"] = (blocks.reshape(2, -1), kind)
    return arrays


def main() -> None:
    """Write everything."""
    GOLDEN.mkdir(exist_ok=True)
    path = GOLDEN / "arrays.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("arrays")
    writer.add_block_count(2)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", ""])
    writer.add_array("tokenizer.ggml.scores", [0.5, -1.0])
    arrays = stored()
    for name, (array, kind) in arrays.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.add_tensor("positions", np.arange(6, dtype=np.int32).reshape(1, 2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    real = {name: gguf.quants.dequantize(array, kind) for name, (array, kind) in arrays.items()}
    np.savez_compressed(GOLDEN / "arrays.npz", **real)


if __name__ == "__main__":
    main()
