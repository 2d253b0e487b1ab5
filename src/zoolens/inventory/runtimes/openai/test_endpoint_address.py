import pytest

from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.openai.endpoint_address import parse_endpoint


@pytest.mark.parametrize(
    ("text", "written", "model"),
    [
        ("http://host:8000/v1", "http://host:8000/v1", ""),
        ("https://host/v1/", "https://host:443/v1", ""),
        ("https://host/api/v1/models/org/name", "https://host:443/api/v1/models/org/name", "org/name"),
        ("http://[::1]:80/v1/models//tmp/a%20b.gguf", "http://[::1]:80/v1/models//tmp/a%20b.gguf", "/tmp/a b.gguf"),
    ],
)
def test_an_address_is_read_and_written(text, written, model):
    address = parse_endpoint(text)
    assert str(address) == written
    assert address.model == model
    assert parse_endpoint(str(address)) == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host:8000/v1", "does not begin with http"),
        ("ftp://host/v1", "does not begin with http"),
        ("http://host:8000", "has no path"),
        ("http:///v1", "names no host"),
        ("http://host/v1?key=abc", "something behind its path"),
        ("http://me:secret@host/v1", "ZOOLENS_OPENAI_KEY"),
        ("http://host:99999/v1", "is not the address"),
        ("http://host/v1\n", "names no host"),
        (f"http://{'a' * 70}.org/v1", "is not the address"),
    ],
)
def test_what_is_no_address_is_one_sentence(text, said):
    with pytest.raises(ZoolensError) as caught:
        parse_endpoint(text)
    assert said in f"{caught.value} {caught.value.hint}"
    assert "secret" not in str(caught.value)
