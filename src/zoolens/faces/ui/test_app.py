"""The application without a browser: what is answered, and what is refused."""

import asyncio
import contextlib
import json
from contextlib import ExitStack

import pytest
from pydantic import Field

pytest.importorskip("starlette")
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.faces.ui.app import create_app
from zoolens.faces.ui.context import open_context
from zoolens.faces.ui.endpoint import PREFIX, Answer, Endpoint, Event, File, Query, RequestError
from zoolens.faces.ui.read_ahead import open_runs
from zoolens.faces.ui.settings import Settings

TOKEN = "a-token-of-enough-letters"


def measured(store, ref, runtime="fake", dataset="digits", attempt=0, top1=0.9):
    model = ModelRecord(f"m:{ref}", ref, "fake", {})
    run = store.begin_run(
        model, DatasetRecord(f"d:{dataset}", dataset, 10), StackRecord(f"s:{runtime}", runtime, {}, {}), attempt=attempt
    )
    store.finish_stage(run.id, "metric:topk", [Observation("top1", top1, unit="fraction", low=0.8, high=0.95, n=10)])
    return run


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOOLENS_ZOO_PATH", raising=False)
    monkeypatch.setattr("zoolens.base.plugins.names", lambda group: ["demo"])
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


@pytest.fixture
def client(home, tmp_path):
    """Ask the application over a store; `**settings` for another one."""
    with ExitStack() as stack:

        def make(**settings):
            given = Settings(store=tmp_path / "store.sqlite", **settings)
            context = stack.enter_context(open_context(given, stack.enter_context(open_runs(given))))
            assert context.models.zoos.wait(60)
            return TestClient(create_app(context), base_url="http://localhost:8800")

        yield make


def test_models_of_zoos_and_of_the_store_are_searched_and_counted(home, client):
    measured(home, "demo:lenet-torch@1.0.0")
    measured(home, "demo:lenet-torch@1.0.0", "onnxruntime")
    measured(home, "file:mine@0.0.0", top1=None)
    ask = client()
    page = ask.get(f"{PREFIX}/models", params={"limit": 3}).json()
    assert page["total"] == page["all"] == 13
    assert len(page["rows"]) == 3
    assert page["complete"]
    row, *others = ask.get(f"{PREFIX}/models?q=LENET+torch").json()["rows"]
    assert row["name"] == "lenet-torch"  # before models whose descriptions have these words
    assert others
    assert row["runs"] == 2
    assert row["runtimes"] == ["fake", "onnxruntime"]
    assert row["latest"]["judged"]["interval"] == "90.0 % [80.0, 95.0]"
    assert sum(row["activity"]) == 2
    stored = ask.get(f"{PREFIX}/models?zoo=file").json()
    assert [(row["name"], row["listed"]) for row in stored["rows"]] == [("mine", False)]
    facets = {facet["name"]: {one["value"]: one["count"] for one in facet["values"]} for facet in stored["facets"]}
    assert facets["zoo"] == {"demo": 12, "file": 1}  # what another choice of the same facet would give
    assert facets["measured"] == {"yes": 1}
    both = ask.get(f"{PREFIX}/models?zoo=file&zoo=demo&measured=yes").json()
    assert [row["ref"] for row in both["rows"]] == ["demo:lenet-torch@1.0.0", "file:mine@0.0.0"]


def test_the_latency_of_a_model_is_never_that_of_a_larger_batch(home, client):
    run = measured(home, "file:mine@0.0.0")
    home.finish_stage(run.id, "latency:batch=8", [Observation("latency_p50", 0.08, scope="batch=8", unit="s")])
    ask = client()
    (row,) = ask.get(f"{PREFIX}/models?zoo=file").json()["rows"]
    assert row["latest"]["latency_p50"] is None
    home.finish_stage(run.id, "latency:batch=1", [Observation("latency_p50", 0.01, scope="batch=1", unit="s")])
    (row,) = ask.get(f"{PREFIX}/models?zoo=file").json()["rows"]
    assert row["latest"]["latency_p50"]["words"] == "10 ms"


