"""A bundle as a person opens it who has nothing but the folder: from a disk, and from a plain web server."""

import functools
import getpass
import http.server
import json
import platform
import re
import threading
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("playwright")
from browsing import PATIENCE, Visitor, at_home
from made_home import PLAIN
from made_jobs import made_divergence
from playwright.sync_api import expect
from test_audit_page import made_audit
from test_studies_page import SIDES, made_trials

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import cache_dir
from zoolens.base.present.figures import percent
from zoolens.base.present.text import without_folders
from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import open_store
from zoolens.faces.ui.bundle.bundle_export import export_bundle
from zoolens.faces.ui.input_reader import InputReader
from zoolens.faces.ui.jobs.folder import make_job_folder
from zoolens.faces.ui.resources.test_traces import traced
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.report_page import verdict
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.training.crosstrain.study.explanation.stored_explanations import file_explanation
from zoolens.training.crosstrain.study.explanation.test_stored_explanations import made_explanation
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial, read_study
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import ALIGNED

# What goes into a bundle is tested without a browser in faces/ui/bundle; here bundles are opened in one.
pytestmark = pytest.mark.slow

STUDY = "rates"
QUERIES = ("ON accuracy >= 1% ORDER BY latency", "CORR lenet-torch WITHIN 50% ON size <= 1%")
SOURCE = "/home/annabell/papers/paper.pdf of annabell on gondolin"
TRIALS = 6
PAUSE = 100  # milliseconds

# What stands on a page of the explorer and not on that of a bundle: buttons, and runs that nobody chose.
NEEDS_A_SERVER = (
    "Find the layer where they diverge\n",
    "Look into both models\n",
    "Replace this model\n",
    "Download as JSON\n",
    "structure\n1\n",
    "\nAdd to a report",
)


@pytest.fixture(scope="module")
def runs(explored_home):
    """The runs of the store by model and runtime."""
    with at_home(explored_home), open_store() as store:
        return {(run.ref.split("@")[0], run.stack.runtime): run for run in store.runs()}


@pytest.fixture(scope="module")
def some(explored_home, runs, tmp_path_factory):
    """A bundle of the two runs of one model, with their inputs."""
    folder = tmp_path_factory.mktemp("bundles") / "some"
    with at_home(explored_home):
        export_bundle(folder, runs=["demo:lenet-torch"], queries=QUERIES, with_inputs=True)
        assert not list((cache_dir() / "index").glob("*"))  # nothing is kept of the index of a store that is gone
    return folder


@pytest.fixture(scope="module")
def alone(explored_home, runs, tmp_path_factory):
    """A bundle of one run without its inputs."""
    folder = tmp_path_factory.mktemp("bundles") / "alone"
    with at_home(explored_home):
        export_bundle(folder, runs=[runs["demo:lenet-torch", "litert"].id])
    return folder


@pytest.fixture
def opened(chromium):
    """Opens a window over an address, and asserts at its end that nothing went wrong in it."""
    windows = []

    def open_at(url):
        windows.append(Visitor(chromium, url))
        return windows[-1]

    yield open_at
    for window in windows:
        window.check()
        window.close()


def on_disk(folder):
    return (folder / "index.html").as_uri()


