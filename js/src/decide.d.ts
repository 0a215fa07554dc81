import type { Arm, Context } from "./index.js";

/**
 * The arm or action that an exported policy gives; null where the context cannot be read. `Choice` is an arm or a
 * number, or an object where an action has several columns.
 */
export function decide<Choice extends Arm | Record<string, Arm> = Arm>(
  policy: any,
  context: Context,
  draw?: number,
): Choice | null;

/** Every arm's expected reward, or chance, or every action's value. */
export function scores(policy: any, context: Context, draw?: number): number[];

/** The policy in a text, after checks of its sizes and scores; throws an Error that says what does not fit. */
export function read(text: string): any;
