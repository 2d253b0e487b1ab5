import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://localhost:8000", Address("http", "localhost", 8000)),
        ("http://localhost:8000/", Address("http", "localhost", 8000)),
        ("http://localhost:8000/v2", Address("http", "localhost", 8000)),
        ("https://models.example", Address("https", "models.example", 443)),
        ("grpc://10.0.0.7", Address("grpc", "10.0.0.7", 8001)),
        ("http://h:1/v2/models/net", Address("http", "h", 1, model="net")),
        ("http://h:1/v2/models/net/versions/3", Address("http", "h", 1, model="net", version="3")),
        ("http://h:1/proxy/v2/models/net/", Address("http", "h", 1, prefix="/proxy", model="net")),
        ("http://h:1/v2/models/demo%3Anet", Address("http", "h", 1, model="demo:net")),
        ("http://[::1]:8000", Address("http", "::1", 8000)),
        ("grpc://h:1/v2/models/net", Address("grpc", "h", 1, model="net")),
    ],
)
def test_addresses_are_read(text, address):
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", "localhost:8000", "ftp://h", "http://", "http://h:port", "http://h:99999", "http://h/?x=1", "http://h/#x",
     "grpc://h/folder", "http://a b", "http://h\n", "http://[::1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ZoolensError, match="not a server address"):
        parse_address(text)


def test_a_password_is_refused_and_not_repeated():
    with pytest.raises(ZoolensError, match="password") as error:
        parse_address("http://me:secret@host")
    assert "secret" not in str(error.value)


def test_paths_below_an_address_are_quoted():
    address = parse_address("http://h:1/p/v2/models/a%2Fb/versions/2")
    assert address.model_path("infer") == "/p/v2/models/a%2Fb/versions/2/infer"
    assert address.path("health", "live") == "/p/v2/health/live"
    assert address.at("c").model_path("ready") == "/p/v2/models/c/ready"


def test_which_addresses_are_surely_here():
    assert parse_address("http://127.0.0.1").is_local
    assert not parse_address("http://192.168.0.1").is_local
    assert not parse_address("http://127.example.org").is_local
