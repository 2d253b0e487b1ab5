"""What pages show against what the commands print with --json about the same store: figure by figure.

A check takes what a command printed and says which texts must stand in which row of which page, or on the page as a
whole. The words of a figure are made here from the printed numbers, not taken from the explorer.
"""

import json
from urllib.parse import quote, unquote

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home
from click.testing import CliRunner

from zoolens.base.present.figures import figure, percent, with_interval
from zoolens.base.present.metric_words import metric_title, scope_title
from zoolens.base.store.records import Observation
from zoolens.faces.cli.main import cli
from zoolens.findings.queries.answers.wording import amount, at_least

QUERY = "CORR lenet-torch WITHIN 50% ON size <= 100% SHOW accuracy, latency, size"


def printed(*arguments):
    """What a command prints as JSON."""
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def measured(facts, unknown="–"):
    return unknown if facts is None or facts["value"] is None else with_interval(Observation(**facts))


def runs_are_listed(names):
    for run in printed("runs"):
        yield (
            "#/runs",
            run["id"][:8],
            [run["model"], run["runtime"], measured(run["top1"]), measured(run["latency_p50"])],
        )


def figures_of_a_run(names):
    for run in printed("runs"):
        shown = printed("runs", "show", run["id"])
        for fact in [one for one in shown["observations"] if one["metric"] != "recall"]:
            yield (
                f"#/run/{run['id']}?tab=figures",
                metric_title(fact["metric"]),
                [scope_title(fact["scope"]), measured(fact, "not available"), fact["provenance"]],
            )


def two_runs(names):
    """Runs on the same inputs, of which at least one answer differs. Not every run of a store has answers."""
    if "a" in names:
        return names["a"], names["b"]
    by_data = {}
    for run in printed("runs"):
        by_data.setdefault(run["dataset"], []).append(run["id"])
    listed = max(by_data.values(), key=len)
    return listed[0], listed[-1]


def comparisons(names):
    a, b = two_runs(names)
    report = printed("compare", a, b)
    answers, page = report["answers"], f"#/compare?a={a}&b={b}"
    low, high = (f"{100 * end:+.2f}".replace("-", "−") for end in answers["difference"])
    apart = [f"{100 * (1 - answers['agreement']):.2f} % of {answers['n']} inputs", f"[{low}, {high}]"]
    said = [f"Both give the same answers to all {answers['n']} inputs."] if answers["agreement"] == 1 else apart
    right = [f"only {side[-1].upper()} right {answers[side]}" for side in ("only_a", "only_b")]
    yield page, "", [*said, *right]
    for name in ("a", "b"):
        yield page, "", [report[name]["run"][:8], report[name]["model"]]


def answers_of_a_query(names):
    answer = printed("query", QUERY)
    assert answer["matches"]
    page = f"#/choose?q={quote(QUERY)}"
    fits = f"{answer['fitting']} model{' fits' if answer['fitting'] == 1 else 's fit'}."
    yield page, "", [f"{answer['matches'][0]['model'].partition('@')[0]} fits best; {fits}"]
    yield page, "", [f"on {answer['inputs']} inputs of {answer['dataset']}"]
    for match in answer["matches"]:
        equal = f"{amount(match['equivalence'], 'fraction')} [{at_least(match['equivalence_lower'])}]"
        accuracy, latency = (match["figures"][name] for name in ("accuracy", "latency"))
        yield (
            page,
            match["model"],
            [
                match["runtime"],
                equal,
                figure(accuracy["value"], "fraction"),
                figure(latency["value"], "s"),
                figure(match["figures"]["size"]["value"], "B"),
            ],
        )


def layers_of_a_trace(names):
    for name in ("trace", "other"):
        (trace,) = printed("trace", "show", names[name])
        page = f"#/traces/{names[name]}?tab=layers"
        yield page, "", [f"{figure(trace['predict']['seconds'], 's')} one prediction, batch {trace['batch']}"]
        total = sum(layer["seconds"] for layer in trace["layers"])
        for layer in trace["layers"]:
            ends = {"low": layer["low"], "high": layer["high"], "details": {"interval": "order statistics"}}
            told = with_interval(Observation("t", layer["seconds"], unit="s", n=layer["n"], **ends))
            yield page, layer["name"], [told, f"{100 * layer['seconds'] / total:.1f} %"]


