// Forms that start a job, and lists of jobs: what their pages have in common.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Job } from "../answers";
import { useSeen, useStartedJob } from "../jobs";
import { JobCard } from "./job";
import { Part } from "./listing";

export interface FormField {
  name: string;
  title: string;
  /** What stands there as long as it is empty. */
  hint?: string;
  initial?: string;
  required?: boolean;
  /** Whole numbers from 1 up to this. */
  most?: number;
  /** One of these is chosen. */
  choices?: string[];
}

interface JobFormProps {
  label: string;
  button: string;
  /** See src/zoolens/faces/ui/jobs/kinds.py. */
  kind: string;
  fields: FormField[];
  /** What the job is given, made of what was typed. */
  parameters: (values: Record<string, string>) => Record<string, unknown>;
  onStart: (job: Job) => void;
}

export function JobForm({ label, button, kind, fields, parameters, onStart }: JobFormProps) {
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.initial ?? ""])));
  const { problem, start } = useStartedJob();
  const submit = async (event: Event) => {
    event.preventDefault();
    const job = await start(kind, parameters(values));
    if (job) onStart(job);
  };
  return (
    <form class="panel" onSubmit={submit} aria-label={label}>
      {fields.map((field) => (
        <label>
          {field.title}
          <Input
            field={field}
            value={values[field.name] ?? ""}
            onValue={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
          />
        </label>
      ))}
      <button type="submit" class="primary">
        {button}
      </button>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}

function Input({ field, value, onValue }: { field: FormField; value: string; onValue: (value: string) => void }) {
  if (field.choices) {
    return (
      <select value={value} onChange={(event) => onValue(event.currentTarget.value)}>
        {field.choices.map((choice) => (
          <option value={choice}>{choice}</option>
        ))}
      </select>
    );
  }
  const common = {
    required: field.required,
    value,
    placeholder: field.hint,
    onInput: (event: { currentTarget: HTMLInputElement }) => onValue(event.currentTarget.value),
  };
  if (!field.most) return <input type="text" spellcheck={false} {...common} />;
  return <input type="number" min={1} max={Number.isFinite(field.most) ? field.most : undefined} {...common} />;
}

interface JobListProps {
  label: string;
  part: { total: number; rows: Job[] };
  limit: number;
  /** What is shown where there is no job. */
  nothing: ComponentChildren;
  onEnd: () => void;
  /** Where a finished job, of these kinds where they are named, leads to. */
  result?: { title: string; kinds?: string[]; address: (job: Job) => string };
}

export function JobList({ label, part, limit, nothing, onEnd, result }: JobListProps) {
  const seen = useSeen();
  const before = useRef(seen);
  useEffect(() => {
    if (seen && !before.current) onEnd(); // meanwhile another window may have started one
    before.current = seen;
  }, [seen]);
  return (
    <Part part={part} limit={limit} nothing={nothing}>
      <section aria-label={label}>
        {part.rows.map((job) => (
          <div key={job.id}>
            <JobCard job={job} onEnd={onEnd} />
            {result && job.state === "done" && (result.kinds?.includes(job.kind) ?? true) && (
              <p>
                <a href={result.address(job)} aria-label={`${result.title} of ${job.title}`}>
                  {result.title}
                </a>
              </p>
            )}
          </div>
        ))}
      </section>
    </Part>
  );
}
