"""The peer of `muster bench train`: PyTorch DDP over gloo, an mlp of 1 M
parameters, random data of mnist's shape, ranks as processes on this machine.
Prints one JSON object with the median step in ms."""
import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def run(rank, options, meeting, result):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting,
                            rank=rank, world_size=options.ranks)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(784, options.hidden),
                                torch.nn.ReLU(),
                                torch.nn.Linear(options.hidden, 10))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs = torch.rand(options.batch, 784)
    labels = torch.randint(0, 10, (options.batch,))
    times = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        if rank == 2 % options.ranks:
            time.sleep(options.slow_ms / 1000)
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - begin) * 1000)
    if rank == 0:
        result.put(statistics.median(times))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=1280)
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--slow-ms", type=float, default=0)
    options = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        result = mp.get_context("spawn").SimpleQueue()
        mp.spawn(run, (options, os.path.join(folder, "meeting"), result),
                 nprocs=options.ranks)
        print(json.dumps({"step_ms_p50": result.get()}))


if __name__ == "__main__":
    main()
