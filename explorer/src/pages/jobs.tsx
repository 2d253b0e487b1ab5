// The jobs of this user, and the form with which an evaluation is started.
import { useState } from "preact/hooks";
import { ApiError, useAnswer } from "../api";
import { JobCard } from "../components/job";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { Pager } from "../components/table";
import { startJob } from "../jobs";
import { address, setQuery, useRoute } from "../router";

const LIMIT = 20;
const RESULTS = ["audit", "diverge"]; // kinds that have a page of the same name, which shows what the job found

export function JobsPage() {
  const { query } = useRoute();
  const offset = Number(query.get("offset") ?? 0) || 0;
  const { answer, error, again } = useAnswer("/jobs", { offset, limit: LIMIT });
  return (
    <>
      <h1>Jobs</h1>
      <p>
        A job does what the command below it does, in a process of its own: it goes on when you close this page, and what
        it measures is kept. One runs at a time, so that none disturbs another's timings.
      </p>
      <EvaluateForm model={query.get("model") ?? ""} onStart={again} />
      {error && <ErrorState error={error} again={again} />}
      {!answer && !error && <Loading />}
      {answer && answer.total === 0 && <EmptyState title="No job was started yet." />}
      <section aria-label="Jobs">
        {answer?.rows.map((job) => (
          <div key={job.id}>
            <JobCard job={job} onEnd={again} />
            {job.state === "done" && RESULTS.includes(job.kind) && (
              <p>
                <a href={address(`${job.kind}/${job.id}`)} aria-label={`What ${job.title} found`}>
                  What it found
                </a>
              </p>
            )}
          </div>
        ))}
      </section>
      {answer && (
        <Pager
          offset={offset}
          limit={LIMIT}
          total={answer.total}
          onOffset={(next) => setQuery({ offset: next ? String(next) : "" })}
        />
      )}
    </>
  );
}

function EvaluateForm({ model, onStart }: { model: string; onStart: () => void }) {
  const [models, setModels] = useState(model);
  const [data, setData] = useState("demo");
  const [runtimes, setRuntimes] = useState("");
  const [limit, setLimit] = useState("");
  const [problem, setProblem] = useState("");
  const start = async (event: Event) => {
    event.preventDefault();
    setProblem("");
    const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    try {
      await startJob("evaluate", {
        models: words(models),
        data,
        runtimes: words(runtimes),
        limit: limit ? Number(limit) : null,
      });
      onStart();
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <form class="panel" onSubmit={start} aria-label="Evaluate models">
      <label>
        Models
        <input type="text" required value={models} placeholder="demo:lenet-torch" spellcheck={false}
          onInput={(event) => setModels(event.currentTarget.value)} />
      </label>
      <label>
        Data
        <input type="text" required value={data} spellcheck={false} onInput={(event) => setData(event.currentTarget.value)} />
      </label>
      <label>
        Runtimes
        <input type="text" value={runtimes} placeholder="all that can" spellcheck={false}
          onInput={(event) => setRuntimes(event.currentTarget.value)} />
      </label>
      <label>
        Inputs
        <input type="number" min={1} value={limit} placeholder="all" onInput={(event) => setLimit(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        Evaluate
      </button>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}
