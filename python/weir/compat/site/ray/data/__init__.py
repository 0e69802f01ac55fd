"""ray.data: weir under the names that scripts written for Ray Data use."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir weir.stats weir.ray_types",
    "ActorPoolStrategy BlockBasedFileDatasink Catalog CatalogAccessMode ClickHouseTableSettings "
    "DatabricksUnityCatalog DataContext DataIterator Dataset DatasetContext DatasetIterator DatasetPipeline "
    "DatasetSummary Datasink Datasource ExecutionOptions ExecutionResources FileShuffleConfig from_arrow "
    "from_arrow_refs from_blocks from_daft from_dask from_huggingface from_items from_mars from_modin from_numpy "
    "from_numpy_refs from_pandas from_pandas_refs from_spark from_tf from_torch GroupedData KafkaAuthConfig "
    "list_stats_summaries MixStoppingCondition NodeIdStr Preprocessor RandomSeedConfig range range_tensor "
    "read_audio read_avro read_bigquery read_binary_files read_clickhouse read_csv read_databricks_tables "
    "read_datasource read_delta read_delta_sharing_tables read_hudi read_iceberg read_images read_json read_kafka "
    "read_lance read_lerobot read_mcap read_mongo read_numpy read_orc read_parquet read_snowflake read_sql "
    "read_text read_tfrecords read_unity_catalog read_videos read_webdataset read_zarr ReaderFormat ReadTask "
    "ResolvedSource RowBasedFileDatasink SaveMode Schema set_progress_bars SinkMode TaskPoolStrategy",
)
