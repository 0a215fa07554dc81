"""Cells of a table, read in SQL by a database.

- `dialects`: the words in which databases differ.
- `cells`: expressions of a cell's text and number.
- `times`: expressions of dates and times, as microseconds.
- `levels`: levels of contexts, codes of arms and steps of actions.
- `ids`: canonical texts of user ids.

Every expression gives what the library gives for the same cell. No cell makes a statement fail.
"""
