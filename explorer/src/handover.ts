// A picture that was dropped on one page for another one, which takes it when it is shown.
let waiting: File | undefined;

export function handOver(file: File): void {
  waiting = file;
}

/** The picture that waits, once. */
export function takeOver(): File | undefined {
  const file = waiting;
  waiting = undefined;
  return file;
}
