"""Training input for a torch model: shuffled batches as tensors, epoch after epoch, from Parquet.

    python training.py [FOLDER]

The task is small on purpose (which half of the plane is a point in?); what matters is how the batches come.
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np
import torch

import weir

ROWS = 40_000


def label(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Points of the plane, and whether each lies above a line."""
    draw = np.random.default_rng(int(batch["id"][0]))
    x = draw.standard_normal((len(batch["id"]), 2)).astype(np.float32)
    return {"x": x, "y": (x @ np.array([0.6, -0.8], np.float32) > 0.1).astype(np.int64)}


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="weir-training-")
    weir.range(ROWS, override_num_blocks=8).map_batches(label).write_parquet(f"{folder}/points", mode="overwrite")

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    points = weir.read_parquet(f"{folder}/points")
    for epoch in range(3):
        seen, right, loss_sum = 0, 0, 0.0
        for batch in points.iter_torch_batches(batch_size=256, local_shuffle_buffer_size=2048,
                                               local_shuffle_seed=epoch):
            guess = model(batch["x"])
            loss = torch.nn.functional.cross_entropy(guess, batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(batch["y"])
            right += int((guess.argmax(1) == batch["y"]).sum())
            loss_sum += float(loss.detach()) * len(batch["y"])
        print(f"epoch {epoch}: {seen} points, loss {loss_sum / seen:.4f}, {right / seen:.1%} right")


if __name__ == "__main__":
    main()
