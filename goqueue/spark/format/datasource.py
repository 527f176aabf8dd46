"""The format `goqueue`, as Spark sees it.

Spark carries this class by its name to Python processes of its own and makes it anew in each: one on the driver
that asks for the schema, one that plans, one for the offsets of a stream, one for each commit, and one for each
task. So it holds nothing but its options, and whoever it makes connects for itself, when first asked.
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
        """For reads alone; not even whether it is a stream is known when Spark asks."""
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
