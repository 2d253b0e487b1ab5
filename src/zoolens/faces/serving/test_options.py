"""Who may ask: addresses, tokens and certificates."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.options import ServerOptions, Tls, check_token, is_loopback, read_token

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_token(host):
    assert is_loopback(host)
    ServerOptions(host=host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_other_addresses_need_a_token(host):
    assert not is_loopback(host)
    with pytest.raises(ZoolensError, match="no token is set"):
        ServerOptions(host=host)
    ServerOptions(host=host, token=TOKEN)
    ServerOptions(host=host, insecure=True)


def test_a_server_has_a_port():
    with pytest.raises(ZoolensError, match="no port"):
        ServerOptions(http_port=None, grpc_port=None)


def test_the_token_is_not_shown():
    assert TOKEN not in repr(ServerOptions(token=TOKEN))


@pytest.mark.parametrize(
    "given", [None, "", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ", "Bearer \xff"]
)
def test_wrong_tokens_are_refused(given):
    with pytest.raises(ServingError) as caught:
        check_token(TOKEN, given)
    assert caught.value.refusal is Refusal.UNAUTHENTICATED
    assert TOKEN not in str(caught.value)
    check_token(None, given)


def test_the_right_token_is_accepted():
    check_token(TOKEN, f"Bearer {TOKEN}")
    check_token(TOKEN, f"bearer  {TOKEN}")


def test_tokens_come_from_a_file_or_a_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("ZOOLENS_SERVE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("ZOOLENS_SERVE_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    file = tmp_path / "token"
    file.write_text(f"another-{TOKEN}\n")
    assert read_token(file) == f"another-{TOKEN}"
    for content in ("short", "two words of some length", ""):
        file.write_text(content)
        with pytest.raises(ZoolensError, match="at least 16"):
            read_token(file)
    with pytest.raises(ZoolensError, match="cannot be read"):
        read_token(tmp_path / "absent")


def test_certificates_are_read_at_once(tmp_path):
    with pytest.raises(ZoolensError, match="cannot be read"):
        Tls(tmp_path / "absent.pem", tmp_path / "absent.key")


@pytest.fixture
def tls(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("OPENSSL IS ABSENT: no certificate can be made, TLS is not tested")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    files = Tls.__new__(Tls)
    object.__setattr__(files, "certificate", tmp_path / "cert.pem")
    object.__setattr__(files, "key", tmp_path / "key.pem")
    subprocess.run([*command.split(), "-out", files.certificate, "-keyout", files.key], check=True, capture_output=True)
    return files


def test_a_token_over_tls(tls, tmp_path, monkeypatch):
    """REST and gRPC want the token, say so without it, and let probes of health in."""
    import asyncio

    grpc = pytest.importorskip("grpc")
    from zoolens.base.protocol.protobuf import INFERENCE, methods
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    trusted = ssl.create_default_context(cafile=str(tls.certificate))

    def rest(url, content=None, **headers):
        request = urllib.request.Request(url, content, headers)
        try:
            with urllib.request.urlopen(request, context=trusted) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def call(target, name, **metadata):
        credentials = grpc.ssl_channel_credentials(tls.certificate.read_bytes())
        with grpc.secure_channel(target, credentials) as channel:
            stub = channel.unary_unary(methods(INFERENCE)[name].path)
            try:
                stub(b"", metadata=tuple(metadata.items()), timeout=20)
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

    async def answers():
        options = ServerOptions(http_port=0, grpc_port=0, token=TOKEN, tls=tls)
        async with open_plane() as plane, Server(plane, options) as server:
            url, target = server.urls["http"], server.urls["grpc"].removeprefix("grpcs://")
            assert url.startswith("https://")
            bearer = {"authorization": f"Bearer {TOKEN}"}
            raw = {"inference-header-content-length": "0"}
            return [
                await asyncio.to_thread(rest, f"{url}/v2"),
                await asyncio.to_thread(rest, f"{url}/v2", **bearer),
                await asyncio.to_thread(rest, f"{url}/v2/health/live"),
                await asyncio.to_thread(rest, f"{url}/v2/models/absent/infer", bytes(3_000_000), **bearer, **raw),
                await asyncio.to_thread(call, target, "ServerMetadata"),
                await asyncio.to_thread(call, target, "ServerMetadata", **bearer),
                await asyncio.to_thread(call, target, "ModelInfer"),
                await asyncio.to_thread(call, target, "ServerLive"),
            ]

    refused, metadata, live, absent, *calls = asyncio.run(answers())
    assert refused[0] == 401
    assert "token" in refused[1]["error"]
    assert metadata[1]["name"] == "zoolens"
    assert live == (200, {"live": True})
    assert absent[0] == 404  # after all of a large body was read
    assert calls == ["UNAUTHENTICATED", "OK", "UNAUTHENTICATED", "OK"]


def test_a_port_that_is_taken_is_one_sentence(tmp_path, monkeypatch):
    import asyncio
    import socket

    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))

    async def start(**ports):
        async with open_plane() as plane, Server(plane, ServerOptions(**ports)):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for ports in ({"http_port": port, "grpc_port": None}, {"http_port": None, "grpc_port": port}):
            with pytest.raises(ZoolensError, match=f"cannot listen on 127.0.0.1:{port}"):
                asyncio.run(start(**ports))


def test_numbers_in_headers_are_printable():
    from zoolens.faces.serving.transports.request_headers import answered_by

    parameters = {"zoolens_model": "a\r\nb: é", "zoolens_rung": 1, "other": 2}
    assert answered_by(parameters) == {"zoolens-model": "a%0D%0Ab%3A%20%C3%A9", "zoolens-rung": "1"}
