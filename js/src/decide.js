/** The reference evaluator of exported policies: docs/guides/exported-policies.md says what is in one. */
const UNREADABLE = Symbol("unreadable");

function place({ values, coded, low, high, clip, missing, unknown }, value) {
  if (value === undefined || value === null || Number.isNaN(value)) value = missing;
  if (values && value !== undefined && !values.includes(value)) value = unknown;
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

/** An end of bounds at a point: a number, one for each category, or a line in the column's own units. */
function endAt(end, columns, point) {
  if (typeof end === "number") return end;
  const at = point[end.column];
  if (end.ends) return end.ends[at];
  const { low, high } = columns[end.column];
  return end.at_zero + end.slope * (low + (high - low) * at);
}

/** Which actions are within the bounds of a column and, of these, nearest to its window. */
function fits({ of, low, high, off }, columns, point) {
  let found = (of ?? off).map(() => true);
  if (of) {
    const [least, most] = [Math.min(...of), Math.max(...of)];
    const from = endAt(low, columns, point);
    const [a, b] = [from, Math.max(from, endAt(high, columns, point))].map((x) => Math.min(Math.max(x, least), most));
    found = of.map((value) => a <= value && value <= b);
    const away = of.map((value) => Math.abs(value - (a + b) / 2));
    if (!found.includes(true)) found = away.map((one) => one === Math.min(...away));
  }
  if (!off) return found;
  const nearest = Math.min(...off.filter((_, k) => found[k]));
  return found.map((one, k) => one && off[k] === nearest);
}

/** Scores of actions, with minus infinity for those beyond the limits of a column. */
function within({ columns, value }, context, found) {
  const point = columns.map((column, j) => place(column, context[column.name ?? j]));
  return value.limits
    .map((limit) => fits(limit, columns, point))
    .reduce((left, own) => left.map((score, k) => (own[k] ? score : -Infinity)), found);
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
    const all = scores(policy, context, draw);
    const found = policy.value?.limits ? within(policy, context, all) : all;
    return (policy.actions ?? policy.arms)[found.indexOf(Math.max(...found))];
  } catch (error) {
    if (error === UNREADABLE) return null;
    throw error;
  }
}

/**
 * The policy in a text, after checking that it can decide, as `dpbandits.export.decisions.read` does: sizes of actions,
 * values, limits and draws, and finite scores at the middle of its columns. Throws an Error that says what does not fit.
 */
export function read(text) {
  const policy = JSON.parse(text);
  const must = (holds, said) => {
    if (!holds) throw new Error(`not an exported policy: ${said}`);
  };
  must(policy?.format === 1 && policy.kind === "dpbandits decisions", "another format or kind");
  const { arms, columns, rule, actions, value } = policy;
  must(Array.isArray(arms) && Array.isArray(columns) && rule?.type in RULES, "arms, columns or rule are missing");
  must((actions === undefined) === (value === undefined), "actions without a value, or a value without actions");
  if (value) {
    const { low, high, slopes, offsets, rising, limits = [] } = value;
    const lists = [slopes, offsets, ...limits.flatMap(({ of, off }) => [of, off].filter(Boolean))];
    must([actions, ...lists].every((own) => own?.length === arms.length), "its value does not fit its actions");
    must([low, high, ...lists.flat()].every(Number.isFinite), "its value or limits are not finite numbers");
    const known = (group) => group.every((k) => Number.isInteger(k) && k >= 0 && k < arms.length);
    must(rising.every((own) => known(own) && new Set(own).size === own.length), "rising does not fit its actions");
    must(rule.type === "effects", "actions need the rule effects");
  }
  const sizes = rule.draws?.flatMap((draw) => [draw.length === arms.length, ...draw.map((arm) => arm.length)]) ?? [];
  const size = rule.type === "kernel" ? rule.projection[0].length : rule.factors?.length;
  must(sizes.every((one) => one === true || one === size), "a draw has another number of weights");
  const middle = columns.map(({ name, values, low, high }, j) => [name ?? j, values ? values[0] : (low + high) / 2]);
  for (const draw of rule.draws?.length ? [undefined, 0] : [undefined]) {
    const found = scores(policy, Object.fromEntries(middle), draw);
    must(found.length === arms.length && found.every(Number.isFinite), "scores are not one finite number for each arm");
  }
  must(decide(policy, Object.fromEntries(middle)) !== undefined, "it gives no action");
  return policy;
}
