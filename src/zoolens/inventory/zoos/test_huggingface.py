"""The real huggingface_hub client against a small server on this machine that speaks the endpoints it needs."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

from zoolens.base.errors import AssetError, UnknownName
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.manifests.locations import presence, resolve_asset
from zoolens.inventory.zoos.huggingface import HuggingFaceZoo
from zoolens.inventory.zoos.listing import models
from zoolens.inventory.zoos.zoo import Weights

pytest.importorskip("huggingface_hub")

FILES = {"onnx/model.onnx": b"onnx" * 500, "onnx/model_int8.onnx": b"int8" * 100, "pytorch_model.bin": b"pickle"}
COMMIT = "c" * 40


def repository(name: str, files, library: str | None = None) -> dict:
    return {
        "_id": "1",
        "id": name,
        "modelId": name,
        "pipeline_tag": "image-classification",
        "library_name": library,
        "tags": ["license:mit"],
        "downloads": 7,
        "siblings": [{"rfilename": file} for file in files],
    }


REPOSITORIES = [
    repository("acme/tiny-net", FILES),
    repository("timm/resnet18.a1_in1k", ["model.safetensors", "pytorch_model.bin"], "timm"),
    repository("acme/pickles-only", ["pytorch_model.bin"], "transformers"),
]


class _Hub(http.server.BaseHTTPRequestHandler):
    corrupt = False
    queries: list[dict] = []  # noqa: RUF012

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/api/models":
            query = parse_qs(url.query)
            type(self).queries.append(query)
            text = query.get("search", [""])[0]
            self._json([r for r in REPOSITORIES if text in r["id"]])
        elif url.path.startswith("/api/models/"):
            found = [r for r in REPOSITORIES if r["id"] == url.path.removeprefix("/api/models/")]
            self._json(found[0]) if found else self._missing()
        else:
            self._file(url.path, body=True)

    def do_HEAD(self):
        self._file(urlsplit(self.path).path, body=False)

    def _file(self, path: str, *, body: bool):
        name = path.partition("/resolve/main/")[2] or path.partition(f"/resolve/{COMMIT}/")[2]
        content = FILES.get(name)
        if content is None or not path.startswith("/acme/tiny-net/"):
            self._missing()
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(b"X" * len(content) if self.corrupt else content)

    def _json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _missing(self):
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    _Hub.corrupt, _Hub.queries = False, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        yield server
        server.shutdown()


def test_search_lists_files_that_can_be_run():
    entries = list(HuggingFaceZoo().entries("tiny"))
    assert [entry.ref for entry in entries] == [
        "huggingface:acme/tiny-net",
        "huggingface:acme/tiny-net/onnx/model_int8.onnx",
    ]
    assert {entry.weights for entry in entries} == {Weights.REMOTE}
    assert entries[0].manifest.license == "mit"
    assert not entries[0].described
    assert _Hub.queries[0]["search"] == ["tiny"]
    assert _Hub.queries[0]["pipeline_tag"] == ["image-classification"]


def test_pickles_are_never_offered():
    locations = [f.location for e in HuggingFaceZoo().entries() for a in e.manifest.assets for f in a.files]
    assert locations
    assert not any(location.endswith(".bin") for location in locations)


def test_timm_repositories_know_their_network():
    entry = find("huggingface:timm/resnet18.a1_in1k")
    assert entry.manifest.assets[0].architecture.name == "resnet18.a1_in1k"


def test_a_file_is_fetched_once_and_then_present():
    entry = find("huggingface:acme/tiny-net")
    path = resolve_asset(entry.manifest.assets[0], None, fetch=True)["model"]
    assert path.read_bytes() == FILES["onnx/model.onnx"]
    assert presence(entry.manifest.assets[0], None) == "present"
    assert models(zoo="huggingface", search="tiny-net", weights="present")[0].ref == entry.ref
    assert resolve_asset(entry.manifest.assets[0], None, fetch=False)["model"] == path


def test_a_damaged_download_is_refused():
    entry = find("huggingface:acme/tiny-net")
    _Hub.corrupt = True
    with pytest.raises(AssetError, match="damaged"):
        resolve_asset(entry.manifest.assets[0], None, fetch=True)
    assert presence(entry.manifest.assets[0], None) == "remote"


def test_unknown_repositories_and_files():
    with pytest.raises(UnknownName):
        find("huggingface:acme/nothing")
    entry = find("huggingface:timm/resnet18.a1_in1k")
    with pytest.raises(AssetError, match="cannot be fetched from the Hugging Face hub"):
        resolve_asset(entry.manifest.assets[0], None, fetch=True)


def test_the_hub_is_asked_only_when_named(monkeypatch):
    monkeypatch.setattr("zoolens.base.plugins.names", lambda _: ["huggingface"])
    assert models() == []
    assert _Hub.queries == []


def test_offline_is_one_sentence_at_once(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(AssetError) as caught:
        models(zoo="huggingface", search="tiny")
    assert caught.value.message == "The Hugging Face hub cannot be reached: Connection refused."
    assert "network" in caught.value.hint