@pytest.fixture
def served(some):
    """The address of a web server that knows nothing of zoolens."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=some))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


# By what each view is made of; what is not quick differs from those that are in a filter, a tab or an order only.
VIEWS = {
    "#/runs?model={ref}&sort=latency_p50%40batch%3D1": "2 evaluations",
    "#/run/{a}?tab=inputs&order=surest&bin=9&answer=3": "of 200 inputs",
    "#/compare?a={b}&b={a}&shown=all&order=least+sure&offset=48": "Environment difference",
    "#/model/{ref}?tab=history&metric=latency_p50": "parameters, as its source says",
}
MORE_VIEWS = {
    "#/runs?model={ref}&sort=-ece&runtime=litert": "1 evaluation.",
    "#/runs?model={ref}&q=ONNX&until=2101-01-01": "1 evaluation.",
    "#/runs?model={ref}&until=2001-01-01": "No run fits.",
    "#/run/{a}": "What it confuses",
    "#/run/{a}?tab=figures": "Value [95 %]",
    "#/run/{a}?tab=inputs&shown=wrong&label=6": "of 200 inputs",
    "#/run/{b}?tab=observations&metric=recall&offset=5": "recall",
}


@pytest.mark.parametrize("views", [VIEWS, MORE_VIEWS], ids=["some", "more"])
def test_a_bundle_reads_as_the_explorer_does(opened, visitor, some, runs, views):
    bundle = opened(on_disk(some))
    a, b = (runs["demo:lenet-torch", runtime] for runtime in ("onnxruntime", "litert"))
    for pattern, text in views.items():
        view = pattern.format(ref=a.ref, a=a.id, b=b.id)
        checking = visitor.visit(view, expect=text).get_by_text("is being checked, which takes a while")
        bundle.visit(view, expect=text)
        expect(checking).to_have_count(0)  # a busy machine needs seconds to open the data
        for _ in range(PATIENCE // PAUSE):  # charts and some tables come after the first words of a page
            if bundle.text() == common_text(visitor):
                break
            bundle.page.wait_for_timeout(PAUSE)
        assert bundle.text() == common_text(visitor), view


def common_text(visitor):
    """What a page of the explorer says that one of a bundle says too."""
    text = without_folders(visitor.text()).replace("A job finds out; the same on", "On")
    for words in NEEDS_A_SERVER:
        text = text.replace(words, "")
    return text


def test_queries_are_answered_from_the_chosen_runs_alone(opened, some, runs, explored_home):
    window = opened(on_disk(some))
    page = window.visit("#/choose", expect="2 rows, each a model in a runtime")
    assert "lenet-int8" not in window.text()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator(".vega-embed svg").first).to_be_visible()
    page.get_by_label("Across").select_option("size")
    expect(page.locator(".chart")).to_contain_text("file size")
    page.get_by_role("link", name=QUERIES[0]).click()
    expect(page.get_by_text("demo:lenet-torch fits best; 1 model fits.")).to_be_visible()
    page.get_by_role("tab", name="Why").click()
    expect(page.get_by_text("Rows left after each condition")).to_be_visible()
    page.get_by_role("link", name=QUERIES[1]).click()
    expect(page.get_by_text("Nothing fits")).to_be_visible()
    assert page.get_by_role("combobox", name="Query").count() == 0  # nobody could answer it


@pytest.mark.slow
def test_a_rectangle_and_an_order_are_found_without_a_server(opened, visitor, some):
    bundle = opened(on_disk(some))
    rows = bundle.visit("#/choose?sort=-x", expect="2 rows.").locator("tbody tr")
    slow, quick = (row.get_by_role("link").last.inner_text() for row in rows.all())
    assert {slow, quick} == {"onnxruntime", "litert"}
    bundle.visit("#/choose?sort=x", expect="2 rows.")
    assert rows.first.get_by_role("link").last.inner_text() == quick
    bundle.visit("#/choose?x_high=0", expect="No model is in the rectangle.")
    bundle.visit("#/choose?y_low=0&y_high=1&x_low=0&x_high=1000", expect="2 rows in the rectangle")
    bundle.visit("#/choose?q=ON+size+%3C%3D+1+B", expect="This is not in this bundle")


@pytest.mark.slow
def test_without_runs_a_query_takes_those_that_it_lists(explored_home, tmp_path):
    with at_home(explored_home):
        written = export_bundle(tmp_path / "answer", queries=["CORR lenet-torch WITHIN 50% EXEC (runtime=litert)"])
    assert (written.runs, written.queries) == (2, 1)


def test_inputs_are_in_it_where_they_are_asked_for(opened, some, runs, explored_home):
    run = runs["demo:lenet-torch", "litert"]
    window = opened(on_disk(some))
    page = window.visit(f"#/run/{run.id}?tab=inputs&order=index", expect="200 of 200 inputs")
    pictures = page.get_by_role("list", name="Inputs").locator("img")
    expect(pictures).to_have_count(24)
    expect(pictures.nth(7)).to_have_js_property("complete", True)
    assert pictures.nth(7).evaluate("image => image.naturalWidth") > 20
    with at_home(explored_home), InputReader() as reader:
        (shown,) = reader.look(run, [7], patience=60).inputs
    assert (some / pictures.nth(7).get_attribute("src")).read_bytes() == shown.png


def test_opened_from_a_disk_it_shows_what_was_chosen_and_nothing_else(opened, some, runs, explored_home):
    window = opened(on_disk(some))
    page = window.visit("", expect="demo:lenet-torch")
    assert page.locator("header .about").inner_text() == "bundle · 2 evaluations"
    assert page.get_by_role("navigation", name="Groups").inner_text().split() == ["Look", "Compare"]
    assert page.get_by_role("navigation", name="Pages").inner_text().split() == ["Models", "Runs"]
    page.get_by_role("link", name="Runs").click()
    expect(page.get_by_text("2 evaluations.")).to_be_visible()
    assert "lenet-int8" not in window.text()
    page.get_by_role("checkbox", name="litert").check()
    expect(page.get_by_text("1 evaluation.")).to_be_visible()
    chosen, other = runs["demo:lenet-torch", "litert"], runs["demo:lenet-int8", "litert"]
    assert chosen.id[:8] in window.text()
    first = runs["demo:lenet-torch", "onnxruntime"]
    page = window.visit(f"#/compare?a={first.id}&b={chosen.id}", expect="Environment difference")
    with at_home(explored_home), open_store() as store:
        assert verdict(compare_runs(store, first, chosen, open_files=False)) in window.text()
    assert not page.get_by_role("button", name="Find the layer").count()
    window.visit(f"#/compare?a={first.id}&b={other.id}", expect="This is not in this bundle")
    window.visit(f"#/run/{other.id}", expect="This is not in this bundle")
    window.visit("#/live", expect="This page is not in this bundle.")
    page = window.visit(f"#/model/{first.ref}", expect="Click a block to unfold it")
    expect(page.get_by_role("group", name="The network of")).to_contain_text("%")


def test_a_plain_web_server_is_enough(opened, served):
    window = opened(served)
    window.visit("#/runs", expect="2 evaluations.")
    window.visit("#/models", expect="demo:lenet-torch")


def test_no_byte_tells_of_folders_persons_machines_or_other_runs(some, runs, explored_home):
    told = {path: path.read_bytes() for path in some.rglob("*") if path.is_file()}
    data = b"".join(content for path, content in told.items() if path.parent != some)
    left_out = [run for (model, _), run in runs.items() if model != "demo:lenet-torch"]
    private = [str(explored_home), str(Path.home()), str(Path.cwd()), "zoolens-bundle-", "lenet-int8"]
    private += [run.id[:8] for run in left_out]
    private += [name for name in (platform.node(), getpass.getuser()) if len(name) > 5 and name != "localhost"]
    for text in private:
        assert text.encode() not in data, text
        if len(text) > 8:
            assert not [path for path, content in told.items() if text.encode() in content], text
    assert all(run.id.encode() in data for run in runs.values() if run not in left_out)


def test_inputs_are_left_out_where_nobody_asks_for_them(opened, alone, runs):
    run = runs["demo:lenet-torch", "litert"]
    window = opened(on_disk(alone))
    page = window.visit(f"#/run/{run.id}?tab=inputs", expect="Whoever wrote this bundle left them out.")
    assert not page.locator("main img").count()
    assert not (alone / "files").exists()


def test_the_same_choice_gives_the_same_bytes(alone, runs, explored_home, tmp_path):
    with at_home(explored_home):
        export_bundle(tmp_path / "again", runs=[runs["demo:lenet-torch", "litert"].id])
    first, again = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (alone, tmp_path / "again")
    )
    assert first == again


class Interrupts:
    """Somebody presses Ctrl-C in the middle."""

    def __init__(self):
        self.steps = 0

    def begin(self, *_, **__): ...

    def end(self): ...

    def say(self, _): ...

    def advance(self, _):
        self.steps += 1
        if self.steps == 5:
            raise KeyboardInterrupt


def test_an_interrupted_export_leaves_nothing(explored_home, tmp_path):
    with at_home(explored_home), pytest.raises(KeyboardInterrupt):
        export_bundle(tmp_path / "half", runs=["last"], progress=Interrupts())
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_said(explored_home, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with at_home(explored_home):
        for folder, choice, words in (
            ("full", {"runs": ["last"]}, "already exists and is not empty"),
            ("new", {}, "Nothing was chosen"),
            ("new", {"runs": ["demo:nothing*"]}, "No run fits 'demo:nothing*'"),
            ("new", {"runs": ["ffffffffffffffff"]}, "There is no run named"),
            ("new", {"divergences": ["latest"]}, "There is no comparison of two environments named 'latest'"),
            ("new", {"queries": ["ON size <="]}, "size <="),
            (
                "new",
                {"runs": ["demo:lenet-torch"], "queries": ["CORR lenet-int8 WITHIN 95%"]},
                "cannot be answered from the chosen runs alone",
            ),
            ("new", {"studies": ["none"]}, "There is no study named 'none'"),
            ("new", {"audits": ["latest"]}, "There is no audit named 'latest'"),
            ("new", {"traces": ["last"]}, "There is no trace named 'last'"),
        ):
            with pytest.raises(ZoolensError, match=re.escape(words)):
                export_bundle(tmp_path / folder, **choice)
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "letter.txt"]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A bundle of one of two studies, of one of two audits and of two of three traces; and these."""
    home = tmp_path_factory.mktemp("found")
    with at_home(home), open_store() as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "annabell")
        patch.setattr(platform, "node", lambda: "gondolin.example.org")
        for name in (STUDY, "secret study"):
            file_study(store, name, tuple(SIDES), {"source": SOURCE})
            for number, trial in enumerate(islice(made_trials(), TRIALS)):
                recipe = Recipe(architecture=f"mlp-{name}", learning_rate=0.1, batch_size=8, epochs=number + 1)
                told = dict.fromkeys(SIDES, (recipe, ALIGNED))
                file_trial(
                    store,
                    name,
                    trial,
                    TrialFiling(recipe_of=told, dataset=DatasetRecord("d", "digits", 10), versions=SIDES),
                )
        file_study(store, "explain-1", ("a", "b"), {})
        file_explanation(store, made_explanation(), STUDY, "t1")
        study, audit = read_study(store, STUDY), made_audit()
        for title in ("Audit of yesterday", "Audit of today"):
            job = make_job_folder("audit", title, {}, ["audit", "--json"])
            job.output_file.write_text(json.dumps(audit.as_data()), encoding="utf-8")
            job.write_end(0)
        for title in ("Diverge the secret", "Diverge for Anna"):
            divergence = make_job_folder("diverge", title, {"a": "m@a", "b": "m@b"}, ["diverge", "--json"])
            divergence.output_file.write_text(json.dumps(diverged_on_digits()), encoding="utf-8")
            divergence.write_end(0)
        traces = [traced(store, runtime, slow) for runtime, slow in (("quick", 0), ("slow", 60_000), ("secret", 0))]
        folder = home / "bundle"
        chosen = [run.id for run in traces[:2]]
        export_bundle(
            folder,
            studies=[STUDY],
            audits=[job.id],
            divergences=[divergence.id],
            traces=chosen,
            store=store,
            with_inputs=True,
        )
    return folder, study, audit, traces


