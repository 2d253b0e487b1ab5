// A button that starts a job, and in its place the job while it runs and when it has ended. The job's id is kept in the
// address, so that the page can be closed meanwhile.
import { useState } from "preact/hooks";
import { ApiError, isLive, useAnswer } from "../api";
import { hasEnded, startJob } from "../jobs";
import { useQueryState } from "../router";
import { JobCard } from "./job";
import { ErrorState } from "./states";

interface Props {
  label: string;
  /** See src/zoolens/faces/ui/jobs/kinds.py. */
  kind: string;
  parameters: Record<string, unknown>;
  /** The parameter of the address that holds the job's id. */
  name: string;
  /** Called when the job ends while somebody looks. */
  onEnd: () => void;
}

export function JobButton({ label, kind, parameters, name, onEnd }: Props) {
  const [id, setId] = useQueryState(name);
  const [problem, setProblem] = useState("");
  const { answer: job, error, again } = useAnswer(id ? "/jobs/{id}" : null, { id });
  if (!isLive()) return null;
  const start = () => {
    setProblem("");
    startJob(kind, parameters)
      .then((started) => setId(started.id, true))
      .catch((failure: unknown) => setProblem(failure instanceof ApiError ? failure.message : String(failure)));
  };
  const ended = () => {
    again();
    onEnd();
  };
  return (
    <>
      {(!id || (job && hasEnded(job))) && (
        <button type="button" class="primary" onClick={start}>
          {label}
        </button>
      )}
      {problem && (
        <p role="alert" class="problem">
          {problem}
        </p>
      )}
      {error && <ErrorState error={error} again={again} />}
      {id && job && <JobCard key={job.id} job={job} onEnd={ended} />}
    </>
  );
}
