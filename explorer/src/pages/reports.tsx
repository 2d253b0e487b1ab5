// Reports: pages that one composes of figures, charts and notes, and sends to somebody.
import { useEffect, useState } from "preact/hooks";
import type { Report, ReportItem, ReportPiece } from "../answers";
import { ApiError, holdsView, isLive, resourceUrl, send, useAnswer } from "../api";
import { Chart, type Spec } from "../components/chart";
import { CopyLink } from "../components/copylink";
import { Moment } from "../components/figure";
import { JobCard } from "../components/job";
import { Part, useOffset } from "../components/listing";
import { Markdown } from "../components/markdown";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { type Column, Table } from "../components/table";
import { WordTable } from "../components/words";
import { useStartedJob } from "../jobs";
import { address } from "../router";
import type { PageProps } from "./index";

const LIMIT = 20;

export function ReportsPage({ rest }: PageProps) {
  return rest ? <OneReport key={rest} id={rest} /> : <ReportList />;
}

// --- the list

function ReportList() {
  const offset = useOffset();
  const { answer, error, again } = useAnswer("/reports", { offset, limit: LIMIT });
  return (
    <>
      <h1>Reports</h1>
      <p>
        A report is a page of figures, charts and notes. <b>Save ▾</b> at a chart and <b>Add to a report</b> at a run or a comparison add to
        one; what is added stays as it was then.
      </p>
      {isLive() && <NewReport />}
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && (
        <Part part={answer} limit={LIMIT} nothing={<EmptyState title="There is no report yet." />}>
          <Table label="Reports" columns={COLUMNS} rows={answer.rows} rowKey={(row) => row.id} />
        </Part>
      )}
    </>
  );
}

const COLUMNS: Column<ReportItem>[] = [
  {
    key: "title",
    title: "Report",
    cell: (row) => (
      <a class="name" href={address(`reports/${row.id}`)}>
        <bdi>{row.title}</bdi>
      </a>
    ),
  },
  { key: "pieces", title: "Pieces", number: true, cell: (row) => row.pieces.toLocaleString("en") },
  { key: "changed", title: "Changed", cell: (row) => <Moment at={row.changed} /> },
];

