"""Runs one network of a symbol file forward and backward, and keeps the numbers: the same code on both sides.

Run with a JSON object of settings as its only argument (``symbols.settings`` makes it). The arguments of the
net are filled from their names, so that both sides compute on the same numbers.
"""

import importlib
import inspect
import json
import sys

import numpy as np

SINGLE = ("LRN", "_contrib_MultiBoxPrior", "_contrib_MultiBoxTarget", "_contrib_MultiBoxDetection")
"""Operators that MXNet computes in 32 bits only."""

OUTSIDE = {"data", "softmax_label", "label"}


def main(settings):
    """Write outputs, shapes and gradients of one step to ``settings['out']``."""
    sys.path.insert(0, settings["folder"])
    mx = importlib.import_module(settings["package"])
    net = _network(mx, settings)
    shapes, kind = _input_shapes(net, settings), settings["kind"]
    executor = _bound(mx, net, shapes, kind, grad_req="write")
    arrays = {f"output {k}": v.asnumpy() for k, v in enumerate(executor.forward(is_train=False))}
    before = _bound(mx, _before_the_end(net), shapes, kind, grad_req="null")
    arrays["output before the end"] = before.forward(is_train=False)[0].asnumpy()
    del before
    mx.random.seed(1)
    executor.forward(is_train=True)
    executor.backward()
    trained = {key: value for key, value in executor.grad_dict.items() if key not in OUTSIDE}
    arrays |= {f"gradient {key}": value.asnumpy() for key, value in trained.items()}
    arrays |= {f"shape {key}": np.array(value.shape) for key, value in executor.arg_dict.items()}
    np.savez(settings["out"], **arrays)


def _network(mx, settings):
    module = importlib.import_module(settings["module"])
    build = getattr(module, "get_symbol_train", module.get_symbol)
    size = settings["size"]
    arguments = {
        "num_classes": 10,
        "image_shape": f"3,{size},{size}",
        "num_layers": settings["layers"],
        "num_group": 32,
        "dtype": "float32",
        "grad_scale": 1.0,
    }
    parameters = inspect.signature(build).parameters
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        arguments = {key: value for key, value in arguments.items() if key in parameters}
    if settings["network"]:
        arguments = {"network": settings["network"], "data_shape": size, "num_classes": 10}
    document = json.loads(build(**arguments).tojson())
    for node in document["nodes"]:
        attributes = _attributes(node)
        if node["op"] == "Dropout":
            attributes["p"] = "0"  # so that gradients can be compared
        if settings["widen"] and node["op"] in ("Cast", "cast"):
            attributes["dtype"] = settings["kind"]
    if settings["kind"] == "float64":
        document = _with_casts(document)
    return mx.sym.load_json(json.dumps(document))


def _attributes(node):
    return next((node[key] for key in ("attrs", "attr", "param") if key in node), {})


def _with_casts(document):
    """Return a net of 64 bits in which the operators that have only 32 compute in 32 bits, between casts."""
    nodes, places = [], {}

    def add(node):
        nodes.append(node)
        return len(nodes) - 1

    def cast(entry, name, kind):
        return [add({"op": "Cast", "name": name, "attrs": {"dtype": kind}, "inputs": [entry]}), 0, 0]

    def place(entry):
        """Return where an entry of the old list is, and cast it when it is first used."""
        key = tuple(entry[:2])
        if key not in places:
            index, output = places[entry[0], None], entry[1]
            source = [index, output, 0]
            single = nodes[index]["op"] in SINGLE
            name = f"{nodes[index]['name']}_wide{output}"
            places[key] = cast(source, name, "float64") if single else source
        return places[key]

    for index, node in enumerate(document["nodes"]):
        inputs = [place(entry) for entry in node["inputs"]]
        if node["op"] in SINGLE:
            names = [f"{node['name']}_single{k}" for k in range(len(inputs))]
            inputs = [cast(entry, name, "float32") for entry, name in zip(inputs, names, strict=True)]
        places[index, None] = add({**node, "inputs": inputs})
    heads = [place(entry) for entry in document["heads"]]
    variables = [k for k, node in enumerate(nodes) if node["op"] == "null"]
    # the releases also keep where each node's outputs start, which is counted anew where it is missing
    return {"nodes": nodes, "arg_nodes": variables, "heads": heads, "attrs": document.get("attrs", {})}


def _input_shapes(net, settings):
    size, batch = settings["size"], settings["batch"]
    is_digits = settings["module"] in ("lenet", "mlp")
    shapes = {"data": (2, 1, 28, 28) if is_digits else (batch, 3, size, size)}
    if "label" in net.list_arguments():
        shapes["label"] = (batch, 3, 5)
    if "softmax_label" in net.list_arguments():
        shapes["softmax_label"] = shapes["data"][:1]
    return shapes


def _before_the_end(net):
    """Return what goes into the last operator: a softmax of numbers far apart hides how they differ."""
    inner = net.get_internals()
    ends = [name for name in inner.list_outputs() if name.endswith("_output")]
    ends = [name for name in ends if name not in net.list_outputs()]
    return next(inner[name] for name in reversed(ends) if "data" in inner[name].list_arguments())


def _bound(mx, net, shapes, kind, *, grad_req):
    arguments = net.list_arguments()
    known = {key: shape for key, shape in shapes.items() if key in arguments}
    types = dict.fromkeys(arguments, kind)
    executor = net.simple_bind(mx.cpu(), grad_req=grad_req, type_dict=types, **known)
    for arrays in (executor.arg_dict, executor.aux_dict):
        for name, array in arrays.items():
            array[:] = mx.nd.array(_filling(name, array.shape).astype("float32"), dtype=array.dtype)
    return executor


def _filling(name, size):
    generator = np.random.default_rng(sum(map(ord, name)))
    if name == "data":
        return generator.normal(0, 1, size)
    if name == "label":
        boxes = np.full(size, -1.0)
        boxes[:, 0] = (1, 0.1, 0.1, 0.6, 0.7)
        return boxes
    if name.endswith("_label"):
        return generator.integers(0, 10, size)
    if name.endswith(("gamma", "var")):
        return generator.uniform(0.8, 1.2, size)
    if len(size) == 1:
        return generator.normal(0, 0.05, size)
    return generator.normal(0, (2.0 / np.prod(size[1:])) ** 0.5, size)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