@pytest.mark.slow
def test_a_study_can_be_looked_at(opened, found):
    folder, study, *_ = found
    window = opened(on_disk(folder))
    page = window.visit("#/audit", expect="Audit of today")
    assert page.get_by_role("navigation", name="Groups").inner_text().split() == ["Understand", "Train"]
    assert page.get_by_role("navigation", name="Pages").inner_text().split() == ["Traces", "Diverge", "Audit"]
    page.get_by_role("link", name="Train").click()
    page.get_by_role("link", name=STUDY).click()
    expect(page.get_by_text("Source: paper.pdf of user on host")).to_be_visible()
    largest = max(trial.delta for trial in study.trials if trial.delta is not None)
    page.get_by_role("tab", name="Trials").click()
    expect(page.locator("tbody tr").first).to_contain_text(percent(largest))
    page.get_by_role("button", name="t1", exact=True).click()
    expect(page.get_by_role("region", name="The trial that was picked")).to_contain_text("All that the command said")
    page = window.visit(f"#/studies/{STUDY}?x=torch&y=rate", expect="Upwards")
    expect(page.locator(".vega-embed svg").first).to_be_visible()


def diverged_on_digits():
    """What `zoolens diverge --json` prints of the first inputs of the built-in data."""
    made = made_divergence(PLAIN)
    with closing(open_dataset("demo", limit=made["answers"]["inputs"])) as dataset:
        origin = {"data": "demo", "limit": len(dataset), "seed": None, "fingerprint": dataset.fingerprint()}
    return {**made, "origin": origin}