function NewReport() {
  const [title, setTitle] = useState("");
  const [problem, setProblem] = useState("");
  const begin = async (event: Event) => {
    event.preventDefault();
    if (!title.trim()) return;
    try {
      const made = await send<Report>("POST", "/reports", { title: title.trim() });
      window.location.hash = address(`reports/${made.id}`);
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <form class="bar" onSubmit={begin} aria-label="Begin a report">
      <label class="search">
        <span class="hidden">Title</span>
        <input type="text" maxLength={200} placeholder="Title of a new report" value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary" disabled={!title.trim()}>
        Begin a report
      </button>
      {problem && <span class="problem" role="alert">{problem}</span>}
    </form>
  );
}

// --- one report

/** A piece of a report as it is to be: one that it has, by its place, or a note. */
export type Kept = { keep: number } | { note: string };

function OneReport({ id }: { id: string }) {
  const { answer, error, again } = useAnswer("/reports/{id}", { id });
  const [changed, setChanged] = useState<Report>();
  const [editing, setEditing] = useState(false);
  const [problem, setProblem] = useState("");
  const report = changed && (!answer || changed.version >= answer.version) ? changed : answer;
  if (!report) {
    return (
      <>
        <h1>Report</h1>
        {error ? <ErrorState error={error} again={again} /> : <Loading />}
        <p>
          <a href={address("reports")}>All reports</a>
        </p>
      </>
    );
  }
  const write = async (title: string, parts: Kept[]) => {
    setProblem("");
    try {
      setChanged(await send<Report>("POST", `/reports/${id}`, { version: report.version, title, parts }));
      return true;
    } catch (failure) {
      setProblem(failure instanceof ApiError ? failure.message : String(failure));
      return false;
    }
  };
  return (
    <article class="report">
      <p class="crumbs">
        <a href={address("reports")}>Reports</a>
      </p>
      {editing ? <Titled report={report} write={write} /> : <h1><bdi>{report.title}</bdi></h1>}
      <p class="dim">
        Begun <Moment at={report.created} />, changed <Moment at={report.changed} />.
      </p>
      <div class="bar report-actions">
        {isLive() && (
          <button type="button" aria-pressed={editing} onClick={() => setEditing(!editing)}>
            {editing ? "Done" : "Edit"}
          </button>
        )}
        <CopyLink />
        {isLive() && <Export id={id} />}
        <button type="button" onClick={() => window.print()}>
          Print
        </button>
      </div>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {!report.pieces.length && (
        <EmptyState title="Nothing is in it yet.">
          {isLive() && "Add a note here, and charts and figures from the pages that show them."}
        </EmptyState>
      )}
      {report.pieces.map((piece, place) => (
        <PieceFrame key={`${piece.kind} ${place} ${report.version}`} report={report} piece={piece} place={place} editing={editing} write={write} />
      ))}
      {isLive() && (editing || !report.pieces.length) && <NewNote onNote={(text) => write(report.title, [...kept(report), { note: text }])} />}
      {editing && <Remove id={id} />}
    </article>
  );
}

export function kept(report: Pick<Report, "pieces">): Kept[] {
  return report.pieces.map((_, place) => ({ keep: place }));
}

/** The same pieces with the one at `place` moved by so many places. */
export function moved(parts: Kept[], place: number, by: number): Kept[] {
  const target = place + by;
  if (target < 0 || target >= parts.length) return parts;
  const next = [...parts];
  const [one] = next.splice(place, 1);
  next.splice(target, 0, one!);
  return next;
}

type Write = (title: string, parts: Kept[]) => Promise<boolean>;

function Titled({ report, write }: { report: Report; write: Write }) {
  const [title, setTitle] = useState(report.title);
  const keep = (event: Event) => {
    event.preventDefault();
    if (title.trim() && title !== report.title) void write(title.trim(), kept(report));
  };
  return (
    <form class="bar" onSubmit={keep}>
      <label class="search">
        <span class="hidden">Title</span>
        <input type="text" maxLength={200} value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
      </label>
      <button type="submit" disabled={!title.trim() || title === report.title}>
        Rename
      </button>
    </form>
  );
}

interface FrameProps {
  report: Report;
  piece: ReportPiece;
  place: number;
  editing: boolean;
  write: Write;
}

function PieceFrame({ report, piece, place, editing, write }: FrameProps) {
  const parts = kept(report);
  const last = report.pieces.length - 1;
  const name = piece.title || (piece.kind === "note" ? `note ${place + 1}` : `${piece.kind} ${place + 1}`);
  return (
    <section class={`piece ${piece.kind}`} aria-label={`Piece ${place + 1}: ${name}`}>
      {editing && (
        <p class="bar piece-actions">
          <button type="button" disabled={place === 0} aria-label={`Move ${name} up`} onClick={() => void write(report.title, moved(parts, place, -1))}>
            ↑
          </button>
          <button type="button" disabled={place === last} aria-label={`Move ${name} down`} onClick={() => void write(report.title, moved(parts, place, 1))}>
            ↓
          </button>
          <button type="button" aria-label={`Remove ${name}`} onClick={() => void write(report.title, parts.filter((_, other) => other !== place))}>
            Remove
          </button>
        </p>
      )}
      {piece.kind === "note" ? (
        <Note piece={piece} editing={editing} onChange={(text) => write(report.title, parts.map((part, other) => (other === place ? { note: text } : part)))} />
      ) : (
        <Taken piece={piece} name={name} />
      )}
    </section>
  );
}

function Taken({ piece, name }: { piece: ReportPiece; name: string }) {
  return (
    <>
      {piece.chart && <Chart spec={piece.chart as Spec} title={name} />}
      {piece.table && (
        <>
          {piece.title && <h2><bdi>{piece.title}</bdi></h2>}
          <WordTable table={piece.table} label={name} />
        </>
      )}
      {piece.caption && (
        <p class="dim">
          <bdi>{piece.caption}</bdi>
        </p>
      )}
      <p class="dim piece-source">
        {piece.added && (
          <>
            As it was <Moment at={piece.added} />.{" "}
          </>
        )}
        {shows(piece.page) && <a href={piece.page}>Where it is from</a>}
      </p>
    </>
  );
}

/** Whether the page that a piece was taken from can be shown here: a bundle has few. */
function shows(page: string): boolean {
  const path = page.replace(/^#\//, "").split("?")[0] ?? "";
  if (!path) return false;
  const [first = "", ...others] = path.split("/").map(decodeURIComponent);
  return holdsView(first, others.length ? others.join("/") : undefined);
}

function Note({ piece, editing, onChange }: { piece: ReportPiece; editing: boolean; onChange: (text: string) => Promise<boolean> }) {
  const [text, setText] = useState(piece.text);
  useEffect(() => setText(piece.text), [piece.text]);
  if (!editing) return <Markdown text={piece.text} />;
  return (
    <form
      class="note-form"
      onSubmit={(event) => {
        event.preventDefault();
        void onChange(text);
      }}
    >
      <NoteText text={text} label="Note in Markdown" onText={setText} />
      <button type="submit" disabled={text === piece.text}>
        Keep the note
      </button>
      <Markdown text={text} />
    </form>
  );
}

function NoteText({ text, label, onText }: { text: string; label: string; onText: (text: string) => void }) {
  return (
    <label>
      <span class="dim">{label}</span>
      <textarea rows={Math.min(20, text.split("\n").length + 3)} maxLength={20_000} value={text} onInput={(event) => onText(event.currentTarget.value)} />
    </label>
  );
}

function NewNote({ onNote }: { onNote: (text: string) => Promise<boolean> }) {
  const [text, setText] = useState("");
  const add = async (event: Event) => {
    event.preventDefault();
    if (text.trim() && (await onNote(text))) setText("");
  };
  return (
    <form class="note-form" onSubmit={add} aria-label="Add a note">
      <NoteText text={text} label="A note in Markdown" onText={setText} />
      <button type="submit" disabled={!text.trim()}>
        Add the note
      </button>
    </form>
  );
}

/** A folder with the explorer and just this report, made by a job and saved as one file. */
function Export({ id }: { id: string }) {
  const { job, problem, start } = useStartedJob();
  const [done, setDone] = useState(false);
  return (
    <>
      {!job && (
        <button type="button" onClick={() => void start("export", { reports: [id] })}>
          Export
        </button>
      )}
      {job && <JobCard key={job.id} job={job} onEnd={(ended) => setDone(ended.state === "done")} />}
      {job && done && (
        <a class="button" href={resourceUrl("/jobs/{id}/bundle", { id: job.id })} download>
          Save the bundle
        </a>
      )}
      {problem && <span class="problem" role="alert">{problem}</span>}
    </>
  );
}

function Remove({ id }: { id: string }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState("");
  const remove = async () => {
    try {
      await send("DELETE", `/reports/${id}`);
      window.location.hash = address("reports");
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <p>
      {asked ? (
        <>
          Take this report off the list?{" "}
          <button type="button" onClick={() => void remove()}>
            Take it off
          </button>{" "}
          <button type="button" onClick={() => setAsked(false)}>
            Keep it
          </button>
        </>
      ) : (
        <button type="button" class="more" onClick={() => setAsked(true)}>
          Remove this report
        </button>
      )}
      {problem && <span class="problem" role="alert"> {problem}</span>}
    </p>
  );
}

