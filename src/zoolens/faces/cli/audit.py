"""`zoolens audit`: are models what they claim to be, and what their namesakes are?"""

from __future__ import annotations

from typing import Any

import click

from zoolens.base.errors import GateFailed
from zoolens.base.present.terminal import echo_json
from zoolens.base.verdicts import judged, refuse_unknown
from zoolens.faces.cli.options import OUT_FILE, OUT_FOLDER, json_option, on_option, wide_option
from zoolens.faces.cli.stores import store_option


@click.command()
@click.option("--zoo", "zoos", multiple=True, help="Only this zoo. Repeatable.")
@click.option("--arch", "archs", multiple=True, help="Only this architecture, such as resnet50 or 'vgg*'. Repeatable.")
@click.option("--html", "page", type=OUT_FILE, help="Write one HTML page.")
@click.option("--csv", "folder", type=OUT_FOLDER, help="Write CSV files to a folder.")
@json_option
@click.option(
    "--fail-on",
    type=click.Choice(["high", "medium", "low", "unknown"]),
    help="Exit with 3 if there is a finding of this severity or above; unknown: with 4 if not every network was "
    "understood.",
)
@click.option("--ignore", multiple=True, help="Id of a finding that is known and accepted. Repeatable.")
@click.option(
    "--trust",
    "trusted",
    multiple=True,
    help="Name of a dataset in the store that is a random sample of what claims are about. Repeatable.",
)
@click.option("--all", "all_findings", is_flag=True, help="List every finding, instead of one for each cause.")
@click.option("--fresh", is_flag=True, help="Read every structure again.")
@on_option
@store_option("keeps")
@wide_option
def command(**chosen: Any) -> None:
    """Audit the models of all zoos: networks that share a name, what zoos claim, what papers describe.

    Structures are read from the installed packages, without weights, and kept in the store: a second audit reads only
    what changed.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.present.terminal import make_console
    from zoolens.findings.audit.auditing import audit_models
    from zoolens.findings.audit.report.audit_page import html
    from zoolens.findings.audit.report.audit_tables import write_csv
    from zoolens.findings.audit.report.terminal import show

    with Bars() as bars:
        audit = audit_models(
            zoos=chosen["zoos"],
            archs=chosen["archs"],
            store=chosen["store"],
            trusted=chosen["trusted"],
            fresh=chosen["fresh"],
            progress=bars,
        ).without(chosen["ignore"])
    if chosen["as_json"]:
        echo_json(audit.as_data())
    else:
        show(audit, make_console(), all_findings=chosen["all_findings"])
    if chosen["page"]:
        chosen["page"].write_text(html(audit), encoding="utf-8")
        click.echo(f"Wrote {chosen['page']}.", err=True)
    if chosen["folder"]:
        written = write_csv(audit, chosen["folder"])
        click.echo(f"Wrote {len(written)} files to {chosen['folder']}.", err=True)
    _gate(audit, chosen["fail_on"])


def _gate(audit: Any, threshold: str | None) -> None:
    from zoolens.findings.audit.audit_findings import Severity

    if threshold is None:
        return
    if threshold == "unknown":
        refuse_unknown(judged(audit.coverage, different=False), "the networks")
        return
    grave = [finding for finding in audit.findings if finding.severity >= Severity[threshold.upper()]]
    if grave:
        raise GateFailed(
            f"Gate failed: {len(grave)} finding{'s' if len(grave) > 1 else ''} of severity {threshold} or above, "
            f"the first of them {grave[0].id}."
        )
