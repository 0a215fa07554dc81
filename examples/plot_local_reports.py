"""
What does one report say?
=========================

A device sends a few random bytes. Here two people who differ in everything, age and answer, send 2,000
reports each. At epsilon 1 whoever reads one report and has to say which of the two sent it is right at most
73 times in a hundred; only many reports together say something of the two.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

spec = dpb.local.Spec(
    contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1)
)
published = dpb.local.Server(spec).publish()


def reports_of(age, bought, n=2_000):
    device = dpb.local.Client(spec, budget=n)  # a real device has budget for one
    sent = []
    for _ in range(n):
        device.choose(published, {"age": age})
        sent.append(device.report(bought))
    return sent


# %%
# The last bytes of a report are its randomised category.

categories = np.array(
    [[report[-1] for report in reports_of(age, bought)] for age, bought in ((20, True), (85, False))]
)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for offset, name, sent in zip(
    (-0.2, 0.2), ("20 years, bought", "85 years, did not"), categories, strict=True
):
    values, counts = np.unique(sent, return_counts=True)
    axes.bar(values + offset, counts / len(sent), width=0.4, label=name)
axes.set(xlabel="last byte of the report", ylabel="share of reports", xticks=np.unique(categories))
axes.legend()
plt.show()
print(f"right guesses about the sender of one report, at most: {spec.statement().membership_bound():.1%}")
