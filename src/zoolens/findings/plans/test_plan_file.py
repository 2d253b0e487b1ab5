"""`fleet.yaml`, also by strangers: one sentence each."""

from pathlib import Path

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.plans.plan_file import load_fleet_plan

GOOD = """
name: nightly
models: ['demo:mlp-*', demo:lenet-int8]
datasets: demo
runtimes: onnxruntime
on: each-kind
options: {limit: 200, batch: 1, latency_seconds: 0.5}
budget: {time: 2h, money: 5}
price: {alpha: 1.20/h, default: 0.5/h}
alarms:
  - top1 drop > 0%
  - latency_p50 rise > 10%
  - new failure
  - kind disappeared
"""


def test_a_plan_is_read(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(GOOD)
    plan = load_fleet_plan(path)
    assert (plan.models, plan.datasets, plan.on, plan.fresh) == (
        ["demo:mlp-*", "demo:lenet-int8"],
        ["demo"],
        "each-kind",
        True,
    )
    made = plan.evaluation("demo")
    assert (made.limit, made.batches, made.cold, made.latency.max_seconds, made.fresh) == (200, (1,), False, 0.5, True)
    assert (made.budget.seconds, made.budget.money, made.budget.price("alpha", "")) == (7200.0, 5.0, 1.2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("datasets: demo", "dataset: demo"), "line 4: dataset is no field of a plan. Did you mean datasets?"),
        (("limit: 200", "limt: 200"), "options.limt is no field of a plan. Did you mean limit?"),
        (("name: nightly\n", ""), "name is missing."),
        (("limit: 200", "limit: 0"), "line 7: options.limit: Input should be greater than or equal to 1."),
        (("time: 2h", "time: soon"), "line 8: budget.time: 'soon' is no length of time. Write 90s, 45min, 2h or 1d."),
        (("1.20/h", "cheap"), "line 9: price.alpha: 'cheap' is no price. Write what an hour costs: 1.20/h."),
        (("- new failure", "- new falure"), "line 13: alarms[2]: "),
        (("- top1 drop > 0%", "- disagreement > 2%"), "is no alarm"),
        (("- top1 drop > 0%", "- top1 drop < 0%"), "is no alarm"),
        (("limit: 200", "limit: true"), "options.limit: Input should be a valid integer."),
        (("money: 5", "money: 0"), "budget.money: Input should be greater than 0."),
        (("money: 5", "money: .nan"), "budget.money: Input should be less than 1000000000000."),
        (("time: 2h", "time: true"), "budget.time: Input should be a valid number."),
        (("default: 0.5/h", "default: -1"), "price.default: Input should be greater than or equal to 0."),
        (("limit: 200, batch: 1", "accuracy: false, batch: []"), "options: nothing is measured without accuracy"),
        (("name: nightly", 'name: "a\\e[31m"'), "line 2: name: a name is made of characters that can be read."),
        (("on: each-kind", "off: each-kind"), "line 6: off is no field of a plan."),
        (("models: [", "models: &a ["), None),
        (("datasets: demo", "datasets: *a"), "line 4: YAML aliases"),
        (("name: nightly", "name: !!python/object:os.system x"), "line 2: YAML tags"),
        (("name: nightly", "name: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["), "line 2: "),
        ((GOOD, "- just\n- a list"), "holds no fields"),
        ((GOOD, "x: 1\n" * 100_000), "cannot be read"),
        ((GOOD, "\x00"), "line 1: not valid YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(tmp_path, changed, said):
    path = tmp_path / "fleet.yaml"
    assert changed[0] in GOOD
    path.write_text(GOOD.replace(*changed))
    if said is None:
        load_fleet_plan(path)
        return
    with pytest.raises(ZoolensError) as error:
        load_fleet_plan(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_named_twice_is_measured_once(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("{name: n, models: [a, b, a], datasets: [d, d], options: {batch: [8, 1, 8]}, alarms: new failure}")
    plan = load_fleet_plan(path)
    assert (plan.models, plan.datasets, plan.options.batch) == (["a", "b"], ["d"], [8, 1])
    assert (plan.alarms, plan.on) == (["new failure"], "each-kind")


def test_the_plan_of_the_documentation_is_read(tmp_path):
    """Its field `on` is true to YAML 1.1."""
    page = (Path(__file__).parents[4] / "docs" / "fleet-plan.md").read_text(encoding="utf-8")
    path = tmp_path / "fleet.yaml"
    path.write_text(page.partition("```yaml\n")[2].partition("```")[0])
    plan = load_fleet_plan(path)
    assert (plan.on, plan.require, plan.price) == ("each-kind", "memory>=8GB", {"alpha": 1.2, "default": 0.4})


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ZoolensError, match="No such file"):
        load_fleet_plan(tmp_path / "none.yaml")
