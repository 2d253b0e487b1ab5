"""Jobs over the API, and their progress as a stream."""

import json

import pytest

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from zoolens.base import plugins
from zoolens.base.store.store import open_store
from zoolens.faces.ui.app import create_app
from zoolens.faces.ui.context import open_context
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.jobs.folder import make_job_folder
from zoolens.faces.ui.read_ahead import open_runs
from zoolens.faces.ui.settings import Settings

RUN = "0123456789abcdef"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    names = plugins.names
    monkeypatch.setattr("zoolens.base.plugins.names", lambda group: ["demo"] if group == plugins.ZOOS else names(group))
    store = tmp_path / "store.sqlite"
    open_store(store).close()
    settings = Settings(store=store)
    with open_runs(settings) as runs, open_context(settings, runs) as context:
        yield TestClient(create_app(context), base_url="http://localhost")


def events(text):
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        yield fields["event"], json.loads(fields["data"]), fields.get("id")


def finished():
    folder = make_job_folder("evaluate", "Evaluate x", {}, ["eval", "x"])
    lines = [
        {"stage": {"title": "x in fake", "stage": "predictions", "total": 10, "unit": ""}},
        {"done": 10},
        {"say": "✓ x in fake"},
    ]
    folder.progress_file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
    folder.output_file.write_text(json.dumps([{"run": RUN}, {"run": None}, {"run": RUN}, {"run": "<b>"}]))
    folder.write_end(0)
    return folder


def test_a_job_is_told_with_its_runs_and_its_output(ask):
    folder = finished()
    job = ask.get(f"{PREFIX}/jobs/{folder.id}").json()
    assert (job["state"], job["code"], job["runs"]) == ("done", 0, [RUN])
    assert job["command"] == "zoolens eval x"
    assert ask.get(f"{PREFIX}/jobs").json()["rows"] == [job]
    output = ask.get(f"{PREFIX}/jobs/{folder.id}/output")
    assert output.json()[0] == {"run": RUN}
    assert "attachment" in output.headers["content-disposition"]


def test_progress_is_streamed_and_goes_on_where_a_client_was(ask):
    folder = finished()
    answer = ask.get(f"{PREFIX}/jobs/{folder.id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    (name, progress, place), (last, job, _) = events(answer.text)
    assert (name, last, job["state"]) == ("progress", "job", "done")
    assert (progress["stage"], progress["done"], progress["total"]) == ("predictions", 10, 10)
    assert progress["message"] == "✓ x in fake"
    again = ask.get(f"{PREFIX}/jobs/{folder.id}/events", headers={"Last-Event-ID": place})
    assert [name for name, _, _ in events(again.text)] == ["job"]


def test_an_evaluation_is_started_and_followed_to_its_end(ask):
    started = ask.post(f"{PREFIX}/jobs/evaluate", json={"models": ["demo:nosuch"]})
    assert started.status_code == 202
    *_, (_, job, _) = events(ask.get(f"{PREFIX}/jobs/{started.json()['id']}/events").text)
    assert job["state"] == "failed"
    assert job["error"].startswith("There is no model named 'demo:nosuch'.")


@pytest.mark.parametrize("job_id", ["nosuch", "..", "..%2f..%2fetc", "20261116191504-2254d81b", "%00"])
def test_no_other_folder_can_be_named(ask, job_id):
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/events", f"/jobs/{job_id}/output"):
        answer = ask.get(PREFIX + path)
        assert answer.status_code == 404
        assert set(answer.json()) == {"error"}
    assert ask.delete(f"{PREFIX}/jobs/{job_id}").status_code == 404


@pytest.mark.parametrize(
    ("kind", "parameters", "status"),
    [("evaluate", {"models": ["/etc/passwd"]}, 403), ("evaluate", {"models": []}, 400), ("evaluate", {}, 400),
     ("evaluate", {"models": ["demo:x"], "trust": True}, 400), ("evaluate", {"models": ["demo:x"] * 51}, 400),
     ("trace", {"model": "demo:x", "batch": 10**9}, 400), ("query", {"text": "x" * 10_001}, 400),
     ("shell", {"command": "rm"}, 405)],
)  # fmt: skip
def test_what_may_not_be_started_is_refused(ask, kind, parameters, status):
    assert ask.post(f"{PREFIX}/jobs/{kind}", json=parameters).status_code == status
    assert ask.get(f"{PREFIX}/jobs").json()["total"] == 0


def test_another_site_cannot_start_or_cancel_anything(ask):
    folder = finished()
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site", "Origin": "null"}):
        assert ask.post(f"{PREFIX}/jobs/evaluate", json={"models": ["demo:x"]}, headers=headers).status_code == 403
        assert ask.delete(f"{PREFIX}/jobs/{folder.id}", headers=headers).status_code == 403
    form = {"Content-Type": "text/plain"}  # what a form of another site can send without asking
    assert ask.post(f"{PREFIX}/jobs/evaluate", content=b'{"models": ["demo:x"]}', headers=form).status_code == 415
