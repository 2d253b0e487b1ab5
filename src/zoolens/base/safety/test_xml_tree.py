"""XML of strangers."""

import pytest

from zoolens.base.safety import xml_tree
from zoolens.base.safety.xml_tree import parse_xml

BOMB = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><a>&c;</a>'


def test_a_tree_is_read():
    root = parse_xml('<a b="1">x<c/></a>'.encode("utf-16"))
    assert (root.tag, root.get("b"), root.text, [child.tag for child in root]) == ("a", "1", "x", ["c"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [BOMB, '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'])
def test_a_document_type_is_refused_in_every_encoding(encoding, text):
    with pytest.raises(ValueError, match="declares a document type"):
        parse_xml(text.encode(encoding))


@pytest.mark.parametrize(
    "content", [b"", b"<a>", b"<a/><b/>", b"\xff\xfe\xff", b'<?xml version="1.0" encoding="odd"?><a/>']
)
def test_what_is_no_xml_is_one_error(content):
    with pytest.raises(ValueError, match=r"\w"):
        parse_xml(content)


def test_elements_are_counted(monkeypatch):
    monkeypatch.setattr(xml_tree, "MOST_ELEMENTS", 3)
    assert parse_xml(b"<a><b/><c/></a>").tag == "a"
    with pytest.raises(ValueError, match="more than 3 elements"):
        parse_xml(b"<a><b/><c/><d/></a>")
