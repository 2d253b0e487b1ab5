// The jobs of this user, and the form with which an evaluation is started.
import { useAnswer } from "../api";
import { JobForm, JobList } from "../components/jobform";
import { useOffset } from "../components/listing";
import { EmptyState, ErrorState, Loading } from "../components/states";
import { namesIn } from "../jobs";
import { address, useRoute } from "../router";

const LIMIT = 20;
const RESULTS = ["audit", "diverge"]; // kinds that have a page of the same name, which shows what the job found

export function JobsPage() {
  const { query } = useRoute();
  const offset = useOffset();
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
      {answer && (
        <JobList
          label="Jobs"
          part={answer}
          limit={LIMIT}
          onEnd={again}
          result={{ title: "Result", kinds: RESULTS, address: (job) => address(`${job.kind}/${job.id}`) }}
          nothing={<EmptyState title="No job was started yet." />}
        />
      )}
    </>
  );
}

function EvaluateForm({ model, onStart }: { model: string; onStart: () => void }) {
  return (
    <JobForm
      label="Evaluate models"
      button="Evaluate"
      kind="evaluate"
      fields={[
        { name: "models", title: "Models", hint: "demo:lenet-torch", initial: model, required: true },
        { name: "data", title: "Data", initial: "demo", required: true },
        { name: "runtimes", title: "Runtimes", hint: "all that can" },
        { name: "limit", title: "Inputs", hint: "all", most: Infinity },
      ]}
      parameters={({ models = "", data = "", runtimes = "", limit }) => ({
        models: namesIn(models),
        data,
        runtimes: namesIn(runtimes),
        limit: limit ? Number(limit) : null,
      })}
      onStart={onStart}
    />
  );
}