def trials_of_studies(names):
    for study in printed("crosstrain", "list"):
        yield (
            "#/studies",
            study["study"],
            [
                f"{study['apart']} of {study['with_delta']}",
                percent(study["median_delta"]),
                percent(study["largest_delta"]),
            ],
        )
        for trial in printed("crosstrain", "show", study["study"])["trials"]:
            accuracies = [
                f"{side['framework']} {'failed' if side['accuracy'] is None else percent(side['accuracy'])}"
                for side in trial["sides"]
            ]
            delta = "–" if trial["delta"] is None else percent(trial["delta"])
            yield f"#/studies/{quote(study['study'], safe='')}?tab=trials", trial["id"], [delta, *accuracies]


def sessions_of_services(names):
    for session in printed("events"):
        page, kept = f"#/services/{session['session']}", session["objective"]
        answered = sum(one["requests"] for one in session["answered"])
        switches = [event for event in session["events"] if event["kind"] == "switch"]
        yield page, "", [f"{answered} answered requests", f"{len(switches)} switches"]
        yield (
            page,
            "",
            [
                f"{100 * kept['within'] / kept['requests']:.2f} % of {kept['requests']:,} requests were answered "
                f"within {figure(kept['bound'], 's')}"
            ],
        )
        for switch in switches:
            yield page, switch["reason"], [f"{switch['previous']} → {switch['model']}", str(switch["waiting"])]


def findings_of_an_audit(names):
    """What a job of the explorer keeps is what the command printed."""
    audit, page = kept(names["audit"]), f"#/audit/{names['audit']}"
    count = len(audit["findings"])
    yield page, "", [f"{count} of {count} findings", audit["facts"]["summary"]]
    for severity in ("high", "medium", "low", "info"):
        number = sum(finding["severity"] == severity for finding in audit["findings"])
        yield page, "", [f"{number} {severity}"]
    for finding in audit["findings"]:
        yield page, "", [finding["title"], *finding["evidence"], finding["fix"], *finding["models"]]


def layers_where_two_stacks_part(names):
    found, page = kept(names["diverge"]), f"#/diverge/{names['diverge']}"
    answers = found["answers"]
    yield page, "", [found["verdict"], f"{answers['flips']} of {answers['inputs']} answers differ"]
    yield page, "", [found["first"]["layer"], *found["sentences"]]
    for layer in found["layers"]:
        yield page, layer["layer"], [layer["verdict"], f"{layer['error']:.1e}", f"{layer['floor']:.1e}"]
    for flip in answers["flipped"]:
        yield page, flip["input"], [str(flip["label"]), str(flip["a"]), str(flip["b"]), f"{flip['error']:.2g}"]


def kept(job):
    from zoolens.faces.ui.jobs.folder import job_folder

    return json.loads(job_folder(job).output_file.read_bytes())


MEASURED = (runs_are_listed, figures_of_a_run, comparisons, answers_of_a_query)  # over runs of real models
MADE = (
    runs_are_listed, figures_of_a_run, comparisons, layers_of_a_trace, trials_of_studies, sessions_of_services,
    findings_of_an_audit, layers_where_two_stacks_part,
)  # fmt: skip


def assert_shown(window, expectations):
    """Open each page once, and look for what is expected of it."""
    pages = {}
    for view, anchor, texts in expectations:
        pages.setdefault(view, []).append((anchor, texts))
    assert pages
    for view, expected in pages.items():
        page = window.visit(view)
        whole = " ".join(window.text().split())
        rows = [" ".join(row.split()) for row in page.locator("main tbody tr").all_inner_texts()]
        for anchor, texts in expected:
            fitting = [row for row in rows if anchor in row] if anchor else [whole]
            assert any(all(text in row for text in texts) for row in fitting), (view, anchor, texts, fitting[:3])


@pytest.mark.parametrize("check", MEASURED, ids=lambda check: check.__name__)
def test_pages_show_what_the_commands_print_of_real_models(check, visitor, explored_home):
    with at_home(explored_home):
        assert_shown(visitor, list(check({})))


@pytest.mark.slow  # it needs a home with something on every page
@pytest.mark.parametrize("check", MADE, ids=lambda check: check.__name__)
def test_pages_show_what_the_commands_print_of_everything_else(check, chromium, whole):
    url, names = whole
    window = Visitor(chromium, url)
    assert_shown(window, list(check({name: unquote(value) for name, value in names.items()})))
    window.check()
    window.close()
