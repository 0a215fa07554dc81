"""Read Arrow files, batch by batch, within public limits."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpbandits._lazy import needing
from dpbandits.errors import DataUnavailable, InvalidData
from dpbandits.tables.delimited import check_names
from dpbandits.tables.messages import unfolded

__all__ = ["LARGEST_MESSAGE", "arrow_batches", "arrow_schema"]

LARGEST_MESSAGE = 1 << 30
"""Largest number of bytes to which one message of an Arrow file may be decoded."""

_FIRST = b"ARROW1\0\0"
"""First bytes of an Arrow file."""


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors, which may repeat cells, into DataUnavailable."""
    with needing("Arrow tables need pyarrow: pip install 'dpbandits[warehouse]'"):
        from pyarrow import ArrowException
    try:
        yield
    except InvalidData:
        raise
    except (ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system; pyarrow's have no number
            raise
        raise DataUnavailable(f"{path.name} cannot be read: not an Arrow file") from None


def arrow_schema(path: Path) -> Any:
    """Return the `pyarrow.Schema` of a file, after checking the decoded size of every message.

    Raises:
        InvalidData: A message is decoded to too many bytes, or a name is there twice.
        DataUnavailable: The file is damaged.
        OSError: The file cannot be opened.
    """
    with _damaged(path):
        import pyarrow as pa
        from pyarrow.ipc import MessageReader, open_stream

        with pa.memory_map(str(path)) as data:
            for message in MessageReader.open_stream(_begun(data)):
                if message.type in ("record batch", "dictionary"):
                    about, body = memoryview(message.metadata), memoryview(message.body or b"")
                    rows, size = unfolded(about, body, dictionary=message.type == "dictionary")
                    if max(rows, size) > LARGEST_MESSAGE:
                        raise _too_large()
            with open_stream(_begun(data)) as reader:
                found = reader.schema
                check_names(found.names)
                return found


def arrow_batches(path: Path) -> Iterator[Any]:
    """Yield the record batches of a file whose schema `arrow_schema` has returned."""
    with _damaged(path):
        import pyarrow as pa
        from pyarrow.ipc import open_stream

        with pa.memory_map(str(path)) as data, open_stream(_begun(data)) as reader:
            for batch in reader:
                batch.validate(full=True)  # offsets in a damaged file may point outside its buffers
                yield batch


def _begun(data: Any) -> Any:
    """Return an open file at its first message: both a file and a stream of Arrow may come."""
    data.seek(0)
    data.seek(len(_FIRST) if data.read(len(_FIRST)) == _FIRST else 0)
    return data


def _too_large() -> InvalidData:
    return InvalidData(f"the file has messages that decode to more than {LARGEST_MESSAGE >> 20} MiB")
