"""Findings by cause, and the headline of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import netweave
from netweave import api, cli
from netweave.comparison import Finding, Verdict
from netweave.comparison.result.causes import MAX_WORDS, causes_of
from netweave.viewer import comparison_document, document_rows
from netweave.viewer.markdown import document_markdown


def finding(layer: str, cause: str, fix: str = "", mismatch: str | None = "stride", **more) -> Finding:
    return Finding(mismatch, cause, fix, layer_a=layer, layer_b=layer, **more)


def test_one_change_in_many_layers_is_one_cause_whatever_its_arrays_are_called():
    found = [
        finding(f"block{i}.mul", "the factor is 2 in A and 3 in B", f"give the factor 'c{i}' the value 2")
        for i in range(6)
    ]
    (cause,) = causes_of(found)
    assert (cause.first, cause.places) == (found[0], tuple(found))


def test_calls_of_one_module_are_one_place():
    found = [finding(name, "eps is 1 in A and 2 in B", mismatch="epsilon") for name in "aabb"]
    (cause,) = causes_of(found)
    assert [place.layer_b for place in cause.places] == ["a", "b"]
    assert len(cause.findings) == 4


def test_the_same_words_without_a_known_mismatch_are_not_one_cause():
    found = [finding(f"layer{i}", "another operator", mismatch=None) for i in range(2)]
    assert len(causes_of(found)) == 2


def test_a_setting_that_moved_is_one_cause():
    found = []
    for i in (2, 3, 4):
        found.append(finding(f"layer{i}.conv1", "strides is 1 in A and 2 in B", "stride=1"))
        found.append(finding(f"layer{i}.conv2", "strides is 2 in A and 1 in B", "stride=2"))
    (cause,) = causes_of(found)
    assert cause.text == "strides of 2 moved from layer2.conv2 in A to layer2.conv1 in B"
    assert cause.fix == "stride=1 at layer2.conv1, stride=2 at layer2.conv2"
    assert list(cause.findings) == found


@pytest.mark.parametrize(
    "other",
    [
        finding("conv2", "strides is 2 in A and 3 in B"),
        finding("conv2", "dilations is 2 in A and 1 in B"),
        finding("conv2", "strides is 2 in A and 1 in B", latent=True),
        finding("conv2", "strides is 2 in A and 1 in B", mismatch="dilation"),
    ],
)
def test_what_is_not_the_same_setting_the_other_way_round_has_not_moved(other):
    assert len(causes_of([finding("conv1", "strides is 1 in A and 2 in B"), other])) == 2


def test_causes_without_effect_come_last():
    found = [
        finding("bn", "eps is 1 in A and 2 in B", mismatch="epsilon", latent=True),
        finding("conv", "strides is 1 in A and 2 in B"),
    ]
    assert [cause.latent for cause in causes_of(found)] == [False, True]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two blocks of attention and GELU in operators of opset 13; in B another scale and the exact GELU."""
    folder = tmp_path_factory.mktemp("pair")
    for name, scale, function in (("a", 0.5, "gelu"), ("b", 0.25, "exact gelu")):
        onnx.save(blocks(scale, function), folder / f"{name}.onnx")
    return netweave.compare(folder / "a.onnx", folder / "b.onnx")


def blocks(scale: float, function: str) -> onnx.ModelProto:
    draw = np.random.default_rng(1)
    nodes, arrays, x = [], {}, "x"

    def add(op_type, *inputs, **attributes):
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op_type, list(inputs), [name], name, **attributes))
        return name

    def number(value):
        name = f"c{len(arrays)}"
        arrays[name] = np.asarray(value, np.float32)
        return name

    for _ in range(2):
        q, k, v = (add("MatMul", x, number(draw.standard_normal((4, 4)) / 2)) for _ in range(3))
        scores = add("Mul", add("MatMul", q, add("Transpose", k, perm=[0, 2, 1])), number(scale))
        h = add(
            "MatMul", add("MatMul", add("Softmax", scores, axis=-1), v), number(draw.standard_normal((4, 4)))
        )
        if function == "silu":
            x = add("Mul", h, add("Sigmoid", h))
        elif function == "exact gelu":
            erf = add("Erf", add("Div", h, number(2**0.5)))
            x = add("Mul", add("Mul", h, add("Add", erf, number(1))), number(0.5))
        else:
            cube = add("Mul", add("Pow", h, number(3)), number(0.044715))
            tanh = add("Tanh", add("Mul", add("Add", h, cube), number((2 / np.pi) ** 0.5)))
            x = add("Mul", add("Mul", h, add("Add", tanh, number(1))), number(0.5))
    sizes = [1, 5, 4]
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, sizes)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_blocks_are_named_and_have_one_finding_for_each_change(pair):
    assert [(cause.text, len(cause.findings)) for cause in pair.causes] == [
        ("the scale of the attention scores is 0.5 in A and 0.25 in B", 2),
        ("approximation of GELU is tanh in A and none in B", 2),
    ]
    assert pair.headline.startswith("different in 2 places: the scale of the attention scores is 0.5 in A")


