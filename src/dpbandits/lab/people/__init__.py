"""The study of real people: deciding about the rows of a table, and its report."""
