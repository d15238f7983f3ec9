"""The layers of an IR, and what connects them (openvino/core/src/pass/serialize.cpp)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from netweave.errors import ReadError, UnsupportedError

MAX_XML_DEPTH = 64
"""Elements in elements beyond this are refused."""

MAX_XML_ELEMENTS = 2_000_000
"""A file with more elements is refused; each costs some hundred bytes, and a layer has some twenty."""


@dataclass(slots=True)
class XmlElement:
    """An element; text between elements is left out.

    Attributes:
        tag: Its name.
        attributes: Its attributes.
        line: Where it begins, from 1.
        text: The text before its first element.
        children: The elements in it.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[XmlElement] = field(default_factory=list)

    def named(self, tag: str) -> Iterator[XmlElement]:
        """Yield the elements in it that have a name."""
        return (child for child in self.children if child.tag == tag)

    def first(self, tag: str) -> XmlElement | None:
        """Return the first element in it that has a name."""
        return next(self.named(tag), None)


def parse_xml(content: bytes, *, place: str) -> XmlElement:
    """Return the root of a text.

    Raises:
        ReadError: It is no XML, declares a document type, or is too deep or too long.
    """
    builder = _Builder(place)
    try:
        builder.parser.Parse(content, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: encodings
        raise ReadError(f"is not XML: {error}", place=place) from error
    assert builder.root is not None, "expat refuses a text without an element"
    return builder.root


class _Builder:
    """Collects elements as the parser meets them."""

    def __init__(self, place: str) -> None:
        self.root: XmlElement | None = None
        self._place = place
        self._open: list[XmlElement] = []
        self._num_elements = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._refuse

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, self.parser.CurrentLineNumber)
        self._num_elements += 1
        if len(self._open) >= MAX_XML_DEPTH or self._num_elements > MAX_XML_ELEMENTS:
            raise ReadError(
                f"has more than {MAX_XML_ELEMENTS:,} elements, or some nested more than {MAX_XML_DEPTH} deep",
                place=f"{self._place}:{element.line}",
            )
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if self._open and not self._open[-1].children:
            self._open[-1].text += text

    def _refuse(self, *declaration: object) -> None:
        raise ReadError(
            "declares a document type, which no file of this format has",
            place=f"{self._place}:{self.parser.CurrentLineNumber}",
        )


VERSIONS = frozenset({"10", "11"})
"""Versions of the representation that are read; those before have no operator sets."""

MAX_LAYERS = 200_000

Port = tuple[str, str]
"""A layer's id, and the id of one of its outputs."""


