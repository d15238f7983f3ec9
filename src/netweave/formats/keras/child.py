"""The program that the guarded child process runs: a model's code to ``net.keras``. It is never imported.

It is given a request as JSON, and leaves ``net.keras`` in its working folder, or ``error.json``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"  # the one that Netweave has; a model is built alike by all
os.environ["KERAS_HOME"] = str(Path.cwd())

import keras

from netweave.files.guard_answer import answer
from netweave.files.model_code import Wanted, construct, imported, in_folder, own_factories


def main(request: dict[str, Any]) -> None:
    """Make the model that a request names and save it."""
    with in_folder(request["trusted_folder"]):
        code = imported(Path(request["net"]))
        classes, functions = own_factories(code, keras.Model)
        wanted = Wanted.of_request(request, keras.Model, noun="a keras.Model")
        model = construct(code, functions or classes, wanted).model
    model.save("net.keras")


if __name__ == "__main__":
    answer(main)
