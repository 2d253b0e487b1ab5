import http.server
import socket
import threading
import urllib.request

import pytest

from zoolens.base.errors import AssetError
from zoolens.base.protocol.address import is_loopback
from zoolens.inventory.manifests import addresses
from zoolens.inventory.manifests.addresses import judged_connection, opener_for, permitted
from zoolens.inventory.manifests.locations import resolve_file
from zoolens.inventory.manifests.schema import AssetFile

SHA = "0" * 64


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    for name in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def resolving(monkeypatch, *answers):
    """Names have these addresses, one answer a question; the list of hosts that were asked for."""
    asked = []

    def getaddrinfo(host, port, **named):
        assert named == {"type": socket.SOCK_STREAM}
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        family = socket.AF_INET6 if ":" in found else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (found, port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.parametrize("address", [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "::1", "fe80::1", "fd00::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "224.0.0.1",
    "ff02::1", "::", "198.18.0.1", "240.0.0.1", "fec0::1", "::127.0.0.1", "64:ff9b:1::7f00:1", "64:ff9b:1::1",
    "5f00::1", "3fff::1", "192.0.0.8", "192.88.99.1", "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1",
    "::ffff:0:127.0.0.1", "100::1", "2001:db8::1",
])  # fmt: skip
def test_addresses_of_one_s_own_network_are_refused(monkeypatch, address):
    resolving(monkeypatch, address)
    with pytest.raises(AssetError, match="which a manifest may not use"):
        permitted("models.example.org", 443)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::808:808"])
def test_public_addresses_pass(monkeypatch, address):
    resolving(monkeypatch, address)
    assert permitted("models.example.org", 443)[0][3] == (address, 443)


@pytest.mark.parametrize(("listed", "passes"), [
    ("10.0.0.1", True),
    ("10.0.0.0/8", True),
    ("10.0.0.1:443", True),
    ("10.0.0.1:80", False),
    ("10.0.0.2", False),
    ("models.example.org", True),
    ("models.example.org:443", True),
    ("models.example.org:8443", False),
    ("example.org", False),
    ("::1, 10.1.0.0/16 ,10.0.0.1", True),
    ("10.0.0.77/24", True),
    ("10.0.0.77/24:443", False),
    (":443", False),
    ("::/0", False),
])  # fmt: skip
def test_the_user_may_list_places(monkeypatch, listed, passes):
    resolving(monkeypatch, "10.0.0.1")
    monkeypatch.setenv("ZOOLENS_FETCH_FROM", listed)
    if passes:
        assert permitted("models.example.org", 443)
    else:
        with pytest.raises(AssetError, match="ZOOLENS_FETCH_FROM=models"):
            permitted("models.example.org", 443)


def test_the_connection_goes_to_the_address_that_was_judged(monkeypatch):
    """A name that has another address at the second look gains nothing: there is no second look."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("ZOOLENS_FETCH_FROM", "127.0.0.1")
        asked = resolving(monkeypatch, "127.0.0.1", "169.254.169.254")
        with judged_connection(("models.example.org", port), timeout=5) as connection:
            assert connection.getpeername() == ("127.0.0.1", port)
        assert asked == ["models.example.org"]


class _Redirecting(http.server.BaseHTTPRequestHandler):
    target = ""
    hits = 0

    def do_GET(self):
        type(self).hits += 1
        self.send_response(302)
        self.send_header("Location", self.target)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def redirecting(monkeypatch):
    _Redirecting.hits = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Redirecting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("ZOOLENS_FETCH_FROM", f"127.0.0.1:{server.server_address[1]}")
        yield f"http://127.0.0.1:{server.server_address[1]}/m.onnx"
        server.shutdown()


@pytest.mark.parametrize("target", [
    "https://127.0.0.1/secret", "https://169.254.169.254/latest", "https://[::1]/", "http://127.0.0.1:1/", "https://10.1.1.1",
])  # fmt: skip
def test_a_redirect_is_judged_like_the_first_address(redirecting, target):
    _Redirecting.target = target
    with pytest.raises(AssetError, match="which a manifest may not use"):
        resolve_file(AssetFile(location=redirecting, sha256=SHA), None, fetch=True)
    assert _Redirecting.hits == 1


def test_redirects_in_a_circle_end(redirecting):
    _Redirecting.target = "/m.onnx"
    with pytest.raises(AssetError, match="redirects more than 10 times"):
        resolve_file(AssetFile(location=redirecting, sha256=SHA), None, fetch=True)
    assert _Redirecting.hits == 10


@pytest.mark.parametrize("location", [
    "http://127.0.0.1:1/m.onnx", "https://127.0.0.1:1/m.onnx", "https://localhost:1/m.onnx", "https://10.1.1.1/m.onnx",
    "https://2130706433/m.onnx", "https://0x7f.1/m.onnx",
])  # fmt: skip
def test_manifests_reach_nothing_private_unasked(location):
    with pytest.raises(AssetError, match="which a manifest may not use"):
        resolve_file(AssetFile(location=location, sha256=SHA), None, fetch=True)


@pytest.mark.parametrize("location", ["https://[::1/m", "https://host:port/m", "https://" + "a" * 300 + "/m"])
def test_what_is_no_address_is_said(location):
    with pytest.raises(AssetError):
        resolve_file(AssetFile(location=location, sha256=SHA), None, fetch=True)


def test_a_name_is_the_same_in_capitals_and_with_its_last_dot(monkeypatch):
    resolving(monkeypatch, "10.0.0.1")
    monkeypatch.setenv("ZOOLENS_FETCH_FROM", "models.example.org")
    assert permitted("Models.Example.ORG.", 443)
    for other in (".models.example.org", "models.example.orgX", "models.example.org "):
        with pytest.raises(AssetError, match=r"is 10\.0\.0\.1, an address of this machine"):
            permitted(other, 443)


def test_the_zone_of_an_address_is_no_part_of_it(monkeypatch):
    resolving(monkeypatch, "fe80::1%eth0")
    monkeypatch.setenv("ZOOLENS_FETCH_FROM", "fe80::/10")
    assert permitted("models.example.org", 443)


def test_an_address_that_stands_for_a_public_one_passes(monkeypatch):
    resolving(monkeypatch, "64:ff9b::5db8:d822")  # 93.184.216.34
    assert permitted("models.example.org", 443)


def test_an_entry_that_is_no_place_is_said(monkeypatch):
    resolving(monkeypatch, "10.0.0.1")
    monkeypatch.setenv("ZOOLENS_FETCH_FROM", "host:port")
    with pytest.raises(AssetError, match="'host:port', which is not a host"):
        permitted("models.example.org", 443)


@pytest.mark.parametrize(("host", "expected"), [
    ("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("example.org", False),
    ("10.0.0.1", False), ("", False),
])  # fmt: skip
def test_loopback(host, expected):
    assert is_loopback(host) is expected


def test_a_connection_has_the_time_limit_and_fails_as_the_last_address_did(monkeypatch):
    monkeypatch.setenv("ZOOLENS_FETCH_FROM", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with judged_connection(("127.0.0.1", port), timeout=7.5) as connection:
            assert connection.gettimeout() == 7.5
        with judged_connection(("127.0.0.1", port), timeout=object()) as connection:  # urllib's "no limit given"
            assert connection.gettimeout() is None
    with pytest.raises(ConnectionRefusedError):
        judged_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("kind", [addresses._Connection, addresses._SecureConnection])
def test_a_connection_is_made_as_urllib_asks_and_judged(kind):
    connection = kind("models.example.org", timeout=7)
    assert (connection.host, connection.timeout) == ("models.example.org", 7)
    assert connection._create_connection is judged_connection


def _kinds(opener):
    return {type(handler).__name__ for handler in opener.handlers}


def test_without_a_proxy_every_connection_is_judged(monkeypatch):
    opener = opener_for("https://models.example.org/m.onnx")
    assert {"_Handler", "_SecureHandler", "_NoRedirects"} <= _kinds(opener)
    assert not {"HTTPHandler", "HTTPSHandler", "HTTPRedirectHandler", "ProxyHandler"} & _kinds(opener)


def test_a_proxy_that_is_not_for_this_address_is_not_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    assert "ProxyHandler" not in _kinds(opener_for("https://models.example.org/m.onnx"))
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    monkeypatch.setenv("no_proxy", "models.example.org")
    opener = opener_for("https://models.example.org/m.onnx")
    assert "_SecureHandler" in _kinds(opener)
    assert "ProxyHandler" not in _kinds(opener)


def test_with_a_proxy_the_addresses_that_the_name_has_here_are_judged(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    asked = resolving(monkeypatch, "10.0.0.1")
    with pytest.raises(AssetError, match=r"ZOOLENS_FETCH_FROM=models\.example\.org:443"):
        opener_for("https://models.example.org/m.onnx")
    with pytest.raises(AssetError, match=r"ZOOLENS_FETCH_FROM=models\.example\.org:8443"):
        opener_for("https://models.example.org:8443/m.onnx")
    assert asked == ["models.example.org"] * 2
    resolving(monkeypatch, "93.184.216.34")
    assert {"ProxyHandler", "_NoRedirects"} <= _kinds(opener_for("https://models.example.org/m.onnx"))


def test_a_name_that_only_the_proxy_knows_goes_to_the_proxy(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    def unknown(*_, **__):
        raise socket.gaierror("unknown")

    monkeypatch.setattr(addresses.socket, "getaddrinfo", unknown)
    opener = opener_for("https://models.example.org/m.onnx")
    (proxy,) = (handler for handler in opener.handlers if isinstance(handler, urllib.request.ProxyHandler))
    assert proxy.proxies["https"] == "http://proxy.example.org:3128"
