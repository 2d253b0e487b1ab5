"""What `gpu.py` prints: times, memory and energy by batch size, the hottest layers, and how far answers differ."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any


def measured_rows(
    how: tuple[str, float, bool], runtime: Any, files: Any, mode: str, batches: list[int]
) -> list[dict[str, Any]]:
    """Open the model once and print a line for each batch size. `how`: the device, the seconds that latency, energy and
    batches in turn take each, and whether energy is measured."""
    import numpy as np

    from zoolens.findings.measure.device_time import device_observations
    from zoolens.findings.measure.energy import energy_observations
    from zoolens.findings.measure.latency import LatencySettings, latency_observations, measure_latency
    from zoolens.inventory.runtimes.runtime import Options

    device, seconds, with_energy = how
    rows = []
    try:
        session = runtime.open(files, Options(device=device, mode=mode))
    except Exception as error:  # the other modes are still worth their time
        print(f"{runtime.name} {mode}: {error}", flush=True)
        return []
    print(f"{runtime.name} {mode}: {session.effective()}", flush=True)
    print(f"{'batch':>6}{'latency':>10}{'compute':>10}{'inputs':>9}{'outputs':>9}{'launch':>9}{'images/s':>10}", end="")
    print(f"{'in turn':>10}{'share':>7}{'memory':>10}{'J/image':>10}{'watts':>8}   times in ms, medians", flush=True)
    settings = LatencySettings(max_seconds=seconds, min_samples=20, max_samples=1000, warmup_seconds=0.1)
    with session:
        (spec,) = session.inputs
        for batch in batches:
            shape = (batch, *spec.shape[1:])
            feeds = {spec.name: np.random.default_rng(0).normal(size=shape).astype(np.float32)}
            observations = list(latency_observations(measure_latency(lambda: session.predict(feeds), settings), batch))  # noqa: B023
            observations += device_observations(session, feeds, batch, 20) if device != "cpu" else []
            if with_energy:
                observations += energy_observations(
                    lambda: session.predict(feeds),  # noqa: B023
                    batch,
                    seconds=max(seconds, 1.0),
                    device=device,
                )
            row = {"runtime": runtime.name, "mode": mode, "batch": batch}
            row["stream"] = seconds_in_turn(session, feeds, seconds)
            row |= {fact.metric: fact.value for fact in observations if fact.scope == f"batch={batch}"}
            details = next((fact.details for fact in observations if fact.metric == "energy"), {})
            row |= {"joules_per_input": details.get("joules_per_input"), "watts": details.get("watts")}
            row["energy"] = details
            rows.append(row)
            print_row(row, batch)
    return rows


def seconds_in_turn(session: Any, feeds: dict[str, Any], seconds: float) -> float:
    """Seconds a batch where batch after batch is handed over, as an evaluation does it: from four places in memory, and
    as many before the first is waited for as the session asks for."""
    places = [{name: array.copy() for name, array in feeds.items()} for _ in range(4)]
    waiting: deque[Any] = deque()
    in_flight = getattr(session, "in_flight", 1)  # which older versions do not have
    done, warm, began = 0, 4 * in_flight, 0.0
    while True:
        if len(waiting) == in_flight:
            waiting.popleft()()
            done += 1
            if done == warm:
                began = time.perf_counter()
            taken = time.perf_counter() - began
            if done > warm and taken > seconds:
                break
        waiting.append(session.begin_predict([places[(done + len(waiting)) % len(places)]]))
    for finish in waiting:
        finish()
    return taken / (done - warm)


def print_row(row: dict[str, Any], batch: int) -> None:
    def ms(name: str) -> str:
        return "–" if row.get(name) is None else f"{row[name] * 1e3:.3f}"

    memory = row.get("peak_device_memory")
    joules, watts = row["joules_per_input"], row["watts"]
    computing = row.get("device_compute_p50")
    share = "–" if computing is None else f"{computing / row['stream']:.2f}"
    print(
        f"{batch:>6}{ms('latency_p50'):>10}{ms('device_compute_p50'):>10}{ms('device_inputs_p50'):>9}"
        f"{ms('device_outputs_p50'):>9}{ms('device_launch_p50'):>9}{batch / row['latency_p50']:>10,.0f}"
        f"{batch / row['stream']:>10,.0f}{share:>7}"
        f"{'–' if memory is None else f'{memory / 1e6:,.0f} MB':>10}"
        f"{'–' if joules is None else f'{joules:.4f}':>10}{'–' if watts is None else f'{watts:.0f}':>8}",
        flush=True,
    )


def show_layers(title: str, profiles: list[Any]) -> None:
    """The hottest layers of the median call, with their kernels."""
    ordered = sorted(profiles, key=lambda profile: profile.duration)
    profile = ordered[len(ordered) // 2]
    layers = [operator for operator in profile.operators if operator.level == "layer" and operator.parent is None]
    total = sum(layer.duration for layer in layers)
    kernels = sum(operator.level == "library" for operator in profile.operators)
    print(
        f"{title}: call {profile.duration / 1e6:.3f} ms, {len(layers)} layers {total / 1e6:.3f} ms, "
        f"{kernels} kernels or primitives"
    )
    for layer in sorted(layers, key=lambda layer: -layer.duration)[:12]:
        share, name = 100 * layer.duration / max(1, total), (layer.nodes or (layer.name,))[0]
        print(
            f"  {layer.duration / 1e3:>9.1f} µs {share:>5.1f} %  {name[:44]:44} {layer.kind[:14]:14} "
            f"{layer.precision or '':9} {layer.device:7} {(layer.kernel or '')[:90]}"
        )
    sys.stdout.flush()


def show_differences(title: str, answers: dict[str, Any], reference: str) -> None:
    import numpy as np

    wanted = answers[reference]
    for name, given in answers.items():
        if name != reference:
            apart = float(np.abs(given - wanted).max())
            relative = apart / float(np.abs(wanted).max())
            flips = int((given.argmax(1) != wanted.argmax(1)).sum())
            print(
                f"{title}: {name} against {reference}: outputs differ by up to {apart:.3g} ({relative:.1e} of the "
                f"largest), {flips} of {len(wanted)} answers differ",
                flush=True,
            )
