"""
How much budget is left?
========================

A ledger keeps one account for the people whom several policies see. A policy charges the account before its
first answer, and one that it cannot pay for is refused before it computes anything. An account adds up what
proves each promise, which pays for more policies than adding up their epsilons.
"""

import matplotlib.pyplot as plt

import dpbandits as dpb

ledger = dpb.MemoryLedger()
customers = ledger.open_account("customers", privacy=dpb.JointDP(3, 1e-5))
age, promise = dpb.Range(18, 90), dpb.JointDP(epsilon=1, delta=1e-6)
known = {"contexts": dpb.Schema(age=age), "arms": ["mail", "call"], "reward_range": (0, 1)}
known["tuning"] = dpb.central.GPTuning(release="features")  # Gaussian noise
spent, refused = [0.0], False
while not refused:
    campaign = dpb.central.GPBandit(**known, horizon=1_000, privacy=promise, account=customers)
    try:
        campaign.ask({"age": 44}, user="u-17")
        spent.append(float(ledger.balance("customers").spent_as_epsilon))
    except dpb.errors.BudgetExceeded as error:
        print(error)
        refused = True

# %%
# What campaigns at epsilon 1 each cost the same customers, together, in an account of epsilon 3.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(spent, "o-", label="spent, as the account adds it up")
axes.plot(range(len(spent)), "o:", color="grey", label="epsilons added up")
axes.axhline(3, color="tab:red", linestyle="--", label="the account")
axes.set(xlabel="campaigns", ylabel="epsilon")
axes.legend()
plt.show()
