import json
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import ZoolensError
from zoolens.base.present.charts import Chart
from zoolens.base.present.images import can_draw
from zoolens.base.present.pages import Page, Section
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.store import open_store
from zoolens.faces.load.test_stored import run_of as load_run
from zoolens.faces.notebook import showing
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.conftest import class_columns, one_hot, write_run
from zoolens.findings.graph.cost.cost import Cost, LayerCost
from zoolens.findings.measure.plan import Outcome
from zoolens.findings.queries.conftest import index, make_index  # noqa: F401 - fixtures

LABELS = np.arange(40) % 4
ANSWERS = np.where(np.arange(40) < 5, (LABELS + 1) % 4, LABELS)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e"

drawn = pytest.mark.skipif(not can_draw(), reason="charts as pictures need the extra reports")


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def pair(store):
    return write_run(store, "a", one_hot(LABELS, 4), LABELS), write_run(store, "b", one_hot(ANSWERS, 4), LABELS)


def html(result, **settings):
    return zoolens.show(result, **settings)._repr_mimebundle_()["text/html"]


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.met = []

    def handle_starttag(self, tag, attributes):
        self.met.append((tag, dict(attributes)))


def assert_quiet(text):
    """Nothing that runs, and nothing that is fetched."""
    tags = Tags()
    tags.feed(text)
    assert {tag for tag, _ in tags.met} <= {
        "div", "style", "h3", "h4", "p", "b", "span", "img", "code", "ul", "li",
        "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    for tag, attributes in tags.met:
        assert set(attributes) <= ({"alt", "src"} if tag == "img" else {"class"})
        assert attributes.get("src", "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize(("name", "maker"), showing._SHOWN.items())
def test_every_kind_in_the_table_is_there(name, maker):
    module, _, attribute = name.partition(":")
    assert isinstance(getattr(import_module(module), attribute), type)
    assert callable(getattr(showing, maker))


@drawn
def test_a_comparison_in_a_notebook(store, pair):
    shown = zoolens.show(compare_runs(store, *pair))
    text = shown._repr_html_()
    assert "12.50 % of 40 inputs are answered differently" in text
    assert text.count("<img ") >= 1
    assert_quiet(text)
    assert "only A correct" in repr(shown)
    assert "[chart: Inputs with different answers]" in repr(shown)


def test_what_judges_two_models_is_a_page_by_itself(store, pair):
    report = zoolens.equiv(pair[0], pair[1], store=store)
    assert "same answer: 87.5 %, at least" in report._repr_html_()
    found = zoolens.disagree(pair[0], 1, store=store)
    assert "5 of 40 inputs of digits (12.5 %) get different answers." in found._repr_html_()
    for result in (report, found):
        assert_quiet(result._repr_html_())


def test_names_of_strangers_in_pages_of_results_are_text(store):
    classes = [HOSTILE] * 4
    runs = [write_run(store, f"{letter}{HOSTILE}", one_hot(answers, 4), LABELS, classes=classes)
            for letter, answers in (("a", LABELS), ("b", ANSWERS))]  # fmt: skip
    for result in (zoolens.equiv(*runs, store=store), zoolens.disagree(runs[0], 1, store=store)):
        assert_quiet(result._repr_html_())
        assert "&lt;script&gt;" in result._repr_html_()


def test_a_run_by_its_id_or_as_a_record_or_as_an_outcome(store, pair):
    text = repr(zoolens.show(pair[1].id[:8], store=store))
    assert "zoo:b@1.0.0" in text
    assert "Confusion matrix" in text
    assert repr(zoolens.show(pair[1], store=store)) == text
    assert repr(zoolens.show(Outcome("b", pair[1]), store=store)) == text
    assert "It did not load." in html(Outcome("c", errors=("It did not load.",)), store=store)
    both = repr(zoolens.show([Outcome("a", pair[0]), Outcome("b", pair[1])], store=store))
    assert "2 results" in both
    assert "zoo:a@1.0.0" in both


def test_a_run_without_labels_says_so(store):
    run = write_run(store, "unlabelled", class_columns(one_hot(LABELS, 4), LABELS), np.full(40, -1))
    assert "has a label" in repr(zoolens.show(run, store=store))


@drawn
def test_a_query_and_an_index(index):  # noqa: F811
    from zoolens.findings.queries.query import prepare, query

    answer = query("CORR big WITHIN 90% ON memory <= 70%", store=index)
    assert "toys:near fits best; 2 models fit." in html(answer)
    prepared = prepare("CORR big WITHIN 90% ON memory <= 70%", store=index)
    assert repr(zoolens.show(prepared)) == repr(zoolens.show(answer))
    assert "toys:near fits best" in answer._repr_html_()
    nothing = zoolens.show(query("CORR big WITHIN 99.9% ON memory <= 1 MB", store=index))
    assert "Nothing fits." in repr(nothing)
    assert "[chart: What the nearest misses lack]" in repr(nothing)
    assert "rows of the index" in html(index)


def test_a_run_under_load():
    shown = repr(zoolens.show(load_run(shed=0.1)))
    assert "100: requests without an answer" in shown
    assert "[chart: Latency of every answer over time, and requests per second]" in shown


def test_a_cost_and_a_chart():
    spent = Cost((LayerCost("n", "conv", HOSTILE, (1,), 5, 10, 3, 4, 9),), 5, 10, 3, 12, 4, 16, 9, {})
    assert_quiet(html(spent))
    assert_quiet(html(Chart("c", HOSTILE, {"data": {"values": []}, "mark": "point"})))


def test_markup_in_names_is_text():
    table = Table("t", (Column(HOSTILE), Column("b")), ((HOSTILE, f"[x](javascript:alert(1)) {HOSTILE}"),))
    page = Page(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        sections=(Section(HOSTILE, (HOSTILE,), (HOSTILE,), (HOSTILE,), tables=((HOSTILE, table),)),),
    )
    shown = zoolens.show(page)
    assert_quiet(shown._repr_html_())
    assert "&lt;script&gt;" in shown._repr_html_()
    assert "\u202e" not in shown._repr_html_() + repr(shown)


def test_long_tables_are_cut_and_say_so():
    table = Table("t", (Column("n", "number"),), tuple((number,) for number in range(1000)))
    shown = zoolens.show(Page("long", sections=(Section(tables=(("", table),)),)))
    assert "960 more rows" in shown._repr_html_()
    assert "985 more rows" in repr(shown)


def test_what_cannot_be_shown_is_told():
    with pytest.raises(ZoolensError, match="A dict cannot be shown") as caught:
        zoolens.show({})
    assert "Divergence" in caught.value.hint
    assert "The list is empty" in repr(zoolens.show([]))


def test_without_the_library_that_draws_charts_are_named(monkeypatch):
    monkeypatch.setattr("zoolens.base.present.images.can_draw", lambda: False)
    text = html(Chart("c", "<b>title</b>", {}))
    assert "&lt;b&gt;title&lt;/b&gt; (charts need the extra <code>reports</code>)" in text


@drawn
def test_ipython_takes_html_and_text(store, pair):
    formatters = pytest.importorskip("IPython.core.formatters", reason="IPython comes with the extra dev")
    data, _ = formatters.DisplayFormatter().format(zoolens.show(pair[0], store=store))
    assert set(data) == {"text/html", "text/plain"}


@pytest.mark.slow
@drawn
def test_a_notebook_is_executed(store, pair, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="nbclient comes with the extra dev")
    nbformat = pytest.importorskip("nbformat")
    cells = [
        "import zoolens",
        f"zoolens.show(zoolens.compare({pair[0].id!r}, {pair[1].id!r}, store={str(store.name)!r}))",
        f"zoolens.show({pair[1].id!r}, store={str(store.name)!r})",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    bundles = [output["data"] for cell in notebook.cells for output in cell["outputs"]]
    assert len(bundles) == 2
    for bundle in bundles:
        assert_quiet(bundle["text/html"])
        assert "<img " in bundle["text/html"]
        assert "[chart:" in bundle["text/plain"]
    json.dumps(notebook)


@pytest.mark.parametrize("names", showing._PAGES.items(), ids=str)
def test_what_is_named_is_there(names):
    for name in names:
        module, _, member = name.partition(":")
        assert callable(getattr(import_module(f"zoolens.{module}"), member))
