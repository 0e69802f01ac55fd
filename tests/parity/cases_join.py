"""join: eight kinds, names of columns, keys that are null."""
from parity import case

KINDS = ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti", "right_anti"]


def sides(data):
    left = [{"a": a, "k": k, "b": f"l{a}"} for a, k in enumerate([1, 2, 2, None, 5, 7])]
    right = [{"c": c, "key": k, "b": f"r{c}"} for c, k in enumerate([2, 2, 7, 9, None])]
    return data.from_items(left, override_num_blocks=2), data.from_items(right, override_num_blocks=2)


@case(*KINDS)
def join(data, at, kind):
    left, right = sides(data)
    ds = left.join(right, kind, 2, on=("k",), right_on=("key",), right_suffix="_r")
    rows = ds.take_all()
    return sorted(([list(row), list(row.values())] for row in rows), key=repr)
