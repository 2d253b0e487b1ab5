from __future__ import annotations

import hashlib
import http.server
import sys
import threading

import pytest

from zoolens.base.errors import AssetError
from zoolens.inventory.manifests import download as downloading
from zoolens.inventory.manifests.locations import (
    download_target,
    fingerprint_of_dump,
    locate,
    model_fingerprint,
    presence,
    recorded_files,
    resolve_asset,
    resolve_file,
)
from zoolens.inventory.manifests.schema import Architecture, Asset, AssetFile, Claim, Code, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import Normalize

CONTENT = b"weights" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "zoo"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "m.onnx").write_bytes(CONTENT)
    (tmp_path / "secret.onnx").write_bytes(b"secret")
    return folder


def resolve(location: str, folder=None, *, fetch: bool = False, **facts):
    return resolve_file(AssetFile(location=location, **facts), folder, fetch=fetch)


# --- paths


def test_a_relative_path_is_inside_the_folder(folder):
    assert resolve("sub/m.onnx", folder, sha256=SHA) == (folder / "sub" / "m.onnx").resolve()
    assert resolve("sub/../sub/m.onnx", folder) == (folder / "sub" / "m.onnx").resolve()


@pytest.mark.parametrize("location", ["../secret.onnx", "sub/../../secret.onnx", ".", "sub/..", "../zoo2/x"])
def test_leaving_the_folder_is_refused(folder, location):
    with pytest.raises(AssetError, match="leads out"):
        resolve(location, folder)


def test_an_absolute_path_is_refused(folder, tmp_path):
    with pytest.raises(AssetError, match="absolute path"):
        resolve(str(tmp_path / "secret.onnx"), folder)


def test_leaving_through_a_link_is_refused(folder, tmp_path):
    (folder / "link.onnx").symlink_to(tmp_path / "secret.onnx")
    (folder / "linked").symlink_to(tmp_path)
    for location in ("link.onnx", "linked/secret.onnx"):
        with pytest.raises(AssetError, match="leads out"):
            resolve(location, folder)


def test_a_link_inside_the_folder_is_fine(folder):
    (folder / "link.onnx").symlink_to(folder / "sub" / "m.onnx")
    assert resolve("link.onnx", folder).read_bytes() == CONTENT


def test_a_relative_path_needs_a_folder():
    with pytest.raises(AssetError, match="is not in a folder"):
        resolve("m.onnx")


def test_an_altered_file_is_refused_with_both_digests(folder):
    with pytest.raises(AssetError) as caught:
        resolve("sub/m.onnx", folder, sha256="0" * 64)
    assert SHA in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert resolve("sub/m.onnx", folder, sha256=SHA[:8]).is_file()


def test_a_missing_file_is_explained(folder):
    with pytest.raises(AssetError, match="does not exist"):
        resolve("sub/other.onnx", folder)


def test_file_locations_expand_variables(folder, monkeypatch):
    monkeypatch.setenv("MODELS", str(folder))
    assert resolve("file://${MODELS}/sub/m.onnx").read_bytes() == CONTENT
    monkeypatch.delenv("MODELS")
    with pytest.raises(AssetError, match="environment variable MODELS, which is not set"):
        resolve("file://${MODELS}/sub/m.onnx")
    with pytest.raises(AssetError, match="not an absolute path"):
        resolve("file://sub/m.onnx")


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "pgpassword"])
def test_variables_of_secrets_are_not_put_into_paths(monkeypatch, name):
    """The path is written into messages and into the store."""
    monkeypatch.setenv(name, "hunter2")
    with pytest.raises(AssetError, match="looks like that of a secret") as refused:
        resolve(f"file:///models/${{{name}}}/m.onnx")
    assert "hunter2" not in str(refused.value)


def test_an_unknown_kind_is_refused():
    with pytest.raises(AssetError, match="unknown kind ftp://"):
        resolve("ftp://host/x.onnx")


def test_a_folder_format_is_verified_as_a_tree(folder):
    from zoolens.inventory.manifests.digests import digest_tree

    assert resolve("sub", folder, sha256=digest_tree(folder / "sub")).is_dir()
    (folder / "sub" / "more").write_text("x")
    with pytest.raises(AssetError, match="is not the file"):
        resolve("sub", folder, sha256="0" * 8)


# --- packages


