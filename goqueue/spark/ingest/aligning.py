"""Values with the types of one schema as those of another, by name.

What the other lacks is left out, and what it has beside is null. A whole number becomes a number; every other
change of a type is a misfit.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's own pages do)
from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column


def aligned_fields(have: StructType, want: StructType) -> "list[Column]":
    """A column for each field that is wanted, where there are no misfits."""
    return [
        (
            aligned(F.col(f"`{each.name}`"), have[each.name].dataType, each.dataType)
            if each.name in have.names
            else F.lit(None).cast(each.dataType)
        ).alias(each.name)
        for each in want.fields
    ]


def aligned(value: "Column", have: DataType, want: DataType) -> "Column":
    match have, want:
        case StructType(), StructType():
            return F.when(value.isNotNull(), _struct(value, have, want))
        case ArrayType(), ArrayType():
            return F.transform(value, lambda each: aligned(each, have.elementType, want.elementType))
        case MapType(), MapType():
            return F.transform_values(value, lambda _, each: aligned(each, have.valueType, want.valueType))
    return value if have == want else value.cast(want)


def _struct(value: "Column", have: StructType, want: StructType) -> "Column":
    return F.struct(
        *(
            (
                aligned(value.getField(each.name), have[each.name].dataType, each.dataType)
                if each.name in have.names
                else F.lit(None).cast(each.dataType)
            ).alias(each.name)
            for each in want.fields
        )
    )


def misfits(have: DataType, want: DataType, pointer: str = "") -> Iterator[str]:
    match have, want:
        case StructType(), StructType():
            for each in want.fields:
                if each.name in have.names:
                    yield from misfits(have[each.name].dataType, each.dataType, f"{pointer}/{each.name}")
        case ArrayType(), ArrayType():
            yield from misfits(have.elementType, want.elementType, f"{pointer}/*")
        case MapType(), MapType():
            yield from misfits(have.valueType, want.valueType, f"{pointer}/*")
        case LongType(), DoubleType():
            pass
        case _ if have != want:
            yield f"{pointer} is {have.simpleString()} in it and {want.simpleString()} in the table"
