// Charts that fill their place: what of a spec depends on how wide that is.

export type Spec = Record<string, unknown>;

const NARROW = 560; // pixels, below which names beside points would cover each other
const LEGEND_ENTRY = 150; // pixels
const SYMBOL = 34; // pixels of an entry beside its name
const AXES = 84; // pixels that the axis of a panel takes beside it
const LEAST = 200;
const ROOM = "room"; // a parameter that is how wide panels are; `charts.ROOM` of the server

/** Whether a chart is to be as wide as its place; `charts.FILLS` of the server says so. */
export function fills(spec: Spec): boolean {
  return (spec.usermeta as { fills?: boolean } | undefined)?.fills === true;
}

/** Title and subtitle of a spec, which a page writes above the chart. */
export function headingOf(spec: Spec): [string, string] {
  const title = spec.title as { text?: string; subtitle?: string } | string | undefined;
  return typeof title === "string" ? [title, ""] : [title?.text ?? "", title?.subtitle ?? ""];
}

/** The same chart so many pixels wide, or as wide as it is easy to read, without its title. */
export function fitted(spec: Spec, place: number): Spec {
  const width = Math.min(place, (spec.usermeta as { most?: number } | undefined)?.most ?? place);
  const { title: _, ...rest } = spec;
  // One name a line in a narrow window, where two would be cut.
  const columns = width < NARROW ? 1 : Math.floor(width / LEGEND_ENTRY);
  const narrowed = withLegends(rest, columns, Math.max(LEAST, width) - AXES) as Spec;
  const named = (layers?: Spec[]) =>
    width < NARROW ? layers?.filter((layer) => !String(layer.name ?? "").startsWith("labels")) : layers;
  const withNames = (part: Spec) => (part.layer ? { ...part, layer: named(part.layer as Spec[]) } : part);
  if (Array.isArray(narrowed.vconcat)) {
    const panel = Math.max(LEAST, width - AXES);
    const panels = narrowed.vconcat.map((one: Spec) => ({ ...withNames(one), width: panel }));
    const told = (narrowed.params as Spec[] | undefined)?.map((one) => (one.name === ROOM ? { ...one, value: panel } : one));
    return { ...narrowed, vconcat: panels, ...(told ? { params: told } : {}) };
  }
  return {
    ...withNames(narrowed),
    width: Math.max(LEAST, width),
    autosize: { type: "fit-x", contains: "padding" },
  };
}

/** No legend has more columns than there is room for; where that is one, a longer name ends with an ellipsis. */
function withLegends(value: unknown, most: number, room: number): unknown {
  if (Array.isArray(value)) return value.map((one) => withLegends(one, most, room));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if (key === "values") return [key, inner]; // the data
      const legend = key === "legend" && typeof inner === "object" && inner !== null;
      if (!legend) return [key, withLegends(inner, most, room)];
      const { columns: wanted = most, ...others } = inner as { columns?: number };
      return [key, { ...others, columns: Math.min(wanted, most), ...(most === 1 ? { labelLimit: room - SYMBOL } : {}) }];
    }),
  );
}

/** A chart of its own width without its title, which a page writes above it, too. */
export function untitled(spec: Spec): Spec {
  const { title: _, ...rest } = spec;
  return rest;
}
