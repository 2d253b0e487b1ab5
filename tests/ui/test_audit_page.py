"""What an audit found, as a person reads it."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.findings.audit.audit_findings import Finding, Severity, ranked
from zoolens.findings.audit.report.test_report import EVIL, audit

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow


def made_audit():
    """The audit of a finding whose title is an attack, and of forty others."""
    made = audit()
    others = [
        Finding(
            "claims/parameters", Severity.LOW, f"net{number}", (f"timm:net{number}",),
            f"The claim of net{number} is off", (f"it says {number} and has {number + 1}",), "Correct the claim.",
        )
        for number in range(39)
    ]  # fmt: skip
    return replace(made, findings=ranked([*made.findings, *others, many()]))


def many():
    """A finding with more evidence and more models than come with it at once."""
    return Finding(
        "claims/parameters", Severity.LOW, "many", tuple(f"timm:many{number}" for number in range(130)),
        "The claims of many are off", tuple(f"line {number} of many" for number in range(312)), "Correct them.",
    )  # fmt: skip


@pytest.fixture(scope="module")
def audited(tmp_path_factory, explorer):
    """The address of an explorer with one audit, the audit, and the id of its job. The explorer of all tests comes
    before, because jobs are kept in the home that was entered last."""
    from zoolens import open_store
    from zoolens.faces.ui.jobs.folder import make_job_folder
    from zoolens.faces.ui.settings import Settings

    with at_home(tmp_path_factory.mktemp("audited")):
        open_store().close()
        made = made_audit()
        with serving(Settings()) as url:
            job = make_job_folder("audit", "Audit all architectures of all zoos", {}, ["audit", "--json"])
            job.output_file.write_text(json.dumps(made.as_data()), encoding="utf-8")
            job.write_end(0)
            yield url, made, job.id


@pytest.fixture
def reader(chromium, audited):
    window = Visitor(chromium, audited[0])
    yield window
    window.check()
    window.close()


def test_findings_are_read_by_severity_with_their_evidence(reader, audited):
    _, made, job = audited
    page = reader.visit("#/audit", expect="Audit all architectures of all zoos")
    page.get_by_role("link", name="Findings of Audit all architectures").click()
    expect(page.get_by_text(f"{len(made.findings)} of {len(made.findings)} findings")).to_be_visible()
    words = reader.text()
    assert made.facts.get("summary", "") in words
    for severity in Severity:
        assert f"{made.count(severity)}\n{severity.label}" in words
    shown = page.get_by_role("article")
    expect(shown).to_have_count(20)
    gravest = made.findings[0]
    first = shown.first.inner_text()
    for text in (gravest.title, gravest.severity.label, gravest.rule, *gravest.evidence, gravest.fix, *gravest.models):
        assert text in first
    assert EVIL in first  # as text
    assert f"zoolens diff {gravest.models[0]} {gravest.models[-1]}" in first
    page.get_by_role("group", name="Severity").get_by_label("low").check()
    expect(page.get_by_text(f"{made.count(Severity.LOW)} of {len(made.findings)} findings")).to_be_visible()
    page.get_by_label("Search findings").fill("net7 claim")
    expect(shown).to_have_count(1)
    page.wait_for_url(f"**audit/{job}?severity=low*q=net7*")


def test_what_does_not_come_at_once_is_counted_and_fetched(reader, audited):
    page = reader.visit(f"#/audit/{audited[2]}?architecture=many", expect="1 of 41 findings")
    finding = page.get_by_role("article")
    expect(finding).to_contain_text("50 of 312 lines of evidence are shown.")
    expect(finding).to_contain_text("50 of 130 models are shown.")
    assert "line 50 of many" not in finding.inner_text()
    for shown in (150, 250):
        finding.get_by_role("button", name="Show 100 more").click()
        expect(finding).to_contain_text(f"{shown} of 312 lines of evidence")
    finding.get_by_role("button", name="Show 62 more").click()
    expect(finding).not_to_contain_text("of 312 lines")
    assert [line for line in many().evidence if line not in finding.inner_text()] == []
    finding.get_by_role("button", name="Show 80 more").click()
    expect(finding.get_by_role("link", name="timm:many129")).to_be_visible()


def test_a_zoo_that_a_job_may_not_use_is_refused_beside_the_form(chromium, audited):
    window = Visitor(chromium, audited[0])
    page = window.visit("#/audit", expect="Audit all architectures")
    page.get_by_role("textbox", name="Zoos").fill("/etc/passwd")
    page.get_by_role("button", name="Audit", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("/etc/passwd")
    window.close()


def test_everybody_can_read_it(look_everywhere, audited):
    url, _, job = audited
    look_everywhere(f"#/audit/{job}", expect="41 of 41 findings", url=url)
    look_everywhere("#/audit", expect="Audit all architectures", url=url)