@pytest.fixture
def package(tmp_path, monkeypatch):
    site = tmp_path / "site"
    (site / "modelpack" / "data").mkdir(parents=True)
    (site / "modelpack" / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (site / "modelpack" / "data" / "net.onnx").write_bytes(CONTENT)
    info = site / "model_pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: model-pack\nVersion: 1.0\n")
    (info / "RECORD").write_text("modelpack/__init__.py,,\nmodelpack/data/net.onnx,sha256=x,7000\n../../bin/tool,,\n")
    (site / "outside.onnx").write_bytes(b"x")
    monkeypatch.syspath_prepend(str(site))
    recorded_files.cache_clear()
    yield site
    recorded_files.cache_clear()


def test_package_files_are_found_without_importing(package):
    by_distribution = resolve("package://model-pack/modelpack/data/net.onnx", sha256=SHA)
    by_module = resolve("package://modelpack/data/net.onnx", sha256=SHA)
    assert by_distribution == by_module == (package / "modelpack" / "data" / "net.onnx").resolve()
    assert "modelpack" not in sys.modules


@pytest.mark.parametrize(
    "location",
    [
        "package://modelpack/../outside.onnx",
        "package://modelpack/data/../../outside.onnx",
        "package://model-pack/../../bin/tool",
        "package://modelpack//etc/passwd",
        "package://modelpack",
        "package:///x",
    ],
)
def test_package_traversal_is_refused(package, location):
    with pytest.raises(AssetError):
        resolve(location)


def test_package_links_to_the_outside_are_refused(package):
    (package / "modelpack" / "data" / "link.onnx").symlink_to(package / "outside.onnx")
    with pytest.raises(AssetError, match="has no file"):
        resolve("package://modelpack/data/link.onnx")


def test_an_uninstalled_package_is_named_with_the_way_to_install_it():
    with pytest.raises(AssetError, match=r"needs the package no-such-pack, which is not installed. pip install"):
        resolve("package://no-such-pack/x.onnx")


def test_a_dotted_package_name_imports_nothing(package):
    with pytest.raises(AssetError, match="not installed"):
        resolve("package://modelpack.data/net.onnx")
    assert "modelpack" not in sys.modules


def test_a_missing_package_file_is_explained(package):
    with pytest.raises(AssetError, match=r"modelpack has no file data/other\.onnx"):
        resolve("package://modelpack/data/other.onnx")


# --- downloads, against a real server


class _Handler(http.server.BaseHTTPRequestHandler):
    hits = 0

    def do_GET(self):
        type(self).hits += 1
        if self.path == "/gone.onnx":
            self.send_error(404)
            return
        if self.path == "/moved.onnx":
            self.send_response(302)
            self.send_header("Location", "http://example.org/m.onnx")
            self.end_headers()
            return
        self.send_response(200)
        if self.path != "/endless.onnx":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:100] if self.path == "/short.onnx" else CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    _Handler.hits = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        monkeypatch.setenv("ZOOLENS_FETCH_FROM", f"127.0.0.1:{server.server_address[1]}")
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def leftovers(home):
    return [path for path in (home / "cache" / "assets").rglob("*") if path.is_file()]


