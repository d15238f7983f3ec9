"""The document of the page: numbers refer to what they should, nothing is said of the machine."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave import api
from netweave.graph import Layer, Origin
from netweave.viewer import comparison_document, document_rows, net_document
from netweave.viewer.net import excerpts
from netweave.viewer.page import json_in_html
from netweave.viewer.tables import placed, rare, repeated, rows, table
from netweave.viewer.values import shortened, statistics_together


@pytest.fixture(scope="module")
def document(port):
    return read(comparison_document(port))


def read(document):
    """The rows of a document as a page receives it."""
    return document_rows(json.loads(json.dumps(document)))


def array_statistics(arrays):
    """A row for each array."""
    found = statistics_together(arrays).columns()
    return rows(table(len(arrays), **found))


def test_groups_refer_to_the_nodes_and_layers_of_the_comparison(port, document):
    assert len(document["groups"]) == len(port.groups) > 5
    for row, group in zip(document["groups"], port.groups, strict=True):
        for side, nodes, layers in ((0, group.nodes_a, group.layers_a), (1, group.nodes_b, group.layers_b)):
            net = document["nets"][side]
            assert tuple(net["nodes"][number]["name"] for number in row["nodes"][side]) == nodes
            assert tuple(net["layers"][number]["key"] for number in row["layers"][side]) == layers
        assert row["status"] == group.status.name
        if group.finding:
            assert document["findings"][row["finding"]]["cause"] == group.finding.cause


def test_the_reason_beneath_a_fix_does_not_repeat_it(port):
    """Of a fix by hand; beside all fixes, where it does not stand yet, it is told whole."""
    group = next(group for group in port.groups if group.finding)
    finding = replace(group.finding, fix="remove res3, which A has not", edits=(), latent=False)
    document = comparison_document(replace(port, groups=(replace(group, finding=finding),)))
    assert document["findings"][0]["fix"] == finding.fix
    reason = "the fix is more than a setting; do it by hand"
    assert document["findings"][0]["patch"]["why"] == reason
    assert document["patch"]["why"] == f"{reason}: {finding.fix}"


ENTRIES = st.one_of(st.none(), st.text(max_size=2), st.tuples(st.integers(0, 3)))


@given(st.lists(st.tuples(ENTRIES, ENTRIES, st.integers(0, 2)), max_size=12))
def test_a_table_gives_back_its_rows(entries):
    """Whatever repeats in it, and also after it was JSON."""
    first, second, third = zip(*entries, strict=True) if entries else ((), (), ())
    numbers = {number: place for place, number in enumerate(dict.fromkeys(third))}
    kept = table(
        len(entries),
        first=repeated(first),
        second=rare(second),
        inner=table(len(entries), third=placed(list(numbers), [numbers[number] for number in third])),
    )
    wanted = [{"first": a, "second": b, "inner": {"third": c}} for a, b, c in entries]
    assert rows(kept) == wanted
    assert rows(json.loads(json.dumps(kept))) == json.loads(json.dumps(wanted))


def test_what_repeats_is_written_once(port):
    (net,) = net_document(port.a)["nets"]
    types = net["layers"]["columns"]["type"]
    assert len(types["values"]) == len(set(types["values"])) == len({x.type for x in port.a.layers.values()})
    assert net["nodes"]["columns"]["cost"]["columns"]["exact"] == {"values": [True]}


def test_every_value_that_a_layer_reads_is_made_by_a_layer_or_given(document):
    for net in document["nets"]:
        for items in (net["layers"], net["nodes"]):
            made = {value for item in items for value in item["outputs"]} | set(net["inputs"])
            assert {value for item in items for value in item["inputs"]} <= made


def test_both_sides_have_the_sizes_of_one_input(document):
    shapes = [net["values"][net["inputs"][0]][1] for net in document["nets"]]
    assert shapes == [["N", 3, 32, 32]] * 2


def test_folders_are_not_told(example, port, document):
    assert str(example) in repr(port.a.files)
    assert str(example.parent) not in json.dumps(document)


def test_a_comparison_that_was_opened_shows_its_layers(tmp_path, port, document):
    file = tmp_path / "found.json"
    api.save_comparison(port, file)
    opened = read(comparison_document(api.open_comparison(file)))
    names = [[layer["key"] for layer in net["layers"]] for net in document["nets"]]
    assert [[layer["key"] for layer in net["layers"]] for net in opened["nets"]] == names
    assert [group["layers"] for group in opened["groups"]] == [g["layers"] for g in document["groups"]]
    assert opened["findings"] == document["findings"]


def test_a_net_alone_has_its_costs(port):
    (net,) = document_rows(net_document(port.a))["nets"]
    layers = {layer["key"]: layer for layer in net["layers"]}
    weights = sum(p["statistics"]["size"] for p in net["parameters"] if p["statistics"])
    assert weights == net["totals"]["parameters"] > 0
    assert layers["conv1"]["cost"]["multiply_adds"] == 16 * 27 * 32 * 32


def test_a_document_is_json_also_with_numbers_that_json_lacks():
    (row,) = array_statistics([np.array([np.inf, 1.0, 2.0], np.float32)])
    assert row["non_finite"] == 1
    assert (row["min"], row["max"]) == (1.0, 2.0)
    (empty,) = array_statistics([np.array([], np.float32)])
    assert {name: entry for name, entry in empty.items() if entry is not None} == {"size": 0, "non_finite": 0}


@pytest.mark.parametrize("kind", [np.int64, np.float16, np.float64, np.bool_])
def test_a_histogram_counts_every_element_once(kind):
    array = np.random.default_rng(0).integers(0, 2, (40, 5)).astype(kind)
    (found,) = array_statistics([array])
    assert sum(found["histogram"]) == 200
    assert found["zeros"] == np.count_nonzero(array == 0)
    assert found["mean"] == pytest.approx(array.astype(float).mean())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_statistics_are_those_of_numpy(size):
    rng = np.random.default_rng(size)
    arrays = [
        rng.standard_normal((1, size)).astype(np.float32),
        np.full(size, 2.0, np.float32),
        np.zeros(size, np.float64),
        rng.integers(-3, 4, size).astype(np.int32),
        rng.integers(-(1 << 40), 1 << 40, size),
        rng.standard_normal(size).astype(np.float16),
        rng.standard_normal(size).astype(np.float32) * 1e-30,
        rng.standard_normal(size) * 1e150,
    ]
    for array, found in zip(arrays, array_statistics(arrays), strict=True):
        values = array.reshape(-1).astype(np.float64)
        low, high = values.min(), values.max()
        assert (found["size"], found["non_finite"]) == (size, 0)
        assert found["zeros"] == np.count_nonzero(values == 0)
        known = {"min": low, "max": high, "mean": values.mean(), "std": values.std()}
        for name, value in known.items():
            assert found[name] == pytest.approx(value, rel=1e-5, abs=1e-12 * max(abs(low), abs(high))), name
        margin = 0.0 if high > low else max(abs(low), 1.0) * 1e-3
        bars = np.histogram(values, 24, (low - margin, high + margin))[0]
        moved = np.abs(np.cumsum(found["histogram"]) - np.cumsum(bars))
        assert moved.max() <= max(1, size // 100)  # elements between two bars


def test_an_array_with_what_is_not_finite_leaves_the_others_as_they_are():
    arrays = [np.array([np.inf, 1.0, -2.0]), np.array([3.0, 4.0, 5.0]), np.array([np.nan, np.nan, -np.inf])]
    first, second, third = array_statistics([array.astype(np.float32) for array in arrays])
    assert (first["size"], first["non_finite"], first["min"], first["max"]) == (3, 1, -2.0, 1.0)
    assert sum(first["histogram"]) == 2
    assert [second] == array_statistics([arrays[1]])
    assert (third["size"], third["non_finite"], third["min"], third["histogram"]) == (3, 3, None, None)


@settings(max_examples=300)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_are_shortened_to_six_digits(values):
    """Up to a tie, which the number in binary is not."""
    for value, short in zip(values, shortened(np.array(values)).tolist(), strict=True):
        assert short == pytest.approx(value, rel=5.0000001e-6, abs=5e-324)
        assert short == float(f"{short:.6g}")


def test_nothing_in_a_document_ends_its_script_element():
    name = "</script><!--<script>]]>"
    text = json_in_html({"name": name})
    assert "<" not in text
    assert json.loads(text) == {"name": name}


def test_characters_that_act_are_written_out_in_a_document():
    """A line separator would end a line of JavaScript; an override turns the text behind it around."""
    text = json_in_html({"name": "a\u2028b\u202ec"})
    assert text.isascii()
    assert json.loads(text) == {"name": "a\\u2028b\\u202ec"}


def test_the_lines_of_a_layer_are_those_of_its_file(example, document):
    (pool,) = [layer for layer in document["nets"][0]["layers"] if layer["key"] == "pool1"]
    lines = (example / pool["file"]).read_text().splitlines()
    shown = pool["text"].splitlines()
    assert shown == lines[pool["line"] - 1 : pool["line"] + len(shown) - 1]
    assert 'name: "pool1"' in pool["text"]
    assert shown[-1] == "}"


@pytest.mark.parametrize("line", [1, 7, 1000])
def test_a_file_that_is_gone_or_shorter_has_no_lines(tmp_path, line):
    file = tmp_path / "net.prototxt"
    layer = Layer("pool", "pool", "Pooling", origin=Origin(str(file), line))
    assert not excerpts([layer])
    file.write_bytes(b'layer { name: "\xff" }\n')
    assert bool(excerpts([layer])) == (line == 1)
