"""python -m scripts.train_demo_zoo, from the root of the repository: train, export, verify, describe; or --check.

One process per recipe and one thread in it: frameworks do not meet, and sums come out in the same order every time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from zoolens.inventory.zoos.demo import DATA_FOLDER

from . import data
from .make import make
from .recipes import RECIPES

ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "-1",  # a GPU would give other weights
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def main() -> int:
    arguments = _arguments()
    if arguments.check:
        return _check(arguments.data, arguments.output / "models")
    models = arguments.output / "models"
    models.mkdir(parents=True, exist_ok=True)
    data.write_subset(arguments.data, arguments.output)
    wanted = [recipe for recipe in RECIPES if not arguments.models or set(recipe.names) & set(arguments.models)]
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, context, max_tasks_per_child=1) as pool:
        for done in [pool.submit(make, recipe, arguments.data, models) for recipe in wanted]:
            print(done.result(), flush=True)
    return 0


def _check(source: Path, models: Path) -> int:
    from .verify import check

    problems = check(models, data.load_split(source, "t10k"))
    print("\n".join(problems) or "All models are as their manifests say.")
    return 1 if problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.train_demo_zoo", description=__doc__.partition("\n")[0])
    names = [name for recipe in RECIPES for name in recipe.names]
    parser.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder with Fashion-MNIST's IDX files")
    parser.add_argument("--output", type=Path, default=DATA_FOLDER, help="where subset, models and manifests go")
    parser.add_argument("--models", nargs="+", choices=names, metavar="NAME", help="make only these")
    parser.add_argument("--jobs", type=int, default=1, help="recipes at the same time")
    parser.add_argument("--check", action="store_true", help="train nothing; verify the files against the manifests")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
