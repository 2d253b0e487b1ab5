"""`zoolens`: finds the command, runs it, and turns what goes wrong into one sentence and an exit code.

Commands are imported when they are called: `zoolens --help` imports none of them.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from zoolens.base.errors import ZoolensError
from zoolens.base.present.streams import guard_streams
from zoolens.base.version import __version__
from zoolens.faces.cli.completion import COMPLETION_VARIABLE, add_completion_classes

# section of --help -> command -> one line of help; the module of a command is zoolens.faces.cli.<name>
SECTIONS: Final[dict[str, dict[str, str]]] = {
    "See": {
        "ui": "See what the store and the zoos have, in a browser.",
    },
    "Models": {
        "models": "List the models of every zoo on this machine.",
        "show": "Show everything known about one model.",
        "pull": "Fetch a model's files.",
        "manifest": "Write, import, check and describe manifests.",
        "identify": "Name the architecture of a file by its structure.",
    },
    "Measure": {
        "init": "Say which model of a folder to ship: start here.",
        "demo": "Evaluate the built-in models on the built-in dataset.",
        "eval": "Measure models on a dataset, in runtimes, on this machine.",
        "reproduce": "Run a stored run again and say which figures hold.",
        "trace": "Say where the time of a model goes, down to the kernel.",
        "cost": "Count what a model costs, beside what public counters say.",
        "doctor": "Find out whether a model's declared preprocessing is right.",
        "audit": "Are models what they claim to be, and what their namesakes are?",
    },
    "Compare": {
        "compare": "Compare two runs input by input; can gate a CI job.",
        "equiv": "How interchangeable models are, with a guarantee.",
        "diverge": "Say at which layer two environments diverge, and why.",
        "verify-endpoint": "Does an endpoint have the language model that it claims?",
        "disagree": "Show inputs on which a model and its equivalents disagree.",
        "diff": "Say how two networks differ, in words or as a picture.",
        "segments": "Parts that two networks share; splice one into the other.",
    },
    "Find": {
        "query": "Find a model that answers like another within a budget.",
        "index": "Keep the index that queries search.",
    },
    "Serve": {
        "serve": "Serve models to clients of Triton and KServe (REST and gRPC).",
        "events": "Show when and why a service switched models, and who answered.",
        "load": "Measure latency and throughput of a server under load.",
    },
    "Train": {
        "crosstrain": "Train one recipe in several frameworks, and say why they differ.",
        "port": "Is your port of a network the same? Move weights between the two.",
    },
    "Store": {
        "runs": "List and show what was measured.",
        "export": "Write observations as CSV, Parquet or JSON.",
        "store": "Check that nothing in the store is damaged.",
    },
    "Fleet": {
        "agent": "Offer this machine to whoever shares the store.",
        "agents": "List the machines that are offered, and what each does.",
        "fleet": "Jobs on other machines, recurring plans, models × machines.",
    },
    "Set-up": {
        "machine": "Measure this machine's peak performance.",
        "runtimes": "List the runtimes, and what each can and cannot do.",
        "env": "Show, export and remove runtime environments.",
        "completion": "Let your shell complete commands and names of models.",
    },
}
COMMANDS: Final[dict[str, str]] = {name: line for section in SECTIONS.values() for name, line in section.items()}

BROKEN_PIPE = 141
INTERRUPTED = 130
TERMINATED = 143
UNEXPECTED = 70


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from zoolens.faces.cli.completed_options import with_completed_options
        from zoolens.faces.cli.examples import with_examples

        command: click.Command = importlib.import_module(f"zoolens.faces.cli.{cmd_name.replace('-', '_')}").command
        return with_completed_options(with_examples(command, cmd_name))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if close:
                raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from error
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """click would import every command to see whether it is hidden."""
        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Of names with a hyphen only their own section makes room, so that no line of the others is broken.
        width = max(len(name) for name in COMMANDS if "-" not in name)
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="zoolens")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
@click.option(
    "--yes",
    is_flag=True,
    help="Agree to what files and stores ask for: packages to install, functions of a recipe to run.",
)
@click.pass_context
def cli(ctx: click.Context, debug: bool, yes: bool) -> None:
    """The truth about neural-network models: how accurate, how fast and how big, in each runtime, on your data.

    Without a command it says where you are and what comes next. Models are named zoo:name, or by the path of a file.
    """
    if ctx.invoked_subcommand is None:
        from zoolens.faces.cli.whereabouts import print_whereabouts

        print_whereabouts()
        return
    from zoolens.base.safety.consent import asking
    from zoolens.faces.cli.asking import asker

    ctx.ensure_object(dict)["debug"] = debug
    ctx.with_resource(asking(asker(yes)))


_GOING_ON: Final = frozenset({  # commands that file what they finish, piece by piece, and look for it first
    "init", "eval", "doctor", "fleet run", "pull", "trace run", "index build", "index add", "port train",
    "crosstrain run", "crosstrain train", "crosstrain explain", "crosstrain import", "crosstrain submit",
})  # fmt: skip


class _Terminated(KeyboardInterrupt):
    """SIGTERM: ended in the same good order as Ctrl-C."""


def _terminated(*_: object) -> None:
    raise _Terminated


def _interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The signal that led to an error. click and Python wrap it: one that arrives while a class is made, as during an
    import, becomes a RuntimeError."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__
    return cause


def _goes_on(arguments: Sequence[str]) -> bool:
    words = [argument for argument in arguments if not argument.startswith("-")]
    return bool(words) and (words[0] in _GOING_ON or " ".join(words[:2]) in _GOING_ON)


def _end_interrupted(interrupt: KeyboardInterrupt | None) -> int:
    """Say that a signal ended the command; gives the exit code. What became of its work is said only where that is
    known: of commands that go on, and of those that say it in the exception."""
    kept = "What was finished is kept; the same command goes on from there." if _goes_on(sys.argv[1:]) else ""
    consequence = str(interrupt or "") or kept
    click.echo(f"\nInterrupted. {consequence}".rstrip(" "), err=True)
    return TERMINATED if isinstance(interrupt, _Terminated) else INTERRUPTED


def main() -> None:
    """Entry point: errors become a sentence and an exit code."""
    debug = "--debug" in sys.argv
    guard_streams()
    if COMPLETION_VARIABLE in os.environ:
        add_completion_classes()
    # Nearly all that imports and tables make lives to the end: to search it for cycles at every 700 objects, as Python
    # does, takes 25 ms of a short command.
    gc.set_threshold(200_000)
    # Otherwise Python looks through all objects for cycles at its end: 50 ms for nothing.
    atexit.register(gc.freeze)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = cli.main(standalone_mode=False, complete_var=COMPLETION_VARIABLE)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:
        code = _end_interrupted(_interrupt_behind(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = BROKEN_PIPE
    except ZoolensError as error:
        if debug:
            raise
        click.echo(f"Error: {error}", err=True)
        code = error.exit_code
    except OSError as error:
        if debug:
            raise
        click.echo(f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.", err=True)
        code = 1
    except Exception as error:
        if (interrupt := _interrupt_behind(error)) is not None:
            sys.exit(_end_interrupted(interrupt))
        if debug:
            raise
        click.echo(
            f"Error: zoolens failed unexpectedly ({type(error).__name__}: {error}). What was finished is kept. "
            "Run again with --debug before the command for the traceback, and report it.",
            err=True,
        )
        code = UNEXPECTED
    sys.exit(code if isinstance(code, int) else 0)
