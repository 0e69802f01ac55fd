"""Cases in which weir differs from Ray 2.60: a pattern of their ids, and why. A case that matches and does not differ fails, unless
the reason begins with "later": those are what weir does not have yet."""
import re

EARLY = "a mistake is an error at once, with a text that says what is wrong; Ray lets it pass or fails elsewhere, by chance"
KINDS = "the same mistake is an error of another class: Ray's comes by chance from the first line that stumbles"


def mistakes(*texts):
    """The pattern of these cases of cases_mistakes.py."""
    return rf"mistakes/mistake\[({'|'.join(map(re.escape, texts))})\]$"


KNOWN = [
    # ---- blocks ----
    (r"create/range_in_blocks\[10|iterate/iter_batches_sizes\[None\]|consume/(num_blocks|get_internal_block_refs)$",
     "as many blocks as asked for, of sizes that differ by one; Ray makes one more of what is left"),
    (r"transform/union$", "rows of a union come in the order of its sides, also with preserve_order, with which Ray takes turns"),
    (r"consume/materialize$", "a MaterializedDataset is materialised: materialize() gives itself"),
    (r"create/from_pandas\[empty\]", "later: frames without rows lose their columns"),
    # ---- values ----
    (r"values/(in_numpy|in_pandas|types|through_a_batch)\[\[d\(2024, 1, 2\), None\]\]", "a datetime beside None is a timestamp; Ray pickles such a column"),
    (r"values/in_pandas\[(\[\{'k': np.datetime64\(5, 'D'|\[\[np.datetime64\(5, 's'\), np|\[\[uuid)", "columns of Python objects are pandas' own of dtype object; Ray's have a dtype of its own"),
    (r"values/(in_numpy|through_a_batch)\[\[\{'k': 1\}", "integers in structs stay integers beside nulls; Ray makes floats of them"),
    (r"values/through_a_batch\[\[day", "a date that goes through a NumPy batch stays a date; Ray makes a datetime of it"),
    (r"create/from_arrow\[batch\]", "a RecordBatch is taken like a Table; Ray fails"),
    # ---- formats ----
    (r"formats/read_tfrecords\[kinds\]", KINDS),
    (r"formats/read_tfrecords_wrong\[broken\]", "a damaged file is a DataError, which is a RayTaskError; Ray's is a RuntimeError"),
    (r"formats/write_webdataset\[wrong\]", KINDS),
    # ---- preprocessors ----
    (r"preprocessors/(learned|transformed|unseen|no_such_column|\w+_nothing)\[RobustScaler", "quantiles need no other package; Ray's are an ImportError without one"),
    (r"preprocessors/\w+\[(OrdinalEncoder\(\['[lv]'\], encode_lists=False|OneHotEncoder\(\['[lv]'\])", "lists can be categories; Ray fails on Arrow's lists"),
    (r"preprocessors/(transformed|unseen|with_nulls|types)\[CountVectorizer", "a token that a text does not have is there 0 times; Ray has NA, and fails on new texts"),
    (r"preprocessors/(transformed|unseen)\[(CustomKBinsDiscretizer\(\['i'\], (\[0, 0, 5\]|\[5, 0\])\)\]|SimpleImputer\(\['n'\])", EARLY),
    (r"preprocessors/unseen\[(Standard|MinMax|MaxAbs)Scaler\(\['n'\]\)", EARLY),
    (r"preprocessors/(transformed|unseen)\[CustomKBinsDiscretizer\(\['i'\], pd.Interval", "intervals of pandas give their number; Ray fails"),
    (r"preprocessors/(transformed|unseen)\[FeatureHasher\(\['i', 'f'\], 2, 'i'\)", "the result may have the name of an input; Ray fails"),
    (r"preprocessors/on_random_rows\[SimpleImputer\(\['io', 'fo'\]", "the mean of integers is a float; Ray cuts it off in a column of integers"),
    (r"preprocessors/with_nulls\[SimpleImputer\(\['f'\]\)", "NaN is missing: the mean is that of the others; Ray's is NaN, and fails"),
    (r"preprocessors/no_such_column\[(?!(Standard|MinMax|MaxAbs)Scaler|UniformKBins|SimpleImputer\(\['o)", EARLY),
    # ---- expressions ----
    (r"expressions/value\[col\('i'\) (//|%) 2\]", "the sign is Python's: -7 // 2 is -4.0; Ray's -3.0 is a defect"),
    (r"expressions/value\[-col", "there is a minus sign; Ray has none"),
    (r"expressions/value\[lit\('5'\)\.cast", "a literal can be cast; Ray fails"),
    (r"expressions/truth_of_an_expression", "`a > 1 and b` has no meaning for expressions, and is an error; Ray silently drops a part of it"),
    (r"transform/filter_text\[a [%*]", "texts may have arithmetic; Ray refuses it"),
    # ---- functions ----
    (r"transform/map_batches_zero_copy\[False\]", "zero_copy_batch=False gives a batch that can be written to; Ray's cannot"),
    (r"consume/repr_of_functions", "a built-in function has its name; Ray shows its type"),
    (r"errors/wrong_arguments_of_map_batches\[num_gpus=1\]", "num_gpus does not need a batch_size"),
    (r"errors/wrong_arguments_of_map_batches\[(batch_size=('x'|1.5)|compute|fn_constructor_kwargs)|errors/no_function\[", EARLY),
    (r"create/range_of_no_number\[2", KINDS),
    (r"consume/explain_tells_what_runs_as_one\[.*strict=True\)\.map\(f\)\]",
     "what follows a repartition by rows is an operator of its own; Ray takes it along where the repartition went with the function before it"),
    # ---- columns ----
    (r"files/read_parquet_columns\[\['nope'\]", "unknown columns are an error; Ray gives rows with a column __bsp_stub"),
    (r"transform/rename_columns\[\{'a': 'b'\}\]", "two columns of one name are an error; Ray loses one of them"),
    (r"errors/wrong_column_names\[''", EARLY),
    (r"errors/wrong_filter_texts\[id \+ 1\]", KINDS),
    (r"errors/wrong_(limits\[1.5\]|repartition\[0|loops\[batch_size|writes\[mode|reads\[(columns='|file_ext|over|nons))|create/from_items_of_no_list\[\{", EARLY),
    (r"errors/write_to_a_file", "a file where a folder is wanted is a NotADirectoryError"),
    # ---- groups ----
    (r"grouped/aggregate_nan\[(Sum|Min|Mean)", "what NaN makes of a sum, or all NaN of a minimum, is NaN; Ray makes null of it"),
    (r"aggregates/aggregate\[ValueCounter", "values are counted in their order, not in that of the rows"),
    (r"grouped/key\[struct\]", "structs are keys, too"),
    (r"grouped/(wrong_key\[\[\]\]|map_groups_wrong\[format\])", EARLY),
    # ---- files ----
    (r"files/read_relative", "a relative path is found in the program's folder; Ray's workers look in theirs"),
    (r"files/read_text_encoding\[utf-8\]", "bytes that are no UTF-8 are a ValueError that names file and line, not a UnicodeDecodeError"),
    (r"files/read_parquet_wider", "later: files with more columns than the first"),
    (r"extend/datasink_that_fails", "an error in a sink's write is the user's, and can be caught as such, too"),
    (r"extend/filename_provider", "a provider whose names have no number is taken at its word where there is one file; Ray refuses it"),
    (r"consume/random_access", "rows are plain dicts; Ray's are objects of a class of its own"),
    (r"iterate/to_torch", "to_torch is there; Ray has dropped it"),
    (r"consume/summary", "summary needs no further package; Ray wants one"),
    (r"scripts/shown\[data\.read_(csv|text)\(csv\(at\)\)\]|scripts/shown_after\[(take|count|materialize|show)\(",
     "files of which nothing has been read show how many tasks will read them"),
    (r"user/images_of_two_sizes", "later: the schema is that of the first image; functions get each file's images by themselves, Ray's those of a block"),
    # ---- mistakes ----
    (mistakes("ds.drop_columns('id')"), "a text is one column's name, as for select_columns; Ray takes its letters for columns"),
    (mistakes("ds.union()", "ds.zip()"), "with none, a Dataset is what it was; Ray fails"),
    (mistakes("data.from_numpy([])"), "no arrays are no rows, as for the other from_…; Ray fails"),
    (mistakes("ds.random_shuffle(num_blocks=-1)"), "num_blocks of random_shuffle still works, with a number; Ray has dropped it"),
    (mistakes("data.read_json(files, lines='x')"), "a value that is no bool is taken as one; Ray's reader is another one"),
    (mistakes("ds.sort([])", "ds.join(ds, 'inner', 0)", "ds.join(ds, 'inner', 2, on=())", "ds.join(ds, 'inner', 2, on=('id',), right_on=('id', 'x'))", "ds.std('id', ddof='x')",
              "ds.groupby('id').map_groups(f, batch_format='x')", "ds.write_images(out, column='id')", "data.range(5, override_num_blocks=0)", "data.from_pandas_refs(5)",
              "data.from_numpy_refs(5)", "data.read_parquet(files, file_extensions=5)", "data.read_csv(files, file_extensions=5)", "data.read_text(files, file_extensions=5)"), KINDS),
    (mistakes("ds.map_batches(f, batch_size=2.5)", "ds.add_column(5, lambda b: b['id'])", "ds.add_column(None, lambda b: b['id'])", "ds.repartition(0)",
              "ds.join(ds, 'inner', 2, on=('id',), left_suffix=5)", "ds.split(1.5)", "ds.streaming_split(0)", "ds.streaming_split(-1)", "ds.streaming_split(2, locality_hints=['a'])",
              "list(ds.iter_batches(batch_size=0))", "list(ds.iter_batches(batch_size=-1))", "list(ds.iter_batches(batch_size=1.5))", "list(ds.iter_batches(local_shuffle_buffer_size=0))",
              "list(ds.iter_batches(local_shuffle_buffer_size=-1))", "list(ds.iter_torch_batches(batch_size=0))", "list(ds.iterator().iter_batches(batch_size=0))", "ds.std('id', ddof=-1)",
              "ds.unique(None)", "agg.Quantile('id', q=2)", "agg.Quantile('id', q='x')", "ds.write_parquet(out, mode='x')", "ds.write_parquet(out, mode=5)", "ds.write_csv(out, mode='x')",
              "ds.to_numpy_refs(column='nope')", "data.from_items('abc')", "data.from_numpy('x')", "data.read_parquet(files, nonsense=1)", "data.read_parquet(files, override_num_blocks=0)",
              "data.read_parquet(files, override_num_blocks='x')", "data.read_parquet(files, file_extensions=[])", "data.read_parquet(files, parallelism=0)",
              "data.read_parquet(files, parallelism='x')", "col(5)", "col(None)", "x(col('id').alias(5))", "expressions.random(seed='x')"), EARLY),
    # ---- not there yet ----
    (r"core/metrics\[pickled\(Gauge", "default tags go with a metric to a worker; Ray loses them on the way, and misses them there"),
    (r"core/resources", "later: ray.nodes in weir itself; under compat it is there"),
]


def reason(name):
    """Why a case differs; None: it does not."""
    return next((why for pattern, why in KNOWN if re.match(pattern, name)), None)
