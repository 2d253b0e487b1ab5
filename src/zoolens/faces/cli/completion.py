"""`zoolens completion SHELL`: the script that lets a shell complete commands, options and names of models."""

from __future__ import annotations

import os
from typing import Final

import click
from click.shell_completion import BashComplete, get_completion_class, split_arg_string

COMPLETION_VARIABLE: Final = "_ZOOLENS_COMPLETE"  # in which a shell asks for completions
_INSTALL: Final = {
    "bash": 'add to ~/.bashrc: eval "$(zoolens completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(zoolens completion zsh)"',
    "fish": "run once: zoolens completion fish > ~/.config/fish/completions/zoolens.fish",
}

# bash takes a colon for the end of a word, so that zoo:name comes as three words. Here the line is sent as it is typed,
# and of each answer bash gets what follows the last colon that is typed already.
_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' line="${COMP_LINE:0:$COMP_POINT}" response typed ahead
    typed="${line##*[[:space:]]}"
    ahead="${typed%%"${typed##*:}"}"
    [[ "$COMP_WORDBREAKS" == *:* ]] || ahead=""
    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case "$type" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("${value#"$ahead"}")
                [[ "$value" == *: ]] && compopt -o nospace
                ;;
        esac
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class WholeLineBash(BashComplete):
    """Completion of bash from the line as it is typed, up to the cursor."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """click asks bash itself for its version, which takes longer than all else; `nosort` needs bash 4.4."""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        if words and not line[-1:].isspace():
            return words[:-1], words[-1]
        return words, ""


@click.command()
@click.argument("shell", type=click.Choice(sorted(_INSTALL)))
def command(shell: str) -> None:
    """Print the script that completes commands, options, names of models and files in SHELL.

    bash and zsh evaluate it when they start; fish reads it from a file. Names of models come from your store, the demo
    and the catalogues that `zoolens models` keeps; no framework is imported for them.
    """
    click.echo(f"# To have it in every shell, {_INSTALL[shell]}")
    made = WholeLineBash if shell == "bash" else get_completion_class(shell)
    assert made is not None
    click.echo(
        made(click.get_current_context().find_root().command, {}, "zoolens", COMPLETION_VARIABLE).source(), nl=False
    )
