"""Zoos are listed when the server starts, and again when somebody asks for it."""

from zoolens.base.errors import ZoolensError
from zoolens.faces.ui import zoo_listing
from zoolens.faces.ui.zoo_listing import ZooListing

MANIFEST = """\
zoolens: 1
name: {}
inputs: [{{modality: array, shape: [null, 4], layout: NC}}]
outputs: [{{labels: [ant, bee, cat]}}]
assets: [{{format: fake, files: [{{location: tiny.json}}]}}]
"""


def names(zoos):
    assert zoos.wait(60)
    return [entry.manifest.name for entry in zoos.listed.entries]


def test_a_model_that_was_added_is_there_after_a_second_listing(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", str(tmp_path))
    (tmp_path / "first.yaml").write_text(MANIFEST.format("first"))
    with ZooListing(("folder",)) as zoos:
        assert names(zoos) == ["first"]
        version = zoos.listed.version
        (tmp_path / "second.yaml").write_text(MANIFEST.format("second"))
        zoos.again()
        assert zoos.listed.entries  # what is known stays meanwhile
        assert names(zoos) == ["first", "second"]
        assert zoos.listed.version > version
        (tmp_path / "first.yaml").unlink()
        zoos.again()
        zoos.again()  # nothing happens while a listing is at work
        assert names(zoos) == ["second"]
    zoos.again()  # nor after the end
    assert names(zoos) == ["second"]


def test_a_zoo_that_cannot_be_listed_is_in_the_log_of_the_explorer(monkeypatch, caplog):
    def broken(*_args, **_kwargs):
        raise ZoolensError("Nothing is there.")

    monkeypatch.setattr(zoo_listing, "list_zoo", broken)
    with ZooListing(("folder",)) as zoos:
        assert names(zoos) == []
    assert [record.name for record in caplog.records] == ["zoolens.ui"]
