"""What an inference export could still join, measured on the runtimes that would run it.

::

    python -m benchmarks.joining [--net NAME] [--rounds N] [--runs N] [--json FILE]

Every form of a net is written to disk as ONNX and opened from there by ONNX Runtime and OpenVINO, both with
all their own optimisations, in float32, on one thread. In each round every form of a net runs on a runtime
in an order drawn anew; shown is the ratio of its processor time, which other work on the machine disturbs
little, to the plain form's in the same round: the median and the quartiles of all rounds. Weights are
drawn. The forms:

- ``plain``: constants folded, normalisations taken into convolutions
- ``written``: what ``convert --for inference`` writes, with ``remove_concats`` and ``sum_of_parts`` besides
- ``again``: the same file once more, to show what the measurement itself makes of equal things
- ``siblings``: convolutions of one size that read the same value are one, and a Split behind it
- ``siblings, slices``: the same with a Slice for each instead of the Split
- ``spread``: every convolution over a concatenation is a sum of convolutions of its parts
- ``bias apart``: biases of convolutions are nodes of their own, to show that the runtimes join them
- ``nested``: concatenations of more than two are made of pairs, to show what joining these again is worth

Also shown is how many Conv, Relu, Add, Concat, Split and Slice the runtime computes as nodes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import openvino

from netweave import api
from netweave.api.zoo import NETS
from netweave.graph import attributes_of, known_shape
from netweave.graph.passes import absorb, chain, fold, prune, to_inference
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph

THREADS = 1
SHOWN = ("Conv", "Relu", "Add", "Concat", "Split", "Slice")


def _convolutions(graph: Graph) -> list[ir.Node]:
    return [node for node in graph.nodes if (node.domain, node.op_type) == ("", "Conv")]


def _array(value: ir.Value | None, count: int) -> np.ndarray:
    """Return what is stored; zeros for a bias that is not there."""
    if value is None:
        return np.zeros(count, np.float32)
    assert value.const_value is not None
    return value.const_value.numpy()


def _bias_of(conv: ir.Node) -> ir.Value | None:
    return conv.inputs[2] if len(conv.inputs) > 2 else None


def _relu_behind(conv: ir.Node) -> ir.Node | None:
    made = conv.outputs[0]
    reader = next((user for user, _ in made.uses()), None)
    return reader if reader is not None and has_one_reader(made) and reader.op_type == "Relu" else None


def _join_siblings(graph: Graph, *, slices: bool) -> None:
    rewriter = Rewriter(graph)
    groups: dict[Any, list[ir.Node]] = defaultdict(list)
    for conv in _convolutions(graph):
        shape = known_shape(conv.inputs[1])
        if shape is not None and attributes_of(conv).get("group", 1) == 1:
            settings = tuple(sorted((k, str(v)) for k, v in attributes_of(conv).items()))
            groups[conv.inputs[0], shape[1:], settings].append(conv)
    order = {node: number for number, node in enumerate(graph.nodes)}
    for convs in groups.values():
        if len(convs) > 1:
            _join(rewriter, sorted(convs, key=order.__getitem__), slices=slices)


def _join(rewriter: Rewriter, convs: list[ir.Node], *, slices: bool) -> None:
    relus = [relu for conv in convs if (relu := _relu_behind(conv)) is not None]
    rectified = len(relus) == len(convs)
    weights = [_array(conv.inputs[1], 0) for conv in convs]
    counts = [len(weight) for weight in weights]
    biases = [_array(_bias_of(conv), count) for conv, count in zip(convs, counts, strict=True)]
    first = convs[0]
    stored = [
        rewriter.initializer(ir.Tensor(np.concatenate(arrays)), f"{first.name}/{what}")
        for what, arrays in (("weight", weights), ("bias", biases))
    ]
    made = rewriter.insert(first, "Conv", [first.inputs[0], *stored], attributes_of(first)).outputs[0]
    if rectified:
        made = rewriter.insert(first, "Relu", [made]).outputs[0]
    ends = np.cumsum(counts)
    olds = relus if rectified else convs
    if slices:
        for old, begin, end in zip(olds, ends - counts, ends, strict=True):
            bounds = [
                rewriter.initializer(ir.Tensor(np.array([n], np.int64)), f"{old.name}/{what}")
                for what, n in (("begin", begin), ("end", end), ("axis", 1))
            ]
            rewriter.take_over(old.outputs[0], rewriter.insert(first, "Slice", [made, *bounds]).outputs[0])
    else:
        sizes = rewriter.initializer(ir.Tensor(np.array(counts, np.int64)), f"{first.name}/sizes")
        split = ir.Node(
            "",
            "Split",
            [made, sizes],
            attributes=[ir.AttrInt64("axis", 1)],
            num_outputs=len(counts),
            name=f"{first.name}/split",
        )
        for value in split.outputs:
            value.name = rewriter.free_name(f"{first.name}/piece")
        rewriter.graph.model.graph.insert_before(first, split)
        for old, value in zip(olds, split.outputs, strict=True):
            rewriter.take_over(old.outputs[0], value)
    rewriter.graph.model.graph.remove([*(relus if rectified else []), *convs], safe=True)


@Pass
def siblings(graph: Graph) -> None:
    """Join convolutions that read the same value."""
    _join_siblings(graph, slices=False)


@Pass
def sliced_siblings(graph: Graph) -> None:
    """Join convolutions that read the same value, and cut the result by Slice."""
    _join_siblings(graph, slices=True)


@Pass
def spread(graph: Graph) -> None:
    """Make a convolution over a concatenation a sum of convolutions."""
    rewriter = Rewriter(graph)
    for conv in _convolutions(graph):
        value = conv.inputs[0]
        concat = value.producer() if value is not None else None
        if concat is None or concat.op_type != "Concat" or attributes_of(concat).get("axis") != 1:
            continue
        shapes = [known_shape(part) for part in concat.inputs]
        if attributes_of(conv).get("group", 1) != 1 or any(shape is None for shape in shapes):
            continue
        ends = np.cumsum([shape[1] for shape in shapes if shape is not None])
        weight, total = _array(conv.inputs[1], 0), None
        for part, array in zip(concat.inputs, np.split(weight, ends[:-1], axis=1), strict=True):
            stored = rewriter.initializer(ir.Tensor(np.ascontiguousarray(array)), f"{conv.name}/part")
            bias = [_bias_of(conv)] if total is None else []
            made = rewriter.insert(conv, "Conv", [part, stored, *bias], attributes_of(conv)).outputs[0]
            total = made if total is None else rewriter.insert(conv, "Add", [total, made]).outputs[0]
        assert total is not None
        rewriter.take_over(conv.outputs[0], total)
        graph.model.graph.remove(conv, safe=True)
        if not concat.outputs[0].uses():
            graph.model.graph.remove(concat, safe=True)


@Pass
def bias_apart(graph: Graph) -> None:
    """Write biases as nodes of their own."""
    rewriter = Rewriter(graph)
    for conv in _convolutions(graph):
        bias = _bias_of(conv)
        if bias is None:
            continue
        made = rewriter.insert(conv, "Conv", conv.inputs[:2], attributes_of(conv)).outputs[0]
        rows = rewriter.initializer(ir.Tensor(_array(bias, 0).reshape(-1, 1, 1)), f"{bias.name}/rows")
        rewriter.take_over(conv.outputs[0], rewriter.insert(conv, "Add", [made, rows]).outputs[0])
        graph.model.graph.remove(conv, safe=True)


@Pass
def nested(graph: Graph) -> None:
    """Make concatenations of pairs."""
    rewriter = Rewriter(graph)
    for concat in [node for node in graph.nodes if node.op_type == "Concat"]:
        total, *others = concat.inputs
        for value in others:
            total = rewriter.insert(concat, "Concat", [total, value], attributes_of(concat)).outputs[0]
        if len(others) > 1 and total is not None:
            rewriter.take_over(concat.outputs[0], total)
            graph.model.graph.remove(concat, safe=True)


FORMS: dict[str, Callable[[Graph], Graph]] = {
    "plain": lambda graph: graph,
    "again": lambda graph: graph,
    "written": lambda graph: api.to_inference(graph, folded=True),
    "siblings": siblings,
    "siblings, slices": sliced_siblings,
    "spread": spread,
    "bias apart": bias_apart,
    "nested": nested,
}


def by_onnxruntime(file: Path) -> tuple[Callable[[np.ndarray], Any], Counter[str]]:
    """Return what runs a file, and the operators that are computed."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    options.optimized_model_filepath = str(file.with_suffix(".optimised"))
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    nodes = onnx.load(options.optimized_model_filepath, load_external_data=False).graph.node
    Path(options.optimized_model_filepath).unlink()
    return lambda x: session.run(None, {name: x})[0], Counter(_plain(node.op_type) for node in nodes)


