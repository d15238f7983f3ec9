"""XML as elements with line numbers, without what makes XML dangerous: no document type, so no entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from netweave.errors import ReadError

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
