// Audits of zoos: findings by severity, with their evidence. An audit is a job, and what it found is kept with the job.
import { useState } from "preact/hooks";
import type { FindingItem } from "../answers";
import { ApiError, get, isLive, useAnswer } from "../api";
import { Moment, Tile } from "../components/figure";
import { Facets, type FacetNames, SearchBox } from "../components/filters";
import { JobCard } from "../components/job";
import { PageLink } from "../components/link";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { Pager } from "../components/table";
import { startJob } from "../jobs";
import { address, setQuery, useRoute } from "../router";

const LIMIT = 20;
const MORE = 100; // lines that are fetched at a time
const FACETS: FacetNames = {
  titles: { severity: "Severity", rule: "Rule", zoo: "Zoo", architecture: "Architecture" },
};

export function AuditPage({ rest }: { rest: string }) {
  return rest ? <Audit id={rest} /> : <Audits />;
}

function Audits() {
  const { query } = useRoute();
  const offset = Number(query.get("offset") ?? 0) || 0;
  const { answer, error, again } = useAnswer("/audits", { offset, limit: LIMIT });
  return (
    <>
      <h1>Audit</h1>
      <p>Are models what they claim to be, and what their namesakes in other zoos are?</p>
      {isLive() && <AuditForm onStart={again} />}
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer?.total === 0 && (
        <EmptyState title="No audit was started here yet.">
          Start one above. <code>zoolens audit --html audit.html</code> writes the same as a page.
        </EmptyState>
      )}
      <section aria-label="Audits">
        {answer?.rows.map((job) => (
          <div key={job.id}>
            <JobCard job={job} onEnd={again} />
            {job.state === "done" && (
              <p>
                <a href={address(`audit/${job.id}`)} aria-label={`Findings of ${job.title}`}>
                  Findings
                </a>
              </p>
            )}
          </div>
        ))}
      </section>
      {answer && (
        <Pager offset={offset} limit={LIMIT} total={answer.total} onOffset={(next) => setQuery({ offset: next ? String(next) : "" })} />
      )}
    </>
  );
}

