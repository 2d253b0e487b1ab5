"""A device on battery: as the charge falls, answers become cheaper; on the charger the reference comes back.

    python examples/serve/battery.py

The charge is the content of a file, as Linux has it (/sys/class/power_supply/BAT0/capacity). The example plays a
battery that loses a tenth of its charge in each second, and is charged at the end.
"""

from __future__ import annotations

import threading
import time

from common import ROWS, example_folder, last_session, lost, measure, print_events, requests, send, served

from zoolens.faces.load.arrivals import poisson

REFERENCE = "demo:lenet-wide"
SERVICE = f"""
services:
  fashion:
    reference: {REFERENCE}
    within: 80%
    batch: {{size: {ROWS}}}
    policy:
      name: time-of-day
      battery_file: BATTERY_FILE
      battery_every: 200 ms
      hold: 1 s
      battery:
        - {{below: 50%, within: 92%}}
        - {{below: 20%, within: 80%}}
"""


def main() -> None:
    with example_folder() as folder:
        store, file, battery = folder / "store.sqlite", folder / "service.yaml", folder / "capacity"
        battery.write_text("100")
        file.write_text(SERVICE.replace("BATTERY_FILE", str(battery)))
        print("Measuring three models …")
        measure(store, {"onnxruntime": [REFERENCE, "demo:lenet-torch", "demo:mlp-wide"]})

        def use_the_battery() -> None:
            for charge in range(100, 0, -10):
                battery.write_text(str(charge))
                time.sleep(1)
            battery.write_text("100")

        with served(file, store) as url:
            threading.Thread(target=use_the_battery, daemon=True).start()
            results = send(url, "fashion", requests(REFERENCE, "fashion"), poisson(20, 14.0), 1.0)
        print(f"{results.requests} requests, {lost(results)} without an answer")
        session = last_session(store, "fashion")
        print_events(session)


if __name__ == "__main__":
    main()