def _plain(op_type: str) -> str:
    """Return ONNX's name of what a runtime calls otherwise."""
    names = {"FusedConv": "Conv", "Convolution": "Conv", "Concatenation": "Concat"}
    return {**names, "StridedSlice": "Slice", "Eltwise": "Add"}.get(op_type, op_type)


def by_openvino(file: Path) -> tuple[Callable[[np.ndarray], Any], Counter[str]]:
    """Return what runs a file, and the operators that are computed."""
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": THREADS,
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(file), "CPU", settings)
    kinds = [op.get_rt_info()["layerType"].value for op in compiled.get_runtime_model().get_ops()]
    return lambda x: compiled([x])[0], Counter(map(_plain, kinds))


RUNTIMES = {"ONNX Runtime": by_onnxruntime, "OpenVINO": by_openvino}


def measure(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return for each runtime and form the ratios of all rounds, and the operators."""
    published = NETS[name]
    graph = published.build().graph(data=(1, *published.image))
    plain = chain(to_inference, fold, absorb, prune)(graph)
    x = np.random.default_rng(0).normal(size=(1, *published.image)).astype(np.float32)
    found: dict[str, Any] = {}
    files = {}
    for form, change in FORMS.items():
        files[form] = folder / f"{name}-{form.replace(', ', '-').replace(' ', '-')}.onnx"
        api.save(change(plain), files[form], random_weights=True)
    shuffle = random.Random(0)
    for runtime, start in RUNTIMES.items():
        started = {form: start(file) for form, file in files.items()}
        expected = started["plain"][0](x)
        for form, (run, _) in started.items():
            np.testing.assert_allclose(run(x), expected, rtol=1e-3, atol=1e-5, err_msg=form)
        ratios: dict[str, list[float]] = {form: [] for form in FORMS}
        for _ in range(options.rounds):
            seconds = {}
            for form in shuffle.sample(list(started), len(started)):
                took = []
                for _ in range(options.runs):
                    begin = time.process_time()
                    started[form][0](x)
                    took.append(time.process_time() - begin)
                seconds[form] = min(took)
            for form, own in seconds.items():
                ratios[form].append(own / seconds["plain"])
        found[runtime] = {
            form: {
                "ratio": [round(float(q), 3) for q in np.percentile(ratios[form], [50, 25, 75])],
                "nodes": {kind: started[form][1][kind] for kind in SHOWN if started[form][1][kind]},
            }
            for form in FORMS
        }
        started.clear()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", choices=NETS, action="append")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    for name in options.net or ("googlenet", "inception-v3", "squeezenet", "resnet50", "densenet121"):
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure(name, options, Path(folder))
        for runtime, forms in results[name].items():
            print(f"{name} on {runtime}, {os.cpu_count()} cores: processor time / that of the plain form")
            for form, row in forms.items():
                median, low, high = row["ratio"]
                nodes = ", ".join(f"{count} {kind}" for kind, count in row["nodes"].items())
                print(f"  {form:17} {median:.3f} ({low:.3f} to {high:.3f})   {nodes}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
