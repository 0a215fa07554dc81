import type { Arm, Context } from "./index.js";

/** The arm or action that an exported policy gives; null where the context cannot be read. */
export function decide(policy: any, context: Context, draw?: number): Arm | Record<string, Arm> | null;

/** Every arm's expected reward, or chance, or every action's value. */
export function scores(policy: any, context: Context, draw?: number): number[];
