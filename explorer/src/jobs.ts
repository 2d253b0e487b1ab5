// Jobs: what the commands do, started from a page and followed while it runs. They go on when the page is closed.
import { useEffect, useState } from "preact/hooks";
import type { Job, JobProgress } from "./answers";
import { ApiError, resourceUrl, send } from "./api";

/** Start a job; see src/zoolens/ui/jobs/kinds.py for its kinds and their parameters. */
export function startJob(kind: string, parameters: Record<string, unknown>): Promise<Job> {
  return send<Job>("POST", `/jobs/${kind}`, parameters);
}

export function cancelJob(id: string): Promise<Job> {
  return send<Job>("DELETE", `/jobs/${encodeURIComponent(id)}`);
}

export function hasEnded(job: Job): boolean {
  return job.state !== "queued" && job.state !== "running";
}

/** The job as it is now, and what it does. `onEnd` is called when it ends while somebody looks. */
export function useJob(job: Job, onEnd?: (job: Job) => void): { job: Job; progress?: JobProgress } {
  const [now, setNow] = useState(job);
  const [progress, setProgress] = useState<JobProgress>();
  useEffect(() => {
    setNow(job);
    if (hasEnded(job)) return;
    const events = new EventSource(resourceUrl("/jobs/{id}/events", { id: job.id }));
    events.addEventListener("progress", (event) => setProgress(JSON.parse((event as MessageEvent<string>).data)));
    events.addEventListener("job", (event) => {
      const told = JSON.parse((event as MessageEvent<string>).data) as Job;
      setNow(told);
      if (hasEnded(told)) {
        events.close();
        onEnd?.(told);
      }
    });
    return () => events.close();
  }, [job.id, job.state]);
  return { job: now, progress };
}

/** A job that the page starts, or why it could not. */
export function useStartedJob() {
  const [job, setJob] = useState<Job>();
  const [problem, setProblem] = useState("");
  const start = async (kind: string, parameters: Record<string, unknown>): Promise<Job | undefined> => {
    setProblem("");
    try {
      const started = await startJob(kind, parameters);
      setJob(started);
      return started;
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
      return undefined;
    }
  };
  return { job, problem, start };
}

/** The names that somebody typed, with commas or spaces between them. */
export function namesIn(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}
