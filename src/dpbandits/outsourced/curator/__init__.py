"""The curator: who holds the table, releases it once and answers for its rows."""
