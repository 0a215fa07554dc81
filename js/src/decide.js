/** The reference evaluator of exported policies: docs/guides/exported-policies.md says what is in one. */
const UNREADABLE = Symbol("unreadable");

function place({ values, coded, low, high, clip, missing }, value) {
  if (value === undefined || value === null || Number.isNaN(value)) value = missing;
  const code = values?.indexOf(value);
  const inside = Math.min(Math.max(value, low), high);
  const good = values ? code >= 0 : Number.isFinite(value) && (clip || inside === value);
  if (!good) throw UNREADABLE;
  if (values) return coded ? code : (code + 0.5) / values.length;
  return Math.min(Math.max((inside - low) / (high - low), 0), 1);
}

const KERNELS = {
  Product: (k, x, z) => k.parts.reduce((product, part) => product * kernel(part, x, z), 1),
  Sum: (k, x, z) => k.parts.reduce((sum, part) => sum + kernel(part, x, z), 0),
  Scaled: (k, x, z) => k.variance * kernel(k.kernel, x, z),
  Indicator: (k, x, z) => (k.columns.every((j) => x[j] === z[j]) ? 1 : k.correlation),
  SquaredExponential: (k, x, z) => Math.exp(-(distance(k, x, z) ** 2) / 2),
  Matern(k, x, z) {
    const r = Math.sqrt(2 * k.nu) * distance(k, x, z);
    return { 0.5: 1, 1.5: 1 + r, 2.5: 1 + r + (r * r) / 3 }[k.nu] * Math.exp(-r);
  },
};
const kernel = (k, x, z) => KERNELS[k.type](k, x, z);

function distance({ columns, lengthscale }, x, z) {
  return Math.hypot(...(columns ?? [...x.keys()]).map((j, at) => (x[j] - z[j]) / (lengthscale[at] ?? lengthscale)));
}

const RULES = {
  tree({ nodes }, x) {
    let node = nodes[0];
    while (node.above) node = nodes[x[node.column] >= node.at ? node.above : node.below];
    return node.scores;
  },
  cells({ edges, scores }, x) {
    const found = edges.map((inner, j) => inner.filter((edge) => edge <= x[j]).length);
    return scores[found.reduce((cell, at, j) => cell * (edges[j].length + 1) + at, 0)];
  },
  kernel({ kernel: k, landmarks, projection, longest, middle, width, mean, draws }, x, draw) {
    const near = landmarks.map((z) => kernel(k, x, z));
    const features = projection[0].map((_, m) => near.reduce((sum, one, l) => sum + one * projection[l][m], 0));
    const cut = Math.min(1, longest / Math.hypot(...features));
    return weighed(draw === undefined ? mean : draws[draw], features, middle, width * cut);
  },
  effects({ edges, components, factors, middle, width, mean, draws }, x, draw) {
    const rows = edges.map((inner, j) => components[j][inner.filter((edge) => edge <= x[j]).length]);
    const features = factors.map((own) => own.reduce((product, [j, component]) => product * rows[j][component], 1));
    return weighed(draw === undefined ? mean : draws[draw], features, middle, width);
  },
};

function weighed(weights, features, middle, width) {
  return weights.map((arm) => middle + width * arm.reduce((sum, w, m) => sum + w * features[m], 0));
}

/** Values of actions from their expected outcomes: clipped, sorted along a shape, then valued. */
function values({ low, high, rising, slopes, offsets }, outcomes) {
  const found = outcomes.map((one) => Math.min(Math.max(one, low), high));
  for (const places of rising) {
    const sorted = places.map((at) => found[at]).sort((a, b) => a - b);
    places.forEach((at, j) => (found[at] = sorted[j]));
  }
  return found.map((one, a) => offsets[a] + slopes[a] * one);
}

/** Scores of actions, with minus infinity for those beyond the limits of a column. */
function within(limits, found) {
  for (const { off } of limits) {
    const least = Math.min(...off);
    found = found.map((score, a) => (off[a] === least ? score : -Infinity));
  }
  return found;
}

/**
 * Every arm's expected reward or chance, or every action's value; by that `draw` of the policy's public draws where
 * one is named.
 */
export function scores({ columns, rule, value }, context, draw) {
  const point = columns.map((column, j) => place(column, context[column.name ?? j]));
  const found = RULES[rule.type](rule, point, draw);
  return value ? values(value, found) : found;
}

/** The arm or action that the server gives to this person; null where the context cannot be read. */
export function decide(policy, context, draw) {
  try {
    const found = within(policy.value?.limits ?? [], scores(policy, context, draw));
    return (policy.actions ?? policy.arms)[found.indexOf(Math.max(...found))];
  } catch (error) {
    if (error === UNREADABLE) return null;
    throw error;
  }
}
