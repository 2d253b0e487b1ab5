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
    from zoolens.audit.report import test_report
    from zoolens.audit.report.html import html

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


def crosstrain_page():
    from zoolens.crosstrain.report.page import Page, Section, Tile, html
    from zoolens.crosstrain.report.tables import Column, Table

    table = Table("t", (Column(HOSTILE[0]),), tuple((one,) for one in HOSTILE))
    section = Section(HOSTILE[1], HOSTILE, HOSTILE, HOSTILE, tables=((HOSTILE[2], table),), files=HOSTILE)
    return html(
        Page(HOSTILE[4], HOSTILE[3], (Tile(HOSTILE[0], HOSTILE[2]),), {one: one for one in HOSTILE}, (section,))
    )


def diff_page():
    from zoolens.graph.building import GraphBuilder
    from zoolens.graph.diff.page import html
    from zoolens.graph.diff.report import diff

    def graph(name, width):
        builder = GraphBuilder(name)
        image = builder.add("input", (), (1, 3, 8, 8), source=HOSTILE[2], axes="NCHW")
        layer = builder.add("unknown", [image], (1, width, 8, 8), source=" ".join(HOSTILE), kind=HOSTILE[0])
        return builder.finish([layer])

    return html(diff(graph(" ".join(HOSTILE[:5]), 4), graph(" ".join(HOSTILE[4:]), 8)))


def test_a_script_that_runs_would_be_seen(browser, tmp_path):
    page = f"<!doctype html><html><body>{HOSTILE[2]}</body></html>"
    assert MARK in shown(browser, tmp_path, page)


@pytest.mark.parametrize("make", [audit_page, crosstrain_page, diff_page])
def test_no_script_of_a_stranger_runs(browser, tmp_path, make):
    assert MARK not in shown(browser, tmp_path, make())
