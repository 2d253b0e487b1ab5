"""`zoolens completion SHELL`: the script that lets a shell complete commands, options and names of models."""

from __future__ import annotations

import os
from typing import Final

import click
from click.shell_completion import (
    BashComplete,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

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
    [[ "$COMP_WORDBREAKS" == *=* ]] && typed="${typed#--*=}"
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


# As click's, but that the value of --option=value is completed: click's script puts a value in the place of the whole
# word, and looks for files whose names begin with the option.
_ZSH: Final = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a names described response
    local type key descr
    whence -p %(prog_name)s > /dev/null || return 1
    local -x COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete
    response=("${(@f)$(%(prog_name)s)}")
    [[ "$PREFIX" == --*=* ]] && compset -P '--*='
    for type key descr in ${response}; do
        if [[ "$type" == "plain" ]]; then
            if [[ "$descr" == "_" ]]; then
                names+=("$key")
            else
                described+=("$key":"$descr")
            fi
        elif [[ "$type" == "dir" ]]; then
            _path_files -/
        elif [[ "$type" == "file" ]]; then
            _path_files -f
        fi
    done
    [[ -n "$described" ]] && _describe -V unsorted described -U
    [[ -n "$names" ]] && compadd -U -V unsorted -a names
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    # A ~/.zshrc of one's own may not have begun zsh's completion.
    whence compdef > /dev/null || { autoload -Uz compinit && compinit -i }
    compdef %(complete_func)s %(prog_name)s
fi
"""

# click's script cuts descriptions at their first comma, and completes no value of --option=value.
_FISH: Final = """\
function %(complete_func)s
    set -l typed (commandline -t)
    set -l ahead (string match -r -- '^--[^=]*=' $typed; or echo)
    for completion in (env COMP_WORDS=(commandline -cp) COMP_CWORD=$typed %(complete_var)s=fish_complete %(prog_name)s)
        set -l parts (string split -m 1 "," -- $completion)
        switch $parts[1]
            case dir
                printf "%%s\\n" $ahead(__fish_complete_directories $parts[2])
            case file
                printf "%%s\\n" $ahead(__fish_complete_path $parts[2])
            case plain
                printf "%%s\\n" $ahead$parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
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


class WholeWordZsh(ZshComplete):
    source_template = _ZSH


class WholeWordFish(FishComplete):
    source_template = _FISH


_CLASSES: Final[dict[str, type[ShellComplete]]] = {"bash": WholeLineBash, "zsh": WholeWordZsh, "fish": WholeWordFish}


def add_completion_classes() -> None:
    """Let click answer the shells by our classes."""
    for completing in _CLASSES.values():
        add_completion_class(completing)


@click.command()
@click.argument("shell", type=click.Choice(sorted(_INSTALL)))
def command(shell: str) -> None:
    """Print the script that completes commands, options, names of models and files in SHELL.

    bash and zsh evaluate it when they start; fish reads it from a file. Names of models come from your store, the demo
    and the catalogues that `zoolens models` keeps; no framework is imported for them.
    """
    click.echo(f"# To have it in every shell, {_INSTALL[shell]}")
    root = click.get_current_context().find_root().command
    click.echo(_CLASSES[shell](root, {}, "zoolens", COMPLETION_VARIABLE).source(), nl=False)
