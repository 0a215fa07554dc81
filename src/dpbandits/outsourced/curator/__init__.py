"""The curator: the owner of a table, who releases it once and answers for its rows."""
