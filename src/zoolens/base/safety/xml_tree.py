"""XML of strangers as a tree of elements. A declaration of a document type is refused in every encoding, since its
entities may expand without end, and so are more elements than memory should hold."""

from __future__ import annotations

from typing import Any, Final, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

# Of some 400 bytes each. The largest networks that OpenVINO writes have some hundred thousand.
MOST_ELEMENTS: Final = 2_000_000


def parse_xml(content: bytes) -> Element:
    """The outermost element; ValueError with the rest of a sentence where this is no XML that is read."""
    builder, parser = TreeBuilder(), expat.ParserCreate()
    elements = 0

    # The parser is asked and not the bytes: text in UTF-16 has no b"<!DOCTYPE" in it.
    def refuse(*_: Any) -> NoReturn:
        raise ValueError("it declares a document type, whose entities may expand without end")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal elements
        elements += 1
        if elements > MOST_ELEMENTS:
            raise ValueError(f"it has more than {MOST_ELEMENTS:,} elements")
        builder.start(tag, attributes)

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(content, True)
        root: Element = builder.close()
    except (expat.ExpatError, AssertionError, LookupError) as error:
        raise ValueError(str(error)) from error
    return root
