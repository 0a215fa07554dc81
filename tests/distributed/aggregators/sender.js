import { Task } from "@divviup/dap";

/** The sender of one version's reports. The time of a report is rounded to the start of the task, which is zero. */
export function sender({ id, leader, helper, length, chunk, duration }) {
  return new Task({ type: "histogram", id, leader, helper, length, chunkLength: chunk, timePrecisionSeconds: duration });
}
