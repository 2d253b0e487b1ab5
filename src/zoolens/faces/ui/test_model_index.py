from zoolens.base.store.model_activity import Activity
from zoolens.faces.ui.model_index import ModelRow, Models, build
from zoolens.faces.ui.resources.models import _search
from zoolens.faces.ui.zoo_listing import Listed
from zoolens.inventory.zoos.undescribed import undescribed
from zoolens.inventory.zoos.zoo import Entry, Weights


def test_weights_that_arrive_after_the_listing_are_seen(tmp_path):
    manifest = undescribed("net", "onnx", {"model": "net.onnx"})
    (row,) = build(Activity({}), Listed(entries=[Entry("folder", manifest, Weights.ABSENT, tmp_path)]), {}).rows
    assert row.weights == "structure only"
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    assert row.weights == "present"


def test_licences_that_differ_only_in_case_are_one_facet():
    licences = ("Apache-2.0", "apache-2.0", "Apache-2.0", "MIT", "")
    rows = [
        ModelRow(f"zoo:{place}@1", "zoo", str(place), "1", True, licence=text) for place, text in enumerate(licences)
    ]
    known = Models(Activity({}), Listed(), rows)
    places, facets = _search(known, ((), ()))
    (facet,) = (facet for facet in facets if facet.name == "licence")
    assert len(places) == 5
    assert {value.value: value.count for value in facet.values} == {"Apache-2.0": 3, "MIT": 1, "": 1}
    places, facets = _search(known, ((), (("licence", frozenset({"APACHE-2.0"})),)))
    (facet,) = (facet for facet in facets if facet.name == "licence")
    assert places.tolist() == [0, 1, 2]
    assert {value.value: value.count for value in facet.values} == {"APACHE-2.0": 3, "MIT": 1, "": 1}
    assert _search(known, ((), (("licence", frozenset({"GPL"})),)))[0].tolist() == []
