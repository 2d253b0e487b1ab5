import socket

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.address import Address, parse_address
from zoolens.base.protocol.client import open_client
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse, ServerMetadata
from zoolens.testing.v2_server import NET, SERVER, serving


def doubled(request):
    return InferResponse(request.model, "1", {"logits": request.inputs["input"] * 2}, request.id)


def test_a_server_tells_what_it_is_and_has():
    with serving(doubled) as address, open_client(address) as client:
        assert client.server() == SERVER
        assert client.model("net") == NET
        assert [entry.name for entry in client.repository()] == ["net"]


@pytest.mark.parametrize("extensions", [("binary_tensor_data",), ()])
def test_inference_with_and_without_binary_tensors(extensions):
    kinds = []

    def answer(request):
        kinds.append(request.parameters.get("binary_data_output", False))
        return doubled(request)

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    server = ServerMetadata("some", "1", extensions)
    with serving(answer, server=server) as address, open_client(address) as client:
        for _ in range(2):  # on one connection
            response = client.infer(InferRequest("net", {"input": values}, id="a"))
            assert np.array_equal(response.outputs["logits"], values * 2)
            assert response.id == "a"
    assert kinds == [bool(extensions)] * 2


def test_a_large_tensor_travels_whole():
    values = np.random.default_rng(0).random((1, 1_500_000)).astype(np.float32)
    with serving(doubled) as address, open_client(address) as client:
        assert np.array_equal(client.infer(InferRequest("net", {"input": values})).outputs["logits"], values * 2)


def test_an_unknown_model_is_the_servers_sentence():
    with (
        serving(doubled) as address,
        open_client(address) as client,
        pytest.raises(ServingError, match="not found") as error,
    ):
        client.model("other")
    assert error.value.refusal is Refusal.NOT_FOUND


def test_a_client_goes_on_after_an_error_and_after_a_closed_connection():
    calls = []

    def answer(request):
        calls.append(request.id)
        if request.id == "hang up":
            raise ConnectionAbortedError
        if request.id == "shed":
            raise ServingError(Refusal.OVERLOADED, "The queue is full.")
        return doubled(request)

    values = {"input": np.zeros((1, 4), np.float32)}
    with serving(answer) as address, open_client(address) as client:
        with pytest.raises(ServingError, match="queue is full"):
            client.infer(InferRequest("net", values, id="shed"))
        with pytest.raises(ZoolensError, match="No answer"):
            client.infer(InferRequest("net", values, id="hang up"))
        assert client.infer(InferRequest("net", values, id="x")).id == "x"
    assert calls == ["shed", "hang up", "hang up", "x"]


def test_a_token_is_sent_where_one_is_given(monkeypatch):
    with serving(doubled, token="letmein") as address:
        with open_client(address) as client, pytest.raises(ServingError, match="token"):
            client.server()
        with open_client(address, token="letmein") as client:
            assert client.server() == SERVER
        monkeypatch.setenv("ZOOLENS_TOKEN", "letmein")
        with open_client(address) as client:
            assert client.server() == SERVER


def test_no_server_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound, but nobody listens
        for scheme in ("http", "grpc"):
            client = open_client(Address(scheme, "127.0.0.1", port), seconds=5)
            with client, pytest.raises(ZoolensError, match="No answer"):
                client.server()


def test_a_server_that_is_silent_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = parse_address(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with open_client(address, seconds=0.2) as client, pytest.raises(ZoolensError, match="within"):
            client.server()


def test_what_does_not_speak_http_is_one_sentence():
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def nonsense():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")

        thread = threading.Thread(target=nonsense)
        thread.start()
        address = parse_address(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with open_client(address, seconds=5) as client, pytest.raises(ZoolensError, match="does not speak HTTP"):
            client.server()
        thread.join()
