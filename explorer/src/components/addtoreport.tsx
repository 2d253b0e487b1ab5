// What a page shows is added to a report: the server asks the same question again and keeps the answer as it is now.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Report } from "../answers";
import { ApiError, isLive, type Parameters, send, useAnswer } from "../api";
import { address } from "../router";

/** The question that something on a page answers, and the field of the answer that holds it. */
export interface Source {
  path: string;
  parameters: Parameters;
  field: string;
}

const LISTED = 5;

interface Props {
  source: Source;
  title: string;
}

/** A menu of its own, for what is no chart. */
export function AddToReport(props: Props) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [open, setOpen] = useState(false);
  if (!isLive()) return null;
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !menu.current?.open) return;
    menu.current.open = false;
    menu.current.querySelector("summary")?.focus();
  };
  return (
    <details class="report-menu" ref={menu} onToggle={() => setOpen(menu.current?.open ?? false)} onKeyDown={leave}>
      <summary>Add to a report</summary>
      {open && (
        <div class="chart-actions">
          <ReportChoice {...props} />
        </div>
      )}
    </details>
  );
}

/** The reports that something can be added to, and a new one. */
export function ReportChoice({ source, title }: Props) {
  const { answer, again } = useAnswer("/reports", { limit: LISTED });
  const [added, setAdded] = useState<Report>();
  const [problem, setProblem] = useState("");
  const [name, setName] = useState("");
  const said = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    if (added) said.current?.querySelector("a")?.focus();
  }, [added]);
  const add = async (id: string) => {
    setProblem("");
    try {
      const parameters = Object.fromEntries(Object.entries(source.parameters).filter(([, value]) => value !== undefined && value !== null));
      setAdded(await send<Report>("POST", `/reports/${id}/pieces`, { ...source, parameters, title: title.slice(0, 200), page: window.location.hash.slice(0, 4000) }));
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  const begin = async (event: Event) => {
    event.preventDefault();
    if (!name.trim()) return;
    try {
      const made = await send<Report>("POST", "/reports", { title: name.trim().slice(0, 200) });
      await add(made.id);
      again();
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <div class="report-choice">
      {answer?.rows.map((report) => (
        <button type="button" onClick={() => void add(report.id)}>
          Add to “<bdi>{report.title}</bdi>”
        </button>
      ))}
      <form onSubmit={begin}>
        <label>
          <span class="hidden">Title of a new report</span>
          <input type="text" placeholder="A new report" value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={!name.trim()}>
          Begin
        </button>
      </form>
      <p role="status" ref={said}>
        {added && (
          <>
            Added. <a href={address(`reports/${added.id}`)}>Open the report</a>
          </>
        )}
      </p>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}
