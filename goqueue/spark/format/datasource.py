"""The format `goqueue` of Spark.

Spark sends this class by name to Python processes of its own and instantiates it in each: one on the driver that
asks for the schema, one that plans, one for the offsets of a stream, one for each commit, and one for each task. So
it holds nothing but its options, and each reader and writer connects for itself, when first used.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from goqueue.spark.options import column_options, sink_options, source_options
from goqueue.spark.reading.source import GoQueueReader
from goqueue.spark.reading.stream import GoQueueStreamReader
from goqueue.spark.schema import source_schema
from goqueue.spark.sink.sink import GoQueueStreamWriter, GoQueueWriter
from goqueue.spark.worker import in_task

FORMAT = "goqueue"


class GoQueueDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """For reads only; when Spark asks, it is not even known whether it is a stream."""
        in_task()
        return source_schema(**column_options(self.options)._asdict())

    def reader(self, schema: StructType) -> DataSourceReader:
        return GoQueueReader(schema, source_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (the name is Spark's)
        return GoQueueStreamReader(schema, source_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return GoQueueWriter(schema, sink_options(self.options, streaming=False), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return GoQueueStreamWriter(schema, sink_options(self.options, streaming=True), overwrite=overwrite)
