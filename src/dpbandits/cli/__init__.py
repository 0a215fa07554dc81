"""The command line: `dpbandits COMMAND`, every command with --help; commands stand as the rooms stand.

- `run`: a private policy on a table of people, what it costs, an attack on it, and a report.
- `schema TABLE`: a first TOML file for a table, from a sample of it that everybody may see.
- `calibrate gaussian`: the noise that a promise needs, by both certificates.
- `guarantee CONFIG`: the statement of a policy before any data.
- `audit NAME`, `audit --all`: attack the guarantees with the real noise; bounds, and a page.
- `central learn`, `predict`, `evaluate`: a randomised log in, a public policy out, and what it is worth.
- `local simulate`: people who decide on their own device; `local aggregate`: add up their reports.
- `outsourced curate`, `answer`, `optimise`: release a table once, and let a stranger optimise over it.
- `lab compare STUDY.toml`: run any policies in any worlds, as one table.

Nothing is overwritten silently: results are replaced with `--force`, releases, secrets and states never.
Whatever goes wrong is one line on standard error, no traceback: exit status 1 says refused, 2 that words are
wrong, 70 a defect, 130 Ctrl-C. The line about a defect holds none of its text, which could hold data;
`DPBANDITS_TRACEBACK=1` shows all of it to a developer. In tables empty cells, NA, NaN, NaT, None and null are
missing.

Each command's file holds its own options and printing; what is computed lives in the layers below.
"""

from dpbandits.cli.main import app, main

__all__ = ["app", "main"]
