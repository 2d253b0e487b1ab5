// Jobs: what the commands do, started from a page and followed while it runs. They go on when the page is closed.
import { useEffect, useState } from "preact/hooks";
import type { Job, JobProgress } from "./answers";
import { resourceUrl, send } from "./api";

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
