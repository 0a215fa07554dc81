import numpy as np


def draw(n, rng):
    # people: two waves of age, spells of unemployment with a long tail
    young = rng.random(n) < 0.45
    age = np.where(young, rng.normal(28, 6, n), rng.normal(49, 8, n))
    age = np.clip(np.round(age), 18, 64)
    months = np.clip(np.floor(rng.exponential(7.0 + 0.12 * (age - 18), n)), 0, 48)
    u = rng.random(n)
    p_none = np.where(age < 30, 0.30, 0.22)
    p_uni = np.where(age < 35, 0.24, 0.17)
    school = np.where(u < p_none, "none", np.where(u < 1 - p_uni, "apprenticeship", "university"))
    base = np.where(school == "university", 3100.0, np.where(school == "apprenticeship", 2350.0, 1850.0))
    wage = np.clip(base * np.exp(rng.normal(0, 0.28, n) + 0.006 * (age - 40)), 800, 7000)
    health = np.where(rng.random(n) < 0.08 + 0.006 * (age - 18), "limited", "fit")
    office = rng.choice(np.array(["centre", "harbour", "hills", "plain"]), n, p=[0.4, 0.25, 0.15, 0.2])

    # chance of a job in nine months without any measure
    z = 0.0 - 0.018 * (age - 40) - 0.045 * np.minimum(months, 24)
    z += np.where(school == "university", 0.35, np.where(school == "none", -0.45, 0.0))
    z += np.where(health == "limited", -0.55, 0.0) + np.where(office == "centre", 0.1, 0.0)

    # counselling: reference
    counsel = z
    # a course locks people in who would soon find work, helps the unskilled and not too old
    course = z - 0.45 + 0.045 * np.minimum(months, 14)
    course = course + np.where((school == "none") & (age < 45), 0.75, 0.0)
    course = course - np.where(age >= 52, 0.4, 0.0)
    # subsidy: law allows the full rate from twelve months or from 50 years on
    full = (months >= 12) | (age >= 50)
    subsidy = z + np.where(full, 0.62, -0.15) - np.where(school == "university", 0.25, 0.0)
    # private agency: takes care of those who are easily placed
    agency = z + 0.55 / (1 + np.exp((months - 7) / 1.8)) + 0.3 * np.tanh((wage - 2600) / 700)
    agency = agency - np.where(health == "limited", 0.5, 0.15)

    means = 1 / (1 + np.exp(-np.stack([counsel, course, subsidy, agency], axis=1)))
    rewards = (rng.random((n, 1)) < means).astype(float)
    frame = {"age": age, "months": months, "school": school, "wage": wage, "health": health, "office": office}
    return frame, means, rewards
