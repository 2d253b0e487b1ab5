// What one does with a chart: copy or save its picture, or save what it is drawn from.
import type { RefObject } from "preact";
import { useRef, useState } from "preact/hooks";
import { isLive } from "../api";
import { csvOf, fileName, pictureOf, pngOf, rowsOf, save } from "../chartfile";
import { headingOf } from "../chartwidth";
import { ReportChoice, type Source } from "./addtoreport";
import type { Spec } from "./chart";

interface ChartMenuProps {
  place: RefObject<HTMLElement | null>;
  spec: Spec;
  title: string;
  /** The question whose answer the chart is: with it, the chart can be added to a report. */
  source?: Source;
}

export function ChartMenu({ place, spec, title, source }: ChartMenuProps) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [open, setOpen] = useState(false);
  const [said, setSaid] = useState("");
  const drawn = () => {
    const svg = place.current?.querySelector<SVGSVGElement>("svg.marks");
    if (!svg) throw new Error("the chart is not drawn yet");
    return pictureOf(svg, headingOf(spec));
  };
  const png = () => pngOf(drawn());
  const actions: [string, () => Promise<string> | string][] = [
    [
      "Copy as PNG",
      async () => {
        const picture = await png();
        const copied = await copyPicture(picture);
        if (!copied) save(picture, fileName(title, "png"));
        return copied ? "Copied." : "The browser copies no pictures here: it is saved instead.";
      },
    ],
    ["Save as PNG", async () => saved(await png(), "png")],
    ["Save as SVG", () => saved(new Blob([drawn().svg], { type: "image/svg+xml" }), "svg")],
    ["Save as CSV", () => saved(new Blob([csvOf(rowsOf(spec))], { type: "text/csv" }), "csv")],
  ];
  const saved = (content: Blob, ending: string) => {
    save(content, fileName(title, ending));
    return "Saved.";
  };
  const run = async (action: () => Promise<string> | string) => {
    try {
      setSaid(await action());
    } catch (problem) {
      setSaid(`It did not work: ${problem instanceof Error ? problem.message : String(problem)}`);
    }
  };
  const toggled = () => {
    setSaid("");
    setOpen(menu.current?.open ?? false);
  };
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !menu.current?.open) return;
    menu.current.open = false;
    menu.current.querySelector("summary")?.focus();
  };
  return (
    <details class="chart-menu" ref={menu} onToggle={toggled} onKeyDown={leave}>
      <summary aria-label={`Save: ${title}`}>Save</summary>
      <div class="chart-actions">
        {actions.map(([words, action]) => (
          <button type="button" onClick={() => void run(action)}>
            {words}
          </button>
        ))}
        <span role="status">{said}</span>
        {open && source && isLive() && <ReportChoice source={source} title={title} />}
      </div>
    </details>
  );
}

async function copyPicture(picture: Blob): Promise<boolean> {
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
    return true;
  } catch {
    return false; // not allowed, or not on a page without TLS
  }
}
