from __future__ import annotations

import hashlib
import http.server
import json
import threading

import pytest
from click.testing import CliRunner

from zoolens.base.errors import AssetError
from zoolens.faces.cli.pull import command

CONTENT = b"weights"

MANIFEST = """\
zoolens: 1
name: net
inputs: [{{shape: [1, 3, 8, 8]}}]
outputs: [{{}}]
assets:
  - format: onnx
    files: [{{location: '{url}/net.onnx', sha256: '{sha}'}}]
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", str(tmp_path / "zoo"))
    (tmp_path / "zoo").mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("ZOOLENS_FETCH_FROM", "127.0.0.1")
        url = f"http://127.0.0.1:{server.server_address[1]}"
        text = MANIFEST.format(url=url, sha=hashlib.sha256(CONTENT).hexdigest())
        (tmp_path / "zoo" / "net.yaml").write_text(text)
        yield tmp_path / "zoo"
        server.shutdown()


def test_pulls_and_says_where(folder):
    result = CliRunner().invoke(command, ["folder:net", "--json"])
    assert result.exit_code == 0, result.output
    path = json.loads(result.stdout)["folder:net"]["model"]
    assert open(path, "rb").read() == CONTENT  # noqa: PTH123, SIM115
    assert path in CliRunner().invoke(command, ["folder:*"]).stdout


def test_wrong_digest_is_refused(folder):
    text = (folder / "net.yaml").read_text()
    (folder / "net.yaml").write_text(text.replace(hashlib.sha256(CONTENT).hexdigest(), "0" * 64))
    result = CliRunner().invoke(command, ["folder:net"])
    assert isinstance(result.exception, AssetError)
    assert "not " + "0" * 64 in str(result.exception)


def test_structure_only_has_nothing_to_pull(folder):
    (folder / "bare.yaml").write_text("zoolens: 1\nname: bare\ninputs: [{shape: [1, 3, 8, 8]}]\noutputs: [{}]\n")
    for args in (["folder:bare"], ["folder:net", "--format", "tflite"]):
        result = CliRunner().invoke(command, args)
        assert isinstance(result.exception, AssetError)
        assert "only its structure is known" in str(result.exception) or "No tflite files" in str(result.exception)