def test_where_two_stacks_part_with_the_inputs_that_flip(opened, found):
    window = opened(on_disk(found[0]))
    page = window.visit("#/diverge", expect="Diverge for Anna")
    assert "secret" not in window.text()
    page.get_by_role("link", name="Result of Diverge for Anna").click()
    expect(page.locator(".verdict")).to_have_text(PLAIN.all)
    expect(page.locator(".vega-embed svg").first).to_be_visible()
    flips = page.get_by_role("group", name="Inputs that are answered differently").last
    expect(flips.locator("tbody tr")).to_have_count(len(PLAIN.each))
    pictures = flips.locator("img")
    expect(pictures).to_have_count(len(PLAIN.each))
    assert pictures.nth(3).evaluate("image => image.decode().then(() => image.naturalWidth)") > 20


def test_findings_can_be_searched_and_chosen(opened, found):
    folder, _, audit, _ = found
    window = opened(on_disk(folder))
    page = window.visit("#/audit", expect="Audit of today")
    assert "Audit of yesterday" not in window.text()
    page.get_by_role("link", name="Findings of Audit of today").click()
    every = len(audit.findings)
    expect(page.get_by_text(f"{every} of {every} findings")).to_be_visible()
    low = [finding for finding in audit.findings if finding.severity == "low"]
    page.get_by_role("checkbox", name=re.compile("^low")).check()
    expect(page.get_by_text(f"{len(low)} of {every} findings")).to_be_visible()
    page.get_by_role("searchbox").fill("net17 CLAIM")
    expect(page.get_by_text(f"1 of {every} findings")).to_be_visible()
    expect(page.get_by_role("article", name="The claim of net17 is off")).to_be_visible()


