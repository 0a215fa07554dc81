"""The curator: the owner of a table, who releases its rows once and answers for them."""
