"""What there is to choose from, and one model, without a browser."""

import pytest

pytest.importorskip("starlette")

from zoolens.base import plugins
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.test_app import client  # noqa: F401 - a fixture
from zoolens.findings.index.sources.test_row_builder import claims


def measured(store, ref, top1, latency, size):
    model = ModelRecord(f"m:{ref}", ref, "fake", {})
    run = store.begin_run(model, DatasetRecord("d", "digits", 10), StackRecord("s", "fake", {}, {}))
    store.finish_stage(
        run.id, "metric:topk", [Observation("top1", top1, unit="fraction", low=top1 - 0.1, high=top1 + 0.1)]
    )
    store.finish_stage(run.id, "size", [Observation("file_size", size, unit="B")])
    timing = Observation("latency_p50", latency, scope="batch=1", unit="s", low=latency * 0.9, high=latency * 1.1)
    store.finish_stage(run.id, "latency:batch=1", [timing])


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A store in a home of its own; of the zoos only the one that is always there."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    names = plugins.names
    monkeypatch.setattr(plugins, "names", lambda group: ["demo"] if group == plugins.ZOOS else names(group))
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


@pytest.fixture
def ask(home, client):  # noqa: F811
    measured(home, "zoo:good@1", 0.9, 0.01, 1e6)
    measured(home, "zoo:quick@1", 0.7, 0.001, 1e5)
    measured(home, "zoo:worse@1", 0.6, 0.02, 2e6)
    made = client()
    return lambda path, **parameters: made.get(f"{PREFIX}{path}", params=parameters)


def test_all_rows_with_the_front(ask):
    answer = ask("/choose").json()
    assert (answer["rows"], answer["problem"], answer["verdict"]) == (3, None, "")
    assert answer["x"]["title"] == "median latency, one input at a time"
    assert {"name": "accuracy", "title": "accuracy"} in answer["metrics"]
    rows = ask("/choose/rows").json()["rows"]
    assert [(row["ref"], row["front"]) for row in rows] == [
        ("zoo:good@1", True),
        ("zoo:quick@1", True),
        ("zoo:worse@1", False),
    ]
    assert rows[0]["y"] == "90.0 % [80.0, 100.0]"


def test_models_that_nobody_ran_are_counted_apart(home, ask):
    claims(home, "zoo:claimed@1", top1={"value": 0.99, "unit": "fraction"}, params={"value": 9})
    answer = ask("/choose").json()
    assert (answer["rows"], answer["never_run"]) == (3, 1)
    rows = ask("/choose/rows", x="params", y="accuracy").json()["rows"]
    assert [(row["ref"], row["run"], row["measured"], row["front"]) for row in rows] == [
        ("zoo:claimed@1", "", False, False)
    ]


@pytest.mark.parametrize(
    ("q", "axes", "verdict"),
    [
        (
            "ON size <= 1 MB ORDER BY size", {"y": "size"},
            "zoo:quick fits best of those that are shown; 3 models fit. Before it, but not shown: zoo:claimed "
            "(never run here).",
        ),
        (
            "ON size <= 10 kB", {"y": "size"},
            "1 model fits, and none of the first is in the picture or in the table: zoo:claimed (never run here).",
        ),
        ("ON size <= 10 kB", {"x": "params", "y": "size"}, "zoo:claimed fits best; 1 model fits."),  # it has both
        (
            "ON latency <= 15 ms ORDER BY latency", {"y": "size"},
            "zoo:quick fits best; 2 models fit. Whether 1 model fits is not known.",
        ),
        (
            "ON latency <= 1 s ORDER BY latency", {"x": "latency", "y": "params"},
            "3 models fit, and none of the first is in the picture or in the table: zoo:quick (its latency or params "
            "is not known), zoo:good (its latency or params is not known), zoo:worse (its latency or params is not "
            "known). Whether 1 model fits is not known.",
        ),
    ],
)  # fmt: skip
def test_the_winner_is_one_that_is_shown(home, ask, q, axes, verdict):
    """A model that nobody ran may fit, but no picture and no table has it."""
    claims(home, "zoo:claimed@1", file_size={"value": 1000, "unit": "B"}, params={"value": 9})
    assert ask("/choose", q=q, **axes).json()["verdict"] == verdict
    shown = [row["ref"] for row in ask("/choose/rows", q=q, **axes).json()["rows"]]
    named = verdict.partition(" fits best")[0]
    assert not verdict.startswith("zoo:") or f"{named}@1" in shown


def test_a_rectangle_and_an_order_choose_rows(ask):
    inside = ask("/choose/rows", x_high=0.015, sort="x").json()
    assert [row["ref"] for row in inside["rows"]] == ["zoo:quick@1", "zoo:good@1"]
    assert ask("/choose/rows", y_low=0.95).json()["total"] == 0
    assert [row["ref"] for row in ask("/choose/rows", sort="-size", limit=1, offset=1).json()["rows"]] == ["zoo:good@1"]


