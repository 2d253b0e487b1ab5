"""A burst on a service that writes texts: quiet, more requests than its reference bears, and quiet again.

    zoolens serve service.yaml --store STORE
    python benchmarks/serve_texts.py writer --url http://127.0.0.1:8000 --rates 0.1,0.5,0.1 --seconds 60

Requests are sent on time, whether or not earlier ones were answered. All are streams of `/v1/completions` with a
temperature of 0. Each phase is a row: requests that got a whole text, or the status of their refusal, seconds until the
first and the last token, and which tiers wrote them. `zoolens events SERVICE` then says why the service switched.
"""

from __future__ import annotations

import argparse
import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass

import numpy as np

PROMPTS = ("Once upon a time", "The capital of France is", "In the year 1969 the first", "A tree has")


@dataclass(frozen=True)
class Text:
    """`model`: the tier, or why there is no text. Seconds count from when the request was to be sent."""

    model: str
    first: float = float("nan")
    last: float = float("nan")
    tiers: int = 1  # that its chunks name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("service")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--rates", default="0.1,0.5,0.1", help="requests per second, by phase")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase")
    parser.add_argument("--tokens", type=int, default=32)
    chosen = parser.parse_args()
    rates = [float(rate) for rate in chosen.rates.split(",")]
    moments = [
        (phase, (phase + place / count) * chosen.seconds)
        for phase, count in enumerate(max(1, round(rate * chosen.seconds)) for rate in rates)
        for place in range(count)
    ]
    texts: dict[int, list[Text]] = {phase: [] for phase in range(len(rates))}
    began = time.monotonic()
    threads = []
    for number, (phase, moment) in enumerate(moments):
        time.sleep(max(0.0, began + moment - time.monotonic()))
        body = {"model": chosen.service, "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": chosen.tokens}
        body |= {"temperature": 0, "stream": True}
        thread = threading.Thread(target=_ask, args=(chosen.url, body, began + moment, texts[phase]))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    for phase, rate in enumerate(rates):
        _print(rate, texts[phase])


def _ask(url: str, body: dict[str, object], due: float, texts: list[Text]) -> None:
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            first, tiers, whole = float("nan"), set[str](), False
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                document = json.loads(line[6:])
                if "error" in document:
                    texts.append(Text(document["error"]["type"]))
                    return
                first = time.monotonic() - due if np.isnan(first) else first
                (choice,) = document["choices"]
                tiers.add(choice["zoolens_model"])
                whole = choice["finish_reason"] is not None
    except urllib.error.HTTPError as error:
        texts.append(Text(f"refused ({error.code})"))
        return
    except (OSError, http.client.HTTPException, ValueError) as error:
        texts.append(Text(type(error).__name__))
        return
    last = time.monotonic() - due if whole else float("nan")
    texts.append(Text(" and ".join(sorted(tiers)), first, last, len(tiers)))


def _print(rate: float, texts: list[Text]) -> None:
    whole = [text for text in texts if not np.isnan(text.last)]
    several = sum(text.tiers != 1 for text in whole)
    counts = ", ".join(f"{count} {model}" for model, count in Counter(text.model for text in texts).most_common())
    if whole:
        first, last = ([getattr(text, name) for text in whole] for name in ("first", "last"))
        seconds = "; ".join(
            f"{name} token p50 {np.quantile(values, 0.5):.2f} s, p90 {np.quantile(values, 0.9):.2f} s"
            for name, values in (("first", first), ("last", last))
        )
    else:
        seconds = "no text"
    print(f"{rate:g} requests/s: {len(whole)} of {len(texts)} texts; {seconds}; {several} by several tiers; {counts}")


if __name__ == "__main__":
    main()
