"""Logs whose cells are hard to read, for tests of engines that read logs."""

import numpy as np
import pandas as pd
import psycopg

from dpbandits.tables import Categories, Range, Schema

PEOPLE = Schema(
    age=Range(18, 90, clip=True, missing=30),
    income=Range(0, 1000),
    region=Categories(["north", "south", "none"]),
)
OFFERS = ["mail", "call", "nothing"]
HOSTILE = [
    None, "", "NA", "nan", "NaN", "-nan", "1e999", "-1e999", "1,5", "0x1F", "1_000", "\uff15", "5", "05",
    " 5 ", "5.0", "1e-320", "-0", "true", "False", "2024-05-31", "12:30", "inf", "Infinity", "much",
    "\u200b5", "a'b", "18", "90", "89.99999999999999", "1000", "1000.0000000001", "0.1", "1e-5", "1E2",
    "+7", ".5", "5.", "--5",
]  # fmt: skip


def hostile(rows, each=3, seed=3):
    """A log with text cells of which a third are hostile, ids in several spellings, and one busy user."""
    rng = np.random.default_rng(seed)

    def spoilt(cells, share=0.3):
        junk = np.array(HOSTILE, dtype=object)[rng.integers(0, len(HOSTILE), rows)]
        return np.where(rng.random(rows) < share, junk, np.array([str(cell) for cell in cells], dtype=object))

    numbers = np.arange(rows) // each
    numbers[: rows // 10] = 0
    spelled = np.array([[f"{i}", f" 0{i} ", f"{i}.0"][i % 3] for i in numbers], dtype=object)
    spelled[::2] = np.array([str(i) for i in numbers[::2]], dtype=object)
    return pd.DataFrame(
        {
            "age": spoilt(rng.integers(10, 100, rows)),
            "income": spoilt(np.round(rng.random(rows) * 1100, 3)),
            "region": spoilt(
                np.array(["north", "south ", "NONE", "mars"], dtype=object)[rng.integers(0, 4, rows)]
            ),
            "offer": spoilt(np.array([*OFFERS, "fax"], dtype=object)[rng.integers(0, 4, rows)], 0.1),
            "paid": spoilt(np.round(rng.random(rows), 4)),
            "chance": spoilt(np.exp(-20 * rng.random(rows))),
            "person": np.where(rng.random(rows) < 0.1, spoilt(numbers, 1.0), spelled),
        },
        dtype=object,
    )


def stored(address, held):
    """Store the log in the table `log` of a PostgreSQL."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE log ({', '.join(f'{name} text' for name in held)})")
        with connection.cursor() as cursor, cursor.copy("COPY log FROM STDIN") as copy:
            for row in held.itertuples(index=False):
                copy.write_row(row)


class Lying:
    """A source whose engine returns other sums."""

    def __init__(self, source, **changed):
        self.source, self.changed = source, changed

    def __getattr__(self, name):
        return getattr(self.source, name)

    def query(self, sql, **told):
        found = self.source.query(sql, **told)
        return found | {name: change(found[name]) for name, change in self.changed.items()}
