"""`zoolens audit`: are models what they claim to be, and what their namesakes are?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.errors import GateFailed
from zoolens.base.present.terminal import echo_json
from zoolens.base.verdicts import NotKnown, Outcome, judged, refuse_unknown
from zoolens.faces.cli.options import OUT_FILE, OUT_FOLDER, json_option, on_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.audit.gguf_claims import AuditedFile


@click.command()
@click.argument("files", metavar="[FILE_OR_FOLDER]...", nargs=-1)
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

    Of each GGUF FILE, manifest of one, or FOLDER of them: what it is, and whether it is what it claims to be
    (architecture, number of parameters, types).
    """
    if chosen["files"]:
        _files(chosen)
        return
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


# --- files

_OF_ZOOS: Final = ("zoos", "archs", "page", "folder", "ignore", "trusted", "all_findings")
_VERDICTS: Final = {Outcome.SAME: "true", Outcome.DIFFERENT: "false", Outcome.NOT_KNOWN: "not known"}


def _files(chosen: dict[str, Any]) -> None:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.audit.gguf_claims import audit_files

    if any(chosen[option] for option in _OF_ZOOS):
        raise click.UsageError("With files, only --json, --fail-on, --fresh and --store can be used.")
    with Bars() as bars:
        found = audit_files(chosen["files"], store=chosen["store"], fresh=chosen["fresh"], progress=bars)
    if chosen["as_json"]:
        echo_json({"files": [each.as_data() for each in found]})
    else:
        _show_files(found)
    _gate_files(found, chosen["fail_on"])


def _show_files(found: Sequence[AuditedFile]) -> None:
    from zoolens.base.present.tables import Column
    from zoolens.base.present.terminal import make_console, plain, print_table

    console = make_console()
    columns = (Column("claim"), Column("by"), Column("verdict"), Column("because"))
    for each in found:
        console.print(f"[bold]{plain(each.ref)}[/]: {plain(each.summary or each.error)}")
        rows = [(f"{one.what} {one.claimed}", one.by, _VERDICTS[one.outcome], one.fact) for one in each.claims]
        if rows:
            print_table(columns, rows)


def _gate_files(found: Sequence[AuditedFile], threshold: str | None) -> None:
    outcomes = {each.outcome for each in found}
    if threshold == "unknown" and Outcome.NOT_KNOWN in outcomes:
        raise NotKnown("Not of every file it is known whether it is what it claims to be.")
    if threshold not in (None, "unknown") and Outcome.DIFFERENT in outcomes:
        first = next(each.ref for each in found if each.outcome is Outcome.DIFFERENT)
        raise GateFailed(f"Gate failed: {first} is not what it claims to be.")
