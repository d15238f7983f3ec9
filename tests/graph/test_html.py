"""A Graph in a notebook: well-formed, whole, and never markup from a file."""

from __future__ import annotations

from html.parser import HTMLParser

from netweave.graph import GraphBuilder, Layer, Parameter

UNCLOSED = {"br"}


class Reader(HTMLParser):
    """Collects the text of a fragment and checks that its tags are closed in order."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.feed(fragment)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in UNCLOSED:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def hostile_net():
    builder = GraphBuilder("<script>net</script>", format="caffe", files=("a&b",))
    data = builder.input("<i>data", (1, 3, 4, 4))
    with builder.layer(
        Layer("<b>fc", "<b>fc", "<u>Type", {"name": "<s>x"}, ("<i>data",), ("out",), ("fc/0",))
    ):
        weight = builder.parameter(Parameter("fc/0", (2, 48), loaded=False), None)
        flat = builder.add("Flatten", [data])
        out = builder.add("Gemm", [flat, weight], {"transB": 1}, outputs="out")
    return builder.finish([out])


def test_everything_is_shown_and_nothing_from_a_file_is_markup():
    read = Reader(hostile_net()._repr_html_())
    for words in (
        "<script>net</script>",
        "<i>data Nx3x4x4",
        "<b>fc",
        "<u>Type",
        "<s>x",
        "Nx2",
        "96",
        "1 layer",
    ):
        assert words in read.text
    assert not read.tags & {"script", "i", "u", "s"}
