"""`zoolens ui`: the explorer in a browser, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoolens.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.ui.settings import Settings


@click.group(invoke_without_command=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8800, show_default=True, help="0 takes a free one.")
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
    help="Folder whose models and data may be read. Repeatable.",
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
    from zoolens.serving.options import read_token
    from zoolens.serving.server import run
    from zoolens.ui.settings import TOKEN_VARIABLE, Settings

    token = read_token(token_file, TOKEN_VARIABLE)
    settings = Settings(store=store, host=host, port=port, token=token, allowed=allowed, zoos=zoos, server=server)
    run(_serve(settings, browser=not no_browser))
    click.echo("Stopped.")


async def _serve(settings: Settings, *, browser: bool) -> None:
    import asyncio
    import gc
    import webbrowser

    from zoolens.serving.server import stop_signal
    from zoolens.ui.server import running

    async with running(settings) as url:
        stopped = asyncio.ensure_future(stop_signal())
        await asyncio.sleep(0)  # from here on a signal ends the server in good order
        gc.freeze()  # short commands hardly ever look for cycles (see `main`); a server must
        gc.set_threshold(10_000)
        click.echo(f"The explorer is at {url}{'?token=TOKEN, with your token' if settings.token else ''}")
        click.echo("Stop with Ctrl-C.", err=True)
        if browser:
            await asyncio.to_thread(webbrowser.open, f"{url}?token={settings.token}" if settings.token else url)
        await stopped
