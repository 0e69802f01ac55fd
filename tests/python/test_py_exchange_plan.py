"""How what needs all rows is shown: a shuffle is one with the maps before it, never with those behind it; figures are those of its rows."""

import re

import weir


def same(batch):
    return batch


def test_a_map_before_a_shuffle_is_one_with_it_and_one_behind_is_not():
    ds = weir.range(1000).map_batches(same).random_shuffle(seed=1).map_batches(same).materialize()
    text = ds.stats()
    assert re.findall(r"^Operator \d+ (.*): ", text, re.MULTILINE) == [
        "ReadRange->MapBatches(same)->RandomShuffle", "MapBatches(same)"]
    assert re.findall(r"Total output num rows: (\d+)", text) == ["1000", "1000"]
    assert "* shuffle: 1000 rows" in text


def test_the_old_words():
    ds = weir.range(1000).map_batches(same).random_shuffle()
    ds._old = True
    text = ds.materialize().stats()
    assert re.search(r"^Stage 1 read->map_batches->shuffle_map: (\d+)/\1 blocks executed in ", text, re.MULTILINE)
    assert "* Output num rows: 1000 min" in text


def test_a_sort_is_an_operator_of_its_own(capsys):
    ds = weir.range(100).map_batches(same).sort("id")
    assert re.findall(r"^Operator \d+ (.*): ", ds.materialize().stats(), re.MULTILINE) == ["ReadRange->MapBatches(same)", "Sort"]
    ds.explain()
    shown = capsys.readouterr().out
    assert "AllToAllOperator[Sort]\n+- TaskPoolMapOperator[ReadRange->MapBatches(same)]" in shown
    weir.range(100).map_batches(same).random_shuffle().explain()
    assert "AllToAllOperator[ReadRange->MapBatches(same)->RandomShuffle]" in capsys.readouterr().out


def test_two_exchanges():
    ds = weir.range(100).map_batches(same).random_shuffle(seed=2).map_batches(same).sort("id").materialize()
    assert re.findall(r"^Operator \d+ (.*): ", ds.stats(), re.MULTILINE) == [
        "ReadRange->MapBatches(same)->RandomShuffle", "MapBatches(same)", "Sort"]
    assert re.findall(r"Total output num rows: (\d+)", ds.stats()) == ["100", "100", "100"]
