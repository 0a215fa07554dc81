"""Decoded size of an Arrow file's messages, computed from their descriptions before they are decoded.

An Arrow file (also called IPC or Feather, version 2) is a sequence of messages. Each has a description and a
body, whose buffers may be compressed. Arrow allocates the number of bytes that a compressed buffer declares
as its decoded size, and a small file can declare any number. The description is a flatbuffer, of which these
fields are read:

| table | fields |
|---|---|
| Message | 2: header, a RecordBatch or a DictionaryBatch |
| DictionaryBatch | 1: data, a RecordBatch |
| RecordBatch | 0: rows; 2: buffers, each an offset and a length in the body; 3: compression, if any |

Source: Apache Arrow columnar format 1.5, "Serialization and Interprocess Communication"; `Message.fbs`.
"""

import struct

__all__ = ["unfolded"]


def unfolded(description: memoryview, body: memoryview, *, dictionary: bool) -> tuple[int, int]:
    """Return the numbers of rows and of bytes that a message has after decoding.

    Args:
        description: The message's description, a flatbuffer.
        body: The message's buffers.
        dictionary: True for a message with a dictionary, False for one with rows.

    Raises:
        ValueError: The message is damaged.
    """
    try:
        batch = _pointed(description, _field(description, _pointed(description, 0), 2))
        if dictionary:
            batch = _pointed(description, _field(description, batch, 1))
        rows = struct.unpack_from("<q", description, at)[0] if (at := _field(description, batch, 0)) else 0
        size, listed = 0, _field(description, batch, 2)
        if listed:
            listed = _pointed(description, listed)
            (count,) = struct.unpack_from("<I", description, listed)
            buffers = struct.iter_unpack("<qq", description[listed + 4 : listed + 4 + 16 * count])
            compressed = _field(description, batch, 3) != 0
            for offset, length in buffers:
                says = struct.unpack_from("<q", body, offset)[0] if compressed and length else -1
                size += length if says == -1 else says
                if length < 0 or offset < 0 or says < -1:
                    raise ValueError
    except (struct.error, IndexError) as error:
        raise ValueError from error
    return rows, size


def _pointed(data: memoryview, at: int) -> int:
    """Return the position to which the offset that is stored at the position `at` points."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: memoryview, table: int, number: int) -> int:
    """Return the position of a field of the flatbuffer table at `table`.

    The result is 0 if the field is absent and has its default.
    """
    layout = table - int(struct.unpack_from("<i", data, table)[0])
    if layout < 0:
        raise ValueError
    (size,) = struct.unpack_from("<H", data, layout)
    entry = 4 + 2 * number
    offset = struct.unpack_from("<H", data, layout + entry)[0] if entry + 2 <= size else 0
    return table + int(offset) if offset else 0