@given(text=st.text(" :;,(.ab", max_size=300))
def test_a_headline_has_twenty_words_whatever_the_names(pair, text):
    causes = tuple(
        replace(group, finding=finding(text.replace(" ", ""), f"{text}{i}", mismatch=None))
        for i, group in enumerate(pair.groups * 3)
    )
    for compared in (replace(pair, groups=causes), replace(pair, verdict=Verdict.UNDECIDED, sentence=text)):
        assert len(compared.headline.split()) <= MAX_WORDS


def test_both_changes_are_made_in_the_model_and_the_nets_are_equal(pair, tmp_path):
    """One takes another number in each block, the other takes the nodes of A's form of GELU."""
    fixed = api.fix_port(*pair_files(pair), pair, tmp_path / "fixed.onnx")
    assert (len(fixed.mended.applied), fixed.mended.refused) == (4, ())
    assert fixed.comparison.verdict is Verdict.IDENTICAL


@pytest.mark.parametrize(("number", "status"), [(1, 0), (2, 0), (3, 2)])
def test_a_finding_is_fixed_in_all_its_places_by_the_number_that_compare_shows(pair, capsys, number, status):
    with pytest.raises(SystemExit) as ended:
        cli.main(["fix", *map(str, pair_files(pair)), "--only", str(number)])
    assert ended.value.code == status
    shown = capsys.readouterr()
    added = [
        line[1:].split(":")[0] for line in shown.out.splitlines() if line[:2] == "+v" or line[:2] == "+c"
    ]
    if number == 1:
        assert len(added) == 2  # one factor in each of two blocks
        assert shown.out.count("float scalar [0.5]") == 2
    elif number == 2:
        assert sum("Tanh" in line for line in shown.out.splitlines() if line[:1] == "+") == 2
    else:
        assert "there is no finding 3; the comparison has 2" in shown.err


def test_a_function_of_several_nodes_is_named_and_takes_the_place_of_another(tmp_path):
    for name, function in (("a", "silu"), ("b", "gelu")):
        onnx.save(blocks(0.5, function), tmp_path / f"{name}.onnx")
    files = [str(tmp_path / f"{name}.onnx") for name in "ab"]
    found = netweave.compare(*files)
    assert [(cause.text, cause.fix) for cause in found.causes] == [
        ("A computes SiLU, B computes GELU (tanh)", "compute SiLU")
    ]
    assert {group.functions for group in found.groups if group.finding} == {("SiLU", "GELU (tanh)")}
    fixed = api.fix_port(*files, found, tmp_path / "fixed.onnx")
    assert fixed.comparison.verdict is Verdict.IDENTICAL


def pair_files(pair):
    return [net.files[0] for net in (pair.a, pair.b)]


def test_pages_and_issues_show_each_cause_once(pair):
    document = comparison_document(pair)
    assert [cause["findings"] for cause in document["causes"]] == [[0, 2], [1, 3]]
    assert document["headline"] == pair.headline
    rows = document_rows(json.loads(json.dumps(document)))["groups"]
    assert [tuple(row["functions"]) for row in rows if row["functions"]] == [("GELU", "GELU")] * 2
    markdown = document_markdown(document)
    assert markdown.count("#### ") == 2
    assert markdown.count("**Also at:**") == 2
    alone = document_markdown({name: part for name, part in document.items() if name != "causes"})
    assert alone.count("#### ") == 4


def test_json_has_each_cause_with_its_places(pair):
    causes = pair.to_json()["causes"]
    assert [len(cause["places"]) for cause in causes] == [2, 2]
    assert causes[0]["text"] == "the scale of the attention scores is 0.5 in A and 0.25 in B"
