"""What logs must not hold."""

import pytest

from zoolens.base.safety.scrubbing import scrubbed


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("postgresql://ann:s3cret@db/zoo failed", "postgresql://***@db/zoo failed"),
        ("s3://k:a/b@bucket and ray://h:1001", "s3://***@bucket and ray://h:1001"),
        ("GET /x?X-Amz-Signature=abc123&n=1", "GET /x?X-Amz-Signature=***&n=1"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ('{"password": "hunter2"}', '{"password": "***"}'),
        ("AWS_SECRET_ACCESS_KEY=abcdef", "AWS_SECRET_ACCESS_KEY=***"),
        ("the token 3 of 4 at 12:30, a:b@c", "the token 3 of 4 at 12:30, a:b@c"),
    ],
)
def test_credentials_are_hidden(text, kept):
    assert scrubbed(text) == kept


def test_what_variables_hold_is_hidden_wherever_it_stands(monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "tulip-99")
    monkeypatch.setenv("MY_NAME", "oak-tree")
    assert scrubbed("sent tulip-99 to oak-tree") == "sent *** to oak-tree"
