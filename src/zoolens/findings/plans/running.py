"""A recurring plan: one pass, and the report of what changed, which is kept with the pass."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoolens.base.engine.executors.current_executor import running_on
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.kind_grid import RUNS_OF_A_CELL
from zoolens.findings.plans.pass_keeper import PassKeeper
from zoolens.findings.plans.pass_report import PassReport, report_of, suspected
from zoolens.findings.plans.plan_file import FleetPlan, load_fleet_plan
from zoolens.findings.plans.plan_pass import Pass, carry_out_work, measure_again, prepare
from zoolens.inventory.fleet.job_ledger import this_driver


def run_plan(
    plan: FleetPlan | str | Path, store: Store | str | Path | None = None, progress: Progress | None = None
) -> PassReport:
    """Do what is missing of a pass of a plan, or of the plan in a file, and return what changed since the last pass.
    Alarms are `enforce_report`'s to judge."""
    loaded = plan if isinstance(plan, FleetPlan) else load_fleet_plan(plan)
    this, reports = Pass(), list[PassReport]()

    def content() -> Mapping[str, Any]:
        return {**this.as_data(), "report": reports[-1].as_data() if reports else None}

    with borrowed_store(store) as opened, running_on(loaded.on):
        opened.sweep_folder()
        work = prepare(loaded)
        with PassKeeper(opened, loaded.name, this_driver(), content) as keeper:
            passed = carry_out_work(work, opened, keeper, this, progress or Silent())
            report = report_of(loaded, passed, opened)
            for _ in range(RUNS_OF_A_CELL - 1):
                suspects = set() if this.not_done else suspected(passed, report)
                if not suspects:
                    break
                measure_again(work, opened, keeper, this, suspects, progress or Silent())
                report = report_of(loaded, passed, opened)
            with keeper.lock:
                reports.append(report)
            if not this.not_done:
                keeper.finish()
        return report
