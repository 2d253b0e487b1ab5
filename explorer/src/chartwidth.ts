// Charts that fill their place: what of a spec depends on how wide that is.

export type Spec = Record<string, unknown>;

const NARROW = 560; // pixels, below which names beside points would cover each other
const LEGEND_ENTRY = 150; // pixels
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
  const narrowed = withLegends(rest, Math.max(1, Math.floor(width / LEGEND_ENTRY))) as Spec;
  if (Array.isArray(narrowed.vconcat)) {
    const panel = Math.max(LEAST, width - AXES);
    const panels = narrowed.vconcat.map((one: Spec) => ({ ...one, width: panel }));
    const told = (narrowed.params as Spec[] | undefined)?.map((one) => (one.name === ROOM ? { ...one, value: panel } : one));
    return { ...narrowed, vconcat: panels, ...(told ? { params: told } : {}) };
  }
  const layers = narrowed.layer as Spec[] | undefined;
  const named = width < NARROW ? layers?.filter((layer) => !String(layer.name ?? "").startsWith("labels")) : layers;
  return {
    ...narrowed,
    ...(named ? { layer: named } : {}),
    width: Math.max(LEAST, width),
    autosize: { type: "fit-x", contains: "padding" },
  };
}

/** No legend has more columns than there is room for. */
function withLegends(value: unknown, most: number): unknown {
  if (Array.isArray(value)) return value.map((one) => withLegends(one, most));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if (key === "values") return [key, inner]; // the data
      const legend = key === "legend" && typeof inner === "object" && inner !== null;
      if (!legend) return [key, withLegends(inner, most)];
      const { columns = most, ...others } = inner as { columns?: number };
      return [key, { ...others, columns: Math.min(columns, most) }];
    }),
  );
}