@dataclass(frozen=True, slots=True)
class OutputPort:
    """An output of a layer.

    Attributes:
        id: Its number in the file.
        precision: Its element type.
        shape: Its sizes; None for open ones.
        names: Names of the tensor.
    """

    id: str
    precision: str
    shape: tuple[int | None, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IRLayer:
    """A layer as the file has it.

    Attributes:
        id: Its number in the file.
        name: Its name.
        type: Its operator.
        opset: The operator set that defines it: ``opset8``.
        settings: The attributes of its element ``data``.
        inputs: Where its inputs come from, in order.
        outputs: What it makes.
        line: Where it stands.
        has_body: Whether it holds a net of its own, as loops do.
    """

    id: str
    name: str
    type: str
    opset: str
    settings: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[OutputPort, ...]
    line: int
    has_body: bool


@dataclass(frozen=True, slots=True)
class Document:
    """A net as its text has it.

    Attributes:
        name: Its name.
        layers: Its layers by id, in the order of the file.
        file: Name of the file, for messages.
    """

    name: str
    layers: dict[str, IRLayer]
    file: str

    def place(self, layer: IRLayer) -> str:
        """Return where a layer stands, for a message."""
        return f"{self.file}:{layer.line}: layer {layer.name!r} ({layer.type})"


def read_document(content: bytes, *, file: str) -> Document:
    """Return the layers of a text.

    Raises:
        ReadError: It is damaged.
        UnsupportedError: It is of a version that is not read.
    """
    root = parse_xml(content, place=file)
    version = root.attributes.get("version", "")
    if root.tag != "net" or version not in VERSIONS:
        raise UnsupportedError(
            f"begins with <{root.tag} version={version!r}>, expected <net> of version 10 or 11; convert the "
            "original net again with a present OpenVINO",
            place=file,
        )
    layers, edges = root.first("layers"), root.first("edges")
    if layers is None or edges is None:
        raise ReadError("has no <layers> or no <edges>; was it copied whole?", place=file)
    sources = _sources(edges, file)
    by_id: dict[str, IRLayer] = {}
    for element in layers.named("layer"):
        layer = _layer(element, sources, file)
        if layer.id in by_id:
            raise ReadError(f"has two layers with the id {layer.id!r:.40}", place=f"{file}:{layer.line}")
        by_id[layer.id] = layer
    if not 0 < len(by_id) <= MAX_LAYERS:
        raise ReadError(f"has {len(by_id):,} layers, expected 1 to {MAX_LAYERS:,}", place=file)
    return Document(root.attributes.get("name", ""), by_id, file)


def _sources(edges: XmlElement, file: str) -> dict[Port, Port]:
    """Return for each input, by layer and port, the output that it reads."""
    sources: dict[Port, Port] = {}
    for edge in edges.named("edge"):
        ends = [edge.attributes.get(name) for name in ("from-layer", "from-port", "to-layer", "to-port")]
        if None in ends:
            raise ReadError("an edge lacks one of its four ends", place=f"{file}:{edge.line}")
        source, source_port, target, target_port = map(str, ends)
        if (target, target_port) in sources:
            raise ReadError(
                f"port {target_port!r:.40} of layer {target!r:.40} has two edges", place=f"{file}:{edge.line}"
            )
        sources[target, target_port] = (source, source_port)
    return sources


def _layer(element: XmlElement, sources: Mapping[Port, Port], file: str) -> IRLayer:
    attributes = element.attributes
    place = f"{file}:{element.line}"
    if not attributes.get("id") or not attributes.get("type"):
        raise ReadError("a layer has no id or no type", place=place)
    data, inputs, outputs = (element.first(tag) for tag in ("data", "input", "output"))
    key = attributes["id"]
    ports = [] if inputs is None else [port.attributes.get("id", "") for port in inputs.named("port")]
    open_ports = [port for port in ports if (key, port) not in sources]
    if open_ports:
        raise ReadError(f"layer {key!r:.40} has no edge to its port {open_ports[0]!r:.40}", place=place)
    return IRLayer(
        id=key,
        name=attributes.get("name") or f"{attributes['type']}_{key}",
        type=attributes["type"],
        opset=attributes.get("version", ""),
        settings=data.attributes if data is not None else {},
        inputs=tuple(sources[key, port] for port in ports),
        outputs=() if outputs is None else tuple(_port(port, file) for port in outputs.named("port")),
        line=element.line,
        has_body=element.first("body") is not None or element.first("then_body") is not None,
    )


def _port(element: XmlElement, file: str) -> OutputPort:
    shape = tuple(parse_size(dim.text, place=f"{file}:{dim.line}") for dim in element.named("dim"))
    names = element.attributes.get("names", "").replace("\\,", "\0").split(",")
    return OutputPort(
        element.attributes.get("id", ""),
        element.attributes.get("precision", ""),
        shape,
        tuple(name.replace("\0", ",") for name in names if name),
    )


def parse_size(text: str, *, place: str) -> int | None:
    """Return a size; None for one that is open (``-1``, ``?``) or has bounds (``1..10``).

    Raises:
        ReadError: It is none.
    """
    text = text.strip()
    if text in {"-1", "?"} or ".." in text:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= 18):
        raise ReadError(f"has the size {text!r:.40}, expected a whole number", place=place)
    return int(text)
