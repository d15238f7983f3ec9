"""A net that fetches its own batches: an operator without inputs, which asks a service over HTTP.

The service stands for whatever the world offers: a camera, a queue, a simulator. It hands out scikit-learn's
digits, never the same batch twice, and counts who asks. The operator is one Python function; the net that
begins with it has no inputs, and a loop of torch trains it. Because the operator says that it looks at the
world, each run of the net asks exactly once, however often its outputs are read.

Run it with ``python -m examples.fetched.demo`` in the folder above ``examples``.
"""

from __future__ import annotations

import io
import sys
import threading
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.datasets import load_digits

import netweave
from netweave import symbol as sym
from netweave.runtime.backends.torch import TorchNet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.formats.mxnet.symbol import Symbol

BATCH = 64
HELD_OUT = 360
"""Digits that the service never hands out."""


class Service:
    """Hands out batches of digits.

    Attributes:
        url: Where it listens.
        asked: How many batches it has handed out.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.url = ""
        self.asked = 0
        self._images, self._labels = images, labels
        self._generator = np.random.default_rng(0)
        self._lock = threading.Lock()

    def batch(self) -> bytes:
        """Return the next batch, as an ``.npz`` file."""
        with self._lock:
            self.asked += 1
            chosen = self._generator.integers(len(self._images), size=BATCH)
        file = io.BytesIO()
        np.savez(file, images=self._images[chosen], labels=self._labels[chosen])
        return file.getvalue()


@contextmanager
def started(service: Service) -> Iterator[Service]:
    """Let a service listen on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = service.batch()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@netweave.operator(num_outputs=2, shapes=lambda *, url, batch: [(batch, 1, 8, 8), (batch,)])
def FetchDigits(*, url: str = "", batch: int = BATCH) -> tuple[np.ndarray, np.ndarray]:  # noqa: N802
    """Fetch images and labels; without inputs, an operator counts as one that looks at the world."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        arrays = np.load(io.BytesIO(answer.read()))
    return arrays["images"].astype(np.float32), arrays["labels"].astype(np.float32)


def classifier(images: Symbol) -> Symbol:
    """Return the scores of the ten digits."""
    x = sym.Convolution(images, num_filter=16, kernel=(3, 3), pad=(1, 1), name="conv1")
    x = sym.Pooling(sym.Activation(x, act_type="relu"), kernel=(2, 2), stride=(2, 2), pool_type="max")
    return sym.FullyConnected(sym.Flatten(x), num_hidden=10, name="classes")


def trained(service: Service, steps: int) -> TorchNet:
    """Train the net that fetches for itself, and return it."""
    fetched = FetchDigits(url=service.url, name="fetched")
    net = TorchNet(
        sym.SoftmaxOutput(classifier(fetched[0]), fetched[1], normalization="batch").graph()
    ).train()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in net.params.values():
            tensor.normal_(0.0, 0.1, generator=generator)
    optimizer = torch.optim.Adam(list(net.module.parameters()), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        (scores,) = net().values()
        scores.backward(torch.ones_like(scores))  # SoftmaxOutput's gradient is its own
        optimizer.step()
        if step % 100 == 0:
            sure = scores.max(1).values.mean()
            print(f"step {step}: {service.asked} batches fetched, probability of the best digit {sure:.0%}")
    return net


def main(steps: int = 400) -> int:
    """Return 0 if each step has fetched one batch, and the net knows the digits that were held out."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target
    with started(Service(images[:-HELD_OUT], labels[:-HELD_OUT])) as service:
        net = trained(service, steps)
    print(f"{service.asked} batches fetched in {steps} steps")
    learnt = {name: tensor.detach().numpy() for name, tensor in net.params.items()}
    judge = classifier(sym.Variable("data")).graph(arrays=learnt, data=(HELD_OUT, 1, 8, 8))
    (scores,) = netweave.run(judge, {"data": images[-HELD_OUT:]}).values()
    accuracy = float((scores.argmax(1) == labels[-HELD_OUT:]).mean())
    print(f"accuracy = {accuracy:.4f}")
    return 0 if service.asked == steps and accuracy > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
