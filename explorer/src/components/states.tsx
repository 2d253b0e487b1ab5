// What a page shows when there is nothing else to show: an error, nothing, or not yet.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api";
import { useLost } from "../connection";

export function ErrorState({ error, again }: { error: ApiError; again?: () => void }) {
  const lost = useLost();
  if (lost && error.status === 0) return null; // the page says it once, at its head
  return (
    <div class="state error" role="alert">
      <p>
        <Prose text={error.message} />
      </p>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** A sentence of the server, in which `commands` stand between backticks. */
export function Prose({ text }: { text: string }) {
  return (
    <bdi>
      {text.split("`").map((part, place, parts) => (place % 2 && place < parts.length - 1 ? <code>{part}</code> : place % 2 ? `\`${part}` : part))}
    </bdi>
  );
}

export function EmptyState({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="lead">{title}</p>
      {children}
    </div>
  );
}

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p class="loading" role="status">
      {what} …
    </p>
  );
}

/** Sentences of the server, one below the other. */
export function Sentences({ sentences }: { sentences: string[] }) {
  if (!sentences.length) return null;
  return (
    <ul class="said">
      {sentences.map((sentence) => (
        <li>
          <bdi>{sentence}</bdi>
        </li>
      ))}
    </ul>
  );
}

/** Sentences that a reader must not overlook, such as what could not be listed. */
export function Notes({ notes, title }: { notes: string[]; title: string }) {
  if (!notes.length) return null;
  return (
    <details class="notes">
      <summary>{title}</summary>
      <ul>
        {notes.map((note) => (
          <li>
            <Prose text={note} />
          </li>
        ))}
      </ul>
    </details>
  );
}

const LATE = 400; // milliseconds

/** Whether something takes so long that the page shows it. A style with a delay would draw the page again each time. */
export function useLate(busy: boolean): boolean {
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (!busy) return;
    const timer = setTimeout(() => setLate(true), LATE);
    return () => {
      clearTimeout(timer);
      setLate(false);
    };
  }, [busy]);
  return busy && late;
}