function AuditForm({ onStart }: { onStart: () => void }) {
  const [zoos, setZoos] = useState("");
  const [architectures, setArchitectures] = useState("");
  const [problem, setProblem] = useState("");
  const start = async (event: Event) => {
    event.preventDefault();
    setProblem("");
    const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    try {
      await startJob("audit", { zoos: words(zoos), architectures: words(architectures) });
      onStart();
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <form class="panel" onSubmit={start}>
      <label>
        Zoos
        <input type="text" value={zoos} placeholder="all" onInput={(event) => setZoos(event.currentTarget.value)} />
      </label>
      <label>
        Architectures
        <input
          type="text"
          value={architectures}
          placeholder="all"
          onInput={(event) => setArchitectures(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="primary">
        Audit
      </button>
      {problem && (
        <p role="alert" class="problem">
          {problem}
        </p>
      )}
    </form>
  );
}

function Audit({ id }: { id: string }) {
  const { query } = useRoute();
  const offset = Number(query.get("offset") ?? 0) || 0;
  const facets = Object.fromEntries(Object.keys(FACETS.titles).map((name) => [name, query.getAll(name)]));
  const q = query.get("q") ?? "";
  const { answer, error, again } = useAnswer("/audits/{id}", { id });
  const page = useAnswer(answer ? "/audits/{id}/findings" : null, { id, q, ...facets, offset, limit: LIMIT });
  if (!answer) {
    return (
      <>
        <h1>Audit</h1>
        {error ? <ErrorState error={error} again={again} /> : <Loading />}
        <p>
          <a href={address("audit")}>All audits</a>
        </p>
      </>
    );
  }
  const listed = page.answer;
  return (
    <>
      <p>
        <a href={address("audit")}>All audits</a>
      </p>
      <h1>
        <bdi>{answer.job.title}</bdi>
      </h1>
      <p class="dim">
        <Moment at={answer.job.created} />. {answer.architectures.toLocaleString("en")}{" "}
        {answer.architectures === 1 ? "architecture" : "architectures"}.
      </p>
      {answer.summary && (
        <p class="verdict">
          <bdi>{answer.summary}</bdi>
        </p>
      )}
      <div class="tiles">
        {answer.severities.map((one) => (
          <Tile figure={one.count.toLocaleString("en")} title={one.severity} kind={one.count ? one.severity : ""} />
        ))}
      </div>
      {answer.total_notes > 0 && (
        <details class="notes">
          <summary>Left out or not known ({answer.total_notes.toLocaleString("en")})</summary>
          <Lines audit={id} of="notes" first={answer.notes} total={answer.total_notes} />
        </details>
      )}
      <div class="bar">
        <SearchBox
          label="Search findings"
          hint="Search titles, evidence, models and rules …"
          value={q}
          onSearch={(value) => setQuery({ q: value, offset: "" }, true)}
        />
      </div>
      {page.error && <ErrorState error={page.error} again={page.again} />}
      {!listed && !page.error && <Loading />}
      {listed && (
        <div class="split">
          <aside aria-label="Filters">
            <Facets
              facets={listed.facets}
              names={FACETS}
              chosen={(facet) => facets[facet] ?? []}
              onChoose={(facet, values) => setQuery({ [facet]: values, offset: "" })}
            />
          </aside>
          <section aria-label="Findings">
            <p class="found" role="status">
              {listed.total.toLocaleString("en")} of {listed.all.toLocaleString("en")} findings, the gravest first.
            </p>
            {listed.rows.map((finding) => (
              <Finding key={finding.id} audit={id} finding={finding} />
            ))}
            {listed.all === 0 && <EmptyState title="The audit found nothing.">That is no proof that all is right.</EmptyState>}
            {listed.all > 0 && listed.total === 0 && (
              <EmptyState title="No finding fits.">Take away a filter, or a word of the search.</EmptyState>
            )}
            <Pager
              offset={offset}
              limit={LIMIT}
              total={listed.total}
              onOffset={(next) => setQuery({ offset: next ? String(next) : "" })}
            />
          </section>
        </div>
      )}
    </>
  );
}

function Finding({ audit, finding }: { audit: string; finding: FindingItem }) {
  const [odd, other] = finding.networks;
  return (
    <article class={`finding ${finding.severity}`} aria-label={finding.title}>
      <h2>
        <bdi>{finding.title}</bdi>
      </h2>
      <p class="dim">
        <span class="severity">{finding.severity}</span> · <bdi>{finding.rule}</bdi> · <bdi>{finding.architecture}</bdi>
      </p>
      <Lines audit={audit} of="evidence" finding={finding.id} first={finding.evidence} total={finding.total_evidence} />
      {finding.fix && (
        <p>
          What to do: <bdi>{finding.fix}</bdi>
        </p>
      )}
      <Lines audit={audit} of="models" finding={finding.id} first={finding.models} total={finding.total_models} />
      {odd && other && (
        <p>
          <PageLink page="networks" query={{ a: odd, b: other, audit }}>
            Both networks side by side
          </PageLink>{" "}
          <span class="dim">
            (
            <code>
              <bdi>{`zoolens diff ${odd} ${other}`}</bdi>
            </code>
            )
          </span>
        </p>
      )}
    </article>
  );
}

interface LinesProps {
  audit: string;
  of: "notes" | "models" | "evidence";
  finding?: string;
  /** Those that came with the answer, of `total`. */
  first: string[];
  total: number;
}

/** Sentences or models. Where there are more than were sent, it says so and fetches the others on demand. */
function Lines({ audit, of, finding = "", first, total }: LinesProps) {
  const [more, setMore] = useState<string[]>([]);
  const [problem, setProblem] = useState("");
  const rows = [...first, ...more];
  const fetchMore = () =>
    get("/audits/{id}/lines", { id: audit, of, finding, offset: rows.length, limit: MORE }).then(
      (page) => setMore([...more, ...page.rows]),
      (error: unknown) => setProblem(error instanceof ApiError ? error.message : String(error)),
    );
  const shown = (row: string) =>
    of === "models" ? (
      <PageLink page="model" rest={row}>
        <bdi>{row}</bdi>
      </PageLink>
    ) : (
      <bdi>{row}</bdi>
    );
  return (
    <>
      <ul class={of === "models" ? "inline" : undefined}>
        {rows.map((row) => (
          <li>{shown(row)}</li>
        ))}
      </ul>
      {rows.length < total && (
        <p class="dim">
          {rows.length.toLocaleString("en")} of {total.toLocaleString("en")} {of === "evidence" ? "lines of evidence" : of} are shown.{" "}
          {isLive() && (
            <button type="button" class="more" onClick={fetchMore}>
              Show {Math.min(MORE, total - rows.length)} more
            </button>
          )}
        </p>
      )}
      {problem && <p role="alert">{problem}</p>}
    </>
  );
}
