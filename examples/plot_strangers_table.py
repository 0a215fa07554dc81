"""
What does a stranger see of a table?
====================================

The curator publishes noisy positions once; the modeler searches among them and asks for answers by row.
Three epsilons, the same 300 rows: the picture shows what the modeler is given, coloured by what only the
curator knows.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

rng = np.random.default_rng(7)
age, dose = rng.uniform(20, 80, 300), rng.uniform(0, 10, 300)
table = {"age": age, "dose": dose, "effect": np.exp(-(((age - 55) / 12) ** 2) - ((dose - 3) / 2) ** 2)}
schema = dpb.Schema(age=dpb.Range(20, 80), dose=dpb.Range(0, 10))

figure, axes = plt.subplots(1, 3, figsize=(7.5, 3), layout="constrained", sharex=True, sharey=True)
for ax, epsilon in zip(axes, (0.5, 2, 8), strict=True):
    curator = dpb.outsourced.Curator(
        table, contexts=schema, privacy=dpb.RowDP(epsilon=epsilon, distance=1), objective="effect", cap=25
    )
    published = curator.publish()
    modeler, best = dpb.outsourced.Modeler(published, horizon=25), []
    for _ in range(25):
        row = modeler.ask()
        modeler.tell(row, curator.answer(row))
        best.append(max(dict(modeler.answered).values()))
    points = np.asarray(published.inputs)
    ax.scatter(*points.T, s=6, color="grey")
    ax.scatter(
        *points[[row for row, _ in modeler.answered]].T, s=18, c=[value for _, value in modeler.answered]
    )
    ax.set_title(f"epsilon = {epsilon:g}\nbest of 25: {best[-1]:.2f}", fontsize=10)
plt.show()
