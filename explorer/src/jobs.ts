// Jobs: what the commands do, started from a page and followed while it runs. They go on when the page is closed.
import { useEffect, useState } from "preact/hooks";
import type { Job, JobProgress } from "./answers";
import { ApiError, get, resourceUrl, send } from "./api";
import { useReturns } from "./connection";

const PAUSE = 1500; // milliseconds between two looks at a job that is not streamed

/** Start a job; see src/zoolens/faces/ui/jobs/kinds.py for its kinds and their parameters. */
export function startJob(kind: string, parameters: Record<string, unknown>): Promise<Job> {
  return send<Job>("POST", `/jobs/${kind}`, parameters);
}

export function cancelJob(id: string): Promise<Job> {
  return send<Job>("DELETE", `/jobs/${encodeURIComponent(id)}`);
}

export function hasEnded(job: Job): boolean {
  return job.state !== "queued" && job.state !== "running";
}

/** The job as it is now, and what it does. `onEnd` is called when it ends while somebody looks.
 *
 * A browser has six connections to a server, for all its windows together, and a stream takes one of them: only the
 * running job of a window that is seen is streamed, and those that wait are asked for now and then. */
export function useJob(job: Job, onEnd?: (job: Job) => void): { job: Job; progress?: JobProgress } {
  const [now, setNow] = useState(job);
  const [progress, setProgress] = useState<JobProgress>();
  const [streams, setStreams] = useState(true); // until the server refuses to
  const seen = useSeen();
  const returns = useReturns();
  const state = now.id === job.id ? now.state : job.state;
  const tell = (told: Job) => {
    setNow(told);
    if (hasEnded(told)) onEnd?.(told);
  };
  useEffect(() => setNow(job), [job.id, job.state]);
  useEffect(() => {
    if (!seen || hasEnded({ ...job, state })) return;
    if (state === "running" && streams) {
      return streamed(job.id, { tell, onProgress: setProgress, onRefusal: () => setStreams(false) });
    }
    const timer = setInterval(() => get("/jobs/{id}", { id: job.id }).then(tell, () => undefined), PAUSE);
    return () => clearInterval(timer);
  }, [job.id, state, seen, streams, returns]);
  return { job: now, progress };
}

interface Told {
  tell: (job: Job) => void;
  onProgress: (progress: JobProgress) => void;
  onRefusal: () => void;
}

/** Follow a job event by event; gives how to stop that. */
function streamed(id: string, { tell, onProgress, onRefusal }: Told): () => void {
  const events = new EventSource(resourceUrl("/jobs/{id}/events", { id }));
  events.addEventListener("progress", (event) => onProgress(JSON.parse((event as MessageEvent<string>).data)));
  events.addEventListener("job", (event) => {
    const told = JSON.parse((event as MessageEvent<string>).data) as Job;
    if (hasEnded(told)) events.close();
    tell(told);
  });
  events.onerror = () => {
    // The browser opens a stream again that broke off, but none that was refused, and says nothing in either case.
    const refused = events.readyState === EventSource.CLOSED;
    const now = (told: Job) => {
      if (hasEnded(told)) {
        events.close();
        tell(told);
      } else if (refused) onRefusal();
    };
    get("/jobs/{id}", { id }).then(now, () => undefined);
  };
  return () => events.close();
}

/** Whether the window can be seen at all, and not only one that lies before it. */
export function useSeen(): boolean {
  const [seen, setSeen] = useState(!document.hidden);
  useEffect(() => {
    const update = () => setSeen(!document.hidden);
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);
  return seen;
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
