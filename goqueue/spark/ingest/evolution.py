"""Schema evolution of a table: a new schema may add columns, or fields of structs.

Existing columns stay as they are: rows were written with them, and readers rely on them. A field that is missing or
has another type is an error before anything starts.
"""

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from goqueue.errors import InvalidConfig


def evolved(table: StructType, wanted: StructType) -> StructType:
    """The columns of the table with the new ones; `InvalidConfig` names all that are not possible."""
    faults: list[str] = []
    made = _structs(table, wanted, "", faults)
    if faults:
        raise InvalidConfig(
            f"the table cannot go on with this schema: {'; '.join(faults)}. A schema may add fields; for other "
            "changes write to another table",
            faults=faults,
        )
    return made


def _structs(old: StructType, new: StructType, pointer: str, faults: list[str]) -> StructType:
    wanted = {field.name: field for field in new.fields}
    faults += [f"{pointer}/{name} is in the table but not in it" for name in old.names if name not in wanted]
    kept = [
        StructField(name, _types(old[name].dataType, wanted[name].dataType, f"{pointer}/{name}", faults))
        for name in old.names
        if name in wanted
    ]
    folded = {name.lower() for name in old.names}
    for name in wanted:
        if name not in old.names and name.lower() in folded:
            faults.append(f"{pointer}/{name} differs from a column only in its capitals")
    return StructType(kept + [field for field in new.fields if field.name not in old.names])


def _types(old: DataType, new: DataType, pointer: str, faults: list[str]) -> DataType:
    match old, new:
        case StructType(), StructType():
            return _structs(old, new, pointer, faults)
        case ArrayType(), ArrayType():
            return ArrayType(_types(old.elementType, new.elementType, f"{pointer}/*", faults))
        case MapType(), MapType():
            return MapType(old.keyType, _types(old.valueType, new.valueType, f"{pointer}/*", faults))
    if old != new:
        faults.append(f"{pointer} is {old.simpleString()} in the table and {new.simpleString()} in it")
    return old