def test_a_query_is_answered_and_a_wrong_one_points_at_the_token(ask):
    answer = ask("/choose", q="ON latency <= 5 ms ORDER BY accuracy DESC").json()
    assert answer["verdict"] == "zoo:quick fits best; 1 model fits."
    assert answer["funnel"]["data"]["values"][-1]["left"] == 1
    wrong = ask("/choose", q="ON latenci <= 5 ms").json()
    problem = wrong["problem"]
    assert "ON latenci <= 5 ms"[problem["start"] : problem["end"]] == "latenci"
    assert wrong["rows"] == 3
    for text in ("ON", "'", "ON flops <= 1G", "DATA nothing ON size <= 1 MB", "BOUND other CORR good", "(" * 200):
        assert ask("/choose", q=text).json()["problem"]["message"]
    assert ask("/choose", q="x" * 20_000).status_code == 400


def test_rows_whose_figures_were_guessed_or_disturbed_are_marked(home, ask):
    manifest = {"attributes": {"guessed": ["pixels are scaled to 0…1"]}}
    model, data = ModelRecord("m:drafted", "zoo:drafted@1", "fake", {}), DatasetRecord("d", "digits", 10)
    run = home.begin_run(model, data, StackRecord("s", "fake", {}, {}), resolved={"origin": {"manifest": manifest}})
    home.finish_stage(run.id, "metric:topk", [Observation("top1", 0.8, unit="fraction", low=0.7, high=0.9)])
    timing = Observation("latency_p50", 0.005, scope="batch=1", unit="s", details={"disturbed": True})
    home.finish_stage(run.id, "latency:batch=1", [timing])
    rows = {row["ref"]: row for row in ask("/choose/rows").json()["rows"]}
    assert rows["zoo:drafted@1"]["y"] == "80.0 % [70.0, 90.0] (guessed)"
    assert not any("guessed" in row["y"] for ref, row in rows.items() if ref != "zoo:drafted@1")
    assert all("(disturbed)" not in row["x"] for ref, row in rows.items() if ref != "zoo:drafted@1")


@pytest.mark.parametrize("asked", [{}, {"q": "ON size <= 1 GB ORDER BY latency"}])
def test_a_store_without_classifiers_is_chosen_from_by_what_its_models_do(home, client, asked):  # noqa: F811
    for name, latency in (("large", 0.02), ("small", 0.01)):
        model = ModelRecord(f"m:{name}", f"zoo:{name}@1", "fake", {"outputs": [{"task": "detection"}]})
        run = home.begin_run(model, DatasetRecord("b", "boxes", 10), StackRecord("s", "fake", {}, {}))
        home.finish_stage(run.id, "metric:ap", [Observation("ap", 10 * latency, unit="fraction", low=0.05, high=0.3)])
        home.finish_stage(run.id, "size", [Observation("file_size", 1e6, unit="B")])
        timing = Observation("latency_p50", latency, scope="batch=1", unit="s", low=latency * 0.9, high=latency * 1.1)
        home.finish_stage(run.id, "latency:batch=1", [timing])
    answer = client().get(f"{PREFIX}/choose", params=asked).json()
    assert (answer["rows"], answer["problem"]) == (2, None)
    completed = client().get(f"{PREFIX}/choose/completions", params={"q": "CORR la", "at": 7})
    assert "zoo:large" in [item["text"] for item in completed.json()["items"]]


def test_what_no_row_has_is_said(ask):
    answer = ask("/choose", x="nothing").json()
    assert answer["x"] is None
    assert any("nothing known" in note for note in answer["notes"])


def test_completions(ask):
    response = ask("/choose/completions", q="CORR go", at=7)
    assert response.status_code == 200, response.text
    items = response.json()["items"]
    assert {"text": "zoo:good", "kind": "model", "start": 5, "end": 7} in items


def test_a_model_of_a_zoo_and_one_that_only_the_store_knows(ask):
    listed = ask("/model/demo:lenet-torch").json()
    assert listed["listed"]
    assert any(line.startswith("name: lenet-torch") for line in listed["manifest"])
    assert listed["claims"][0]["metric"] == "top1"
    assert listed["replacement"] == ""  # it was never run here, so that nothing can be compared with it
    stored = ask("/model/zoo:good@1").json()
    assert not stored["listed"]
    assert stored["replacement"].startswith("CORR zoo:good WITHIN")
    assert ask("/history/zoo:good@1", metric="latency_p50").json()["runs"] == 1
    assert ask("/network/zoo:good@1").json()["network"] is None
    unread = ask("/network/demo:lenet-torch").json()
    assert unread["readable"]
    assert "was not read yet" in unread["reason"]


def test_models_of_one_name_are_namesakes(home, ask):
    measured(home, "other:good@2", 0.8, 0.01, 1e6)
    assert [other["ref"] for other in ask("/model/zoo:good@1").json()["namesakes"]] == ["other:good@2"]


def test_networks_that_were_not_read_are_not_compared(ask):
    answer = ask("/networks", a="demo:lenet-torch", b="demo:lenet-wide").json()
    assert not answer["compared"]
    assert not answer["parts"]
    assert all(answer[side]["readable"] and "was not read yet" in answer[side]["reason"] for side in "ab")
    assert ask("/networks", a="/etc/passwd", b="demo:lenet-wide").status_code == 404


@pytest.mark.parametrize("name", ["zoo:nothing", "/etc/passwd", "../../etc/passwd", "store.sqlite", "*", "demo:*"])
def test_only_names_that_are_listed_are_models(ask, name):
    for path in ("model", "network", "history"):
        assert ask(f"/{path}/{name}").status_code == 404
