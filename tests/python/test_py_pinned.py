"""pin_memory of iter_torch_batches: what is staged for a GPU. Without one, all but the pinning itself is looked at."""
import numpy as np
import pytest

import weir

torch = pytest.importorskip("torch")


class Pinned:
    """Stands in for Tensor.pin_memory where there is no GPU: a copy, which is noted."""

    def __init__(self, monkeypatch):
        self.sources, self.copies, self.moved = [], [], []

        def pin(tensor, *_):
            assert tensor.device.type == "cpu" and not self.is_pinned(tensor)
            self.sources.append(tensor)
            self.copies.append(tensor.clone())
            return self.copies[-1]

        def to(tensor, device=None, *rest, non_blocking=False, **options):
            if isinstance(device, (str, torch.device)) and str(device) == "meta":
                self.moved.append((self.is_pinned(tensor), non_blocking))
                return tensor
            return true_to(tensor, device, *rest, non_blocking=non_blocking, **options)
        true_to = torch.Tensor.to
        monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
        monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor, *_: self.is_pinned(tensor))
        monkeypatch.setattr(torch.Tensor, "to", to)

    def is_pinned(self, tensor):
        return any(tensor is copy for copy in self.copies)


@pytest.fixture
def pinned(monkeypatch):
    return Pinned(monkeypatch)


def rows(n=1000):
    return weir.range(n).map_batches(lambda b: {"id": b["id"], "x": np.repeat(b["id"][:, None], 3, 1).astype(np.float32)}, batch_size=100)


@pytest.mark.parametrize("source", [lambda: rows(), lambda: rows().materialize(), lambda: weir.range(1000)], ids=["workers", "blocks", "native"])
def test_each_tensor_is_pinned_once(pinned, source):
    seen = tensors = 0
    for batch in source().iter_torch_batches(batch_size=64, pin_memory=True):
        assert all(pinned.is_pinned(tensor) for tensor in batch.values())
        assert batch["id"].tolist() == list(range(seen, seen + len(batch["id"])))
        if "x" in batch:
            assert torch.equal(batch["x"], batch["id"][:, None].repeat(1, 3).float())
        seen += len(batch["id"])
        tensors += len(batch)
    assert seen == 1000 and len(pinned.copies) == tensors


def test_types_are_made_before_the_pinning(pinned):
    for batch in rows(100).iter_torch_batches(batch_size=50, pin_memory=True, dtypes={"id": torch.int16, "x": torch.float64}):
        assert batch["id"].dtype == torch.int16 and batch["x"].dtype == torch.float64
    assert {copy.dtype for copy in pinned.copies} == {torch.int16, torch.float64}  # nothing was pinned and then made anew


def test_what_is_pinned_does_not_change_later(pinned):
    """The rows' memory is used again for others; what was pinned is a copy of its own."""
    batches = list(rows(5000).iter_torch_batches(batch_size=500, pin_memory=True))
    pinned.sources.clear()
    for i, batch in enumerate(batches):
        assert batch["id"].tolist() == list(range(500 * i, 500 * i + 500))
        batch["id"].add_(1)  # and may be written to
    assert [int(batch["id"][0]) for batch in batches] == [500 * i + 1 for i in range(10)]


def test_pinned_tensors_are_moved_without_waiting(pinned):
    for batch in rows(200).iter_torch_batches(batch_size=100, pin_memory=True, device="meta"):
        assert set(batch) == {"id", "x"}
    assert pinned.moved and all(move == (True, True) for move in pinned.moved)


def test_what_a_collate_fn_makes_is_pinned(pinned):
    def collate(batch):
        return [torch.as_tensor(batch["id"]), torch.as_tensor(batch["x"])]
    for ids, x in rows(200).iter_torch_batches(batch_size=100, pin_memory=True, collate_fn=collate):
        assert pinned.is_pinned(ids) and pinned.is_pinned(x) and torch.equal(x[:, 0], ids.float())
    assert len(pinned.copies) == 4
    for made in rows(200).iter_torch_batches(batch_size=100, pin_memory=True, collate_fn=lambda batch: len(batch["id"])):
        assert made == 100  # no tensors: nothing to pin
    assert len(pinned.copies) == 4


def test_nothing_is_pinned_unasked(pinned):
    assert sum(len(batch["id"]) for batch in rows(200).iter_torch_batches(batch_size=100)) == 200
    assert not pinned.copies


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_torch_says_so():
    with pytest.raises(RuntimeError, match="(?i)accelerator|cuda|pin"):
        next(iter(weir.range(10).iter_torch_batches(batch_size=5, pin_memory=True)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    for batch in rows().iter_torch_batches(batch_size=100, pin_memory=True):
        assert all(tensor.is_pinned() for tensor in batch.values())
    for batch in rows().iter_torch_batches(batch_size=100, pin_memory=True, device="cuda"):
        assert all(tensor.device.type == "cuda" for tensor in batch.values())
        assert torch.equal(batch["x"][:, 0], batch["id"].float())
