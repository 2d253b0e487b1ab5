"""A store and a zoo whose every text is an attack, on every page: it is shown as text, and nothing runs."""

import json

import pytest

pytest.importorskip("playwright")

from browsing import Visitor, at_home, serving

SCRIPT = "document.documentElement.setAttribute('hostile','ran')"
MARKUP = (
    f"<script>{SCRIPT}</script>", f'"><img src=nowhere onerror="{SCRIPT}">', f"'><svg onload=\"{SCRIPT}\">",
    f"javascript:{SCRIPT}//", f'<iframe srcdoc="<script>parent.{SCRIPT}</script>">',
    "{{constructor.constructor('x')()}}",
    "</title></style></textarea><h1>forged</h1>",
)  # fmt: skip
BIDI = "gnp.\u202etxet\u2066evil\u2069\u200f"
ENDLESS = "9" * 10_000_000
TEXTS = (*MARKUP, BIDI, ENDLESS)

# Every page, also with attacks in the address itself; add the views of a new page here.
VIEWS = {
    "#/models": "forged",
    "#/models?columns=ref,formats,licence,runtimes,datasets,version,description,runs,on": "forged",
    "#/models?zoo=%3Cscript%3Ealert(1)%3C/script%3E": "No model fits.",
    "#/models?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E": None,
    "#/%3Cscript%3Ealert(1)%3C/script%3E": None,
    "#/runs": "forged",
    "#/compare": "forged",
    "#/compare?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E": None,
    "#/audit": "No audit was started here yet.",
    "#/jobs": "forged",
    "#/live?with=%3Cscript%3Ealert(1)%3C/script%3E&with=javascript:alert(1)": "javascript:alert(1)",
    "#/services": "No service was served yet.",
    "#/services/%3Cscript%3Ealert(1)%3C/script%3E": None,
    "#/api": None,
}


@pytest.fixture(scope="module")
def hostile_explorer(tmp_path_factory):
    from zoolens import open_store
    from zoolens.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
    from zoolens.ui.settings import Settings

    home = tmp_path_factory.mktemp("hostile")
    with at_home(home), pytest.MonkeyPatch.context() as patch:
        with open_store() as store:
            for place, text in enumerate(TEXTS):
                some = text[:100_000]
                run = store.begin_run(
                    ModelRecord(f"m{place}", f"file:{text}@0.0.0", some, {"description": some, "labels": [some]}),
                    DatasetRecord(f"d{place}", text, 10, {"classes": [some]}),
                    StackRecord(f"s{place}", some, {"version": some}, {}),
                    resolved={"origin": {"ref": some}, "precision": some},
                )
                facts = [Observation("top1", 0.5, unit="fraction"), Observation(some, 1.0, unit=some)]
                store.finish_stage(run.id, "metric:topk", facts)
                store.fail_stage(run.id, some, some)
        patch.setenv("ZOOLENS_ZOO_PATH", str(write_zoo(home / "zoo")))
        with serving(Settings()) as url:
            write_jobs()
            yield url


def write_zoo(folder):
    folder.mkdir()
    for place, text in enumerate(TEXTS):
        manifest = {
            "zoolens": 1, "name": f"model{place}", "description": text[:1_000_000], "license": text[:100_000],
            "inputs": [{"shape": [1, 3, 8, 8]}], "outputs": [{"labels": [text[:100_000]]}],
            "assets": [{"format": "onnx", "files": [{"location": f"{place}.onnx"}]}],
            "claims": [{"metric": "top1", "value": 0.5, "source": text[:100_000]}],
        }  # fmt: skip
        (folder / f"model{place}.yaml").write_text(json.dumps(manifest))
    return folder


def write_jobs():
    from zoolens.ui.jobs.folder import make_job_folder

    for text in TEXTS:
        job = make_job_folder(text[:100], text, {}, ["eval", text])
        job.messages_file.write_text(f"Error: {text[:100_000]}", encoding="utf-8")
        job.output_file.write_text(json.dumps([{"run": text[:100_000]}]), encoding="utf-8")
        job.write_end(1)


@pytest.fixture
def window(chromium, hostile_explorer):
    made = Visitor(chromium, hostile_explorer)
    made.dialogs = []
    made.page.on("dialog", lambda dialog: (made.dialogs.append(dialog.message), dialog.dismiss()))
    yield made
    made.close()


def test_a_script_that_runs_would_be_seen(window):
    page = window.visit("#/api")
    page.evaluate(SCRIPT)
    assert page.locator("html[hostile]").count() == 1


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_of_a_stranger_runs_or_is_markup(window, view):
    asked = []
    window.page.on("request", lambda request: asked.append(request.url))
    page = window.page
    if view.startswith("#/services/"):
        page.goto(window.url + view)
        page.get_by_role("alert").wait_for()  # that there is no such session; the browser tells of it too
    else:
        window.visit(view, VIEWS[view])
    assert page.locator("html[hostile]").count() == 0
    assert not window.dialogs
    assert (
        page.locator(
            "main img:not(.examples img), main iframe, main script, main svg:not(.sparkline):not(.marks)"
        ).count()
        == 0
    )
    assert page.get_by_role("heading", name="forged").count() == 0
    assert not [url for url in asked if "nowhere" in url or url.startswith("javascript")]
    words = page.locator("body").inner_text()
    assert not set("\u202e\u2066\u2069\u200f") & set(words)
    assert len(words) < 200_000
    assert not [
        href for href in page.locator("a").evaluate_all("all => all.map(a => a.href)") if "javascript:" in href[:20]
    ]
