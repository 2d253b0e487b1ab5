"""`zoolens machine`: what this machine can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.figures import figure
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, echo_prose, print_table
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.tracing.roofline.peaks import Peaks


@click.group(name="machine")
def command() -> None:
    """Report this machine's peak performance."""


@command.command()
@click.option("--threads", type=click.IntRange(1), default=None, help="Number of threads; default: one for each core.")
@click.option("--device", default="cpu", show_default=True, help="Device: cpu, cuda or cuda:N.")
@click.option("--fresh", is_flag=True, help="Measure again, even where the store has the peaks.")
@store_option("makes")
@json_option
@wide_option
def peaks(threads: int | None, device: str, fresh: bool, store: str | None, as_json: bool) -> None:
    """Measure operations per second in each precision and bytes per second from caches and memory, once.

    It takes half a minute and needs an idle machine.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.findings.tracing.roofline.peaks import machine_peaks

    with spinner("this machine", "measure its peaks, half a minute"):
        measured = machine_peaks(threads=threads, device=device, fresh=fresh, store=store)
    if as_json:
        echo_json(_data(measured))
    else:
        _print(measured)


def _data(peaks: Peaks) -> dict[str, Any]:
    return {
        "run": peaks.run,
        "cpu": peaks.cpu,
        "device": peaks.device,
        "threads": peaks.threads,
        "flops_per_second": dict(peaks.flops),
        "measured_by": dict(peaks.by),
        "bytes_per_second": {str(size): speed for size, speed in peaks.bandwidth.items()},
        "missing": dict(peaks.missing),
        "disturbed": list(peaks.disturbed),
    }


def _print(peaks: Peaks) -> None:
    click.echo(f"{peaks.title} (run {peaks.run[:8]})")
    rows = [
        [precision, f"{speed / 1e9:,.1f} GFLOP/s", peaks.by[precision], _mark(peaks, precision)]
        for precision, speed in sorted(peaks.flops.items(), key=lambda item: -item[1])
    ]
    print_table([Column("precision", "key"), Column("peak", "number"), Column("by"), Column("")], rows)
    click.echo()
    rows = [
        [figure(size, "B"), f"{speed / 1e9:,.1f} GB/s", _mark(peaks, f"bytes={size}")]
        for size, speed in sorted(peaks.bandwidth.items())
    ]
    print_table([Column("copied", "number"), Column("read and written", "number"), Column("")], rows)
    for precision, reason in peaks.missing.items():
        echo_prose(f"No peak in {precision}: {reason}")
    if peaks.disturbed:
        echo_prose("Other processes disturbed every repetition of the marked figures: measure them again with --fresh.")


def _mark(peaks: Peaks, scope: str) -> str:
    return "disturbed" if scope in peaks.disturbed else ""
