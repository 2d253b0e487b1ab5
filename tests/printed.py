"""What pages show beside what commands print, whatever breaks its lines or differs from machine to machine."""

import re

DIFFERS = re.compile(r"\b[0-9a-f]{8}\b|\b\d+\.\d+\.\d+\S*")  # ids of runs, and versions
FIGURE = re.compile(r"\S*\d\S*( [µm]s| kB| %\S*)?")
TIMES = re.compile(
    r"\b[0-9a-f]{16}\b|\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC|T[\d:.+]+)|[\d.,]+ (?:[µm]s|s)\b(?: ×[\d.]+)?|\S+\.sqlite\b"
)
BY_TIME = re.compile(r"ORDER BY latency")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def words(text, *, figures=True, times=True):
    """The words of a text, whatever its line breaks. Ids and versions are left out; so are all figures, or dates,
    durations and the path of the store, where they are not to count."""
    text = (DIFFERS if figures else FIGURE).sub("#", text)
    return " ".join((text if times else TIMES.sub("#", text)).split())


def assert_shown(shown, printed, *, figures=True, times=True, command=""):
    """Whatever stands between two ellipses was printed by the command. Of what is ordered by a time, lines may come in
    any order where times do not count: which of two models is quicker depends on the processor. Which of them are among
    the first few does too."""
    if not times and BY_TIME.search(command + shown):
        lines = [words(line, figures=figures, times=False) for line in printed.splitlines()]
        missing = [line for line in shown.splitlines() if words(line, figures=figures, times=False) not in lines]
        shown = "…".join(line for line in missing if "LIMIT" not in command or not TIMES.search(line))
    for part in shown.split("…"):
        assert words(part, figures=figures, times=times) in words(printed, figures=figures, times=times)
