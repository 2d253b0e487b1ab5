"""/reports without a browser: what is added is asked for by the server itself, and stays as it was."""

import zipfile
from io import BytesIO

import pytest

pytest.importorskip("starlette")

import numpy as np

from zoolens.base.store.composed_reports import StaleReport, add_report, load_report, report_heads, write_report
from zoolens.base.store.excerpt import write_excerpt
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.faces.ui.bundle.bundle_export import export_bundle
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.jobs.folder import make_job_folder
from zoolens.faces.ui.jobs.kinds import BUNDLE, ExportJob
from zoolens.faces.ui.resources import reports
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.comparisons.conftest import one_hot, write_run

__all__ = ["client", "home"]  # fixtures
LABELS = np.arange(20) % 4
WRONG = np.where(np.arange(20) < 3, (LABELS + 1) % 4, LABELS)


@pytest.fixture
def pair(home):
    runs = [
        write_run(home, "a", one_hot(LABELS, 4), LABELS),
        write_run(home, "b", one_hot(WRONG, 4, sure=0.6), LABELS),
    ]
    for run, top1 in zip(runs, (1.0, 0.85), strict=True):
        facts = [Observation("top1", top1, low=top1 - 0.1, high=min(1.0, top1 + 0.1), unit="fraction", n=20)]
        home.finish_stage(run.id, "metric", facts)
    return runs


def begun(ask):
    return ask.post(f"{PREFIX}/reports", json={"title": "What we ship"}).json()


def test_a_report_is_composed_changed_and_removed(home, client, pair):
    a, b = pair
    ask = client()
    report = begun(ask)
    place = f"{PREFIX}/reports/{report['id']}"
    sides = {"a": a.id, "b": b.id}
    table = {
        "path": "/comparison",
        "parameters": sides,
        "field": "key_figures",
        "title": "A and B",
        "page": "#/compare",
    }
    assert ask.post(f"{place}/pieces", json=table).status_code == 200
    chart = {"path": "/runs/{run}/confusion", "parameters": {"run": b.id}, "field": "chart", "title": "Confusion"}
    shown = ask.post(f"{place}/pieces", json=chart).json()
    assert [piece["kind"] for piece in shown["pieces"]] == ["table", "chart"]
    cells = shown["pieces"][0]["table"]["rows"][0]
    assert cells[:3] == ["top-1 accuracy", "100.0 % [90.0, 100.0]", "85.0 % [75.0, 95.0]"]
    assert "20 inputs of" in shown["pieces"][0]["caption"]
    assert shown["pieces"][1]["chart"] == ask.get(f"{PREFIX}/runs/{b.id}/confusion").json()["chart"]
    parts = [{"note": "# Why\n<script>alert(1)</script>"}, {"keep": 1}, {"keep": 0}]
    changed = ask.post(place, json={"version": shown["version"], "title": "Ship b", "parts": parts}).json()
    assert [piece["kind"] for piece in changed["pieces"]] == ["note", "chart", "table"]
    assert changed["pieces"][0]["text"] == "# Why\n<script>alert(1)</script>"
    stale = ask.post(place, json={"version": shown["version"], "title": "x", "parts": []})
    assert (stale.status_code, "another window" in stale.json()["error"]) == (409, True)
    assert [row["title"] for row in ask.get(f"{PREFIX}/reports").json()["rows"]] == ["Ship b"]
    assert ask.delete(place).json()["total"] == 0
    assert ask.get(place).status_code == 404


def test_what_was_added_stays_as_it_was(home, client, pair):
    a, _ = pair
    ask = client()
    report = begun(ask)
    figures = {"path": "/runs/{run}", "parameters": {"run": a.id}, "field": "figures", "title": "Figures"}
    ask.post(f"{PREFIX}/reports/{report['id']}/pieces", json=figures)
    home.finish_stage(a.id, "size", [Observation("file_size", 10.0, unit="B")])
    (piece,) = ask.get(f"{PREFIX}/reports/{report['id']}").json()["pieces"]
    assert [row[0] for row in piece["table"]["rows"]] == ["top-1 accuracy"]


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ({"path": "/jobs", "field": "rows"}, 400),
        ({"path": "/nothing", "field": "x"}, 400),
        ({"path": "/runs/{run}", "parameters": {"run": "0" * 16}, "field": "figures"}, 404),
        ({"path": "/about", "field": "store"}, 400),
        ({"path": "/about", "field": "__class__"}, 400),
        ({"path": "/about", "parameters": {"more": 1}, "field": "store"}, 400),
        ({"path": "/about", "field": "store", "page": "javascript:alert(1)"}, 400),
    ],
)
def test_nothing_else_can_be_added(home, client, source, status):
    ask = client()
    answer = ask.post(f"{PREFIX}/reports/{begun(ask)['id']}/pieces", json=source)
    assert answer.status_code == status
    assert load_report(home, report_heads(home)[0].id).pieces == ()