def test_models_without_a_value_are_sorted_last_both_ways(home, client):
    measured(home, "file:mine@0.0.0")
    ask = client()
    for sort in ("params", "-params"):
        rows = ask.get(f"{PREFIX}/models?sort={sort}").json()["rows"]
        assert rows[-1]["ref"] == "file:mine@0.0.0"
        params = [row["params"] for row in rows[:-1]]
        assert params == sorted(params, reverse=sort.startswith("-"))


def test_what_is_measured_while_the_server_runs_is_seen(home, client):
    ask = client()
    assert ask.get(f"{PREFIX}/models?measured=yes").json()["total"] == 0
    measured(home, "demo:lenet-jax@1.0.0")
    assert ask.get(f"{PREFIX}/models?measured=yes").json()["total"] == 1
    assert ask.get(f"{PREFIX}/about").json()["runs"] == 1


def test_trials_and_claims_are_no_evaluations(home, client):
    from zoolens.base.store.records import RunKind

    model, data = ModelRecord("m", "demo:lenet-jax@1.0.0", "onnx", {}), DatasetRecord("d", "digits", 10)
    for kind in (RunKind.CLAIM, RunKind.TRIAL, RunKind.STRUCTURE):
        home.begin_run(model, data, StackRecord(kind.value, "fake", {}, {}), kind=kind)
    assert client().get(f"{PREFIX}/models?measured=yes").json()["total"] == 0


def test_an_answer_that_has_not_changed_is_not_sent_again(client):
    ask = client()
    first = ask.get(f"{PREFIX}/models")
    again = ask.get(f"{PREFIX}/models", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("query", "word"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("nosuch=1", "nosuch"), ("sort=evil", "sort"), ("offset=-1", "offset"),
     ("q=" + "x" * 300, "q"), ("sort=ref&sort=ref", "sort"), ("measured=maybe", "measured")],
)  # fmt: skip
def test_a_wrong_query_is_a_sentence(client, query, word):
    answer = client().get(f"{PREFIX}/models?{query}")
    assert answer.status_code == 400
    assert word in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["/nowhere", f"{PREFIX}/nowhere", "/..%2f..%2fetc%2fpasswd", "/../pyproject.toml", "/assets/../app.py",
             "/%2e%2e/app.py", "/app.py", "/sources.sha256", "//etc/passwd", "/%00"]
)  # fmt: skip
def test_only_what_there_is_can_be_asked_for(client, path):
    answer = client().get(path)
    assert answer.status_code == 404
    assert "There is nothing at" in answer.json()["error"]


def test_the_page_and_its_parts_are_there(client):
    ask = client()
    page = ask.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "explorer.js" in page.text
    for name, kind in (("explorer.js", "javascript"), ("explorer.css", "css"), ("vega.js", "javascript")):
        answer = ask.get(f"/{name}")
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
    assert "<script>" not in page.text  # the policy would not let it run


# --- who may ask


