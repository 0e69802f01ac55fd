import ray, pyarrow as pa
from ray.data.expressions import col, lit, udf, star
from ray.data.datatype import DataType

ds = ray.data.from_items([{"name": f"user{i}", "age": 20 + i, "score": i * 1.5, "tags": ["a", "b"][: i % 3]} for i in range(6)])
out = ds.with_column("double", col("age") * 2).with_column("adult", col("age") >= lit(22)).filter(expr=col("adult")).select_columns(["name", "double"])
print(out.take_all())
print(ds.filter(expr="age > 23 and score < 7").take_all()[0]["name"])
print(ds.with_column("upper", col("name").str.upper()).take(1)[0]["upper"])
print([r["r"] for r in ds.with_column("r", (col("score") / 2).round()).take_all()])
print([r["n"] for r in ds.with_column("n", col("tags").list.len()).take_all()])
@udf(return_dtype=DataType.int64())
def add_one(x: pa.Array) -> pa.Array:
    import pyarrow.compute as pc
    return pc.add(x, 1)
print([r["b"] for r in ds.with_column("b", add_one(col("age"))).take_all()])
print(ds.rename_columns({"age": "years"}).columns(), ds.drop_columns(["tags"]).columns())
e = (col("a") + 1) * 2
print(repr(e) != "", e.structurally_equals((col("a") + 1) * 2), e.structurally_equals(col("a")))
print(ds.filter(expr=col("name").is_in(["user1", "user2"])).count(), ds.filter(expr=~(col("age") > 22)).count())
print(ds.with_column("c", col("age").cast(DataType.string())).take(1)[0]["c"])
print(ds.filter(expr=col("score").is_not_null() & (col("age") % 2 == 0)).count())
print(ds.with_column("k", lit("x")).take(1)[0]["k"], ds.add_column("z", lambda df: df["age"] + 1).take(1)[0]["z"])
