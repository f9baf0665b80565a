"""Milliseconds of one forward and backward of an mlp in PyTorch, one thread.

usage: dense_torch.py FEATURES HIDDEN CLASSES BATCH
The median of some turns; `muster bench dense` runs this beside its own.
"""

import os
import statistics
import sys
import time

# Its BLAS has threads of its own, which set_num_threads() does not reach.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402


def main():
    features, hidden, classes, batch = (int(text) for text in sys.argv[1:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(features, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, classes),
    )
    rows = torch.randn(batch, features)
    labels = torch.randint(classes, (batch,))
    times = []
    spent = 0.0
    while len(times) < 4 or (spent < 1.0 and len(times) < 200):
        begin = time.perf_counter()
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(rows), labels, reduction="sum"
        )
        loss.backward()
        times.append(time.perf_counter() - begin)
        spent += times[-1]
    print(statistics.median(times[1:]) * 1e3)


main()
