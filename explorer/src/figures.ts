// Numbers and words that a page makes itself. Figures of the store come in words from the server, which writes them by the
// rules of src/zoolens/base/present/figures.py.

/** A count in full, with commas: 24,000. */
export function whole(value: number): string {
  return value.toLocaleString("en");
}

/** "1 run", "24 runs": a count with its word. */
export function counted(value: number, one: string, several = `${one}s`): string {
  return `${whole(value)} ${value === 1 ? one : several}`;
}

/** As the head of a column begins. */
export function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
