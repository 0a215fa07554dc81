"""Two constants of a readout: `python -m reproduction.tuning.readout`, on seeds below a million.

**Weight of the sum of answers.** More weight finds unequal shares of answers more often, and makes every
interval wider. The first table has both figures for pure noise at 10,000 people. `found` says how often the
check finds 90% against 80% answered, and the aim is .9. `width` is that of an interval at 1% conversions over
the one without privacy, and the aim is 2.95. `lattice.ANSWERED` is the largest weight here with the L2
sensitivity that `lattice` states.

**Smallest count of a segment.** The second table is over kinds of noise and metrics. `read` is the share of
segments that are read. `covered` is the smallest coverage of these, and `together` the smallest share of runs
in which all six intervals hold. The aims are 94% and 95%, with a standard error of .3 points.
`segments.LEAST_COUNT` is the smallest count that meets both at 10,000 people.
"""

from unittest.mock import patch

from reproduction.studies import readout as study

SEED, RUNS, WEIGHTS, COUNTS = 500_000, 20_000, (0.4, 0.5, 0.55, 0.5625, 0.6), (6.0, 8.0, 10.0)


def main() -> None:
    print("weight  found  width")
    for weight in WEIGHTS:
        with patch.object(study, "SEED", SEED), patch.object(study, "ANSWERED", weight):
            found = study.answered_row("pure", 10_000, (0.9, 0.8), RUNS, 0)["found"]
            wide = study.main_row("rare", "pure", 10_000, RUNS, 1)["width_over_open"]
        print(f"{weight:6.4f}  {found:.3f}  {wide:.3f}", flush=True)
    print("count  people  read  covered  together")
    for count in COUNTS:
        for people in (3_000, 10_000):
            with (
                patch.object(study, "SEED", SEED),
                patch("dpbandits.models.readout.segments.LEAST_COUNT", count),
            ):
                rows = [
                    study.segments_row("some", kind, metric, people, RUNS // 4, place)
                    for place, kind in enumerate(study.KINDS)
                    for metric in ("yes", "revenue")
                ]
            read = sum(row["enough"] for row in rows) / len(rows)
            covered = min(row["one_cell_coverage"] or 1.0 for row in rows)
            together = min(row["all_covered"] for row in rows)
            print(f"{count:5.0f}  {people:6}  {read:.3f}  {covered:.3f}    {together:.3f}", flush=True)


if __name__ == "__main__":
    main()
