// A job in a list or beside the button that started it: its state, how far it is, and the way to end it.
import { useState } from "preact/hooks";
import type { Job } from "../answers";
import { ApiError } from "../api";
import { cancelJob, hasEnded, useJob } from "../jobs";
import { Moment } from "./figure";
import { PageLink } from "./link";

const STATES: Record<Job["state"], string> = {
  queued: "Waits for its turn",
  running: "Runs",
  done: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

export function JobCard({ job: given, onEnd }: { job: Job; onEnd?: (job: Job) => void }) {
  const { job, progress } = useJob(given, onEnd);
  const [problem, setProblem] = useState("");
  const cancel = () => cancelJob(job.id).catch((error: unknown) => setProblem(error instanceof ApiError ? error.message : String(error)));
  return (
    <article class={`job ${job.state}`} aria-label={job.title}>
      <header>
        <b>
          <bdi>{job.title}</bdi>
        </b>
        <span class="mark">{STATES[job.state]}</span>
        <span class="dim">
          <Moment at={job.created} />
        </span>
        {!hasEnded(job) && (
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        )}
      </header>
      {job.state === "running" && (
        <div class="progress">
          <progress
            max={progress?.total ?? undefined}
            value={progress?.total ? progress.done : undefined}
            aria-label={`Progress of ${job.title}`}
          />
          <span class="dim">
            {progress?.title ? <bdi>{`${progress.title}: ${progress.stage}`}</bdi> : "Begins …"}
            {progress?.total ? ` ${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")}` : ""}
          </span>
        </div>
      )}
      {progress?.message && job.state === "running" && (
        <p class="dim">
          <bdi>{progress.message}</bdi>
        </p>
      )}
      {job.error && (
        <p class="problem">
          <bdi>{job.error}</bdi>
        </p>
      )}
      {problem && <p role="alert">{problem}</p>}
      {job.runs.length > 0 && (
        <p>
          Runs:{" "}
          {job.runs.slice(0, 12).map((run, place) => (
            <>
              {place > 0 && ", "}
              <PageLink page="run" rest={run}>
                <code>{run.slice(0, 8)}</code>
              </PageLink>
            </>
          ))}
          {job.runs.length > 12 && ` and ${job.runs.length - 12} more`}
        </p>
      )}
      <p class="command">
        <code>
          <bdi>{job.command}</bdi>
        </code>
      </p>
    </article>
  );
}
