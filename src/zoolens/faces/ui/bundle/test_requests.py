"""Every endpoint is in a bundle, or it is said why not: a new one that is neither fails here."""

from types import SimpleNamespace

from zoolens.base.errors import ZoolensError
from zoolens.faces.ui.bundle import requests
from zoolens.faces.ui.bundle.requests import LEFT_OUT, LISTINGS, SUBJECTS, is_list, is_recorded
from zoolens.faces.ui.resources import endpoints

ALL = [endpoint for resource in endpoints().values() for endpoint in resource]


def test_every_endpoint_is_recorded_or_left_out_for_a_reason():
    for endpoint in ALL:
        if endpoint.method == "GET" and not endpoint.stream and not is_recorded(endpoint):
            path = endpoint.template.strip("/")
            assert path in LEFT_OUT or path.split("/")[0] in LEFT_OUT, f"{path}: put it into SUBJECTS or LEFT_OUT"


def test_the_tables_name_endpoints_that_there_are():
    roots = {endpoint.template.split("/")[1] for endpoint in ALL}
    assert set(SUBJECTS) <= roots
    assert set(LISTINGS) <= {endpoint.template for endpoint in ALL if is_list(endpoint)}
    for endpoint in ALL:
        listing = LISTINGS.get(endpoint.template)
        if listing is not None:
            rows = endpoint.answer.model_fields["rows"].annotation.__args__[0].model_fields
            equal = {name.partition(".")[0] for name in listing.equals.values()}
            assert {*listing.search, *listing.patterns.values(), *equal} <= set(rows)
            assert set(listing.last) <= set(endpoint.answer.model_fields)
            assert {*listing.patterns, *listing.usual} <= set(endpoint.query.model_fields)


def test_runs_that_no_query_without_a_task_can_choose_from_are_exported(monkeypatch):
    """As in a store of detectors alone, of which the default query says that the task has to be named."""

    def refuse(*_):
        raise ZoolensError("Add TASK detection.")

    monkeypatch.setattr(requests, "choose", refuse)
    monkeypatch.setattr(requests, "known_datasets", lambda _: [])
    chosen = SimpleNamespace(runs=["a run"], queries=[])
    (asked,) = requests.SUBJECTS["choose"](SimpleNamespace(), chosen)
    assert asked == {"q": "", "data": "", "x": requests.X, "y": requests.Y}
