"""Pages of language models: runs of texts, token by token, an endpoint, a trace, and a service that writes texts."""

import time

import pytest

pytest.importorskip("playwright")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store

pytestmark = pytest.mark.slow

OPENED = 60_000  # milliseconds
ADDRESS = "http://127.0.0.1:8080/v1"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A home with runs of texts, verdicts on an endpoint, a trace and a session. Gives its address and the ids."""
    from zoolens.faces.ui.settings import Settings
    from zoolens.testing.endpoint_runs import Teller, verification_run

    folder = tmp_path_factory.mktemp("writing")
    with at_home(folder / "home"):
        with open_store() as store:
            names = write_runs(store, folder)
            names["honest"] = verification_run(store, {"file:own": 0.001}, Teller(stated={"n_params": 134515008})).id
            names["swapped"] = verification_run(store, {"file:own": 0.2, "file:other": 0.001}).id
            names["trace"] = write_trace(store, folder)
        names["session"] = write_session()
        with serving(Settings(allowed=(folder,))) as url:
            yield url, names


def write_runs(store, folder):
    from zoolens.findings.measure.answers import judged_predictions
    from zoolens.findings.measure.generation_speed import DECODE, FIRST
    from zoolens.findings.measure.task_metrics import _observed, judgement_of
    from zoolens.testing.language_model_runs import answered, written_book

    book = written_book(folder, "AB HELLO WORLD\nWHAT IS <IT>?\nTHE END OF IT\n", 16)
    runs = {"mine": answered(store, book, "mine"), "near": answered(store, book, "near", 1.0)}
    for run in runs.values():
        judged = judgement_of(judged_predictions(store, run))
        store.finish_stage(run.id, "metric:task", list(_observed(judged, run.inputs, None)))
    speeds = [Observation(FIRST, 0.25, "context=128", "s"), Observation(DECODE, 40.0, "context=128", "tokens/s")]
    store.finish_stage(runs["mine"].id, "generation:context=128", speeds)
    return {name: run.id for name, run in runs.items()}


def write_trace(store, folder):
    """A trace of a tiny model in ONNX while it writes: it has layers."""
    pytest.importorskip("onnxruntime")
    from scripts.copy_language_model import onnx_folder

    from zoolens.findings.tracing.measuring import TraceSettings
    from zoolens.findings.tracing.writing import WritingPlan, trace_writing
    from zoolens.testing import language_models

    model = onnx_folder(language_models.gguf(folder).path(), folder / "onnx") / "model.onnx"
    plan = WritingPlan(model, prompt=7, tokens=3, settings=TraceSettings(5, 0.3))
    return trace_writing(plan, store=store).run.id


def write_session():
    """A service that wrote texts, and switched once."""
    from zoolens.faces.serving.services.definition import Service
    from zoolens.faces.serving.services.events import (
        AnswerCounts,
        EventKind,
        EventLog,
        ObjectiveCounts,
        ServiceEvent,
        sessions,
    )

    now, second = time.time_ns(), 10**9
    large, small = "file:F16@0.1.0", "file:Q8_0@0.1.0"
    service = Service.model_construct(reference="file:F16")
    log = EventLog(None, {"writer": service})
    log.record("writer", ServiceEvent(EventKind.START, "It begins.", model=large, time=now - 80 * second))
    log.record("writer", AnswerCounts(large, "llamacpp", 18, 18, time=now - 40 * second))
    reason = "With 1 waiting, file:F16@0.1.0 would use 83 % of the time left; file:Q8_0@0.1.0 keeps 15 s."
    log.record("writer", ServiceEvent(EventKind.SWITCH, reason, small, large, 1, now - 30 * second))
    log.record("writer", AnswerCounts(small, "llamacpp", 1, 1, time=now - 9 * second))
    log.record("writer", ObjectiveCounts(19, 18, 0, 15.0, 90.0, time=now - second))
    log.record("writer", ServiceEvent(EventKind.STOP, "The service has ended.", time=now))
    log.close()
    with open_store() as store:
        (session,) = sessions(store, "writer", 1)
    return session.run.id


@pytest.fixture
def reader(chromium, written):
    window = Visitor(chromium, written[0])
    yield window
    window.check()
    window.close()


def test_a_run_of_texts_begins_with_perplexity_and_says_nothing_of_classes(reader, written):
    page = reader.visit(f"#/run/{written[1]['mine']}", expect="Texts with the most bits per byte")
    tiles = page.locator(".tile").all_inner_texts()
    assert "perplexity" in tiles[0].lower()
    assert "bits per byte" in tiles[1].lower()
    tabs = page.get_by_role("tab").all_inner_texts()
    assert tabs == ["At a glance", "Figures", "Inputs", "Latency", "Observations", "Stack"]
    words = page.locator("main").inner_text()
    assert "the text itself" not in words
    assert "score" not in words
    page.get_by_role("tab", name="Latency").click()
    expect(page.get_by_role("group", name="Reading and writing, by context length")).to_contain_text("128 tokens")


def test_texts_are_coloured_token_by_token(reader, written):
    names = written[1]
    page = reader.visit(f"#/run/{names['mine']}?tab=inputs")
    page.get_by_text("Probability of the token that follows").wait_for(timeout=OPENED)  # a sandbox reads the texts
    cards = page.locator("li.input")
    bits = [float(words.partition(" bits a byte")[0].split()[-1]) for words in cards.all_inner_texts()]
    assert bits == sorted(bits, reverse=True)
    assert len(bits) == 3
    assert "Right:" not in page.locator("main").inner_text()
    assert page.get_by_label("Sort by").locator("option").all_inner_texts() == [
        "bits per byte, the most first",
        "place in the data",
    ]
    assert page.get_by_label("Show", exact=True).count() == 0
    cards.first.locator("[data-said]").first.hover()
    page = reader.visit(
        f"#/compare?a={names['mine']}&b={names['near']}&unfold=answers", expect="agreement on the next token"
    )
    assert "Right:" not in page.locator("main").inner_text()


def test_an_endpoint_shows_its_verdict_its_evidence_and_its_history(reader, written):
    names = written[1]
    page = reader.visit("#/endpoints", expect=ADDRESS)
    row = page.get_by_role("row").filter(has_text=ADDRESS).inner_text()
    assert "It is not" in row
    page.get_by_role("link", name=ADDRESS).click()
    page.wait_for_url(f"**#/endpoints/{names['swapped']}*")
    main = page.locator("main")
    expect(main).to_contain_text("It is not file:own: at ")
    expect(page.get_by_role("figure")).to_have_count(3)
    page.locator(".chart:not(:has(svg.marks))").first.wait_for(state="detached")
    models = page.get_by_role("group", name="Models that were considered")
    expect(models.get_by_role("row").filter(has_text="file:own")).to_contain_text("rejected")
    expect(main).to_contain_text("it states nothing")
    history = page.get_by_role("group", name="Verdicts over time").locator("tbody tr")
    expect(history).to_have_count(2)
    history.nth(1).get_by_role("link").click()
    expect(main).to_contain_text("It is file:own, or a model within a total variation of 0.02")
    expect(main).to_contain_text("134515008")
    page = reader.visit(f"#/run/{names['swapped']}", expect="The endpoint, with its evidence")


def test_a_trace_tells_prompt_and_token_apart(reader, written):
    page = reader.visit(f"#/traces/{written[1]['trace']}", expect="Prompt and token")
    rows = page.get_by_role("group", name="Prompt and token", exact=True).locator("tbody tr")
    expect(rows).to_have_count(2)
    assert "prompt: 7 tokens are read" in rows.nth(0).inner_text()
    assert " %" in rows.nth(1).inner_text()
    kinds = page.get_by_role("group", name="Layers by kind, token")
    expect(kinds).to_contain_text("MatMul")


def test_a_service_that_writes_texts_names_its_bound_in_seconds(reader, written):
    page = reader.visit("#/services", expect="writer")
    assert "94.74 % within 15 s" in page.get_by_role("row").filter(has_text="writer").inner_text()
    page.get_by_role("link", name="writer").click()
    expect(page.locator("main")).to_contain_text("18 of 19 requests were answered by file:F16@0.1.0 in llamacpp.")
    expect(page.locator("main")).to_contain_text("file:Q8_0@0.1.0 keeps 15 s.")


@pytest.mark.parametrize(
    ("view", "text"),
    [
        ("#/run/{mine}", "Texts with the most bits per byte"),
        ("#/run/{mine}?tab=inputs", "Probability of the token that follows"),
        ("#/run/{mine}?tab=latency", "Reading and writing, by context length"),
        ("#/compare?a={mine}&b={near}&unfold=answers", "agreement on the next token"),
        ("#/endpoints", ADDRESS),
        ("#/endpoints/{swapped}", "Verdicts over time"),
        ("#/traces/{trace}", "Prompt and token"),
        ("#/services/{session}", "Events"),
    ],
)
def test_everybody_can_read_it(look_everywhere, written, view, text):
    url, names = written
    look_everywhere(view.format_map(names), expect=text, url=url)
