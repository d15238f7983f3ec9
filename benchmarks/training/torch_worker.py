"""Training by PyTorch: ``python -m benchmarks.training.torch_worker NET KIND BATCH SIZE THREADS``.

KIND is ``eager``, ``last`` (channels-last, and memory kept as Netweave keeps it), ``compile``, or
``autocast`` (as ``last``, in bfloat16).
"""

from __future__ import annotations

import sys

import torch

from benchmarks.training import eager, protocol
from netweave.training.process import keep_memory


def main() -> None:
    """Build the net and serve."""
    name, kind = sys.argv[1:3]
    batch, size, threads = map(int, sys.argv[3:6])
    torch.set_num_threads(threads)
    if kind in {"last", "autocast"}:
        keep_memory()
    torch.manual_seed(0)
    module = eager.MODULES[name]().train()
    data = torch.randn(batch, 3, size, size)
    labels = torch.randint(protocol.CLASSES, (batch,))
    if kind in {"last", "autocast"}:
        module.to(memory_format=torch.channels_last)
        data = data.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        module.parameters(), lr=protocol.RATE, momentum=protocol.MOMENTUM, weight_decay=protocol.DECAY
    )
    run = torch.compile(module) if kind == "compile" else module

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
            loss = run(data, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    count = sum(parameter.numel() for parameter in module.parameters())
    protocol.serve(count, step, name=f"PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
