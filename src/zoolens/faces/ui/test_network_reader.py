from zoolens.faces.ui import network_reader
from zoolens.faces.ui.network_reader import NetworkReader, comparison_data, heat_words, layout_data
from zoolens.faces.ui.resources.networks import Network
from zoolens.findings.graph.diff.conftest import resnet
from zoolens.findings.graph.diff.report import diff
from zoolens.inventory.zoos.listing import listing


def test_words_of_the_legend_fit_the_heats():
    assert heat_words() == [
        "nothing", "below 0.5 %", "0.5 to 2 %", "2 to 5 %", "5 to 10 %", "10 to 20 %", "20 to 40 %", "40 % and more",
    ]  # fmt: skip


def test_a_layout_is_an_answer_of_the_api():
    answer = Network.model_validate(layout_data(resnet(), "net"))
    assert [stage.name for stage in answer.stages] == ["input", "stem", *(f"stage {n}" for n in (1, 2, 3, 4)), "head"]
    places = [part.place for stage in answer.stages for part in stage.parts]
    assert places == list(range(len(places)))
    dense = answer.stages[-1].parts[-1]
    assert dense.costs[0] is not None
    assert dense.costs[0].share.endswith("%")


def test_differences_come_with_their_share_of_the_gap():
    data = comparison_data(diff(resnet(), resnet(strided="1x1"), names=("a", "b")))
    assert data["headline"].endswith(".")
    assert [one["number"] for one in data["differences"]] == list(range(1, data["total"] + 1))
    assert data["differences"][0]["share_words"] == "100 %"


def test_large_networks_are_laid_out_and_compared_in_another_process(tmp_path, monkeypatch):
    from zoolens.base.store.store import open_store
    from zoolens.findings.graph.structures.structure import structure_of

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    path = tmp_path / "store.sqlite"
    (entry,) = [entry for entry in listing(zoo="demo").entries if entry.manifest.name == "lenet-torch"]
    with open_store(path) as store:
        reader = NetworkReader(store, str(path))
        unread = reader.structure(entry)
        assert unread.packed is None
        assert unread.error is None
        structure_of(entry, store=store)
        known = reader.structure(entry)
        here = reader.layout(known, "lenet"), reader.comparison(known, known, ("a", "b"))
        monkeypatch.setattr(network_reader, "QUICK", 0)
        other = NetworkReader(store, str(path))
        assert (other.layout(known, "lenet"), other.comparison(known, known, ("a", "b"))) == here


def test_a_model_without_an_importer_says_why(tmp_path, monkeypatch):
    from zoolens.base.store.store import open_store
    from zoolens.inventory.manifests.schema import Input, Manifest, Output
    from zoolens.inventory.zoos.zoo import Entry, Weights

    manifest = Manifest(name="odd", inputs=(Input(modality="array", shape=(None, 4)),), outputs=(Output(),))
    with open_store(tmp_path / "store.sqlite") as store:
        structure = NetworkReader(store).structure(Entry("folder", manifest, Weights.ABSENT))
    assert structure.packed is None
    assert "cannot be read" in (structure.error or "")
