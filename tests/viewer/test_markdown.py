"""The Markdown of a document; markdown-it, which reads it as forges do, is the judge of what it says."""

from __future__ import annotations

import pytest

from netweave.viewer import comparison_document, document_markdown, net_document
from netweave.viewer.markdown import MAX_ROWS

MarkdownIt = pytest.importorskip("markdown_it").MarkdownIt

HOSTILE = "x`y``z|<img src=x onerror=alert(1)> [a](javascript:b) ![c](d) @all #1 **bold**\n# heading ~~s~~"

DIFF = "--- a/b.json\n+++ b/b.json\n@@ -1 +1 @@\n-1\n+2\n"


def tokens(text: str):
    """Return all tokens, those within paragraphs as well; links are made of bare addresses too."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return [inner for token in parser.parse(text) for inner in (token, *(token.children or ()))]


def cells(text: str) -> list[list[str]]:
    """Return the tables' rows as a reader sees them."""
    rows: list[list[str]] = []
    is_cell = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in {"td_open", "th_open"}:
            is_cell = True
        elif token.type == "inline" and is_cell:
            rows[-1].append("".join(child.content for child in token.children or ()))
            is_cell = False
    return rows


def net(name: str, *, layers: tuple[str, ...] = ("conv",)):
    return {
        "name": name,
        "format": "Caffe",
        "files": [f"{name}.prototxt"],
        "loaded": True,
        "notes": [],
        "layers": [{"key": n, "name": n, "type": "Convolution", "cost": None} for n in layers],
        "nodes": [],
        "totals": {"parameters": 12_345},
    }


def comparison(**changed):
    group = {
        "nodes": [[], []],
        "layers": [[0], [0]],
        "status": "DIFFERENT",
        "error": 0.25,
    }
    finding = {
        "cause": "the stride differs",
        "fix": "stride: 2",
        "places": ["a.prototxt:3", "b.json"],
        "layers": ["conv", "conv"],
        "error": 0.25,
        "error_fixed": 2e-7,
        "patch": {
            "diff": "--- a/b.json\n+++ b/b.json\n@@ -1 +1 @@\n-1\n+2\n",
            "why": "",
            "files": ["b.json"],
        },
    }
    return {
        "kind": "comparison",
        "nets": [net("a"), net("b")],
        "verdict": "different",
        "verdicts": [{"words": "different", "mark": "≠"}],
        "sentence": "different at conv",
        "findings": [finding],
        "groups": [group],
        "inputs": [{"a": "data", "b": "data", "text": ""}],
        "outputs": [],
        "notes": [],
        "probes": [],
    } | changed


def test_the_verdict_the_cause_and_the_fix_are_said():
    text = document_markdown(comparison())
    assert text.startswith("### ≠ different\n")
    found = tokens(text)
    said = " ".join(token.content for token in found if token.type in {"text", "code_inline"})
    for words in ("the stride differs", "stride: 2", "a.prototxt:3", "2e-07"):
        assert words in said
    (fence,) = (token for token in found if token.type == "fence")
    assert fence.info == "diff"
    assert fence.content == comparison()["findings"][0]["patch"]["diff"]
    assert ["conv", "conv", "different", "0.2"] in cells(text)


@pytest.mark.parametrize("kind", ["comparison", "net"])
def test_nothing_that_comes_from_a_file_is_markup(kind):
    if kind == "net":
        document = {"kind": "net", "nets": [net(HOSTILE, layers=(HOSTILE,)) | {"notes": [HOSTILE]}]}
    else:
        (finding,) = comparison()["findings"]
        hostile = dict.fromkeys(("cause", "fix"), HOSTILE) | {
            "layers": [HOSTILE] * 2,
            "places": [HOSTILE] * 2,
        }
        hostile["patch"] = {"diff": "```\n# out\n````\n<b>"}
        document = comparison(
            nets=[net(HOSTILE, layers=(HOSTILE,)), net(HOSTILE, layers=(HOSTILE,))],
            sentence=HOSTILE,
            findings=[finding | hostile],
            inputs=[{"a": HOSTILE, "b": HOSTILE, "text": HOSTILE}],
            notes=[HOSTILE],
            probes=[HOSTILE],
        )
    text = document_markdown(document)
    found = tokens(text)
    kinds = {token.type for token in found}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "s_open"}
    headings = [token for token in found if token.type == "heading_open"]
    assert len(headings) == (1 if kind == "net" else 2)
    strong = [token for token in found if token.type == "strong_open"]
    assert len(strong) == text.count("\n- **") + text.count("\n**")
    flat = " ".join(HOSTILE.split())
    assert any(flat in row for row in cells(text)), "names are whole in the tables"
    assert all(len(row) in {2, 3, 4, 5, 6} for row in cells(text))
    mentions = [token.content for token in found if token.type == "text" and "@all" in token.content]
    assert all("\\@all" in text for _ in mentions)


def test_a_long_net_is_cut_and_says_so():
    names = tuple(f"layer{number}" for number in range(MAX_ROWS + 7))
    text = document_markdown({"kind": "net", "nets": [net("long", layers=names)]})
    assert "… and 7 more." in text
    assert len(cells(text)) == 2 + 1 + MAX_ROWS


def test_a_document_of_today_says_what_the_comparison_does(port):
    found = cells(document_markdown(comparison_document(port)))
    findings = [group.finding for group in port.groups if group.finding]
    (row,) = (row for row in found if row[2:3] == ["different"])
    assert (row[0], row[1]) == (findings[0].layer_a, findings[0].layer_b)
    net = cells(document_markdown(net_document(port.a)))
    layers = [(layer.name, layer.type) for layer in port.a.layers.values()]
    assert [(row[0], row[1]) for row in net[-len(layers) :]] == layers
