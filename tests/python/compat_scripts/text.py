import os, tempfile, ray
tmp = tempfile.mkdtemp()
open(os.path.join(tmp, "a.txt"), "w").write("the quick brown fox\n\njumps over the lazy dog\r\n")
ds = ray.data.read_text(tmp)
print(ds.take_all())
words = ds.flat_map(lambda r: [{"word": w} for w in r["text"].split()])
print(words.count())
print(words.filter(lambda r: len(r["word"]) > 4).map(lambda r: {"w": r["word"].upper()}).take_all())
b = ray.data.read_binary_files(os.path.join(tmp, "a.txt"), include_paths=True)
row = b.take(1)[0]
print(type(row["bytes"]), len(row["bytes"]), os.path.basename(row["path"]))
print(ray.data.from_items(["a", "b"]).take_all(), ray.data.from_items([{"a": 1}, {"a": 2}]).schema().names)
import datetime, decimal
rows = [{"d": datetime.date(2024, 1, 1), "t": datetime.datetime(2024, 1, 1, 3), "n": None, "l": [1, 2], "m": {"k": 1}, "b": b"x", "e": decimal.Decimal("1.5")}]
ds = ray.data.from_items(rows)
print(ds.take(1)); print([str(t) for t in ds.schema().types])
print(ray.data.range_tensor(3, shape=(2, 2)).take(1)[0]["data"].tolist())
print(ds.stats() == "" or isinstance(ds.stats(), str))
