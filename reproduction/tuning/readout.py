"""Two constants of a readout: `python -m reproduction.tuning.readout`, on seeds below a million.

**Weight of the sum of answers.** More weight finds unequal shares of answers more often, and makes every
interval wider. The first table has both figures for pure noise at 10,000 people. `found` says how often the
check finds 90% against 80% answered, and the aim is .9. `width` is that of an interval at 1% conversions over
the one without privacy, and the aim is 2.95. `lattice.ANSWERED` is the largest weight here with the L2
sensitivity that `lattice` states.

**Smallest count of a segment.** The second table is over kinds of noise and metrics. It has the share of
segments that are read, and the smallest coverage among these, whose standard error is below .4 points. The
aim is 94%. Below 6 (`segments.LEAST_COUNT`) few more are read at 10,000 people, and a ratio of noisier
numbers is further from normal.
"""

from unittest.mock import patch

from reproduction.studies import readout as study

SEED, RUNS, WEIGHTS, COUNTS = 500_000, 20_000, (0.4, 0.5, 0.55, 0.5625, 0.6), (4.0, 6.0, 8.0, 12.0)


def main() -> None:
    print("weight  found  width")
    for weight in WEIGHTS:
        with patch.object(study, "SEED", SEED), patch.object(study, "ANSWERED", weight):
            found = study.answered_row("pure", 10_000, (0.9, 0.8), RUNS, 0)["found"]
            wide = study.main_row("rare", "pure", 10_000, RUNS, 1)["width_over_open"]
        print(f"{weight:6.4f}  {found:.3f}  {wide:.3f}", flush=True)
    print("count  people  read  covered")
    for count in COUNTS:
        for people in (3_000, 10_000):
            with (
                patch.object(study, "SEED", SEED),
                patch("dpbandits.models.readout.segments.LEAST_COUNT", count),
            ):
                rows = [
                    study.segments_row("some", kind, metric, people, RUNS // 10, place)
                    for place, kind in enumerate(study.KINDS)
                    for metric in ("yes", "revenue")
                ]
            read = sum(row["enough"] for row in rows) / len(rows)
            covered = min(row["one_cell_coverage"] or 1.0 for row in rows)
            print(f"{count:5.0f}  {people:6}  {read:.3f}  {covered:.3f}", flush=True)


if __name__ == "__main__":
    main()
