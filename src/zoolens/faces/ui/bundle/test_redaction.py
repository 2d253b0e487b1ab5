"""What a bundle must not tell is not in its texts, and what only looks like it stays."""

import platform
from pathlib import Path

import pytest

from zoolens.faces.ui.bundle.redaction import OTHER_RUN, Redaction
from zoolens.faces.ui.bundle.run_paths import private_folders

CHOSEN, OTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def redaction(monkeypatch):
    monkeypatch.setenv("LOGNAME", "annabell")
    monkeypatch.setattr(platform, "node", lambda: "gondolin.example.org")
    monkeypatch.setenv("HOME", "/homes/annabell")
    return Redaction([OTHER])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/annabell/models/net.onnx cannot be read", "net.onnx cannot be read"),
        ("in /homes/annabell", "in user"),
        ("C:\\Users\\annabell\\net.onnx", "net.onnx"),
        ("Permission of Annabell on GONDOLIN is missing", "Permission of user on host is missing"),
        ("annabells and gondolina are other words", "annabells and gondolina are other words"),
        ("folder:annabell_net", "folder:user_net"),
        ("grpc://annabell@10.1.2.3:8001/v2", "grpc://host:8001/v2"),
        ("http://gpu7:8000/", "http://host:8000/"),
        ("http://models.lan/x and http://127.0.0.1:8000", "http://host/x and http://127.0.0.1:8000"),
        ("https://download.pytorch.org/models/x.pth", "https://download.pytorch.org/models/x.pth"),
        ("/layer1/conv1/Conv", "/layer1/conv1/Conv"),
        (f"runs {CHOSEN}, {OTHER} and {OTHER[:8]}", f"runs {CHOSEN}, {OTHER_RUN} and {OTHER_RUN}"),
    ],
)
def test_texts(redaction, text, shown):
    assert redaction.text(text) == shown


@pytest.mark.parametrize(
    ("origin", "text", "shown"),
    [
        ("/srv/customer smith/zoo data", "in /srv/customer smith/zoo data", "in zoo data"),
        ("npz:/srv/customer smith/x y.npz", "npz:/srv/customer smith/x y.npz", "npz:x y.npz"),
        ("npz:/srv/smith & son/x.npz", "/srv/smith & son cannot be read", "smith & son cannot be read"),
        ("npz:/a/x.npz?classes=%2Fsmith+son%2Fkinds%2Fc.txt", "npz:/a/x.npz?classes=%2Fsmith+son%2Fkinds%2Fc.txt",
         "npz:x.npz?classes=c.txt"),
        ("demo", "/layer1/conv1/Conv", "/layer1/conv1/Conv"),
    ],
)  # fmt: skip
def test_folders_that_runs_name_are_known_whatever_they_are_called(origin, text, shown):
    told = {"data": origin, "manifest": {"assets": [{"location": "net.onnx"}]}}
    assert Redaction([], private_folders([told])).text(text) == shown


def test_data_are_searched_to_their_depth(redaction):
    data = {"rows": [{"/home/annabell/x": ["annabell", 1, None, True, 0.5]}], "annabell": "x"}
    assert redaction.data(data) == {"rows": [{"x": ["user", 1, None, True, 0.5]}], "annabell": "x"}


def test_the_language_of_charts_is_not_changed(monkeypatch):
    monkeypatch.setenv("LOGNAME", "max")
    chart = {
        "$schema": "vega-lite",
        "title": "Runs of Max",
        "encoding": {"y": {"aggregate": "max", "field": "x"}},
        "data": {"values": [{"x": "max", "path": "/home/max/x"}]},
    }
    shared = Redaction([]).data({"chart": chart})["chart"]
    assert shared["encoding"] == chart["encoding"]
    assert shared["title"] == "Runs of user"
    assert shared["data"] == {"values": [{"x": "user", "path": "x"}]}


@pytest.mark.parametrize("name", ["root", "torch", "al", ""])
def test_names_that_are_words_of_ours_stay(monkeypatch, name):
    monkeypatch.setenv("LOGNAME", name or "root")
    monkeypatch.setattr(platform, "node", lambda: name)
    assert Redaction([]).text(f"torch root al {name}") == f"torch root al {name}"


def test_no_home_hides_the_whole_disk(monkeypatch):
    monkeypatch.setenv("HOME", "/")
    assert Redaction([]).text("a/b and 1/2") == "a/b and 1/2"
    assert Path.home() == Path("/")