def test_download_verifies_caches_and_reports_progress(server, home):
    seen = []
    file = AssetFile(location=f"{server}/m.onnx", sha256=SHA)
    path = resolve_file(file, None, fetch=True, progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert path == home / "cache" / "assets" / SHA / "m.onnx"
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert resolve_file(file, None, fetch=True) == path
    assert _Handler.hits == 1


def test_a_digest_prefix_is_enough(server):
    assert resolve(f"{server}/m.onnx", fetch=True, sha256=SHA[:8]).read_bytes() == CONTENT


def test_nothing_is_fetched_unasked(server):
    with pytest.raises(AssetError, match="zoolens pull"):
        resolve(f"{server}/m.onnx", sha256=SHA)
    assert _Handler.hits == 0


def test_wrong_content_is_refused_and_removed(server, home):
    with pytest.raises(AssetError, match="SHA-256 is") as caught:
        resolve(f"{server}/m.onnx", fetch=True, sha256="0" * 64)
    assert SHA in str(caught.value)
    assert leftovers(home) == []


def test_a_truncated_download_is_refused_and_removed(server, home):
    with pytest.raises(AssetError, match="stopped after 100"):
        resolve(f"{server}/short.onnx", fetch=True, sha256=SHA)
    assert leftovers(home) == []


def test_not_found_is_explained(server, home):
    with pytest.raises(AssetError, match="the server answers 404"):
        resolve(f"{server}/gone.onnx", fetch=True, sha256=SHA)
    assert leftovers(home) == []


def test_more_bytes_than_declared_are_refused(server, home):
    with pytest.raises(AssetError, match="more than the 10 bytes"):
        resolve(f"{server}/endless.onnx", fetch=True, sha256=SHA, bytes=10)
    assert leftovers(home) == []


def test_a_redirect_to_plain_http_is_refused(server):
    with pytest.raises(AssetError, match="https only"):
        resolve(f"{server}/moved.onnx", fetch=True, sha256=SHA)


def test_a_download_without_digest_is_refused(server):
    with pytest.raises(AssetError, match="no sha256"):
        resolve(f"{server}/m.onnx", fetch=True)
    assert _Handler.hits == 0


@pytest.mark.parametrize("url", ["http://example.org/m.onnx", "http://127.0.0.1.example.org/m.onnx", "https:///m.onnx"])
def test_plain_http_is_for_this_machine_only(url):
    with pytest.raises(AssetError, match="https only"):
        resolve(url, fetch=True, sha256=SHA)


def test_an_unreachable_server_is_one_sentence_with_advice(monkeypatch):
    monkeypatch.setenv("ZOOLENS_FETCH_FROM", "127.0.0.1")
    with pytest.raises(AssetError) as caught:
        resolve("http://127.0.0.1:1/m.onnx", fetch=True, sha256=SHA)
    assert "cannot be fetched: " in caught.value.message
    assert "\n" not in str(caught.value)
    assert "network" in caught.value.hint


def test_an_altered_cached_download_is_refused(server):
    file = AssetFile(location=f"{server}/m.onnx", sha256=SHA)
    resolve_file(file, None, fetch=True).write_bytes(b"altered")
    with pytest.raises(AssetError, match="not the file the manifest describes"):
        resolve_file(file, None, fetch=True)


def test_hostile_names_stay_inside_the_cache(home):
    for name in ("..%2f..%2fx", "%2e%2e", ".hidden", "a%00b", ""):
        target = download_target(AssetFile(location=f"https://host/{name}", sha256=SHA))
        assert target.parent == home / "cache" / "assets" / SHA
        assert target.name not in ("", ".", "..")


def test_weights_that_torch_has_downloaded_are_used(tmp_path):
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    name = f"net-{SHA[:8]}.pth"
    (checkpoints / name).write_bytes(CONTENT)
    assert resolve(f"https://host/{name}", sha256=SHA[:8]) == checkpoints / name
    (checkpoints / name).write_bytes(b"altered")
    with pytest.raises(AssetError, match="not the file"):
        resolve(f"https://host/{name}", sha256=SHA[:8])


def test_endless_streams_are_cut(server, monkeypatch):
    monkeypatch.setattr(downloading, "MAX_BYTES", 50)
    with pytest.raises(AssetError, match="more than the 50 bytes"):
        resolve(f"{server}/endless.onnx", fetch=True, sha256=SHA)


# --- presence and fingerprints


def asset(*locations: str) -> Asset:
    return Asset(format="onnx", files=tuple(AssetFile(location=location, sha256=SHA) for location in locations))


def test_presence_reads_names_only(folder, monkeypatch):
    monkeypatch.setattr("zoolens.inventory.manifests.locations.digest", lambda _: pytest.fail("hashed"))
    assert presence(asset("sub/m.onnx"), folder) == "present"
    assert presence(asset("https://host/m.onnx"), folder) == "remote"
    both = Asset(
        format="onnx",
        files=(AssetFile(location="sub/m.onnx"), AssetFile(location="https://host/m.data", role="weights")),
    )
    assert presence(both, folder) == "remote"
    assert presence(asset("sub/other.onnx"), folder) == "absent"
    assert presence(asset("../secret.onnx"), folder) == "absent"
    assert presence(asset("package://no-such-pack/x"), folder) == "absent"
    assert presence(asset("hf://a/b/model.onnx"), folder) == "remote"
    assert presence(asset("hf://a/b/model.bin"), folder) == "absent"


@pytest.mark.parametrize(
    "location", ["hf://a/b", "hf://../b/x.onnx", "hf://a/b/../x.onnx", "hf://a/b/x.onnx@..", "hf://a"]
)
def test_odd_hub_locations_are_refused(location):
    with pytest.raises(AssetError, match="not a hub location"):
        resolve(location)


def test_hub_pickles_are_refused():
    with pytest.raises(AssetError, match="is a pickle"):
        resolve("hf://a/b/pytorch_model.bin", fetch=True)


def test_locate_answers_none_for_what_must_be_fetched():
    assert locate(AssetFile(location="https://host/m.onnx", sha256=SHA), None) is None


def manifest(**changes) -> Manifest:
    facts = {
        "name": "m",
        "inputs": (Input(shape=(1, 3, 8, 8)),),
        "outputs": (Output(),),
        "assets": (asset("sub/m.onnx"),),
    }
    return Manifest(**{**facts, **changes})


def test_fingerprint_is_of_what_changes_answers(folder):
    base = manifest()

    def of(m: Manifest) -> str:
        return model_fingerprint(m, m.assets[0], resolve_asset(m.assets[0], folder, fetch=False))

    same = [
        manifest(name="other", version="2.0.0", description="text", license="MIT", attributes={"a": 1}),
        manifest(claims=(Claim(metric="top1", value=1, source="x"),)),
    ]
    assert {of(m) for m in same} == {of(base)}
    different = [
        manifest(inputs=(Input(shape=(1, 3, 8, 8), preprocess=(Normalize(op="normalize", scale=2),)),)),
        manifest(inputs=(Input(shape=(1, 3, 8, 8), decoder="tensorflow"),)),
        manifest(outputs=(Output(scores="probabilities"),)),
        manifest(code=Code(preprocess="def preprocess(image): return image")),
        manifest(assets=(Asset(format="tflite", files=asset("sub/m.onnx").files),)),
        manifest(
            assets=(
                Asset(
                    format="onnx", files=asset("sub/m.onnx").files, architecture=Architecture(library="timm", name="x")
                ),
            )
        ),
    ]
    assert len({of(base), *(of(m) for m in different)}) == len(different) + 1
    before = of(base)
    (folder / "sub" / "m.onnx").write_bytes(b"other")
    assert model_fingerprint(base, base.assets[0], {"model": folder / "sub" / "m.onnx"}) != before


def test_fingerprints_are_those_of_the_first_release(folder):
    """Keys that came later leave it alone while they have their default: stored runs are found again."""
    (folder / "sub" / "m.onnx").write_bytes(b"model")
    before = "a41aeccaf9646d015ca4c042717ff58a1ac8701c8df47f47a730e4f5e09c602d"
    for spec in (Input(shape=(1, 3, 8, 8)), Input(shape=(1, 3, 8, 8), decoder="pillow")):
        found = manifest(inputs=(spec,))
        assert model_fingerprint(found, found.assets[0], {"model": folder / "sub" / "m.onnx"}) == before


def test_fingerprints_of_models_that_take_text_are_those_of_before_words_and_pairs():
    tokenizer = {"max_length": 8, "vocabulary": 10}
    spec = Input(modality="text", shape=(None, 8), dtype="int64", tokenizer=tokenizer)
    files = ({"location": "a.onnx"}, {"location": "t.json", "role": "tokenizer"})
    found = Manifest(name="x", inputs=(spec,), outputs=({},), assets=({"format": "onnx", "files": files},))
    dumps = found.model_dump(mode="json"), found.assets[0].model_dump(mode="json")
    before = "67ee84657acffad728077bc3e7a8c66bc394bb57ab4d8cc1f97c0ce69cf27287"
    assert fingerprint_of_dump(*dumps, {"model": "a", "tokenizer": "b"}) == before


def test_fingerprints_of_detectors_are_those_of_before_letterboxes_said_how_they_round():
    steps = [{"op": "letterbox", "size": [8, 8]}, {"op": "normalize", "scale": 0.5}]
    read = [{"op": "yolox_grid"}, {"op": "boxes"}, {"op": "nms", "iou": 0.5}]
    output = {"task": "detection", "parts": {"boxes": "b", "scores": "s"}, "postprocess": read}
    before = "8f60562a5dba662f499c7ff30041841692284f42c2fee7169aef8b4004521b49"
    for rounding, same in ((None, True), ("round", False)):
        spec = Input(shape=(1, 3, 8, 8), preprocess=[{**steps[0], "rounding": rounding}, steps[1]])
        files = ({"location": "a.onnx"},)
        found = Manifest(name="x", inputs=(spec,), outputs=(output,), assets=({"format": "onnx", "files": files},))
        dumps = found.model_dump(mode="json"), found.assets[0].model_dump(mode="json")
        assert (fingerprint_of_dump(*dumps, {"model": "a"}) == before) == same
