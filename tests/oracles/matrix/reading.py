"""Read a net that Netweave wrote by the framework that it was written for, and run it; a program of its own.

    PYTHON tests/oracles/matrix/reading.py JUDGE FOLDER

FOLDER has ``inputs.npz`` (arrays by the names of the file's inputs), ``written.json`` (the files' names), and
gets ``outputs.npz``. Nothing of Netweave, nor of this repository, is imported: PYTHON needs NumPy and the
framework alone.
"""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def onnx_runtime(files, inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(files["net"], providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def pytorch(files, inputs):
    import torch

    net = module(files["net"]).load()
    with torch.no_grad():
        made = net(*(torch.from_numpy(array) for array in inputs.values()))
    return [value.numpy() for value in (made if isinstance(made, (tuple, list)) else [made])]


def keras(files, inputs):
    net = module(files["net"]).load()
    given = [np.moveaxis(x, 1, -1) if x.ndim == 4 else x for x in inputs.values()]  # images, channels last
    made = net(given if len(given) > 1 else given[0], training=False)
    arrays = [np.asarray(value) for value in (made if isinstance(made, (tuple, list)) else [made])]
    return [np.moveaxis(array, -1, 1) if array.ndim == 4 else array for array in arrays]


def mxnet(files, inputs):
    import mxnet as mx

    symbol = mx.sym.load(files["net"])
    stored = {key.partition(":")[2]: array for key, array in mx.nd.load(files["weights"]).items()}
    shapes, _, _ = symbol.infer_shape_partial(**{name: array.shape for name, array in inputs.items()})
    given = {name: mx.nd.array(array) for name, array in inputs.items()}
    for name, shape in zip(symbol.list_arguments(), shapes, strict=True):
        if name not in given:
            given[name] = stored[name] if name in stored else mx.nd.zeros(shape)  # labels
    aux = {name: stored[name] for name in symbol.list_auxiliary_states()}
    return [array.asnumpy() for array in symbol.bind(mx.cpu(), given, aux_states=aux).forward(is_train=False)]


def opencv(files, inputs):
    import cv2

    net = cv2.dnn.readNetFromCaffe(files["net"], files["weights"])
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    for name, array in inputs.items():
        net.setInput(array, name)
    known, makers = (
        set(net.getLayerNames()),
        {},
    )  # of blobs that nobody reads: layer, and all it makes
    for block in Path(files["net"]).read_text().split("layer {")[1:]:
        tops = re.findall(r'top: "(.*)"', block)
        makers = {top: made for top, made in makers.items() if f'bottom: "{top}"' not in block}
        makers.update({top: (block.split('"')[1], tops) for top in tops})
    found = {}
    for top, (layer, tops) in makers.items():  # OpenCV calls an output like its layer, or like its blob
        [arrays] = net.forwardAndRetrieve([layer if layer in known else top])
        found[top] = arrays[tops.index(top) if len(arrays) > 1 else 0]
    return found


def module(path):
    spec = importlib.util.spec_from_file_location("written", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


JUDGES = {"ONNX Runtime": onnx_runtime, "PyTorch": pytorch, "Keras": keras, "MXNet": mxnet, "OpenCV": opencv}


def main(judge, folder):
    os.chdir(folder)
    given = np.load("inputs.npz")
    files = json.loads(Path("written.json").read_text())
    found = JUDGES[judge](files, {name: given[name] for name in given.files})
    named = found if isinstance(found, dict) else {f"output {number}": y for number, y in enumerate(found)}
    np.savez("outputs.npz", **named)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, which has neighbours
    main(*sys.argv[1:])
