"""Does the index return the ideal model, and do the bounds hold? Both in one run.

    python benchmarks/equivalence.py [--quick]

First the published query-quality experiment, re-created (`transitivity.py` says how): exact signatures beside five
random models and transitivity. Then the coverage of every bound where the truth is known, and their widths beside the
published gaps (`bounds.py`). The exit status is 1 if a goal is missed or a bound does not hold, and the last lines say
which. Everything is seeded: two runs print the same.
"""

from __future__ import annotations

import argparse

import bounds
import transitivity

QUERIES = 20_000  # drawn at once; cheap, so --quick leaves them
PROBES = 30_000
PASSED = (
    f"All bounds hold, and all goals are met where {transitivity.FITTING} of {transitivity.MODELS} models fit, "
    f"with {PROBES:,} probes."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the real indexes and of the simulated datasets"
    )
    quick = parser.parse_args().quick
    failed = transitivity.report(QUERIES, PROBES, signed=80 if quick else 800)
    print("\nBounds: how often what they claim is true, at a nominal 95 %")
    failed += bounds.report(reps=400 if quick else 4_000)
    print("\n" + ("\n".join(f"FAILED: {one}" for one in failed) or PASSED))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