def test_a_part_that_is_not_there_is_refused(home, client):
    ask = client()
    report = begun(ask)
    change = {"version": 1, "title": "x", "parts": [{"keep": 0}]}
    assert ask.post(f"{PREFIX}/reports/{report['id']}", json=change).status_code == 400


def test_two_who_write_at_once_lose_nothing(home):
    first = add_report(home, "one")
    second = write_report(home, first.id, 1, "two", [])
    with pytest.raises(StaleReport):
        write_report(home, first.id, 1, "three", [])
    assert (second.version, report_heads(home)[0].title) == (2, "two")


def test_pieces_that_others_wrote_are_shown_as_far_as_they_can_be(home, client):
    strange = [
        {"kind": "note", "text": "mine", "page": "javascript:alert(1)", "from tomorrow": 1},
        {"kind": "film"},
        {"note": "no kind"},
    ]
    report = add_report(home, "copied", strange)
    pieces = client().get(f"{PREFIX}/reports/{report.id}").json()["pieces"]
    assert [(piece["kind"], piece["page"]) for piece in pieces] == [("note", "")] * 3
    assert pieces[0]["text"] == "mine"
    assert "cannot be shown" in pieces[1]["text"]


@pytest.mark.parametrize("sign", [">", "> ", "- ", "1. "])
def test_a_note_is_not_nested_more_deeply_than_a_browser_can_show(home, client, sign):
    report = add_report(home, "deep", [{"kind": "note", "text": f"> - plain\n{sign * 5000}x"}])
    (piece,) = client().get(f"{PREFIX}/reports/{report.id}").json()["pieces"]
    assert piece["text"].startswith(f"> - plain\n\\{sign * 10}")


def test_a_report_is_not_larger_than_it_may_be(home, client, monkeypatch):
    monkeypatch.setattr(reports, "MOST_BYTES", 100)
    ask = client()
    report = begun(ask)
    change = {"version": 1, "title": "x", "parts": [{"note": "y" * 100}]}
    assert ask.post(f"{PREFIX}/reports/{report['id']}", json=change).status_code == 400


def test_an_excerpt_knows_when_a_report_was_begun_and_nothing_of_what_was_in_it(home, tmp_path):
    first = add_report(home, "a secret", [{"kind": "note", "text": "secret"}])
    last = write_report(home, first.id, 1, "told", [{"kind": "note", "text": "told"}])
    with open_store(tmp_path / "excerpt.sqlite") as excerpt:
        write_excerpt(home, excerpt, [], reports=[first.id])
        known = load_report(excerpt, first.id)
    assert (known.created, known.changed, known.title) == (first.created, last.changed, "told")
    assert b"secret" not in (tmp_path / "excerpt.sqlite").read_bytes()


def test_a_bundle_has_just_the_reports_that_are_named(home, client, pair, tmp_path):
    ask = client()
    mine, other = begun(ask), begun(ask)
    for report, text in ((mine, "kept in the bundle"), (other, "nobody else may read this")):
        ask.post(f"{PREFIX}/reports/{report['id']}", json={"version": 1, "title": text, "parts": [{"note": text}]})
    bundle = export_bundle(tmp_path / "bundle", reports=[mine["id"]], store=home)
    assert (bundle.reports, bundle.runs) == (1, 0)
    texts = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "bundle" / "data").iterdir())
    assert "kept in the bundle" in texts
    assert "nobody else" not in texts


def test_an_export_is_fetched_as_one_file(home, client):
    job = make_job_folder(ExportJob.name, "Export", {}, ["ui", "export"])
    (job.path / BUNDLE / "data").mkdir(parents=True)
    (job.path / BUNDLE / "index.html").write_text("<p>")
    (job.path / BUNDLE / "data" / "0.js").write_text("1")
    job.output_file.write_text("{}")
    job.write_end(0)
    (job.path / "process.json").write_text("{}")
    content = client().get(f"{PREFIX}/jobs/{job.id}/bundle").content
    names = zipfile.ZipFile(BytesIO(content)).namelist()
    assert sorted(name.partition("/")[2] for name in names) == ["data/0.js", "index.html"]
