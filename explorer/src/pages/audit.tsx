// Audits of zoos: findings by severity, with their evidence. An audit is a job, and what it found is kept with the job.
import { useState } from "preact/hooks";
import type { FindingItem } from "../answers";
import { ApiError, get, isLive, useAnswer } from "../api";
import { Moment, Tile } from "../components/figure";
import { Facets, type FacetNames, SearchBox } from "../components/filters";
import { JobForm, JobList } from "../components/jobform";
import { PageLink } from "../components/link";
import { Filtered, NothingFits, Part, useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading, Prose } from "../components/states";
import { namesIn } from "../jobs";
import { address, setQuery, useRoute } from "../router";
import { VerdictLine } from "../components/verdict";

const LIMIT = 20;
const MORE = 100; // lines that are fetched at a time
const FACETS: FacetNames = {
  titles: { severity: "Severity", rule: "Rule", zoo: "Zoo", architecture: "Architecture" },
};

export function AuditPage({ rest }: { rest: string }) {
  return rest ? <Audit id={rest} /> : <Audits />;
}

function Audits() {
  const offset = useOffset();
  const { answer, error, again } = useAnswer("/audits", { offset, limit: LIMIT });
  return (
    <>
      <h1>Audit</h1>
      <p>Are models what they claim to be, and what their namesakes in other zoos are?</p>
      {isLive() && <AuditForm onStart={again} />}
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && (
        <JobList
          label="Audits"
          part={answer}
          limit={LIMIT}
          onEnd={again}
          result={{ title: "Findings", address: (job) => address(`audit/${job.id}`) }}
          nothing={
            <EmptyState title="No audit was started here yet.">
              Start one above. <code>zoolens audit --html audit.html</code> writes the same as a page.
            </EmptyState>
          }
        />
      )}
    </>
  );
}

function AuditForm({ onStart }: { onStart: () => void }) {
  return (
    <JobForm
      label="Audit zoos"
      button="Audit"
      kind="audit"
      fields={[
        { name: "zoos", title: "Zoos", hint: "all" },
        { name: "architectures", title: "Architectures", hint: "all" },
      ]}
      parameters={({ zoos = "", architectures = "" }) => ({ zoos: namesIn(zoos), architectures: namesIn(architectures) })}
      onStart={onStart}
    />
  );
}

function Audit({ id }: { id: string }) {
  const { query } = useRoute();
  const offset = useOffset();
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
      {answer.summary && <VerdictLine verdict={answer.judged} />}
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
        <Filtered
          label="Findings"
          filters={
            <Facets
              facets={listed.facets}
              names={FACETS}
              chosen={(facet) => facets[facet] ?? []}
              onChoose={(facet, values) => setQuery({ [facet]: values, offset: "" })}
            />
          }
        >
          <p class="found" role="status">
            {listed.total.toLocaleString("en")} of {listed.all.toLocaleString("en")} findings, the gravest first.
          </p>
          <Part part={listed} limit={LIMIT} nothing={listed.all ? <NothingFits what="finding" /> : <NoFindings />}>
            {listed.rows.map((finding) => (
              <Finding key={finding.id} audit={id} finding={finding} />
            ))}
          </Part>
        </Filtered>
      )}
    </>
  );
}

function NoFindings() {
  return <EmptyState title="The audit found nothing.">That does not prove that everything is correct.</EmptyState>;
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
          What to do: <Prose text={finding.fix} />
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
