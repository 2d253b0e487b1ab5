from __future__ import annotations

import pytest

from zoolens.inventory.manifests.foreign.textproto import MAX_DEPTH, NotTextProto, Word, parse_textproto


def test_values_of_every_kind():
    parsed = parse_textproto(
        """
        # a comment
        name: "net" 'work'   count: 0x10, scale: -1.5e-3; on: true
        kind: KIND_GPU
        path: "a\\"b\\n"
        dims: [ 1, -1 ]
        dims: 3
        step { x: 1 } step: < x: 2 >
        list [ { x: 3 }, { x: 4 } ]
        empty []
        """
    )
    assert parsed == {
        "name": ["network"],
        "count": [16],
        "scale": [-0.0015],
        "on": [True],
        "kind": ["KIND_GPU"],
        "path": ['a"b\n'],
        "dims": [1, -1, 3],
        "step": [{"x": [1]}, {"x": [2]}],
        "list": [{"x": [3]}, {"x": [4]}],
        "empty": [],
    }
    assert isinstance(parsed["kind"][0], Word)
    assert not isinstance(parsed["name"][0], Word)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb {", 2, "'}' is missing"),
        ("a: 1\n}", 2, "a field's name is expected"),
        ("a 1", 1, "':' is expected"),
        ("a: [1 2]", 1, "',' or ']' is expected"),
        ("a: [1,", 1, "a value is expected"),
        ('\n\na: "open', 3, "cannot be read"),
        ("a: \x00", 1, "cannot be read"),
        ("a: " + "9" * 5000, 1, "5,000 digits"),
        ("a {" * (MAX_DEPTH + 2), 1, "nested more than"),
        ("a:", 1, "a value is expected, not 'the end of the file'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, line, what):
    with pytest.raises(NotTextProto) as caught:
        parse_textproto(text)
    assert caught.value.line == line
    assert what in caught.value.what
