"""Pages made of hostile names, in a real browser: no script of a stranger runs."""

import shutil
import subprocess
from dataclasses import replace

import pytest

MARK = 'hostile="ran"'
SCRIPT = "document.documentElement.setAttribute('hostile','ran')"
HOSTILE = (
    f"<script>{SCRIPT}</script>",
    f"</script><script>{SCRIPT}</script>",
    f'"><img src=x onerror="{SCRIPT}">',
    f'\'><svg onload="{SCRIPT}">',
    f"</style></title></textarea><script>{SCRIPT}</script>",
    f'javascript:{SCRIPT}//"',
    f"<!--<script>{SCRIPT}",
    f"]]><script>{SCRIPT}</script>",
    f'<iframe srcdoc="<script>parent.{SCRIPT}</script>">',
)


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("NO BROWSER: install Debian's chromium to see that no script runs in our pages")
    return found


def shown(browser, folder, page):
    """The document as the browser has it once it is loaded."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "</html>" in done.stdout, done.stderr[-2000:]
    return done.stdout


def audit_page():
    from zoolens.findings.audit.report import test_report
    from zoolens.findings.audit.report.audit_page import html

    audit = test_report.audit()
    everything = " ".join(HOSTILE)
    [row] = audit.architectures
    networks = tuple(replace(one, name=everything, zoo=HOSTILE[2]) for one in row.networks)
    findings = tuple(replace(one, title=everything, fix=everything, models=HOSTILE) for one in audit.findings)
    return html(
        replace(
            audit,
            architectures=(replace(row, networks=networks),),
            findings=findings,
            judged=tuple(replace(one, model=everything) for one in audit.judged),
        )
    )


def report_page():
    from zoolens.base.present.charts import Chart, axis, heading, level, series, values
    from zoolens.base.present.pages import Page, Section, Tile, page_html
    from zoolens.base.present.tables import Column, Link, Table

    columns = (Column(HOSTILE[0]), Column(HOSTILE[1], "link"))
    table = Table("t", columns, tuple((one, Link(one, one)) for one in HOSTILE))
    encoding = {"x": level("x", HOSTILE, axis(HOSTILE[0])), "color": series("x", HOSTILE)}
    spec = {"title": heading(HOSTILE[0], HOSTILE[1]), "data": values([{"x": one} for one in HOSTILE])}
    chart = Chart("c", HOSTILE[1], {**spec, "mark": {"type": "circle", "tooltip": True}, "encoding": encoding})
    section = Section(HOSTILE[1], HOSTILE, HOSTILE, HOSTILE, (chart,), "", ((HOSTILE[2], table),), HOSTILE)
    tiles = (Tile(HOSTILE[0], HOSTILE[2], HOSTILE[3]),)
    facts = {one: one for one in HOSTILE}
    return page_html(Page(HOSTILE[4], HOSTILE[3], HOSTILE[2], False, tiles, (section,), facts, True))


def diff_page():
    from zoolens.findings.graph.diff.diff_page import html
    from zoolens.findings.graph.diff.report import diff
    from zoolens.findings.graph.ir.builder import GraphBuilder

    def graph(name, width):
        builder = GraphBuilder(name)
        image = builder.add("input", (), (1, 3, 8, 8), source=HOSTILE[2], axes="NCHW")
        layer = builder.add("unknown", [image], (1, width, 8, 8), source=" ".join(HOSTILE), kind=HOSTILE[0])
        return builder.finish([layer])

    return html(diff(graph(" ".join(HOSTILE[:5]), 4), graph(" ".join(HOSTILE[4:]), 8)))


def test_a_script_that_runs_would_be_seen(browser, tmp_path):
    page = f"<!doctype html><html><body>{HOSTILE[2]}</body></html>"
    assert MARK in shown(browser, tmp_path, page)


def test_our_own_scripts_run_and_draw(browser, tmp_path):
    """Under the same policy that stops scripts of others."""
    assert 'role="graphics-document"' in shown(browser, tmp_path, report_page())
    page = shown(browser, tmp_path, audit_page())
    assert page.count('role="graphics-document"') == 5
    assert 'aria-sort="descending"' in page


@pytest.mark.parametrize("make", [audit_page, report_page, diff_page])
def test_no_script_of_a_stranger_runs(browser, tmp_path, make):
    assert MARK not in shown(browser, tmp_path, make())


HERE = "/home/someone/private/net.onnx"


def shared_pages():
    """Every page that a user may pass on, made of models, data and notes that lie somewhere on this machine."""
    from zoolens.base.present.pages import Page, Section, page_html
    from zoolens.findings.audit.report import test_report
    from zoolens.findings.audit.report.audit_page import html as audit_html
    from zoolens.findings.graph.diff.diff_page import html as diff_html
    from zoolens.findings.graph.diff.report import diff
    from zoolens.findings.graph.ir.builder import GraphBuilder

    audit = test_report.audit()
    [row] = audit.architectures
    networks = tuple(replace(one, error=f"{HERE} cannot be read", name=HERE) for one in row.networks)
    yield audit_html(replace(audit, notes=(HERE,), architectures=(replace(row, networks=networks),)))

    builder = GraphBuilder(HERE)
    image = builder.add("input", (), (1, 3, 8, 8), source=HERE, axes="NCHW")
    graph = builder.finish([builder.add("unknown", [image], (1, 4, 8, 8), source=HERE, kind="x")])
    other = builder.finish([image])
    yield diff_html(diff(graph, other, names=(HERE, HERE + ".b")))

    yield page_html(Page(HERE, HERE, HERE, sections=(Section(HERE, (HERE,), (HERE,), (HERE,)),), facts={"data": HERE}))


def test_a_page_that_is_passed_on_tells_no_folder_and_no_name_of_this_machine(tmp_path):
    import platform

    from zoolens.training.crosstrain.study.report import write_report
    from zoolens.training.crosstrain.study.report.conftest import made_study

    study = made_study(25, (HERE, "jax"), name=HERE)
    study = replace(study, details={"data": {"location": HERE, "note": f"read from {HERE}"}})
    report = write_report(study, tmp_path / "report")[0].read_text(encoding="utf-8")
    for page in (*shared_pages(), report):
        own = page.partition("<script>")[0]  # what follows are our own scripts
        assert "net.onnx" in own
        assert "/home/" not in own
        assert "someone" not in own
        assert str(tmp_path) not in own
        assert platform.node() not in own


def test_charts_of_one_name_are_each_drawn(browser, tmp_path):
    """A page of traces has a timeline for each level: the second was once drawn as the first."""
    from zoolens.base.present.charts import Chart, values
    from zoolens.base.present.pages import Page, Section, page_html

    def chart(title):
        return Chart("timeline", title, {"title": title, "data": values([{"x": 1}]), "mark": "point"})

    sections = tuple(Section(title, charts=(chart(title),)) for title in ("pipeline observed", "layer observed"))
    drawn = shown(browser, tmp_path, page_html(Page("Trace", sections=sections)))

    assert ">pipeline observed</text>" in drawn
    assert ">layer observed</text>" in drawn