def test_traces_can_be_looked_at_and_compared(opened, found):
    folder, *_, (first, second, _) = found
    window = opened(on_disk(folder))
    page = window.visit("#/traces", expect="2 traces.")
    page.get_by_role("searchbox").fill("slow")
    expect(page.get_by_text("1 trace.")).to_be_visible()
    page = window.visit(f"#/traces/{first.id}", expect="one prediction, batch 1")
    bars = page.locator(".spans [data-span]")
    expect(bars).to_have_count(3)
    page.get_by_role("button", name="Zoom in").click()  # without a server
    page.wait_for_url("**from=*")
    page = window.visit(f"#/traces/{first.id}?tab=layers&order=call", expect="as computed")
    assert [row.split()[0] for row in page.locator("tbody tr").all_inner_texts()][1] == "relu"
    page = window.visit(f"#/traces/{first.id}?tab=compare&with={second.id}", expect="All differences")
    expect(page.get_by_role("group", name="All differences").locator("tbody tr").first).to_contain_text("60")


def test_no_other_study_is_in_it(found):
    data = b"".join(path.read_bytes() for path in found[0].rglob("*.js") if path.parent != found[0])
    private = [b"secret", b"Secret", b"Audit of yesterday", b"annabell", b"gondolin", str(found[0].parent).encode()]
    for text in (*private, found[3][2].id[:8].encode()):
        assert text not in data, text
