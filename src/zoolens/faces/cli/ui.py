"""`zoolens ui`: the explorer in a browser, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.faces.cli.options import OUT_FOLDER, json_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.faces.ui.settings import Settings


@click.group(invoke_without_command=True)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8800, show_default=True, help="Port; 0 takes a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on. Others need a token.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token that a browser must bring. Or set ZOOLENS_UI_TOKEN.",
)
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder whose models and datasets may be read. Repeatable.",
)
@click.option("--zoo", "zoos", multiple=True, help="List only this zoo. Repeatable.")
@click.option("--server", metavar="URL", help="A running `zoolens serve`, such as http://127.0.0.1:8000, to watch.")
@click.option("--no-browser", is_flag=True, help="Say where the explorer is, and open no browser.")
@store_option("reads")
@click.pass_context
def command(
    ctx: click.Context,
    port: int,
    host: str,
    token_file: Path | None,
    allowed: tuple[Path, ...],
    zoos: tuple[str, ...],
    server: str | None,
    no_browser: bool,
    store: str | None,
) -> None:
    """Open the explorer: models, runs and everything else that the store has, in a browser.

    It answers on this machine only, unless --host says otherwise. Everything that it shows is also a JSON API, which
    the page "API" lists.
    """
    if ctx.invoked_subcommand is not None:
        return
    from zoolens.faces.serving.options import read_token
    from zoolens.faces.serving.server import run
    from zoolens.faces.ui.settings import TOKEN_VARIABLE, Settings

    token = read_token(token_file, TOKEN_VARIABLE)
    settings = Settings(store=store, host=host, port=port, token=token, allowed=allowed, zoos=zoos, server=server)
    try:
        run(_serve(settings, browser=not no_browser))
    except KeyboardInterrupt as interrupt:
        raise type(interrupt)("The explorer ended at once.") from None
    click.echo("Stopped.")


async def _serve(settings: Settings, *, browser: bool) -> None:
    import asyncio
    import gc
    import webbrowser

    from zoolens.faces.serving.server import stop_signal
    from zoolens.faces.ui.server import running

    async with running(settings) as url:
        stopped = asyncio.ensure_future(stop_signal())
        # From here on a signal ends the server in good order.
        await asyncio.sleep(0)
        # Short commands hardly ever look for cycles (see `main`); a server must.
        gc.freeze()
        gc.set_threshold(10_000)
        click.echo(f"The explorer is at {url}{'?token=TOKEN, with your token' if settings.token else ''}")
        click.echo("Stop with Ctrl-C.", err=True)
        if browser:
            await asyncio.to_thread(webbrowser.open, f"{url}?token={settings.token}" if settings.token else url)
        await stopped


@command.command()
@click.argument("folder", type=OUT_FOLDER)
@click.option(
    "--runs", multiple=True, metavar="RUN", help="Id, its beginning, last, or a model such as 'demo:*'. Repeatable."
)
@click.option("--data", metavar="NAME", help="Of models, only their runs on this dataset; * and ? are allowed.")
@click.option("--runtime", metavar="NAME", help="Of models, only their runs in this runtime; * and ? are allowed.")
@click.option("--compare", nargs=2, multiple=True, metavar="A B", help="Two runs to be compared. Repeatable.")
@click.option(
    "--trace", "traces", multiple=True, metavar="TRACE", help="A trace, named as for `zoolens trace show`. Repeatable."
)
@click.option("--study", "studies", multiple=True, metavar="NAME", help="A study of crosstrain. Repeatable.")
@click.option(
    "--audit", "audits", multiple=True, metavar="JOB", help="An audit of the explorer, or latest. Repeatable."
)
@click.option(
    "--diverge",
    "divergences",
    multiple=True,
    metavar="JOB",
    help="A comparison of two environments of the explorer, or latest. Repeatable.",
)
@click.option(
    "--report", "reports", multiple=True, metavar="ID", help="A report that was composed in the explorer. Repeatable."
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    metavar="QUERY",
    help="A query, answered over the runs of --runs; without them, over the runs that it lists. Repeatable.",
)
@click.option("--with-inputs", is_flag=True, help="Include the pictures of inputs.")
@json_option
@store_option("reads")
def export(folder: Path, as_json: bool, **chosen: Any) -> None:
    """Write a copy of the explorer with just what is named here to a new FOLDER.

    It needs no server: open its index.html from a disk, or put it on any web server. Folders, host names and user names
    are removed, and nothing is in it about what was not named.
    """
    import json
    from dataclasses import asdict

    from zoolens.base.present.bars import Bars
    from zoolens.base.present.figures import figure
    from zoolens.faces.ui.bundle.bundle_export import export_bundle

    try:
        with Bars() as bars:
            bundle = export_bundle(folder, **chosen, progress=bars)
    except KeyboardInterrupt as interrupt:
        raise type(interrupt)("A folder appears whole or not at all, so the same command starts over.") from None
    if as_json:
        click.echo(json.dumps({**asdict(bundle), "folder": str(bundle.folder)}, indent=2))
        return
    counts = (
        (bundle.runs, "run", "runs"),
        (bundle.traces, "trace", "traces"),
        (bundle.audits, "audit", "audits"),
        (bundle.divergences, "comparison of two environments", "comparisons of two environments"),
        (bundle.studies, "study", "studies"),
        (bundle.reports, "report", "reports"),
        (bundle.queries, "answered query", "answered queries"),
    )
    words = [f"{count:,} {singular if count == 1 else several}" for count, singular, several in counts if count]
    click.echo(f"Wrote {', '.join(words)} to {folder}: {bundle.files:,} files, {figure(bundle.bytes, 'B')}.")
    for note in bundle.notes:
        click.echo(note)
    click.echo(f"Open {folder / 'index.html'} in a browser, or send the folder to somebody.")
