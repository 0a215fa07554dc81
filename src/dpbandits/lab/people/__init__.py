"""Study of a table of users: run policies that decide about its rows, and report the cost of privacy."""