def test_every_answer_tells_browsers_to_be_careful(client):
    ask = client()
    for path in ("/", f"{PREFIX}/about", "/nowhere"):
        headers = ask.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8800", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil.example",
     "localhost:8800@evil.example", "[::1].evil.example", "[::1]evil.example:8800", "evil.example:localhost"],
)  # fmt: skip
def test_a_name_of_somebody_else_that_points_here_is_refused(client, host):
    ask = client()
    for path in ("/", "/explorer.js", f"{PREFIX}/about"):
        assert ask.get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "host", ["localhost:8800", "127.0.0.1:8800", "[::1]:8800", "[::1]", "localhost", "LOCALHOST:8800", "LocalHost."]
)
def test_names_of_this_machine_are_answered(client, host):
    ask = client()
    assert ask.get(f"{PREFIX}/about", headers={"Host": host}).status_code == 200
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert "may not read the model" in ask.post(f"{PREFIX}/jobs/evaluate", headers=own, json={"models": ["/x"]}).text


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:9999"}, {"Origin": ""},
     {"Origin": "http://localhost:8800.evil.example"}, {"Origin": "http://evil.example/http://localhost:8800"},
     {"Origin": "file://localhost:8800"}, {"Origin": "null", "Host": ""},
     {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_pages_of_other_sites_may_open_the_explorer_and_no_more(client, headers):
    ask = client()
    assert ask.get(f"{PREFIX}/models", headers=headers).status_code == 403
    assert ask.head(f"{PREFIX}/models", headers=headers).status_code == 403
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        refused = ask.request(method, f"{PREFIX}/jobs/evaluate", headers=headers, json={"models": ["demo:lenet-torch"]})
        assert refused.status_code == 403
        assert not [name for name in refused.headers if name.startswith("access-control")]
    assert ask.post("/", headers=headers).status_code == 403
    assert ask.get("/", headers=headers).status_code == 200
    assert ask.get(f"{PREFIX}/jobs").json()["total"] == 0


def test_a_form_of_a_browser_starts_nothing(client):
    """What a page can send without asking first: it has no type of JSON, or says who sends it."""
    ask = client()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        sent = ask.post(f"{PREFIX}/jobs/evaluate", content='{"models": ["demo:x"]}', headers={"Content-Type": kind})
        assert sent.status_code == 415
    assert ask.post(f"{PREFIX}/jobs/evaluate", json={}, headers={"Sec-Fetch-Site": "none"}).status_code == 403
    assert ask.get(f"{PREFIX}/jobs/evaluate").status_code in (404, 405)
    assert ask.get(f"{PREFIX}/jobs").json()["total"] == 0


def test_other_methods_are_refused_and_heads_have_no_body(client):
    ask = client()
    head = ask.head(f"{PREFIX}/about")
    assert (head.status_code, head.content) == (200, b"")
    for method in ("OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "POST"):
        answer = ask.request(method, f"{PREFIX}/about")
        assert answer.status_code == 405
        assert "access-control-allow-origin" not in answer.headers


def test_a_token_is_wanted_and_kept_as_a_cookie(client):
    ask = client(token=TOKEN)
    assert ask.get(f"{PREFIX}/about").status_code == 401
    assert ask.get("/").status_code == 401
    assert ask.get("/?token=wrong-token-of-letters").status_code == 401
    assert ask.get(f"{PREFIX}/about", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert ask.get(f"{PREFIX}/about", headers={"Cookie": "zoolens_token=wrong; =;;"}).status_code == 401
    assert ask.get(f"{PREFIX}/about", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    let_in = ask.get(f"/?token={TOKEN}", follow_redirects=False)
    assert let_in.status_code == 303
    cookie = let_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in let_in.headers["location"]
    assert let_in.headers["referrer-policy"] == "no-referrer"  # nobody is told of the address with the token
    ask.cookies.clear()
    assert ask.get(f"{PREFIX}/about?token={TOKEN}").status_code == 401  # nor is it taken elsewhere
    assert ask.get(f"/explorer.js?token={TOKEN}").status_code == 401
    ask.get(f"/?token={TOKEN}")
    assert ask.get(f"{PREFIX}/about").status_code == 200  # with the cookie
    assert ask.get(f"{PREFIX}/about", headers={"Host": "my-server.lan"}).status_code == 200  # whoever has the token


def test_an_address_that_others_reach_needs_a_token():
    with pytest.raises(ZoolensError, match="no token is set"):
        Settings(host="0.0.0.0")
    assert Settings(host="0.0.0.0", token=TOKEN).token == TOKEN
    assert TOKEN not in repr(Settings(token=TOKEN))


# --- declared endpoints of every kind, on an application of their own


class Echo(Query):
    name: str
    values: list[int] = Field([])


class Echoed(Answer):
    name: str
    values: list[int]
    size: int = 0


def echo(_: object, query: Echo, content: bytes = b"") -> Echoed:
    if query.name == "broken":
        raise RuntimeError("secret detail")
    return Echoed(name=query.name, values=query.values, size=len(content))


def picture(_: object, query: Echo) -> File:
    return File(b"<svg onload=alert(1)>", query.name, "../a b.svg" if query.values else "")


ECHOES = (
    Endpoint("/echo/{name:path}", "Echo", echo),
    Endpoint("/echo", "Echo", echo, method="POST", status=201),
    Endpoint("/upload/{name}", "Echo", echo, method="POST", upload_bytes=100),
    Endpoint("/picture/{name:path}", "A picture", picture),
)


@pytest.fixture
def echoing(client, monkeypatch):
    monkeypatch.setattr("zoolens.faces.ui.app.endpoints", lambda: {"echo": ECHOES})
    return client(body_bytes=200)


def test_path_query_and_body_become_one_question(echoing):
    assert echoing.get(f"{PREFIX}/echo/a/b?values=1&values=2").json() == {"name": "a/b", "values": [1, 2], "size": 0}
    made = echoing.post(f"{PREFIX}/echo", json={"name": "x", "values": [3]})
    assert (made.status_code, made.json()["values"]) == (201, [3])
    assert echoing.post(f"{PREFIX}/upload/f", content=b"x" * 100).json()["size"] == 100


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [(b"{", "application/json", 400), (b"[]", "application/json", 400), (b"{}", "text/plain", 415),
     (b'{"name": "x"}', "application/x-www-form-urlencoded", 415), (b"\xff", "application/json", 400),
     (b'{"name": "' + b"x" * 300 + b'"}', "application/json", 413), (b"[" * 150, "application/json", 400)],
)  # fmt: skip
def test_a_body_that_is_none_is_refused(echoing, content, kind, status):
    answer = echoing.post(f"{PREFIX}/echo", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def test_a_body_is_refused_as_soon_as_it_is_too_large(echoing):
    def endless():
        for _ in range(1_000):
            yield b"x" * 50

    assert echoing.post(f"{PREFIX}/upload/f", content=endless()).status_code == 413
    for told in ("101", "9" * 400):
        assert echoing.post(f"{PREFIX}/upload/f", headers={"Content-Length": told}, content=b"x").status_code == 413


def test_only_plain_images_are_shown_in_a_browser(echoing):
    assert "content-disposition" not in echoing.get(f"{PREFIX}/picture/image/png").headers
    svg = echoing.get(f"{PREFIX}/picture/image/svg+xml")
    assert svg.headers["content-disposition"] == 'attachment; filename="download"'
    named = echoing.get(f"{PREFIX}/picture/image/png?values=1")
    assert named.headers["content-disposition"] == 'attachment; filename=".._a_b.svg"'


def test_what_nobody_foresaw_tells_no_detail(echoing):
    answer = TestClient(echoing.app, base_url="http://localhost", raise_server_exceptions=False).get(
        f"{PREFIX}/echo/broken"
    )
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "unexpectedly" in answer.json()["error"]


def test_the_description_names_every_endpoint(client):
    described = client().get(f"{PREFIX}/openapi.json").json()
    assert described["openapi"] == "3.1.0"
    models = described["paths"][f"{PREFIX}/models"]["get"]
    assert {parameter["name"] for parameter in models["parameters"]} >= {"q", "zoo", "offset", "limit", "sort"}
    text = json.dumps(described)
    for reference in ("ModelPage", "Figure", "Error"):
        assert f"#/components/schemas/{reference}" in text
        assert reference in described["components"]["schemas"]


def test_event_streams_are_limited_and_those_that_end_make_room():
    from zoolens.faces.ui.app import _MOST_STREAMS, _Streams

    async def endless():
        while True:
            yield Event("job", Answer())

    async def fails():
        raise RequestError("no such job", status=404)
        yield

    async def follow():
        streams = _Streams()
        for _ in range(_MOST_STREAMS + 1):  # what cannot be followed takes no room
            with pytest.raises(RequestError, match="no such job"):
                await streams.answer(fails())
        answers = [await streams.answer(endless()) for _ in range(_MOST_STREAMS)]
        with pytest.raises(RequestError, match="64 pages follow jobs already") as refused:
            await streams.answer(endless())
        assert refused.value.status == 503

        async def gone(*_):
            raise OSError

        with contextlib.suppress(OSError, ClientDisconnect):
            await answers[0]({"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone)
        await streams.answer(endless())

    asyncio.run(follow())
