"""Are the peaks of `zoolens machine peaks` those that independent tools measure in the same run?

    python benchmarks/peaks.py [--rounds 3] [--threads 2]

In each round our measurement, plain loops of matrix products in torch and in numpy, and STREAM's copy and triad written
in C (with OpenMP, compiled here by cc) follow each other, the order turning from round to round. Every tool takes its
best repetition, as peaks are meant. The ratio is ours over theirs, the median over the rounds. The goal is 0.9 to 1.1.

Operations are compared in each precision that torch or numpy multiplies at a useful speed; the table names the library
that ours come from. Bandwidths are compared for each size of
data that ours has: bytes are those of all arrays, read and written counted together, as STREAM counts them. Copy is
what ours does; triad reads two arrays and writes one, and stands beside it because STREAM is quoted by it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from zoolens.base.engine.machine import available_cores
from zoolens.findings.tracing.roofline.peak_process import COPY_SIZES
from zoolens.findings.tracing.roofline.peaks import Peaks, machine_peaks

GEMM = """
import json, sys, time
import numpy, torch
threads, seconds = int(sys.argv[1]), 0.5
torch.set_num_threads(threads)
answer = {}
for name in ("float32", "float64", "float16", "bfloat16"):
    for library in ("torch", "numpy"):
        best = 0.0
        for size in (128, 256, 512, 1024, 2048):
            a, b = (torch.randn(size, size).to(getattr(torch, name)) for _ in range(2))
            if library == "numpy":
                if name not in ("float32", "float64"):  # numpy multiplies others element by element
                    break
                a, b = a.numpy(), b.numpy()
            started = time.perf_counter()
            while time.perf_counter() - started < seconds:
                begun = time.perf_counter()
                a @ b
                best = max(best, 2 * size**3 / (time.perf_counter() - begun))
            if best < 1e9:
                break
        answer[f"{name} {library}"] = best
print(json.dumps(answer))
"""

STREAM = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static double run(double *restrict a, double *restrict b, double *restrict c, size_t n, int rounds, int triad) {
    double begun = omp_get_wtime();
    #pragma omp parallel
    {
        size_t share = n / omp_get_num_threads(), first = share * omp_get_thread_num(), last = first + share;
        for (int round = 0; round < rounds; round++) {
            if (triad) for (size_t i = first; i < last; i++) a[i] = b[i] + 3.0 * c[i];
            else for (size_t i = first; i < last; i++) a[i] = b[i];
            __asm__ volatile("" ::: "memory");
        }
    }
    return omp_get_wtime() - begun;
}

int main(int count, char **words) {
    for (int place = 1; place < count; place++) {
        size_t bytes = strtoull(words[place], NULL, 10);
        double rates[2];
        for (int triad = 0; triad < 2; triad++) {
            size_t arrays = triad ? 3 : 2, n = bytes / arrays / sizeof(double), moved = n * arrays * sizeof(double);
            double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 8);
            #pragma omp parallel for
            for (size_t i = 0; i < n; i++) { a[i] = 1; b[i] = 2; c[i] = 3; }
            int rounds = moved < (1u << 26) ? (1u << 26) / moved : 1;
            double best = 1e9, started = omp_get_wtime();
            while (omp_get_wtime() - started < 0.5) {
                double seconds = run(a, b, c, n, rounds, triad);
                if (seconds < best) best = seconds;
            }
            rates[triad] = moved * (double)rounds / best;
            free(a); free(b); free(c);
        }
        printf("%zu %g %g\n", bytes, rates[0], rates[1]);
    }
    return 0;
}
"""


def ours(threads: int, store: Path) -> Peaks:
    return machine_peaks(threads=threads, fresh=True, store=store)


def torch_loop(threads: int) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", GEMM, str(threads)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    rates: dict[str, float] = json.loads(output)
    return rates


def compile_stream(folder: Path) -> Path:
    source, program = folder / "stream.c", folder / "stream"
    source.write_text(STREAM)
    native = "-mcpu=native" if os.uname().machine == "aarch64" else "-march=native"
    flags = ["-O3", "-funroll-loops", native, "-fopenmp"]
    subprocess.run(["cc", *flags, "-o", program, source], check=True)
    return program


def stream(program: Path, threads: int) -> dict[int, tuple[float, float]]:
    """Bytes per second of copy and triad, by size."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true"}
    command = [str(program), *map(str, COPY_SIZES)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in output.splitlines())
    return {int(size): (float(copy), float(triad)) for size, copy, triad in rows}


def show(peaks: list[Peaks], loops: list[dict[str, float]], streams: list[dict[int, tuple[float, float]]]) -> None:
    print(f"{peaks[0].cpu}, {peaks[0].threads} threads, {len(peaks)} rounds")
    heads = f"{'precision':<10}{'ours':>14}{'torch loop':>14}{'numpy loop':>14}{'ratio to the quicker':>22}"
    print(f"\n{heads}  quickest in ours")
    for precision in ("float32", "float64", "float16", "bfloat16"):
        both = [(loop[f"{precision} torch"], loop[f"{precision} numpy"]) for loop in loops]
        theirs = "".join(flops(median(pair[place] for pair in both)) for place in (0, 1))
        if max(both[0]) < 1e9 or any(precision not in one.flops for one in peaks):
            print(f"{precision:<10}{'':>14}{theirs}  neither has a quick kernel: not compared")
            continue
        own = flops(median(one.flops[precision] for one in peaks))
        ratio = median(one.flops[precision] / max(pair) for one, pair in zip(peaks, both, strict=True))
        print(f"{precision:<10}{own}{theirs}{ratio:>22.2f}  {peaks[-1].by[precision]}")
    print(f"\n{'size':<10}{'ours':>12}{'C copy':>12}{'ratio':>8}{'C triad':>12}{'ratio':>8}")
    for size in COPY_SIZES:
        own = median(one.bandwidth[size] for one in peaks)
        line = f"{size >> 10:>6} kB {own / 1e9:>8.1f} GB/s"
        for place in (0, 1):
            theirs = median(rates[size][place] for rates in streams)
            ratio = median(one.bandwidth[size] / rates[size][place] for one, rates in zip(peaks, streams, strict=True))
            line += f"{theirs / 1e9:>8.1f} GB/s{ratio:>8.2f}"
        print(line)
    disturbed = sorted({scope for one in peaks for scope in one.disturbed})
    if disturbed:
        print(f"\nOther processes disturbed every repetition of ours in some round: {', '.join(disturbed)}.")


def flops(rate: float) -> str:
    return f"{rate / 1e9:.4g} GFLOP/s".rjust(14) if rate else "–".rjust(14)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=available_cores())
    chosen = parser.parse_args()
    peaks: list[Peaks] = []
    loops: list[dict[str, float]] = []
    streams: list[dict[int, tuple[float, float]]] = []
    with tempfile.TemporaryDirectory(prefix="zoolens-peaks-") as folder:
        program = compile_stream(Path(folder))
        tools = [
            lambda: peaks.append(ours(chosen.threads, Path(folder) / "store")),
            lambda: loops.append(torch_loop(chosen.threads)),
            lambda: streams.append(stream(program, chosen.threads)),
        ]
        for place in range(chosen.rounds):
            for step in range(len(tools)):
                tools[(place + step) % len(tools)]()
    show(peaks, loops, streams)


if __name__ == "__main__":
    main()
