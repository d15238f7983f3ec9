"""XML with line numbers, and what is refused of it."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError
from netweave.formats.openvino.document import MAX_XML_DEPTH, parse_xml


def test_elements_know_their_line_and_their_text():
    root = parse_xml(
        b'<net name="a">\n <layer id="1"><dim> 3 </dim></layer>\n <layer/></net>', place="net.xml"
    )
    layers = list(root.named("layer"))
    assert [(layer.line, layer.attributes) for layer in layers] == [(2, {"id": "1"}), (3, {})]
    assert layers[0].first("dim").text == " 3 "
    assert root.first("edges") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<a><b></a>", r"net.xml: is not XML: mismatched tag: line 1"),
        (b"", "is not XML: no element found"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "net.xml:1: declares a document type"),
        (b'\n<!DOCTYPE a SYSTEM "/etc/passwd"><a/>', "net.xml:2: declares a document type"),
        (b"<a>&b;</a>", "is not XML: undefined entity"),
        (b"<a>" * (MAX_XML_DEPTH + 1), "nested more than 64 deep"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "is not XML: unknown encoding"),
    ],
)
def test_what_is_refused(content, message):
    with pytest.raises(ReadError, match=message):
        parse_xml(content, place="net.xml")
